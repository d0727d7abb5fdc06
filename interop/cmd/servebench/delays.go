package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/stats"
)

const (
	// longReaders is the number of clients that read everything again and again, over one connection.
	longReaders = 10
	// longKeys is the number of keys in such a read, and longBytes about its size.
	longKeys  = 17_000
	longBytes = 5_000_000
	// delayPause is the time between two watch responses. Without it, most samples would fall into
	// the moments in which the connection is idle.
	delayPause = 10 * time.Millisecond
)

// measureDelays measures the delay of watch responses on a connection that also carries long
// responses. An event counts from the request of its put, which has a connection of its own; a
// progress response counts from its request.
func measureDelays(dir string, program program, effort effort) ([]figure, error) {
	return running(dir, program, func(ctx context.Context, s *server) ([]figure, error) {
		if err := fill(ctx, s.endpoint, longKeys); err != nil {
			return nil, err
		}
		links, closeAll, err := dialSome(s.endpoint, 2)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		// A response that never comes fails the case.
		ctx, cancel := context.WithTimeout(ctx, effort.warm+effort.measure+serverTimeout)
		defer cancel()
		shared, own := links[0], links[1]
		everything := marshal(&pb.RangeRequest{Key: []byte("/registry/"), RangeEnd: []byte("/registry0")})
		var readers []step
		for range longReaders {
			readers = append(readers, askInTurn(shared, rangeMethod, [][]byte{everything}, longBytes))
		}
		var events, progresses delays
		event, err := eventStep(ctx, shared, own)
		if err != nil {
			return nil, err
		}
		progress, err := progressStep(ctx, shared)
		if err != nil {
			return nil, err
		}
		outcomes, _, err := measureLoad(ctx, s, effort, readers, []step{events.measured(event)}, []step{progresses.measured(progress)})
		if err != nil {
			return nil, err
		}
		return []figure{
			inMilliseconds("event beside ten reads of 5 MB on its connection: median", stats.Percentile(events, 0.5)),
			inMilliseconds("event beside ten reads of 5 MB on its connection: 99th percentile", stats.Percentile(events, 0.99)),
			inMilliseconds("event beside ten reads of 5 MB on its connection: maximum", slices.Max(events)),
			inMilliseconds("progress response beside them: median", stats.Percentile(progresses, 0.5)),
			inMilliseconds("progress response beside them: 99th percentile", stats.Percentile(progresses, 0.99)),
			inMilliseconds("progress response beside them: maximum", slices.Max(progresses)),
			{"reads of 5 MB on that connection: rate", outcomes[0].rate(), perSecond},
		}, nil
	})
}

// delays are the durations of a step, without the pauses after it.
type delays []time.Duration

func (d *delays) measured(s step) step {
	return func(ctx context.Context) (int, error) {
		begun := time.Now()
		units, err := s(ctx)
		*d = append(*d, time.Since(begun))
		sleep(ctx, delayPause)
		return units, err
	}
}

// eventStep puts a key over one connection and receives the event over another.
func eventStep(ctx context.Context, watching, putting link) (step, error) {
	stream, err := watching.open(ctx, watchMethod)
	if err != nil {
		return nil, err
	}
	watched := []byte("watched")
	create := &pb.WatchCreateRequest{Key: watched}
	if err := exchange(stream, marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})); err != nil {
		return nil, fmt.Errorf("create a watcher: %w", err)
	}
	put := marshal(&pb.PutRequest{Key: watched, Value: value(0)})
	return func(ctx context.Context) (int, error) {
		if _, err := putting.ask(ctx, putMethod, put); err != nil {
			return 0, err
		}
		var answer received
		return 1, stream.RecvMsg(&answer)
	}, nil
}

// progressStep requests the progress of a watcher that never receives an event.
func progressStep(ctx context.Context, link link) (step, error) {
	stream, err := link.open(ctx, watchMethod)
	if err != nil {
		return nil, err
	}
	create := &pb.WatchCreateRequest{Key: []byte("never")}
	if err := exchange(stream, marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})); err != nil {
		return nil, fmt.Errorf("create a watcher: %w", err)
	}
	request := marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	return func(context.Context) (int, error) { return 1, exchange(stream, request) }, nil
}
