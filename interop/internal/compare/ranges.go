package compare

import (
	"bytes"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// stable is up to how many elements Go sorts by insertion, which leaves equals as they were.
const stable = 12

// normalRange puts equals into the order of their keys, and forgets which of
// them were kept if the limit cut through them.
func normalRange(request *pb.RangeRequest, reply *pb.RangeResponse) {
	normalHeader(reply.Header)
	if request.SortTarget == pb.RangeRequest_KEY || reply.Count <= stable {
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

// equals counts how many at the start of a sorted list are as one to the sort.
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
		// Without values, all look alike.
		return request.KeysOnly || bytes.Equal(a.Value, b.Value)
	default:
		return false
	}
}

// forget leaves of each element only what it was sorted by.
func forget(request *pb.RangeRequest, tie []*mvccpb.KeyValue) {
	for i, kv := range tie {
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
