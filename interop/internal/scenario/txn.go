package scenario

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

const (
	// deepest bounds the nesting depth of transactions.
	deepest = 3
	// maxTxnOps is etcd's limit, which a few requests exceed.
	maxTxnOps = 128
	// maxMessage is below the limit at which gRPC refuses a request before it reaches etcd.
	maxMessage = 1900 << 10
)

func (s *Scenario) txn() *Step {
	request := s.txnRequest(1)
	switch {
	case s.dice.chance(10):
		request = s.longTxn(request)
	case s.dice.chance(100):
		readOnly(request)
	}
	dropCrashingPuts(request)
	fit(request)
	return s.call(target.Txn, request)
}

func (s *Scenario) txnRequest(depth int) *pb.TxnRequest {
	request := &pb.TxnRequest{}
	for range s.dice.below(4) {
		request.Compare = append(request.Compare, s.compare())
	}
	request.Success = s.ops(depth)
	request.Failure = s.ops(depth)
	return request
}

func (s *Scenario) ops(depth int) []*pb.RequestOp {
	var ops []*pb.RequestOp
	for range s.dice.below(5) {
		ops = append(ops, s.op(depth))
	}
	return ops
}

func (s *Scenario) op(depth int) *pb.RequestOp {
	switch n := s.dice.below(1000); {
	case n < 400:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: s.putRequest()}}
	case n < 550:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: s.deleteRequest()}}
	case n < 850 || depth == deepest:
		return rangeOp(s.rangeRequest())
	case n < 995:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: s.txnRequest(depth + 1)}}
	default:
		return &pb.RequestOp{}
	}
}

func rangeOp(request *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: request}}
}

// compare holds about half the time, since most keys have a small version.
func (s *Scenario) compare() *pb.Compare {
	d, key := s.dice, s.key()
	compare := &pb.Compare{
		Key:    key,
		Result: pb.Compare_CompareResult(s.enum(4)),
		Target: pb.Compare_CompareTarget(s.enum(5)),
	}
	if d.chance(250) {
		compare.RangeEnd = s.rangeEnd(key)
	}
	union := compare.Target
	switch {
	case d.chance(50):
		// No target value.
		return compare
	case d.chance(50):
		union = pb.Compare_CompareTarget(d.below(5))
	}
	s.compareWith(compare, union)
	return compare
}

func (s *Scenario) compareWith(compare *pb.Compare, target pb.Compare_CompareTarget) {
	revision := s.dice.between(0, s.world.revision)
	if s.dice.chance(400) {
		revision = 0
	}
	switch target {
	case pb.Compare_VERSION:
		compare.TargetUnion = &pb.Compare_Version{Version: int64(s.dice.below(5))}
	case pb.Compare_CREATE:
		compare.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: revision}
	case pb.Compare_MOD:
		compare.TargetUnion = &pb.Compare_ModRevision{ModRevision: revision}
	case pb.Compare_VALUE:
		compare.TargetUnion = &pb.Compare_Value{Value: one(s.dice, values)}
	case pb.Compare_LEASE:
		compare.TargetUnion = &pb.Compare_Lease{Lease: s.leaseID()}
	}
}

// longTxn has as many operations as the limit, or one more, at the top or one level down.
func (s *Scenario) longTxn(request *pb.TxnRequest) *pb.TxnRequest {
	length := maxTxnOps + s.dice.below(2)
	if s.dice.chance(500) {
		outer := 1 + s.dice.below(maxTxnOps-1)
		inner := &pb.TxnRequest{Failure: s.counts(length - outer)}
		request.Success = append(s.counts(outer-1), &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: inner}})
		return request
	}
	switch s.dice.below(3) {
	case 0:
		request.Success = s.counts(length)
	case 1:
		request.Failure = s.counts(length)
	default:
		request.Compare = make([]*pb.Compare, length)
		for i := range request.Compare {
			request.Compare[i] = &pb.Compare{Key: []byte("a"), Result: pb.Compare_GREATER}
		}
	}
	return request
}

// counts returns this many operations with small responses.
func (s *Scenario) counts(n int) []*pb.RequestOp {
	ops := make([]*pb.RequestOp, n)
	for i := range ops {
		ops[i] = rangeOp(&pb.RangeRequest{Key: []byte("a"), CountOnly: true})
	}
	return ops
}

// readOnly keeps only the ranges, so that the request bypasses the log.
func readOnly(request *pb.TxnRequest) {
	for _, ops := range []*[]*pb.RequestOp{&request.Success, &request.Failure} {
		var kept []*pb.RequestOp
		for _, op := range *ops {
			if op.GetRequestRange() != nil {
				kept = append(kept, op)
			}
		}
		*ops = kept
	}
}

// dropCrashingPuts removes operations that crash etcd: a put of a key after a delete to the end of
// all keys, in one transaction. etcd's check that a transaction does not delete and put the same
// key misses such a range end. If the put ignores the value or lease, applying it finds no previous
// one. Moreover, a compaction at that revision keeps the tombstone and drops the value, and the
// next read fails.
func dropCrashingPuts(request *pb.TxnRequest) { dropCrashingPutsAfter(request, nil) }

// dropCrashingPutsAfter does so after operations that may have deleted all keys from `deleted` on,
// nil for none. It returns the same bound for the operations after the request: which branch runs
// is unknown.
func dropCrashingPutsAfter(request *pb.TxnRequest, deleted []byte) []byte {
	return lower(dropCrashingOps(request.Success, deleted), dropCrashingOps(request.Failure, deleted))
}

func dropCrashingOps(ops []*pb.RequestOp, deleted []byte) []byte {
	for _, op := range ops {
		if remove := op.GetRequestDeleteRange(); bytes.Equal(remove.GetRangeEnd(), []byte{0}) {
			deleted = lower(deleted, remove.Key)
		}
		if inner := op.GetRequestTxn(); inner != nil {
			deleted = dropCrashingPutsAfter(inner, deleted)
		}
		if put := op.GetRequestPut(); put != nil && deleted != nil && bytes.Compare(put.Key, deleted) >= 0 {
			op.Request = rangeOp(&pb.RangeRequest{Key: put.Key}).Request
		}
	}
	return deleted
}

// lower returns the lower of two keys, where nil is none. A request with an empty key is refused,
// so it deletes nothing.
func lower(a, b []byte) []byte {
	if a == nil || b != nil && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

// fit clears the values of a request that exceeds gRPC's limit. It keeps one that exceeds only
// etcd's limit.
func fit(request *pb.TxnRequest) {
	if proto.Size(request) <= maxMessage {
		return
	}
	each(request, func(op *pb.RequestOp) {
		if put := op.GetRequestPut(); put != nil {
			put.Value = nil
		}
	})
}

// each visits all operations at every depth.
func each(request *pb.TxnRequest, visit func(*pb.RequestOp)) {
	for _, ops := range [][]*pb.RequestOp{request.Success, request.Failure} {
		for _, op := range ops {
			visit(op)
			if inner := op.GetRequestTxn(); inner != nil {
				each(inner, visit)
			}
		}
	}
}
