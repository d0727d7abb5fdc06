package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/stats"
)

// phase has the measurements of one phase.
type phase struct {
	seen clientFigures
	// memory is the maximum in megabytes, and left the value at the end.
	memory, left float64
	descriptors  int
}

// attackResult has the measurements before, during and after an attack.
type attackResult struct {
	quiet, attack, after phase
	// returned is the time until memory and descriptors were back to their initial values.
	returned         time.Duration
	died, panicked   bool
	opened, cut, did int64
}

// tally counts the actions of an attack.
type tally struct {
	// tried and opened connections, connections closed by the server, and requests or frames.
	tried, opened, cut, did atomic.Int64
	// begun is closed with the first connection, since preparations are not part of the attack.
	begun chan struct{}
	once  sync.Once
}

func newTally() *tally { return &tally{begun: make(chan struct{})} }

// connected counts a connection.
func (t *tally) connected() {
	t.opened.Add(1)
	t.once.Do(func() { close(t.begun) })
}

// measureAttack runs an attack and measures it.
func (p plan) measureAttack(a attack, program program, dir string) (result *attackResult, err error) {
	t, err := start(program, a.on, dir, a.tls, p.flags()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	bystanders, err := startBystanders(t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bystanders.end()) }()
	// Not through a proxy, which would keep some of it in memory.
	if err := cmp.Or(t.member, t).fill(a); err != nil {
		return nil, err
	}
	if _, err := bystanders.take(); err != nil {
		return nil, err
	}

	result = &attackResult{}
	if result.quiet, err = t.measure(bystanders, p.wait); err != nil {
		return nil, err
	}
	tally := newTally()
	result.attack, err = t.measure(bystanders, func() error { return p.underAttack(a, t, tally) })
	if err != nil {
		return nil, err
	}
	result.opened, result.cut, result.did = tally.opened.Load(), tally.cut.Load(), tally.did.Load()
	result.returned = t.untilReturned(result.quiet)
	if result.after, err = t.measure(bystanders, p.wait); err != nil {
		return nil, err
	}
	result.died, result.panicked = t.died(), t.panicked()
	return result, nil
}

// wait pauses without an attack, for a shorter time in a check.
func (p plan) wait() error {
	if p.check {
		time.Sleep(p.duration() / 3)
		return nil
	}
	time.Sleep(p.duration())
	return nil
}

// flags returns the flags of the server. In a check it does not sync, so that a busy disk has no
// effect.
func (p plan) flags() []string {
	if p.check {
		return []string{"--unsafe-no-fsync"}
	}
	return nil
}

func (p plan) underAttack(a attack, t *target, tally *tally) error {
	duration := p.duration()
	if p.check {
		duration = max(duration, a.lasts)
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration+cutWithin+serverTimeout)
	defer cancel()
	go func() {
		select {
		case <-tally.begun:
			sleep(ctx, duration)
			if p.check {
				tally.waitForCuts(ctx, a.cutMin)
			}
		case <-ctx.Done():
		}
		cancel()
	}()
	volume := a.full
	if p.check {
		volume = a.brief
	}
	return a.run(ctx, t, volume, tally)
}

// cutWithin bounds the time after an attack's duration until the server has closed as many
// connections as it must. A busy machine opens them late, and each has a grace period.
const cutWithin = 30 * time.Second

// waitForCuts waits until the server has closed this many connections, for at most cutWithin.
func (t *tally) waitForCuts(ctx context.Context, least int64) {
	for end := time.Now().Add(cutWithin); t.cut.Load() < least && time.Now().Before(end); {
		if !sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// measure samples memory during a phase and takes the figures of the bystanders.
func (t *target) measure(bystanders *bystanderProcess, during func() error) (phase, error) {
	var most float64
	done := make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			most = max(most, t.memory())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	err := during()
	descriptors, left := t.descriptors(), t.memory()
	close(done)
	sampler.Wait()
	if err != nil {
		return phase{}, err
	}
	seen, err := bystanders.take()
	return phase{seen: seen, memory: most, left: left, descriptors: descriptors}, err
}

// untilReturned waits until memory and descriptors are back to the values of a phase, for at most
// returnMax.
func (t *target) untilReturned(before phase) time.Duration {
	begun := time.Now()
	for time.Since(begun) < returnMax && !t.ended() {
		if t.descriptors() <= before.descriptors+descriptorSlack && t.memory() <= before.memory+memorySlack {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// fill puts keys for attacks that read.
func (t *target) fill(a attack) error {
	if a.keys == 0 {
		return nil
	}
	conn, err := t.grpc()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	if a.leased {
		if _, err := pb.NewLeaseClient(conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: filledLease, TTL: 3600}); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	for n := range a.keys {
		put := &pb.PutRequest{Key: fmt.Appendf(nil, "filled/%04d", n)}
		if a.leased {
			put.Key, put.Lease = append(put.Key, make([]byte, a.keyBytes)...), filledLease
		} else {
			put.Value = make([]byte, a.keyBytes)
		}
		if _, err := pb.NewKVClient(conn).Put(ctx, put); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

const tableHead = "| attack | server | MB quiet, attack, after | p99 persistent, ms | p99 reconnecting, ms | errors | recovered after | attackers |\n" +
	"| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"

func (s *attackResult) row(attack, program string) string {
	milliseconds := func(of func(clientFigures) figures) string {
		shown := func(p phase) string { return stats.Digits(of(p.seen).P99.Seconds() * 1e3) }
		return fmt.Sprintf("%s, %s, %s", shown(s.quiet), shown(s.attack), shown(s.after))
	}
	row := fmt.Sprintf("| %s | %s | %.0f, %.0f, %.0f | %s | %s | %d | %.1f s | %d connections, %d cut, %d done |",
		attack, program, s.quiet.memory, s.attack.memory, s.after.left,
		milliseconds(func(c clientFigures) figures { return c.Persistent }), milliseconds(func(c clientFigures) figures { return c.Reconnecting }),
		s.errors(), s.returned.Seconds(), s.opened, s.cut, s.did)
	switch {
	case s.died:
		return row + " the server died"
	case s.panicked:
		return row + " panic in the log"
	}
	return row
}

// served returns the number of responses that a client got.
func (s *attackResult) served(of func(clientFigures) figures) int {
	return of(s.quiet.seen).Count + of(s.attack.seen).Count + of(s.after.seen).Count
}

func (s *attackResult) errors() int { return s.attack.seen.errors() + s.after.seen.errors() }

// verdict returns the violated limits.
func (s *attackResult) verdict(a attack) (failures []error) {
	fail := func(format string, args ...any) {
		failures = append(failures, fmt.Errorf("%s: "+format, append([]any{a.name}, args...)...))
	}
	for name, phase := range map[string]phase{"quiet": s.quiet, "attack": s.attack, "after": s.after} {
		if phase.seen.errors() > 0 {
			fail("well-behaved clients got %d errors (%s), the first %s", phase.seen.errors(), name, phase.seen.firstError())
		}
	}
	// On a busy machine a phase may be shorter than a request; a request above requestMax counts as
	// an error.
	if s.served(func(c clientFigures) figures { return c.Persistent }) == 0 || s.served(func(c clientFigures) figures { return c.Reconnecting }) == 0 {
		fail("well-behaved clients got no responses")
	}
	if grown := s.attack.memory - s.quiet.memory; grown > a.growthMax {
		fail("memory grew by %.0f MB, more than the limit of %.0f MB", grown, a.growthMax)
	}
	if more := s.after.left - s.quiet.memory; more > memorySlack {
		fail("memory is still %.0f MB above its initial value after the attack", more)
	}
	if more := s.after.descriptors - s.quiet.descriptors; more > descriptorSlack {
		fail("%d more descriptors than before are open after the attack", more)
	}
	if s.died {
		fail("the server died")
	}
	if s.panicked {
		fail("panic in the log")
	}
	if s.opened == 0 {
		fail("there was no attack")
	}
	if s.cut < a.cutMin {
		fail("only %d connections were closed, at least %d should be", s.cut, a.cutMin)
	}
	return failures
}
