package main

import (
	"bytes"
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/proto"
)

const (
	publishedBytes = 1024
	history        = 1000
	catchUpRounds  = 5
)

var (
	hot       = []byte("hot")
	published = bytes.Repeat([]byte{7}, publishedBytes)
)

// watched is the key of a watcher, or its range if end is set.
type watched struct{ key, end []byte }

func oneKey(format string, values ...any) watched {
	return watched{key: fmt.Appendf(nil, format, values...)}
}

func keysFrom(key, end string) watched { return watched{[]byte(key), []byte(end)} }

// watchBench runs the benchmarks of watchers on one database.
type watchBench struct {
	dir    string
	effort effort
}

func measureWatch(dir string, effort effort) {
	bench := watchBench{dir, effort}
	watchers := effort.watchers
	fmt.Printf("one put of 1 KiB, %d watchers, each in its own stream\n\n", watchers)
	fmt.Printf("%-44s %12s %26s %12s\n", "publish", "median", "fastest .. slowest", "allocations")
	bench.publish("to all, of the same key", watchers, watchers, func(int) watched { return watched{key: hot} })
	bench.publish("to all, of the same range", watchers, watchers, func(int) watched { return keysFrom("h", "i") })
	bench.publish("to all, each of its own range", watchers, watchers, func(i int) watched { return keysFrom("h", fmt.Sprint("i", i)) })
	bench.publish("to none, each of its own key", watchers, 0, func(i int) watched { return oneKey("cold%d", i) })
	bench.publish("to none, each of its own range", watchers, 0, func(i int) watched {
		return keysFrom(fmt.Sprintf("cold%06da", i), fmt.Sprintf("cold%06db", i))
	})
	bench.publish("with no watcher at all", 0, 0, func(int) watched { return watched{} })

	fmt.Println()
	bench.read()
	bench.catchUp()

	fmt.Printf("\n%-44s %12s\n", "memory", "bytes")
	bench.memory("a watcher of its own key, in a shared stream", func(i int) watched { return oneKey("key%08d", i) })
	bench.memory("a watcher of the same key", func(int) watched { return watched{key: hot} })
	bench.memory("a watcher of its own range", func(i int) watched { return keysFrom(fmt.Sprintf("key%08d", i), "l") })
	bench.memoryOfStreams()
	fmt.Println()
}

// publish puts a key that `interested` of the watchers watch. A put returns after its event is in
// their channels, so the whole put is timed; the run without watchers gives the base cost.
func (b watchBench) publish(name string, watchers, interested int, what func(int) watched) {
	withStore(b.dir, func(store mvcc.WatchableKV) {
		streams := openStreams(store, watchers, 0, what)
		var times durations
		fewest := ^uint64(0)
		for range b.effort.publishRounds {
			before := allocations()
			times = append(times, timed(func() { store.Put(hot, published, lease.NoLease) }))
			// A commit during a put allocates too, so the minimum is that of the put alone.
			fewest = min(fewest, allocations()-before)
			check(drain(streams) == interested, "not all watchers got the event")
		}
		fmt.Printf("%-44s %s %12d\n", name, times, fewest)
		closeAll(streams)
	})
}

// openStreams opens streams with one watcher each.
func openStreams(store mvcc.WatchableKV, count int, startRevision int64, what func(int) watched) []mvcc.WatchStream {
	streams := make([]mvcc.WatchStream, count)
	for i := range streams {
		streams[i] = store.NewWatchStream()
		watch(streams[i], what(i), startRevision)
	}
	return streams
}

func watch(stream mvcc.WatchStream, what watched, startRevision int64) {
	_, err := stream.Watch(context.Background(), 0, what.key, what.end, startRevision)
	must(err)
}

// drain receives all queued events and returns their number.
func drain(streams []mvcc.WatchStream) (events int) {
	for _, stream := range streams {
		for len(stream.Chan()) > 0 {
			events += len((<-stream.Chan()).Events)
		}
	}
	return events
}

func closeAll(streams []mvcc.WatchStream) {
	for _, stream := range streams {
		stream.Close()
	}
}

// read receives and encodes the published events of all streams.
func (b watchBench) read() {
	withStore(b.dir, func(store mvcc.WatchableKV) {
		streams := openStreams(store, b.effort.watchers, 0, func(int) watched { return watched{key: hot} })
		var times durations
		for range b.effort.publishRounds {
			store.Put(hot, published, lease.NoLease)
			times = append(times, timed(func() {
				for _, stream := range streams {
					check(len(encode(<-stream.Chan())) > publishedBytes, "an event is missing")
				}
			}))
		}
		fmt.Printf("%-44s %s\n", "read and encode by all", times)
		closeAll(streams)
	})
}

// encode encodes a response for the client.
func encode(response mvcc.WatchResponse) []byte {
	encoded, err := proto.Marshal(&pb.WatchResponse{
		Header:  &pb.ResponseHeader{ClusterId: 1, MemberId: 2, Revision: response.Revision, RaftTerm: 3},
		WatchId: int64(response.WatchID),
		Events:  response.Events,
	})
	must(err)
	return encoded
}

// catchUp starts watchers 1,000 revisions in the past. etcd serves 512 of them at a time and then
// sleeps for as long as that took.
func (b watchBench) catchUp() {
	withStore(b.dir, func(store mvcc.WatchableKV) {
		start := store.Rev() + 1
		for range history {
			store.Put(hot, published, lease.NoLease)
		}
		var times durations
		for range min(b.effort.publishRounds, catchUpRounds) {
			streams := openStreams(store, b.effort.watchers, start, func(int) watched { return watched{key: hot} })
			times = append(times, timed(func() { awaitHistory(streams) }))
			closeAll(streams)
		}
		fmt.Printf("%-44s %s\n", "catch up 1000 revisions each, all", times)
	})
}

func awaitHistory(streams []mvcc.WatchStream) {
	for _, stream := range streams {
		for events := 0; events < history; {
			events += len((<-stream.Chan()).Events)
		}
	}
}

func (b watchBench) memory(name string, what func(int) watched) {
	withStore(b.dir, func(store mvcc.WatchableKV) {
		stream := store.NewWatchStream()
		kept := bytesKept(func() {
			for i := range b.effort.watchers {
				watched := what(i)
				_, err := stream.Watch(context.Background(), mvcc.WatchID(i), watched.key, watched.end, 0)
				must(err)
			}
		})
		fmt.Printf("%-44s %12.0f\n", name, kept/float64(b.effort.watchers))
		stream.Close()
	})
}

func (b watchBench) memoryOfStreams() {
	withStore(b.dir, func(store mvcc.WatchableKV) {
		var streams []mvcc.WatchStream
		kept := bytesKept(func() {
			streams = openStreams(store, b.effort.watchers, 0, func(i int) watched { return oneKey("key%08d", i) })
		})
		fmt.Printf("%-44s %12.0f\n", "a stream with one watcher", kept/float64(len(streams)))
		closeAll(streams)
	})
}
