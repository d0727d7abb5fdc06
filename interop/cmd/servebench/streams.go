package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	watchMethod     = "/etcdserverpb.Watch/Watch"
	keepAliveMethod = "/etcdserverpb.Lease/LeaseKeepAlive"

	watchers = 100
	// ttl is longer than any case.
	ttl = 600
)

// watchLoad has watchers that share few connections, with one stream each.
func watchLoad(ctx context.Context, s *server, effort effort) (load, error) {
	return fanOut(ctx, s, effort, "put to 100 watchers on 8 connections", connections)
}

// watchConnectionsLoad has one connection per watcher.
func watchConnectionsLoad(ctx context.Context, s *server, effort effort) (load, error) {
	return fanOut(ctx, s, effort, "put to 100 watchers on 100 connections", watchers)
}

// fanOut has one client that puts and then waits until every watcher has got the event. So events
// never queue up, and each is sent alone.
func fanOut(ctx context.Context, s *server, effort effort, name string, connections int) (load, error) {
	links, closeAll, err := dialSome(s.endpoint, connections+1)
	if err != nil {
		return load{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end := func() {
		cancel()
		closeAll()
	}
	results := make(chan error, watchers)
	for n := range watchers {
		if err := watch(ctx, links[n%connections], results); err != nil {
			end()
			return load{}, err
		}
	}
	puts := make([][]byte, prepared)
	for n := range puts {
		puts[n] = marshal(putRequest(n % effort.keys))
	}
	put := askInTurn(links[connections], putMethod, puts, 1)
	fanned := func(ctx context.Context) (int, error) {
		if _, err := put(ctx); err != nil {
			return 0, err
		}
		return watchers, waitForAll(ctx, results)
	}
	return load{name: name, unit: "event", steps: []step{fanned}, end: end}, nil
}

// waitForAll waits until every watcher has got the event.
func waitForAll(ctx context.Context, results <-chan error) error {
	for range watchers {
		select {
		case err := <-results:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watch opens a stream with one watcher of all keys and reports every response.
func watch(ctx context.Context, link link, results chan<- error) error {
	stream, err := link.open(ctx, watchMethod)
	if err != nil {
		return err
	}
	create := &pb.WatchCreateRequest{Key: []byte("/registry/"), RangeEnd: []byte("/registry0")}
	if err := exchange(stream, marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})); err != nil {
		return fmt.Errorf("create a watcher: %w", err)
	}
	go func() {
		for {
			var answer received
			err := stream.RecvMsg(&answer)
			if err == nil && int(answer) < valueBytes {
				err = fmt.Errorf("unexpected event of %d bytes", answer)
			}
			select {
			case results <- err:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// exchange sends one message on a stream and receives one.
func exchange(stream grpc.ClientStream, message []byte) error {
	if err := stream.SendMsg(message); err != nil {
		return err
	}
	var answer received
	return stream.RecvMsg(&answer)
}

// keepAliveLoad has clients that each renew their own lease over their own stream.
func keepAliveLoad(ctx context.Context, s *server, _ effort) (load, error) {
	links, closeAll, err := dialSome(s.endpoint, connections)
	if err != nil {
		return load{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end := func() {
		cancel()
		closeAll()
	}
	var steps []step
	for n := range clients {
		step, err := renewing(ctx, links[n%len(links)])
		if err != nil {
			end()
			return load{}, err
		}
		steps = append(steps, step)
	}
	return load{name: "lease keep-alive", unit: "request", steps: steps, end: end}, nil
}

func renewing(ctx context.Context, link link) (step, error) {
	granted, err := pb.NewLeaseClient(link).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return nil, err
	}
	stream, err := link.open(ctx, keepAliveMethod)
	if err != nil {
		return nil, err
	}
	request := marshal(&pb.LeaseKeepAliveRequest{ID: granted.ID})
	return func(context.Context) (int, error) { return 1, exchange(stream, request) }, nil
}
