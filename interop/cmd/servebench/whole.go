package main

import (
	"context"
	"errors"
	"net"
	"time"
)

// measureStart starts a server on an empty directory and measures its idle memory and processor
// time.
func measureStart(dir string, program program, effort effort) ([]figure, error) {
	s, figures, err := timedStart(dir, program, "empty")
	if err != nil {
		return nil, err
	}
	idle, err := s.idle(effort)
	return append(figures, idle...), errors.Join(err, s.stop())
}

// idle waits for the server to become idle, and then for as long again.
func (s *server) idle(effort effort) ([]figure, error) {
	kept, err := s.memoryAfter(effort.rest)
	if err != nil {
		return nil, err
	}
	before, err := s.processorTime()
	if err != nil {
		return nil, err
	}
	time.Sleep(effort.rest)
	after, err := s.processorTime()
	used := inMilliseconds("idle: CPU time in 10 s", time.Duration(float64(after-before)*10/effort.rest.Seconds()))
	return append(kept.figures("idle"), used), err
}

// settling is the number of small puts after a load of large transactions: more than the in-memory
// log of a member, so that it holds entries of the usual size.
const settling = 25_000

// measureManyKeys loads a server, measures its memory, and restarts it on its data.
func measureManyKeys(dir string, program program, effort effort) ([]figure, error) {
	loaded, err := running(dir, program, func(ctx context.Context, s *server) ([]figure, error) { return loadMany(ctx, s, effort) })
	if err != nil {
		return nil, err
	}
	s, started, err := timedStart(dir, program, "1 million keys")
	if err != nil {
		return nil, err
	}
	kept, err := s.memoryAfter(effort.rest)
	figures := append(loaded, started...)
	return append(figures, kept.figures("1 million keys, restarted")...), errors.Join(err, s.stop())
}

func loadMany(ctx context.Context, s *server, effort effort) ([]figure, error) {
	before, err := s.processorTime()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := fill(ctx, s.endpoint, effort.manyKeys); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	after, err := s.processorTime()
	if err != nil {
		return nil, err
	}
	if err := settle(ctx, s, effort); err != nil {
		return nil, err
	}
	kept, err := s.memoryAfter(effort.rest)
	figures := []figure{
		inMilliseconds("load 1 million keys in transactions of 100", took),
		inMicroseconds("load 1 million keys: CPU time per key", (after-before)/time.Duration(effort.manyKeys)),
	}
	return append(figures, kept.figures("1 million keys, loaded")...), err
}

// settle puts keys one by one, from all clients.
func settle(ctx context.Context, s *server, effort effort) error {
	load, err := asking(s, "", putMethod, clients, 1, putting(effort))
	if err != nil {
		return err
	}
	defer load.end()
	failed := make(chan error, len(load.steps))
	for _, step := range load.steps {
		go func() {
			for range min(settling, effort.manyKeys) / len(load.steps) {
				if _, err := step(ctx); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	var errs []error
	for range load.steps {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// timedStart measures the time until a server responds to a put and a get, and until it logs
// readiness.
func timedStart(dir string, program program, name string) (*server, []figure, error) {
	s, err := start(program, dir)
	if err != nil {
		return nil, nil, err
	}
	answered, err := s.untilAnswered()
	if err != nil {
		return nil, nil, errors.Join(err, s.stop())
	}
	ready, err := s.untilReady()
	if err != nil {
		return nil, nil, errors.Join(err, s.stop())
	}
	return s, []figure{
		inMilliseconds("start, "+name+": until ready", ready),
		inMilliseconds("start, "+name+": until a put and a get succeed", answered),
	}, nil
}

// untilAnswered retries until the server accepts a connection, then puts and gets.
func (s *server) untilAnswered() (time.Duration, error) {
	for {
		conn, err := net.Dial("tcp", s.endpoint)
		if err == nil {
			conn.Close()
			break
		}
		if time.Since(s.begun) > serverTimeout {
			return 0, err
		}
		time.Sleep(time.Millisecond)
	}
	link, err := dial(s.endpoint)
	if err != nil {
		return 0, err
	}
	defer link.Close()
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	for _, request := range []struct {
		method string
		bytes  []byte
	}{{putMethod, marshal(putRequest(0))}, {rangeMethod, getting(effort{keys: 1}, false)(0)}} {
		for {
			_, err := link.ask(ctx, request.method, request.bytes)
			if err == nil {
				break
			}
			// There may be no leader yet.
			if ctx.Err() != nil {
				return 0, err
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(s.begun), nil
}

func (s *server) memoryAfter(rest time.Duration) (memory, error) {
	time.Sleep(rest)
	return s.memory()
}

func (m memory) figures(name string) []figure {
	return []figure{
		{"memory, " + name + ": resident", m.all, megabytes},
		{"memory, " + name + ": private", m.own, megabytes},
		{"memory, " + name + ": peak resident", m.most, megabytes},
	}
}
