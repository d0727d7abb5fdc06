package scenario

import (
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// rememberedHashes is the number of compactions whose hashes a server caches.
const rememberedHashes = 10

// compact settles first, since a compaction determines the prev_kv that a watcher gets, and waits
// for the previous compaction, since that determines whether a hash is cached. The hashes around
// its revision are compared before it and after it.
func (s *Scenario) compact() *Step {
	return s.compactAt(s.compactRevision(), s.dice.chance(400))
}

func (s *Scenario) compactAt(revision int64, physical bool) *Step {
	steps := append([]func() *Step{s.settle, s.finishCompaction}, s.hashesAround(revision)...)
	steps = append(steps, func() *Step {
		if s.world.compacting {
			return nil
		}
		return s.call(target.Compact, &pb.CompactionRequest{Revision: revision, Physical: physical})
	}, s.finishCompaction)
	return s.then(append(steps, s.hashesAround(revision)...)...)
}

// hashesAround returns the hashes at a revision, before it and after it.
func (s *Scenario) hashesAround(revision int64) []func() *Step {
	return []func() *Step{s.hashAt(revision - 1), s.hashAt(revision), s.hashAt(revision + 1)}
}

func (s *Scenario) hashAt(revision int64) func() *Step {
	return func() *Step {
		outside := revision < 1 || revision > s.world.revision
		if outside || s.world.compacting || s.forgot(revision) {
			return nil
		}
		return s.callAs(s.admin(), target.HashKV, &pb.HashKVRequest{Revision: revision})
	}
}

// emptied deletes all keys at once, even the marker, and compacts at that revision or near it: a
// store that keeps tombstones alone is hashed by rules of its own. Some keys may follow.
func (s *Scenario) emptied() *Step {
	as := func(method target.Method, request proto.Message) func() *Step {
		return func() *Step { return s.callAs(s.admin(), method, request) }
	}
	// Without a settle step in between, which would write the marker.
	steps := []func() *Step{s.settle, s.finishCompaction}
	for range s.dice.below(4) {
		steps = append(steps, as(target.Put, &pb.PutRequest{Key: one(s.dice, keys), Value: one(s.dice, values)}))
	}
	steps = append(steps, as(target.DeleteRange, &pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}))
	before, after := s.dice.between(0, 2), s.dice.between(0, 2)
	steps = append(steps, func() *Step {
		tombstone := s.world.revision
		var then []func() *Step
		for range after {
			then = append(then, as(target.Put, &pb.PutRequest{Key: one(s.dice, keys), Value: one(s.dice, values)}))
		}
		for at := max(tombstone-before, s.world.compacted+1); at <= tombstone+after; at++ {
			then = append(then, s.hashesAround(at)...)
			then = append(then, as(target.Compact, &pb.CompactionRequest{Revision: at, Physical: true}))
			then = append(then, s.hashesAround(at)...)
		}
		return s.then(then...)
	})
	return s.then(steps...)
}

func (s *Scenario) compactRevision() int64 {
	w := &s.world
	switch n := s.dice.below(100); {
	case n < 35:
		return s.dice.between(max(w.compacted, 0), w.revision)
	case n < 50 && len(w.tombstones) > 0:
		return one(s.dice, w.tombstones)
	case n < 70:
		return w.revision - s.dice.between(0, 5)
	default:
		return s.wrongCompaction()
	}
}

// wrongCompaction returns a revision that is refused, or revision 0 before the first compaction.
func (s *Scenario) wrongCompaction() int64 {
	w := &s.world
	return one(s.dice, []int64{0, -1, 1, w.compacted, w.compacted - 1, w.revision + 100, math.MaxInt64, math.MinInt64})
}

// finishCompaction waits for a running compaction by requesting the same one again.
func (s *Scenario) finishCompaction() *Step {
	if !s.world.compacting {
		return nil
	}
	return s.callAs(s.admin(), target.Compact, &pb.CompactionRequest{Revision: s.world.compacted, Physical: true})
}

func (s *Scenario) hash() *Step {
	return s.then(s.finishCompaction, func() *Step {
		request := &pb.HashKVRequest{Revision: s.hashRevision()}
		if s.world.compacting || s.forgot(request.Revision) {
			return nil
		}
		return s.call(target.HashKV, request)
	})
}

func (s *Scenario) hashRevision() int64 {
	w := &s.world
	switch n := s.dice.below(100); {
	case n < 30:
		return 0
	case n < 60:
		return s.dice.between(max(w.compacted, 1), w.revision)
	case n < 80 && len(w.compactions) > 0:
		return one(s.dice, w.compactions[max(0, len(w.compactions)-rememberedHashes-2):])
	default:
		return s.someRevision()
	}
}

// forgot reports whether only one side caches the hash of a revision.
func (s *Scenario) forgot(revision int64) bool {
	return revision <= s.world.forgotten && slices.Contains(s.world.compactions, revision)
}

// alarms raises an alarm for a while. No settle step runs meanwhile, since the marker cannot be
// written. Undefined actions are left out, because they crash the server.
func (s *Scenario) alarms() *Step {
	d := s.dice
	request := &pb.AlarmRequest{
		Action:   pb.AlarmRequest_AlarmAction(d.below(3)),
		Alarm:    pb.AlarmType(d.below(3)),
		MemberID: uint64(d.below(3)),
	}
	if request.Action != pb.AlarmRequest_ACTIVATE {
		return s.call(target.Alarm, request)
	}
	return s.then(s.settle, s.endShortLease, func() *Step {
		s.alarmed = 5 + d.below(25)
		return s.call(target.Alarm, request)
	})
}

// endShortLease revokes short leases: before an alarm prevents it, and before they expire while a
// server does not run.
func (s *Scenario) endShortLease() *Step {
	id := s.world.overdue(math.MaxInt)
	if id == 0 {
		return nil
	}
	s.then(s.endShortLease)
	return s.callAs(s.admin(), target.LeaseRevoke, revokeOf(id))
}

// whileAlarmed sends requests that an alarm may block, and finally disarms it.
func (s *Scenario) whileAlarmed() *Step {
	s.alarmed--
	if s.alarmed > 0 {
		return s.duringAlarm().pick(s.dice)(s)
	}
	for _, alarm := range s.world.alarms {
		request := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: alarm.Alarm, MemberID: alarm.MemberID}
		s.next = append(s.next, func() *Step { return s.callAs(s.admin(), target.Alarm, request) })
	}
	return s.callAs(s.admin(), target.Alarm, &pb.AlarmRequest{})
}

func (s *Scenario) duringAlarm() *weighted {
	return newWeighted([]choice{
		{20, (*Scenario).put},
		{10, (*Scenario).deleteRange},
		{20, (*Scenario).rangeKeys},
		{40, (*Scenario).txn},
		{5, (*Scenario).grant},
		{5, (*Scenario).revoke},
		{3, (*Scenario).timeToLive},
		{3, func(s *Scenario) *Step {
			return s.call(target.Compact, &pb.CompactionRequest{Revision: s.world.revision + 1})
		}},
		{3, func(s *Scenario) *Step {
			return s.call(target.Alarm, &pb.AlarmRequest{
				Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType(s.dice.below(3)), MemberID: uint64(s.dice.below(3)),
			})
		}},
		{3, func(s *Scenario) *Step {
			return s.call(target.Alarm, &pb.AlarmRequest{Alarm: pb.AlarmType(s.dice.below(3))})
		}},
	})
}
