package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/faulty"
)

const (
	// slow is a disk delay shorter than an election timeout; hangs is one longer than a fault and the
	// time until another member leads.
	slow  = 200 * time.Millisecond
	hangs = time.Minute
	// noticedWithin bounds the time until a disk that fails has its effect.
	noticedWithin = 20 * time.Second
	// clockJump is longer than any lease.
	clockJump = 2 * time.Hour
)

// diskAndClockFaults are the faults of disks and clocks.
var diskAndClockFaults = []fault{
	{"the leader's disk is full", func(g *group, leader, _ *cluster.Member) (func() error, error) { return g.fillDisk(leader) }},
	{"a follower's disk is full", func(g *group, _, follower *cluster.Member) (func() error, error) { return g.fillDisk(follower) }},
	{"the leader's disk is slow", func(g *group, leader, _ *cluster.Member) (func() error, error) {
		return g.slowDown(slow, leader)
	}},
	{"the leader's disk hangs", func(g *group, leader, _ *cluster.Member) (func() error, error) { return g.hang(leader) }},
	{"all disks are slow", func(g *group, _, _ *cluster.Member) (func() error, error) { return g.slowDown(slow, g.members...) }},
	{"the leader's clock jumps ahead, a follower's back", func(g *group, leader, follower *cluster.Member) (func() error, error) {
		return g.setClocks(clockJump, leader, follower)
	}},
	{"the leader's clock jumps back, a follower's ahead", func(g *group, leader, follower *cluster.Member) (func() error, error) {
		return g.setClocks(-clockJump, leader, follower)
	}},
}

// installFaulty gives a member a disk and a clock that can fail.
func (g *group) installFaulty(m *cluster.Member) error {
	host, err := faulty.New(g.faulty, filepath.Join(g.dir, m.Name+".faulty"))
	if err != nil {
		return err
	}
	g.faultyHosts[m] = host
	m.Environment = host.Environment()
	return nil
}

// faultyHostOf returns the faulty disk and clock of a member or, if it has none because it is not
// ours, of another member.
func (g *group) faultyHostOf(m *cluster.Member) (*cluster.Member, *faulty.Faults, error) {
	for _, m := range append([]*cluster.Member{m}, g.others(m)...) {
		if host := g.faultyHosts[m]; host != nil {
			return m, host, nil
		}
	}
	return nil, nil, errors.New("no member has a faulty disk: see -faulty")
}

// fillDisk fills the disk of a member. The member must exit, since it cannot write its log.
func (g *group) fillDisk(m *cluster.Member) (func() error, error) {
	m, host, err := g.faultyHostOf(m)
	if err != nil {
		return nil, err
	}
	return func() error {
		err := m.Ended(context.Background(), noticedWithin)
		if err != nil {
			err = fmt.Errorf("its disk is full: %w", err)
		}
		return errors.Join(err, host.Fill(false), m.Kill(), g.launch(m))
	}, host.Fill(true)
}

// slowDown delays the disks of our members among the given ones.
func (g *group) slowDown(by time.Duration, members ...*cluster.Member) (func() error, error) {
	set := func(by time.Duration) error {
		var errs []error
		for _, m := range members {
			_, host, err := g.faultyHostOf(m)
			if err == nil {
				err = host.SlowDown(by)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return func() error { return set(0) }, set(by)
}

// hang blocks the disk of a member. If it leads, another member must take over.
func (g *group) hang(m *cluster.Member) (func() error, error) {
	m, host, err := g.faultyHostOf(m)
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), noticedWithin)
		defer cancel()
		err := cluster.Until(ctx, "a member whose disk hangs to follow another", func(ctx context.Context) error {
			s, err := status(ctx, m)
			if err == nil && s.Leader == m.ID {
				err = fmt.Errorf("%s still leads although its disk hangs", m.Name)
			}
			return err
		})
		return errors.Join(err, host.SlowDown(0))
	}, host.SlowDown(hangs)
}

// setClocks moves the clock of one member ahead and that of another back.
func (g *group) setClocks(ahead time.Duration, one, other *cluster.Member) (func() error, error) {
	_, first, err := g.faultyHostOf(one)
	_, second, otherErr := g.faultyHostOf(other)
	if err := errors.Join(err, otherErr); err != nil {
		return nil, err
	}
	set := func(ahead time.Duration) error { return errors.Join(first.SetClock(ahead), second.SetClock(-ahead)) }
	return func() error { return set(0) }, set(ahead)
}
