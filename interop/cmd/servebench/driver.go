package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/stats"
)

// raw is a codec that passes bytes through: requests are marshaled before the measurement, and
// only the length of a response is read. Its name is empty, so that servers see the usual content
// type.
type raw struct{}

// received is the length of a response.
type received int

func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*received) = received(data.Len())
	return nil
}

func (raw) Name() string { return "" }

// link is a connection.
type link struct{ *grpc.ClientConn }

const maxAnswer = 64 << 20

func dial(endpoint string) (link, error) {
	conn, err := grpc.NewClient("passthrough:///"+endpoint,
		grpc.WithTransportCredentials(connSecurity.credentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
	)
	return link{conn}, err
}

// dialSome opens this many connections.
func dialSome(endpoint string, count int) (links []link, closeAll func(), err error) {
	closeAll = func() {
		for _, link := range links {
			link.Close()
		}
	}
	for range count {
		link, err := dial(endpoint)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		links = append(links, link)
	}
	return links, closeAll, nil
}

// ask sends a request and returns the length of the response.
func (l link) ask(ctx context.Context, method string, request []byte) (int, error) {
	var answer received
	err := l.Invoke(ctx, method, request, &answer, grpc.ForceCodecV2(raw{}))
	return int(answer), err
}

// open opens a stream of raw messages.
func (l link) open(ctx context.Context, method string) (grpc.ClientStream, error) {
	return l.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodecV2(raw{}))
}

func marshal(message proto.Message) []byte {
	bytes, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	return bytes
}

// step sends a request of a client, waits for the response, and returns the number of completed
// units.
type step func(ctx context.Context) (units int, err error)

// outcome has the measurements of the clients.
type outcome struct {
	units  int
	took   time.Duration
	sorted []time.Duration
}

func (o outcome) rate() float64 { return float64(o.units) / o.took.Seconds() }

// client repeats a step until it is stopped.
type client struct {
	step  step
	units int
	took  []time.Duration
}

func (c *client) run(ctx context.Context, measuring, done *atomic.Bool) error {
	for !done.Load() {
		begun := time.Now()
		units, err := c.step(ctx)
		if err != nil {
			return err
		}
		if measuring.Load() {
			c.units += units
			c.took = append(c.took, time.Since(begun))
		}
	}
	return nil
}

// drive runs all groups of clients concurrently, and calls around at the start and end of the
// measured part.
func drive(ctx context.Context, effort effort, groups [][]step, around func() error) ([]outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var measuring, done atomic.Bool
	var workers sync.WaitGroup
	clients := make([][]*client, len(groups))
	for g, steps := range groups {
		for _, step := range steps {
			c := &client{step: step, took: make([]time.Duration, 0, 1<<14)}
			clients[g] = append(clients[g], c)
			workers.Go(func() {
				if err := c.run(ctx, &measuring, &done); err != nil {
					cancel(err)
				}
			})
		}
	}
	sleep(ctx, effort.warm)
	errs := []error{around()}
	begun := time.Now()
	measuring.Store(true)
	sleep(ctx, effort.measure)
	measuring.Store(false)
	took := time.Since(begun)
	errs = append(errs, around())
	done.Store(true)
	workers.Wait()
	var outcomes []outcome
	for _, group := range clients {
		outcomes = append(outcomes, gather(group, took))
	}
	return outcomes, errors.Join(append(errs, context.Cause(ctx))...)
}

func gather(clients []*client, took time.Duration) outcome {
	all := outcome{took: took}
	for _, c := range clients {
		all.units += c.units
		all.sorted = append(all.sorted, c.took...)
	}
	slices.Sort(all.sorted)
	return all
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// load is a set of requests.
type load struct {
	// unit is the counted unit, and name the name of the clients in the figures.
	name, unit string
	steps      []step
	end        func()
}

// measured turns a load into a case: throughput, latency, and CPU time of the server.
func measured(prepare func(context.Context, *server, effort) (load, error)) func(string, program, effort) ([]figure, error) {
	return func(dir string, program program, effort effort) ([]figure, error) {
		return running(dir, program, func(ctx context.Context, s *server) ([]figure, error) {
			load, err := prepare(ctx, s, effort)
			if err != nil {
				return nil, err
			}
			defer load.end()
			outcomes, used, err := measureLoad(ctx, s, effort, load.steps)
			if err != nil {
				return nil, err
			}
			o := outcomes[0]
			return []figure{
				{load.name + ": CPU time per " + load.unit, used.Seconds() * 1e6 / float64(max(o.units, 1)), microseconds},
				{load.name + ": rate", o.rate(), perSecond},
				inMicroseconds(load.name+": median", stats.Percentile(o.sorted, 0.5)),
				inMicroseconds(load.name+": 99th percentile", stats.Percentile(o.sorted, 0.99)),
			}, nil
		})
	}
}

// measureLoad also returns the CPU time that the server used.
func measureLoad(ctx context.Context, s *server, effort effort, groups ...[]step) ([]outcome, time.Duration, error) {
	var marks []time.Duration
	outcomes, err := drive(ctx, effort, groups, func() error {
		used, err := s.processorTime()
		marks = append(marks, used)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("load: %w", err)
	}
	return outcomes, marks[1] - marks[0], nil
}
