package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"

	"bowline/interop/internal/compare"
	"bowline/interop/internal/scenario"
	"bowline/interop/internal/target"
)

// lateness bounds the time after a marker for late events of a slow watcher.
const lateness = 30 * time.Second

// sequence runs a scenario on two servers.
type sequence struct {
	name     string
	scenario *scenario.Scenario
	theirs   target.Target
	ours     target.Target
	tally    *tally
	verbose  bool

	streams map[uint32]*compare.Watch
	// start is the time of the first step; renewed is the time from there to the last restart, which
	// renewed our leases.
	start   time.Time
	renewed time.Duration
}

// run runs a number of steps, and more until the streams are settled.
func (s *sequence) run(ctx context.Context, steps int) error {
	s.streams, s.start = map[uint32]*compare.Watch{}, time.Now()
	var step scenario.Step
	for index := 0; index < steps || step.Kind != scenario.Settle; index++ {
		step = s.scenario.Next()
		if s.verbose {
			log.Printf("%s, step %d: %s", s.name, index, step)
		}
		if err := s.do(ctx, step); err != nil {
			return fmt.Errorf("%s, step %d: %s\n%w", s.name, index, step, err)
		}
	}
	return nil
}

func (s *sequence) do(ctx context.Context, step scenario.Step) error {
	switch step.Kind {
	case scenario.Call:
		_, err := s.call(ctx, step)
		return err
	case scenario.Watch:
		return s.watch(ctx, step)
	case scenario.Settle:
		return s.settle(ctx, step.User)
	case scenario.Expire:
		return s.expire(ctx, step)
	default:
		return s.restart(ctx)
	}
}

// call sends a request to both servers and returns etcd's response.
func (s *sequence) call(ctx context.Context, step scenario.Step) (target.Answer, error) {
	theirs, err := s.theirs.Call(ctx, step.Method, step.User, step.Request)
	if err != nil {
		return theirs, fmt.Errorf("etcd: %w", err)
	}
	ours, err := s.ours.Call(ctx, step.Method, step.User, step.Request)
	if err != nil {
		return theirs, fmt.Errorf("ours: %w", err)
	}
	s.tally.add(step.Method, theirs)
	if !compare.Answers(step.Request, theirs, ours, s.renewed) {
		return theirs, fmt.Errorf("--- etcd ---\n%s\n--- ours ---\n%s", theirs, ours)
	}
	s.scenario.Learn(step, theirs)
	return theirs, nil
}

func (s *sequence) watch(ctx context.Context, step scenario.Step) error {
	request := step.Request.(*pb.WatchRequest)
	created, err := s.theirs.Watch(ctx, step.Stream, step.User, request)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	if _, err := s.ours.Watch(ctx, step.Stream, step.User, request); err != nil {
		return fmt.Errorf("ours: %w", err)
	}
	if s.streams[step.Stream] == nil {
		s.streams[step.Stream] = compare.NewWatch()
	}
	s.streams[step.Stream].Asked(request)
	s.scenario.LearnWatch(step, created)
	return nil
}

// settle writes the marker, which is the last event of every stream, and compares the responses
// before it.
func (s *sequence) settle(ctx context.Context, user string) error {
	for _, m := range []target.Target{s.theirs, s.ours} {
		if err := m.CatchUp(ctx, user); err != nil {
			return err
		}
	}
	put := &pb.PutRequest{Key: []byte(target.MarkerKey)}
	answer, err := s.call(ctx, scenario.Step{Method: target.Put, User: user, Request: put})
	if err != nil {
		return err
	}
	if answer.Code != codes.OK {
		return fmt.Errorf("the marker cannot be written: %s", answer)
	}
	marker := answer.Reply.(*pb.PutResponse).Header.Revision
	for _, number := range slices.Sorted(maps.Keys(s.streams)) {
		if err := s.drain(ctx, number, marker); err != nil {
			return fmt.Errorf("stream %d: %w", number, err)
		}
	}
	return nil
}

// drain compares two streams. Late events of a slow watcher come after the marker, so it may retry.
func (s *sequence) drain(ctx context.Context, number uint32, marker int64) error {
	both := s.streams[number]
	deadline := time.Now().Add(lateness)
	for {
		for which, m := range []target.Target{s.theirs, s.ours} {
			responses, err := m.Drain(ctx, number, marker)
			if err != nil {
				return err
			}
			s.tally.addWatch(which, responses)
			if err := both.Add(which, responses, marker); err != nil {
				return fmt.Errorf("%s: %w", []string{"etcd", "ours"}[which], err)
			}
		}
		err := both.Settled()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const (
	// lateExpiry bounds the time until a lease expires, including all renewals.
	lateExpiry = 30 * time.Second
	// lookAgain is the polling interval.
	lookAgain = 50 * time.Millisecond
)

// expire waits until a lease has expired on both servers.
func (s *sequence) expire(ctx context.Context, step scenario.Step) error {
	for which, m := range []target.Target{s.theirs, s.ours} {
		if err := expired(ctx, m, step); err != nil {
			return fmt.Errorf("%s: %w", []string{"etcd", "ours"}[which], err)
		}
	}
	s.scenario.LearnExpired(step)
	return nil
}

// expiredTTL is the TTL of a missing lease.
const expiredTTL = -1

func expired(ctx context.Context, m target.Target, step scenario.Step) error {
	deadline := time.Now().Add(lateExpiry)
	for {
		answer, err := m.Call(ctx, target.LeaseTimeToLive, step.User, &pb.LeaseTimeToLiveRequest{ID: step.Lease})
		if err != nil {
			return err
		}
		if left, ok := answer.Reply.(*pb.LeaseTimeToLiveResponse); ok && left.TTL == expiredTTL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("timed out waiting for lease %d to expire: %s", step.Lease, answer)
		}
		time.Sleep(lookAgain)
	}
}

func (s *sequence) restart(ctx context.Context) error {
	for _, m := range []target.Target{s.theirs, s.ours} {
		if err := m.Restart(ctx); err != nil {
			return err
		}
	}
	clear(s.streams)
	s.renewed = time.Since(s.start)
	s.scenario.LearnRestart()
	return nil
}
