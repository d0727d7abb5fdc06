package main

import (
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
	seen both
	// memory is the maximum in megabytes, and left the value at the end.
	memory, left float64
	descriptors  int
}

// story has the measurements before, during and after an attack.
type story struct {
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

// tell runs an attack and measures it.
func (p plan) tell(a attack, program program, folder string) (told *story, err error) {
	t, err := start(program, folder, a.tls, p.flags()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	behaving, err := startBehaving(t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, behaving.end()) }()
	if err := t.fill(a.keys, a.keyBytes); err != nil {
		return nil, err
	}
	if _, err := behaving.take(); err != nil {
		return nil, err
	}

	told = &story{}
	if told.quiet, err = t.measure(behaving, p.wait); err != nil {
		return nil, err
	}
	tally := newTally()
	told.attack, err = t.measure(behaving, func() error { return p.underAttack(a, t, tally) })
	if err != nil {
		return nil, err
	}
	told.opened, told.cut, told.did = tally.opened.Load(), tally.cut.Load(), tally.did.Load()
	told.returned = t.untilReturned(told.quiet)
	if told.after, err = t.measure(behaving, p.wait); err != nil {
		return nil, err
	}
	told.died, told.panicked = t.ended(), t.panicked()
	return told, nil
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
	ctx, cancel := context.WithTimeout(context.Background(), p.duration()+patience)
	defer cancel()
	go func() {
		select {
		case <-tally.begun:
			sleep(ctx, p.duration())
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

// measure samples memory during a phase and takes the figures of the well-behaved clients.
func (t *target) measure(behaving *behaving, happens func() error) (phase, error) {
	var most float64
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			most = max(most, t.memory())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	err := happens()
	descriptors, left := t.descriptors(), t.memory()
	close(done)
	looking.Wait()
	if err != nil {
		return phase{}, err
	}
	seen, err := behaving.take()
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

// fill puts keys of this many bytes for attacks that read.
func (t *target) fill(keys, keyBytes int) error {
	if keys == 0 {
		return nil
	}
	conn, err := t.grpc()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for n := range keys {
		put := &pb.PutRequest{Key: fmt.Appendf(nil, "filled/%04d", n), Value: make([]byte, keyBytes)}
		if _, err := pb.NewKVClient(conn).Put(ctx, put); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

const tableHead = "| attack | server | MB quiet, attack, after | 99 % of one that stays, ms | 99 % of one that comes, ms | errors | back after | attackers |\n" +
	"| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"

func (s *story) row(attack, program string) string {
	milliseconds := func(of func(both) figures) string {
		shown := func(p phase) string { return stats.Digits(of(p.seen).P99.Seconds() * 1e3) }
		return fmt.Sprintf("%s, %s, %s", shown(s.quiet), shown(s.attack), shown(s.after))
	}
	row := fmt.Sprintf("| %s | %s | %.0f, %.0f, %.0f | %s | %s | %d | %.1f s | %d connections, %d cut, %d done |",
		attack, program, s.quiet.memory, s.attack.memory, s.after.left,
		milliseconds(func(b both) figures { return b.Staying }), milliseconds(func(b both) figures { return b.Coming }),
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
func (s *story) served(of func(both) figures) int {
	return of(s.quiet.seen).Count + of(s.attack.seen).Count + of(s.after.seen).Count
}

func (s *story) errors() int { return s.attack.seen.errors() + s.after.seen.errors() }

// verdict returns the violated limits.
func (s *story) verdict(a attack) (failures []error) {
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
	if s.served(func(b both) figures { return b.Staying }) == 0 || s.served(func(b both) figures { return b.Coming }) == 0 {
		fail("well-behaved clients got no responses")
	}
	if grown := s.attack.memory - s.quiet.memory; grown > a.growthMax {
		fail("memory grew by %.0f MB, which may be %.0f", grown, a.growthMax)
	}
	if more := s.after.left - s.quiet.memory; more > memorySlack {
		fail("memory is %.0f MB above what it was, long after", more)
	}
	if more := s.after.descriptors - s.quiet.descriptors; more > descriptorSlack {
		fail("%d descriptors are open, long after", more)
	}
	if s.died {
		fail("the server died")
	}
	if s.panicked {
		fail("the log tells of a panic")
	}
	if s.opened == 0 {
		fail("there was no attack")
	}
	return failures
}
