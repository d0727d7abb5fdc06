package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

const (
	keyBytes   = 64
	valueBytes = 256
	rangeKeys  = 500
	// etcd counts all keys up to the end of a range, whatever the limit, so ranges are measured for
	// a fixed time instead of a fixed number.
	rangesTake = 15 * time.Second
)

// all is the key and the range end of a range over all keys.
var all = []byte{0}

// storeBench runs the benchmarks of one store.
type storeBench struct {
	store  mvcc.WatchableKV
	keys   int
	random uint64
}

func measureStore(dir string, effort effort) {
	keys := effort.keys
	fmt.Printf("%d keys of %d bytes, values of %d\n\n", keys, keyBytes, valueBytes)
	withStore(dir, func(store mvcc.WatchableKV) {
		bench := &storeBench{store: store, keys: keys, random: 1}
		bench.putAll("put, new keys at random")
		bench.read()
		bench.ranges()
		bench.compareAndPut()
		bench.rangeBesideAWriter()
	})
	restore(dir, keys, "one revision each")
	withStore(dir, func(store mvcc.WatchableKV) {
		bench := &storeBench{store: store, keys: keys, random: 1}
		for range 4 {
			bench.putAll("put, known keys at random")
		}
	})
	restore(dir, keys, "five revisions each, and a few more")
	fmt.Println()
}

// key returns the nth key in a shuffled order.
func key(n, keys int) []byte {
	shuffled := uint64(n) * 0x9E3779B1 % uint64(keys)
	name := fmt.Appendf(make([]byte, 0, keyBytes), "/registry/pods/default/%012d/", shuffled)
	for len(name) < keyBytes {
		name = append(name, 'x')
	}
	return name
}

func putRequest(key []byte) *pb.PutRequest {
	return &pb.PutRequest{Key: key, Value: bytes.Repeat([]byte{'v'}, valueBytes)}
}

func (b *storeBench) randomKey() []byte {
	b.random = b.random*6_364_136_223_846_793_005 + 1
	return key(int(b.random>>33)%b.keys, b.keys)
}

// put executes a put as the applier does.
func (b *storeBench) put(request *pb.PutRequest) {
	_, _, err := txn.Put(context.Background(), zap.NewNop(), &lease.FakeLessor{}, b.store, request)
	must(err)
}

// get executes a range as a server does, after the wait for the read index.
func (b *storeBench) get(request *pb.RangeRequest) *pb.RangeResponse {
	return b.getCounted(request, true)
}

// getCounted executes a range, optionally without the total count beyond the limit.
func (b *storeBench) getCounted(request *pb.RangeRequest, withTotal bool) *pb.RangeResponse {
	response, _, err := txn.Range(context.Background(), zap.NewNop(), b.store, request, withTotal)
	must(err)
	return response
}

func (b *storeBench) putAll(what string) {
	took := timed(func() {
		for n := range b.keys {
			b.put(putRequest(key(n, b.keys)))
		}
	})
	report(what, b.keys, took)
	count := b.get(&pb.RangeRequest{Key: all, RangeEnd: all, CountOnly: true}).Count
	check(int(count) == b.keys, "keys are missing")
}

func (b *storeBench) read() {
	took := timed(func() {
		for range b.keys {
			framed := frame(b.get(&pb.RangeRequest{Key: b.randomKey()}))
			check(len(framed) > valueBytes, "a key is missing")
		}
	})
	report("point read at latest, framed", b.keys, took)
}

// frame encodes a response as a gRPC frame.
func frame(response *pb.RangeResponse) []byte {
	framed, err := proto.Marshal(response)
	must(err)
	return framed
}

func (b *storeBench) ranges() {
	b.rangeOften("range of 500 keys, framed", b.get)
	b.rangeOften("range of 500 keys, only the keys", func(request *pb.RangeRequest) *pb.RangeResponse {
		request.KeysOnly = true
		return b.get(request)
	})
	revision := b.store.Rev() - 1
	b.rangeOften("range of 500 keys, before the last write", func(request *pb.RangeRequest) *pb.RangeResponse {
		request.Revision = revision
		return b.get(request)
	})
	// Only RangeStream skips the count. This figure shows what the count costs, and has no
	// counterpart in our benchmark.
	b.rangeOften("range of 500 keys, framed, not counted", func(request *pb.RangeRequest) *pb.RangeResponse {
		return b.getCounted(request, false)
	})
}

func (b *storeBench) rangeOften(what string, get func(*pb.RangeRequest) *pb.RangeResponse) {
	rounds, begun := 0, time.Now()
	for rounds < min(b.keys/rangeKeys, 2000) && time.Since(begun) < rangesTake {
		request := &pb.RangeRequest{Key: b.randomKey(), RangeEnd: all, Limit: rangeKeys}
		check(len(frame(get(request))) > keyBytes, "a range is empty")
		rounds++
	}
	report(what, rounds, time.Since(begun))
}

func (b *storeBench) compareAndPut() {
	rounds := b.keys / 4
	took := timed(func() {
		for range rounds {
			key := b.randomKey()
			// The shared buffer is the default.
			response, _, err := txn.Txn(context.Background(), zap.NewNop(), compareRequest(key), true, b.store, &lease.FakeLessor{}, false)
			must(err)
			check(response.Succeeded, "a key is missing")
		}
	})
	report("compare and put", rounds, took)
}

// compareRequest puts a key if it exists.
func compareRequest(key []byte) *pb.TxnRequest {
	compare := &pb.Compare{
		Result: pb.Compare_GREATER, Target: pb.Compare_MOD, Key: key, TargetUnion: &pb.Compare_ModRevision{ModRevision: 0},
	}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: putRequest(key)}}
	return &pb.TxnRequest{Compare: []*pb.Compare{compare}, Success: []*pb.RequestOp{put}}
}

// rangeBesideAWriter measures the longest put with and without a concurrent loop of ranges over all
// keys.
func (b *storeBench) rangeBesideAWriter() {
	for _, hasReader := range []bool{false, true} {
		var done atomic.Bool
		var reader sync.WaitGroup
		ranges := 0
		if hasReader {
			reader.Go(func() { ranges = b.rangeUntil(&done) })
		}
		took := b.slowestPuts()
		done.Store(true)
		reader.Wait()
		fmt.Printf("put beside %d ranges over all: p50 %.1f us, p99.9 %.1f us, slowest %.0f us\n",
			ranges, micros(took[0]), micros(took[1]), micros(took[2]))
	}
}

func (b *storeBench) rangeUntil(done *atomic.Bool) (ranges int) {
	for ; !done.Load(); ranges++ {
		check(len(b.get(&pb.RangeRequest{Key: all, RangeEnd: all}).Kvs) == b.keys, "keys are missing")
	}
	return ranges
}

func (b *storeBench) slowestPuts() [3]time.Duration {
	took := make([]time.Duration, b.keys/5)
	for n := range took {
		request := putRequest(key(n, b.keys))
		took[n] = timed(func() { b.put(request) })
	}
	slices.Sort(took)
	last := len(took) - 1
	return [3]time.Duration{took[len(took)/2], took[last-len(took)/1000], took[last]}
}

// restore opens a store as after a restart.
func restore(dir string, keys int, what string) {
	// etcd's metrics keep a reference to the store opened last. Opening an empty one releases it
	// before the memory is measured.
	inTempDir(dir, func(empty string) { withStore(empty, func(mvcc.WatchableKV) {}) })
	database := openBackend(dir)
	var store mvcc.WatchableKV
	var took time.Duration
	kept := bytesKept(func() {
		took = timed(func() { store = openStore(database) })
	})
	fmt.Printf("\nrestored in %.2f s: %s\n", took.Seconds(), what)
	bench := &storeBench{store: store, keys: keys}
	count := bench.get(&pb.RangeRequest{Key: all, RangeEnd: all, CountOnly: true}).Count
	check(int(count) == keys, "keys are missing")
	fmt.Printf("index: %.1f bytes for each key beyond the key itself\n", kept/float64(keys)-keyBytes)
	must(store.Close())
	must(database.Close())
}

func report(what string, count int, took time.Duration) {
	fmt.Printf("%-44s %12.0f /s %9.2f us\n", what, rate(count, took), micros(took)/float64(count))
}
