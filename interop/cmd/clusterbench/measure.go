package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/stats"
)

const (
	// connectionsEach is the number of connections to each member, which the clients share.
	connectionsEach = 8
	valueBytes      = 256
	putKeys         = 10_000
	// fillers is the number of concurrent clients that write the data a follower misses.
	fillers = 64
	// largeBytes is the size of the values in a snapshot.
	largeBytes = 64 << 10
	// failoverPutTimeout bounds each put during a failover, and so the precision of the measurement.
	failoverPutTimeout = 50 * time.Millisecond
	// startPoll is the polling interval for a starting member.
	startPoll = 5 * time.Millisecond
)

// putBy runs this many clients, spread evenly over all members, in a closed loop of puts.
func putBy(clients int) func(context.Context, *threeMembers, effort) ([]figure, error) {
	return func(ctx context.Context, t *threeMembers, e effort) ([]figure, error) {
		kvClients, closeAll, err := t.connections()
		if err != nil {
			return nil, err
		}
		defer closeAll()
		var measuring, done atomic.Bool
		latencies := make([][]time.Duration, clients)
		group, ctx := errgroup.WithContext(ctx)
		for i := range clients {
			group.Go(func() error {
				var err error
				latencies[i], err = putAll(ctx, kvClients[i%len(kvClients)], i, &measuring, &done)
				return err
			})
		}
		var before, after time.Duration
		var errs [2]error
		time.Sleep(e.warm)
		before, errs[0] = t.cpuTime()
		measuring.Store(true)
		begun := time.Now()
		time.Sleep(e.measure)
		measuring.Store(false)
		took := time.Since(begun)
		after, errs[1] = t.cpuTime()
		done.Store(true)
		if err := errors.Join(group.Wait(), errs[0], errs[1]); err != nil {
			return nil, err
		}
		var all []time.Duration
		for _, some := range latencies {
			all = append(all, some...)
		}
		name := fmt.Sprintf("put, %d clients", clients)
		return []figure{
			{name, float64(len(all)) / took.Seconds(), "/s"},
			microseconds(name+": CPU time per request", (after-before)/time.Duration(max(1, len(all)))),
			milliseconds(name+": median", stats.Percentile(all, 0.5)),
			milliseconds(name+": 99th percentile", stats.Percentile(all, 0.99)),
		}, nil
	}
}

// connections opens connectionsEach connections to every member.
func (t *threeMembers) connections() ([]pb.KVClient, func(), error) {
	var clients []pb.KVClient
	var open []*grpc.ClientConn
	closeAll := func() {
		for _, conn := range open {
			conn.Close()
		}
	}
	for range connectionsEach {
		for _, m := range t.members {
			conn, err := grpc.NewClient(m.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				closeAll()
				return nil, nil, err
			}
			open = append(open, conn)
			clients = append(clients, pb.NewKVClient(conn))
		}
	}
	return clients, closeAll, nil
}

// putAll puts until it is stopped, and returns the latencies of the puts that ended in the measured
// time.
func putAll(ctx context.Context, kv pb.KVClient, client int, measuring, done *atomic.Bool) ([]time.Duration, error) {
	var latencies []time.Duration
	value := make([]byte, valueBytes)
	for i := 0; !done.Load(); i++ {
		begun := time.Now()
		key := fmt.Appendf(nil, "key/%08d", (client*7919+i*104729)%putKeys)
		if _, err := kv.Put(ctx, &pb.PutRequest{Key: key, Value: value}); err != nil {
			return nil, err
		}
		if measuring.Load() {
			latencies = append(latencies, time.Since(begun))
		}
	}
	return latencies, nil
}

// failover kills the leader while a client of each follower puts, and measures the time until the
// first response.
func failover(ctx context.Context, t *threeMembers, _ effort) ([]figure, error) {
	leader, _, err := t.leader(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	accepted := make(chan time.Time, len(t.members))
	var killed atomic.Bool
	var group sync.WaitGroup
	for _, m := range t.members {
		if m == leader {
			continue
		}
		group.Go(func() {
			m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
				for ctx.Err() == nil {
					after := killed.Load()
					asking, cancel := context.WithTimeout(ctx, failoverPutTimeout)
					_, err := client.Put(asking, "failover", "x")
					cancel()
					if err == nil && after {
						accepted <- time.Now()
						return nil
					}
				}
				return nil
			})
		})
	}
	time.Sleep(time.Second)
	if err := leader.Kill(); err != nil {
		return nil, err
	}
	begun := time.Now()
	killed.Store(true)
	select {
	case at := <-accepted:
		cancel()
		group.Wait()
		return []figure{milliseconds("from kill -9 of the leader to the next accepted put", at.Sub(begun))}, nil
	case <-ctx.Done():
		return nil, errors.New("timed out waiting for a put to succeed")
	}
}

// catchUpLog measures how long a follower takes to catch up from the log.
func catchUpLog(ctx context.Context, t *threeMembers, e effort) ([]figure, error) {
	took, err := t.catchUp(ctx, e.entries, valueBytes)
	return []figure{milliseconds(fmt.Sprintf("catch up with %d puts, by the log", e.entries), took)}, err
}

// catchUpSnapshot measures how long a follower takes to catch up with a snapshot.
func catchUpSnapshot(ctx context.Context, t *threeMembers, e effort) ([]figure, error) {
	took, err := t.catchUp(ctx, e.megabytes*(1<<20)/largeBytes, largeBytes)
	return []figure{milliseconds(fmt.Sprintf("catch up with %d MB, by a snapshot", e.megabytes), took)}, err
}

// catchUp stops a follower, puts, and measures the time from its restart until it has applied as
// much as the leader.
func (t *threeMembers) catchUp(ctx context.Context, puts, size int) (time.Duration, error) {
	leader, follower, err := t.leader(ctx)
	if err != nil {
		return 0, err
	}
	if err := follower.Stop(); err != nil {
		return 0, err
	}
	if err := fill(ctx, leader, puts, size); err != nil {
		return 0, err
	}
	s, err := status(ctx, leader)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := follower.Start(t.flags...); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	listening(ctx, follower)
	for {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		now, err := status(asking, follower)
		cancel()
		if err == nil && now.RaftAppliedIndex >= s.RaftAppliedIndex {
			return time.Since(begun), nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("timed out waiting for the follower to catch up: %w; its log ends with:\n%s", err, follower.LogEnd())
		}
		time.Sleep(startPoll)
	}
}

// listening waits until a member accepts connections. A gRPC client whose first attempt fails would
// back off for a second.
func listening(ctx context.Context, m *cluster.Member) {
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", m.Endpoint()); err == nil {
			conn.Close()
			return
		}
		time.Sleep(startPoll)
	}
}

func fill(ctx context.Context, m *cluster.Member, puts, size int) error {
	client, err := m.Client("", "")
	if err != nil {
		return err
	}
	defer client.Close()
	value := string(make([]byte, size))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range fillers {
		group.Go(func() error {
			for i := next.Add(1); i <= int64(puts); i = next.Add(1) {
				if _, err := client.Put(ctx, fmt.Sprintf("missed/%08d", i), value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
