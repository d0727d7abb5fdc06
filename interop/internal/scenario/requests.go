package scenario

import (
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/target"
)

func (s *Scenario) put() *Step { return s.call(target.Put, s.putRequest()) }

func (s *Scenario) putRequest() *pb.PutRequest {
	d := s.dice
	request := &pb.PutRequest{Key: s.key(), Value: s.value(), Lease: s.leaseID(), PrevKv: d.chance(250)}
	// With ignore_value and ignore_lease, value and lease are mostly empty, since the combination
	// is refused.
	if d.chance(80) {
		request.IgnoreValue = true
		if d.chance(900) {
			request.Value = nil
		}
	}
	if d.chance(80) {
		request.IgnoreLease = true
		if d.chance(900) {
			request.Lease = 0
		}
	}
	return request
}

func (s *Scenario) deleteRange() *Step { return s.call(target.DeleteRange, s.deleteRequest()) }

func (s *Scenario) deleteRequest() *pb.DeleteRangeRequest {
	key := s.key()
	request := &pb.DeleteRangeRequest{Key: key, PrevKv: s.dice.chance(300)}
	// Large ranges would delete too many keys.
	if s.dice.chance(300) {
		request.RangeEnd = s.rangeEnd(key)
	}
	return request
}

func (s *Scenario) rangeKeys() *Step { return s.call(target.Range, s.rangeRequest()) }

func (s *Scenario) rangeRequest() *pb.RangeRequest {
	d, key := s.dice, s.key()
	if d.chance(300) {
		key = []byte{0}
	}
	request := &pb.RangeRequest{
		Key:          key,
		RangeEnd:     s.rangeEnd(key),
		Limit:        s.limit(),
		Revision:     s.revision(),
		KeysOnly:     d.chance(150),
		CountOnly:    d.chance(100),
		Serializable: d.chance(200),
	}
	if d.chance(500) {
		request.SortOrder = pb.RangeRequest_SortOrder(s.enum(3))
		request.SortTarget = pb.RangeRequest_SortTarget(s.enum(5))
	}
	for _, filter := range []*int64{
		&request.MinModRevision, &request.MaxModRevision, &request.MinCreateRevision, &request.MaxCreateRevision,
	} {
		if d.chance(80) {
			*filter = s.someRevision()
		}
	}
	return request
}

// enum returns a number below n or, rarely, an undefined one.
func (s *Scenario) enum(n int) int32 {
	if s.dice.chance(15) {
		return one(s.dice, []int32{int32(n), -1, 77, math.MaxInt32})
	}
	return int32(s.dice.below(n))
}

func (s *Scenario) limit() int64 {
	switch n := s.dice.below(100); {
	case n < 50:
		return 0
	case n < 90:
		return s.dice.between(1, 8)
	default:
		return one(s.dice, []int64{-1, 13, 30, math.MaxInt64, math.MinInt64})
	}
}

// revision returns mostly the newest revision, sometimes an older or a missing one.
func (s *Scenario) revision() int64 {
	switch n := s.dice.below(100); {
	case n < 60:
		return 0
	case n < 85:
		return s.dice.between(max(s.world.compacted, 1), s.world.revision)
	default:
		return s.someRevision()
	}
}

// someRevision returns any revision, even an invalid one.
func (s *Scenario) someRevision() int64 {
	w := &s.world
	return one(s.dice, []int64{
		1, 2, w.compacted - 1, w.compacted, w.compacted + 1, w.revision - 3, w.revision - 1, w.revision, w.revision + 1,
		w.revision + 1000, -1, -5, math.MaxInt64, math.MinInt64, s.dice.between(1, w.revision), s.dice.between(1, w.revision),
	})
}
