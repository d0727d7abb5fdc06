package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/stats"
	"bowline/interop/internal/workload"
)

const (
	putMethod   = "/etcdserverpb.KV/Put"
	rangeMethod = "/etcdserverpb.KV/Range"
	txnMethod   = "/etcdserverpb.KV/Txn"

	// clients is the number of concurrent clients, over this many connections.
	clients     = 64
	connections = 8
	// rangeClients is the number of clients for long responses.
	rangeClients = 16
	valueBytes   = 256
	// listed is the number of keys in a range.
	listed = 500
	// prepared is the number of marshaled requests that a client cycles through.
	prepared = 512
	// batch is the number of puts in a transaction, below etcd's default limit of 128 operations.
	batch = 100
)

// key returns the name of the n-th key. Names sort by number.
func key(n int) []byte { return fmt.Appendf(nil, "/registry/things/default/thing-%08d", n) }

func value(n int) []byte { return workload.Fill(workload.Seeded(2, uint64(n)).Next(), valueBytes) }

func putRequest(n int) *pb.PutRequest { return &pb.PutRequest{Key: key(n), Value: value(n)} }

// fill puts keys in transactions.
func fill(ctx context.Context, endpoint string, keys int) error {
	links, closeAll, err := dialSome(endpoint, connections)
	if err != nil {
		return err
	}
	defer closeAll()
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for _, link := range links {
		group.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch
				if from >= keys {
					return nil
				}
				if _, err := link.ask(ctx, txnMethod, marshal(fillTxn(from, min(from+batch, keys)))); err != nil {
					return fmt.Errorf("fill: %w", err)
				}
			}
		})
	}
	return group.Wait()
}

func fillTxn(from, to int) *pb.TxnRequest {
	var txn pb.TxnRequest
	for n := from; n < to; n++ {
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: putRequest(n)}})
	}
	return &txn
}

// asking returns a load in which each client cycles through its own random requests, whose
// responses have at least this many bytes.
func asking(s *server, name, method string, count, atLeast int, request func(random uint64) []byte) (load, error) {
	links, closeAll, err := dialSome(s.endpoint, connections)
	if err != nil {
		return load{}, err
	}
	var steps []step
	for n := range count {
		random := workload.Seeded(3, uint64(n))
		requests := make([][]byte, prepared)
		for i := range requests {
			requests[i] = request(random.Next())
		}
		steps = append(steps, askInTurn(links[n%len(links)], method, requests, atLeast))
	}
	return load{name: name, unit: "request", steps: steps, end: closeAll}, nil
}

func askInTurn(link link, method string, requests [][]byte, atLeast int) step {
	var turn int
	return func(ctx context.Context) (int, error) {
		turn++
		got, err := link.ask(ctx, method, requests[turn%len(requests)])
		if err == nil && got < atLeast {
			err = fmt.Errorf("got a response of %d bytes, expected at least %d", got, atLeast)
		}
		return 1, err
	}
}

// chosen returns a random key.
func chosen(random uint64, effort effort) int { return int(random % uint64(effort.keys)) }

func putLoad(_ context.Context, s *server, effort effort) (load, error) {
	return asking(s, "put", putMethod, clients, 1, putting(effort))
}

// putAloneLoad and getAloneLoad have a single client: the latency of a request without batching.
func putAloneLoad(_ context.Context, s *server, effort effort) (load, error) {
	return asking(s, "put, one client", putMethod, 1, 1, putting(effort))
}

func getAloneLoad(ctx context.Context, s *server, effort effort) (load, error) {
	if err := fill(ctx, s.endpoint, effort.keys); err != nil {
		return load{}, err
	}
	return asking(s, "get, linearizable, one client", rangeMethod, 1, valueBytes, getting(effort, false))
}

func putting(effort effort) func(uint64) []byte {
	return func(random uint64) []byte { return marshal(putRequest(chosen(random, effort))) }
}

func linearizableLoad(ctx context.Context, s *server, effort effort) (load, error) {
	return getLoad(ctx, s, effort, "get, linearizable", false)
}

func serializableLoad(ctx context.Context, s *server, effort effort) (load, error) {
	return getLoad(ctx, s, effort, "get, serializable", true)
}

func getLoad(ctx context.Context, s *server, effort effort, name string, serializable bool) (load, error) {
	if err := fill(ctx, s.endpoint, effort.keys); err != nil {
		return load{}, err
	}
	return asking(s, name, rangeMethod, clients, valueBytes, getting(effort, serializable))
}

func getting(effort effort, serializable bool) func(uint64) []byte {
	return func(random uint64) []byte {
		return marshal(&pb.RangeRequest{Key: key(chosen(random, effort)), Serializable: serializable})
	}
}

// rangeLoad reads ranges with the given number of keys.
func rangeLoad(ctx context.Context, s *server, effort effort) (load, error) {
	return listLoad(ctx, s, effort, "range of 500 keys", func(from int) *pb.RangeRequest {
		return &pb.RangeRequest{Key: key(from), RangeEnd: key(from + listed)}
	})
}

// pageLoad reads pages: a limited range from a key to the end.
func pageLoad(ctx context.Context, s *server, effort effort) (load, error) {
	return listLoad(ctx, s, effort, "page of 500 keys among many", func(from int) *pb.RangeRequest {
		return &pb.RangeRequest{Key: key(from), RangeEnd: []byte("/registry/things0"), Limit: listed}
	})
}

func listLoad(ctx context.Context, s *server, effort effort, name string, request func(from int) *pb.RangeRequest) (load, error) {
	if err := fill(ctx, s.endpoint, effort.keys); err != nil {
		return load{}, err
	}
	return asking(s, name, rangeMethod, rangeClients, listed*valueBytes, func(random uint64) []byte {
		return marshal(request(int(random % uint64(effort.keys-listed))))
	})
}

// txnLoad compares a key's version and puts it, as an optimistic update does.
func txnLoad(ctx context.Context, s *server, effort effort) (load, error) {
	if err := fill(ctx, s.endpoint, effort.keys); err != nil {
		return load{}, err
	}
	return asking(s, "txn of a compare and a put", txnMethod, clients, 1, func(random uint64) []byte {
		n := chosen(random, effort)
		return marshal(&pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: key(n), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER,
				TargetUnion: &pb.Compare_Version{Version: 0},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: putRequest(n)}}},
		})
	})
}

// readers is the number of readers beside the writers.
const readers = 8

// measureMixed lets some clients read, each over its own connection, while others write as fast as
// possible.
func measureMixed(dir string, program program, effort effort) ([]figure, error) {
	return running(dir, program, func(ctx context.Context, s *server) ([]figure, error) {
		if err := fill(ctx, s.endpoint, effort.keys); err != nil {
			return nil, err
		}
		writing, err := asking(s, "", putMethod, clients, 1, putting(effort))
		if err != nil {
			return nil, err
		}
		defer writing.end()
		reading, err := asking(s, "", rangeMethod, readers, valueBytes, getting(effort, false))
		if err != nil {
			return nil, err
		}
		defer reading.end()
		outcomes, _, err := measureLoad(ctx, s, effort, reading.steps, writing.steps)
		if err != nil {
			return nil, err
		}
		reads, writes := outcomes[0], outcomes[1]
		return []figure{
			inMicroseconds("get beside 64 writers: median", stats.Percentile(reads.sorted, 0.5)),
			inMicroseconds("get beside 64 writers: 99th percentile", stats.Percentile(reads.sorted, 0.99)),
			inMicroseconds("get beside 64 writers: 99.9th percentile", stats.Percentile(reads.sorted, 0.999)),
			{"get beside 64 writers: rate", reads.rate(), perSecond},
			{"put beside 8 readers: rate", writes.rate(), perSecond},
			inMicroseconds("put beside 8 readers: 99th percentile", stats.Percentile(writes.sorted, 0.99)),
		}, nil
	})
}
