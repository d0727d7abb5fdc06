package scenario

import (
	"fmt"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/target"
	"bowline/interop/internal/workload"
)

const (
	// maxStreams bounds the number of streams, maxWatches the number of watches per stream.
	maxStreams = 3
	maxWatches = 10
)

// watch creates a watch, on a new stream if necessary.
func (s *Scenario) watch() *Step {
	open := s.world.streams
	if len(open) == 0 || len(open) < maxStreams && s.dice.chance(100) {
		return s.openStream()
	}
	stream := one(s.dice, open)
	if len(stream.watches) >= maxWatches {
		return s.cancelOn(stream)
	}
	return s.create(stream, s.createRequest())
}

// openStream opens a stream with a watch of the marker. A user without permission is granted it
// first.
func (s *Scenario) openStream() *Step {
	s.world.nextStream++
	stream := &stream{number: s.world.nextStream, user: s.watcher()}
	marker := func() *Step {
		s.world.streams = append(s.world.streams, stream)
		return s.create(stream, &pb.WatchCreateRequest{Key: []byte(target.MarkerKey), WatchId: target.MarkerID})
	}
	return s.then(append(s.showMarker(stream.user), marker)...)
}

// watcher returns the user of a stream: more often than in other requests, a user with some but not
// all permissions.
func (s *Scenario) watcher() string {
	if s.world.authEnabled && s.dice.chance(700) {
		return one(s.dice, s.world.able())
	}
	return s.caller()
}

func (s *Scenario) create(stream *stream, request *pb.WatchCreateRequest) *Step {
	return s.over(stream, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}})
}

func (s *Scenario) over(stream *stream, request *pb.WatchRequest) *Step {
	return &Step{Kind: Watch, Stream: stream.number, User: stream.user, Request: request}
}

func (s *Scenario) createRequest() *pb.WatchCreateRequest {
	d, key := s.dice, s.key()
	request := &pb.WatchCreateRequest{
		Key:            key,
		StartRevision:  s.startRevision(),
		ProgressNotify: d.chance(200),
		PrevKv:         d.chance(400),
		Fragment:       d.chance(200),
	}
	if d.chance(600) {
		request.RangeEnd = s.rangeEnd(key)
	}
	for range d.below(3) {
		if d.chance(300) {
			request.Filters = append(request.Filters, pb.WatchCreateRequest_FilterType(s.enum(2)))
		}
	}
	if d.chance(300) {
		request.WatchId = one(d, []int64{1, 2, 3, 4, 5, 100, -5, math.MaxInt64})
	}
	return request
}

const (
	// bulkValues values of largeValue bytes exceed one response.
	bulkValues = 9
	// bulkPuts values of largeValue bytes fit into one request, but together with the previous
	// values exceed one response.
	bulkPuts = 4
	// longHistory exceeds the number of revisions that a watcher catches up with at a time.
	longHistory = 1100
)

// bulk makes a watch catch up with more data than fits into a response, in many revisions and in
// one, and deletes it afterwards.
func (s *Scenario) bulk() *Step {
	first := s.world.revision + 1
	var steps []func() *Step
	for i := range bulkValues {
		steps = append(steps, func() *Step { return s.callAs(s.admin(), target.Put, s.largePut(i)) })
	}
	again := &pb.TxnRequest{}
	for i := range bulkPuts {
		op := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: s.largePut(i)}}
		again.Success = append(again.Success, op)
	}
	steps = append(steps, func() *Step { return s.callAs(s.admin(), target.Txn, again) })
	cleared := &pb.DeleteRangeRequest{Key: []byte("foo/"), RangeEnd: []byte("foo0")}
	return s.then(append(steps, s.watchFrom(first, true), s.watchFrom(first, s.dice.chance(500)),
		func() *Step { return s.callAs(s.admin(), target.DeleteRange, cleared) })...)
}

// largePut puts one of the keys that bulk deletes.
func (s *Scenario) largePut(i int) *pb.PutRequest {
	return &pb.PutRequest{Key: fmt.Appendf(nil, "foo/%d", 1+i), Value: workload.Fill(s.dice.random.Next(), largeValue)}
}

// history makes a watch catch up with more revisions than are read at a time. It runs once, because
// it takes many steps.
func (s *Scenario) history() *Step {
	if s.historic {
		return nil
	}
	s.historic = true
	first := s.world.revision + 1
	var steps []func() *Step
	for range longHistory {
		put := &pb.PutRequest{Key: one(s.dice, keys), Value: one(s.dice, values)}
		steps = append(steps, func() *Step { return s.callAs(s.admin(), target.Put, put) })
	}
	return s.then(append(steps, s.watchFrom(first, true), s.watchFrom(first, false))...)
}

// watchFrom watches all keys from a revision on, on any open stream.
func (s *Scenario) watchFrom(revision int64, fragment bool) func() *Step {
	return func() *Step {
		open := s.world.streams
		if len(open) == 0 {
			return nil
		}
		return s.create(one(s.dice, open), &pb.WatchCreateRequest{
			Key: []byte{0}, RangeEnd: []byte{0}, StartRevision: revision, PrevKv: fragment || s.dice.chance(500), Fragment: fragment,
		})
	}
}

// startRevision returns any revision except the compacted one during a compaction, because its
// progress determines which of its data is left.
func (s *Scenario) startRevision() int64 {
	w := &s.world
	switch n := s.dice.below(100); {
	case n < 45:
		return 0
	case n < 65:
		return s.dice.between(max(w.compacted+1, 1), w.revision)
	case n < 75:
		return w.revision + s.dice.between(1, 30)
	default:
		if start := s.someRevision(); start != w.compacted || !w.compacting {
			return start
		}
		return 0
	}
}

func (s *Scenario) cancel() *Step {
	if len(s.world.streams) == 0 {
		return nil
	}
	return s.cancelOn(one(s.dice, s.world.streams))
}

// cancelOn cancels an existing or a missing watch after a settle step, because events in flight may
// be lost by a cancellation. Canceling a missing watch has no response, but the creation after it
// does.
func (s *Scenario) cancelOn(stream *stream) *Step {
	id := one(s.dice, []int64{77, -1, 1, 0})
	if n := len(stream.watches); n > 0 && s.dice.chance(850) {
		id = one(s.dice, stream.watches)
	}
	return s.then(s.settle, func() *Step {
		stream.watches = slices.DeleteFunc(stream.watches, func(known int64) bool { return known == id })
		return s.over(stream, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
			CancelRequest: &pb.WatchCancelRequest{WatchId: id},
		}})
	}, s.ping(stream))
}

// progress requests a progress notification. The server sends it only if all watches of the stream
// are synced, so a settle step comes first.
func (s *Scenario) progress() *Step {
	if len(s.world.streams) == 0 {
		return nil
	}
	stream := one(s.dice, s.world.streams)
	return s.then(s.settle, func() *Step {
		return s.over(stream, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
			ProgressRequest: &pb.WatchProgressRequest{},
		}})
	}, s.ping(stream))
}

// ping sends a creation that is refused at once. The refusal shows that all earlier requests were
// processed.
func (s *Scenario) ping(stream *stream) func() *Step {
	return func() *Step { return s.create(stream, &pb.WatchCreateRequest{Key: []byte("ping"), StartRevision: -1}) }
}
