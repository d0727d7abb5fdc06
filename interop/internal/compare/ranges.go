package compare

import (
	"bytes"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// stable is the number of elements up to which Go uses insertion sort, which is stable.
const stable = 12

// normalRange sorts equal elements by key. If the limit cuts through equal elements, it clears all
// of them but the sort key.
func normalRange(request *pb.RangeRequest, reply *pb.RangeResponse) {
	normalHeader(reply.Header)
	if request.SortTarget == pb.RangeRequest_KEY || sorted(request, reply) <= stable {
		return
	}
	for kvs := reply.Kvs; len(kvs) > 0; {
		n := equals(request, kvs)
		tie := kvs[:n]
		kvs = kvs[n:]
		if len(kvs) == 0 && reply.More {
			forget(request, tie)
		}
		slices.SortFunc(tie, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	}
}

// sorted returns an upper bound on the number of elements that etcd sorted for a reply: the
// returned ones if the limit cut none off; one more without an order and filters; else the total
// count.
func sorted(request *pb.RangeRequest, reply *pb.RangeResponse) int64 {
	switch {
	case !reply.More:
		return int64(len(reply.Kvs))
	case request.SortOrder == pb.RangeRequest_NONE && !filtered(request):
		return int64(len(reply.Kvs)) + 1
	default:
		return reply.Count
	}
}

func filtered(request *pb.RangeRequest) bool {
	return request.MinModRevision != 0 || request.MaxModRevision != 0 ||
		request.MinCreateRevision != 0 || request.MaxCreateRevision != 0
}

// equals counts the elements at the start of a sorted list that have equal sort keys.
func equals(request *pb.RangeRequest, kvs []*mvccpb.KeyValue) int {
	for n, kv := range kvs {
		if n > 0 && !same(request, kvs[0], kv) {
			return n
		}
	}
	return len(kvs)
}

func same(request *pb.RangeRequest, a, b *mvccpb.KeyValue) bool {
	switch request.SortTarget {
	case pb.RangeRequest_VERSION:
		return a.Version == b.Version
	case pb.RangeRequest_CREATE:
		return a.CreateRevision == b.CreateRevision
	case pb.RangeRequest_MOD:
		return a.ModRevision == b.ModRevision
	case pb.RangeRequest_VALUE:
		// Without values, all elements are equal.
		return request.KeysOnly || bytes.Equal(a.Value, b.Value)
	default:
		return false
	}
}

// forget keeps only the sort key of each element. An element that no valid reply contains, because
// its key is out of range or repeated, stays unchanged and so remains a difference.
func forget(request *pb.RangeRequest, tie []*mvccpb.KeyValue) {
	seen := map[string]bool{}
	for i, kv := range tie {
		if seen[string(kv.Key)] || !within(request, kv.Key) {
			continue
		}
		seen[string(kv.Key)] = true
		tie[i] = &mvccpb.KeyValue{}
		switch request.SortTarget {
		case pb.RangeRequest_VERSION:
			tie[i].Version = kv.Version
		case pb.RangeRequest_CREATE:
			tie[i].CreateRevision = kv.CreateRevision
		case pb.RangeRequest_MOD:
			tie[i].ModRevision = kv.ModRevision
		case pb.RangeRequest_VALUE:
			tie[i].Value = kv.Value
		}
	}
}

// within reports whether a request covers a key. No end means one key, a zero byte all keys from
// there on.
func within(request *pb.RangeRequest, key []byte) bool {
	switch end := request.RangeEnd; {
	case len(end) == 0:
		return bytes.Equal(key, request.Key)
	case bytes.Equal(end, []byte{0}):
		return bytes.Compare(key, request.Key) >= 0
	default:
		return bytes.Compare(key, request.Key) >= 0 && bytes.Compare(key, end) < 0
	}
}
