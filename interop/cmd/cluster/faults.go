package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/links"
)

const (
	// faultRequestTimeout bounds each request during faults.
	faultRequestTimeout = 2 * time.Second
	// faultLasts is the duration of a fault: a few election timeouts.
	faultLasts = 3 * time.Second
	// recoverWithin bounds the time until clients get responses again after a fault.
	recoverWithin = time.Minute
)

// fault starts a fault, given the leader and a follower, and returns a function that ends it.
type fault struct {
	name  string
	begin func(g *group, leader, follower *cluster.Member) (endFault func() error, err error)
}

var faults = []fault{
	{"the leader is killed", func(g *group, leader, _ *cluster.Member) (func() error, error) { return g.crash(leader) }},
	{"a follower is killed", func(g *group, _, follower *cluster.Member) (func() error, error) { return g.crash(follower) }},
	{"all are killed", (*group).crashAll},
	{"the leader is paused", func(g *group, leader, _ *cluster.Member) (func() error, error) { return pause(leader) }},
	{"a follower is paused", func(g *group, _, follower *cluster.Member) (func() error, error) { return pause(follower) }},
	{"the leader is cut off", func(g *group, leader, _ *cluster.Member) (func() error, error) {
		return g.partition(isolated(leader.Name))
	}},
	{"the leader's cable is pulled", func(g *group, leader, _ *cluster.Member) (func() error, error) {
		return g.partition(silent(leader.Name))
	}},
	{"a follower's cable is pulled", func(g *group, _, follower *cluster.Member) (func() error, error) {
		return g.partition(silent(follower.Name))
	}},
	{"the leader's messages are held", func(g *group, leader, _ *cluster.Member) (func() error, error) {
		return g.partition(func(from, _ string) links.State { return heldIf(from == leader.Name) })
	}},
	{"messages to the leader are held", func(g *group, leader, _ *cluster.Member) (func() error, error) {
		return g.partition(func(_, to string) links.State { return heldIf(to == leader.Name) })
	}},
	{"leader and follower cannot reach each other", func(g *group, leader, follower *cluster.Member) (func() error, error) {
		return g.partition(func(from, to string) links.State {
			return heldIf(from == leader.Name && to == follower.Name || from == follower.Name && to == leader.Name)
		})
	}},
	{"everything arrives late", func(g *group, _, _ *cluster.Member) (func() error, error) {
		g.net.Delay(30 * time.Millisecond)
		return func() error {
			g.net.Delay(0)
			return nil
		}, nil
	}},
	{"the leader is paused repeatedly", func(g *group, leader, _ *cluster.Member) (func() error, error) { return pauseRepeatedly(leader) }},
	{"a follower is paused repeatedly", func(g *group, _, follower *cluster.Member) (func() error, error) { return pauseRepeatedly(follower) }},
	{"all are restarted, one by one", (*group).rolling},
}

func heldIf(yes bool) links.State {
	if yes {
		return links.Held
	}
	return links.Open
}

// silent holds all messages to and from a member.
func silent(name string) links.Rule {
	return func(from, to string) links.State { return heldIf((from == name) != (to == name)) }
}

func (g *group) partition(rule links.Rule) (func() error, error) {
	g.net.Set(rule)
	return func() error {
		g.net.Heal()
		return nil
	}, nil
}

func (g *group) crash(m *cluster.Member) (func() error, error) {
	return func() error { return g.launch(m) }, m.Kill()
}

func (g *group) crashAll(_, _ *cluster.Member) (func() error, error) {
	var errs []error
	for _, m := range g.members {
		errs = append(errs, m.Kill())
	}
	return func() error {
		var errs []error
		for _, m := range g.members {
			errs = append(errs, g.launch(m))
		}
		return errors.Join(errs...)
	}, errors.Join(errs...)
}

func pause(m *cluster.Member) (func() error, error) {
	return func() error { return m.Signal(syscall.SIGCONT) }, m.Signal(syscall.SIGSTOP)
}

const (
	// stops and runs are the durations for which pauseRepeatedly pauses a member and lets it run. The
	// pause is shorter than an election timeout.
	stops = 300 * time.Millisecond
	runs  = 30 * time.Millisecond
)

// pauseRepeatedly pauses and resumes a member in turn, until the fault ends.
func pauseRepeatedly(m *cluster.Member) (func() error, error) {
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				ended <- nil
				return
			case <-time.After(runs):
			}
			err = m.Signal(syscall.SIGSTOP)
			time.Sleep(stops)
			err = errors.Join(err, m.Signal(syscall.SIGCONT))
		}
		ended <- err
	}()
	return func() error {
		close(stop)
		return <-ended
	}, nil
}

func (g *group) rolling(_, _ *cluster.Member) (func() error, error) {
	return func() error {
		for _, m := range g.members {
			if err := g.replace(context.Background(), m, m.Binary()); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// faultsAlone runs the faults with three Bowline members, faultsMixed with five of both programs.
func faultsAlone(ctx context.Context, c *config) (string, error) {
	return c.injectFaults(ctx, c.mix(0b111, 3), 0)
}
func faultsMixed(ctx context.Context, c *config) (string, error) {
	return c.injectFaults(ctx, c.mix(0b10101, 5), 1)
}

// injectFaults injects one fault after another under load. The history must be linearizable, and
// clients must get responses again after each fault. With -times 1 it takes only one half of the
// faults.
func (c *config) injectFaults(ctx context.Context, programs []*cluster.Binary, half int) (string, error) {
	g, err := c.startGroup(ctx, programs, fewEntries...)
	if err != nil {
		return "", err
	}
	defer g.close()
	l, err := g.startLoad(ctx, faultRequestTimeout)
	if err != nil {
		return "", err
	}
	dice := rand.New(rand.NewPCG(c.seed, 3))
	chosen := c.chosenFaults(half)
	for range c.times {
		for _, f := range chosen {
			if err := g.injectFault(ctx, l, f, dice); err != nil {
				return "", fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	if err := l.end(ctx, c.checker); err != nil {
		return "", err
	}
	if err := findsPlanted(ctx, c.checker, l.path); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d faults, %v", len(chosen)*c.times, l), g.discard()
}

// chosenFaults returns the selected faults in an order given by the seed.
func (c *config) chosenFaults(half int) []fault {
	chosen := slices.Clone(faults)
	if c.faulty != "" {
		chosen = append(chosen, diskAndClockFaults...)
	}
	dice := rand.New(rand.NewPCG(c.seed, 4))
	dice.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	if c.times == 1 && c.fault == "" {
		middle := len(chosen) / 2
		chosen = [][]fault{chosen[:middle], chosen[middle:]}[half]
	}
	return slices.DeleteFunc(chosen, func(f fault) bool { return !strings.Contains(f.name, c.fault) })
}

func (g *group) injectFault(ctx context.Context, l *clientLoad, f fault, dice *rand.Rand) error {
	leader, err := g.leader(ctx)
	if err != nil {
		return err
	}
	followers := g.others(leader)
	logStep("%s (%s, %s)", f.name, leader.Name, leader.Binary().Name())
	endFault, err := f.begin(g, leader, followers[dice.IntN(len(followers))])
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(faultLasts):
	}
	if err := endFault(); err != nil {
		return fmt.Errorf("end the fault: %w", err)
	}
	begun := time.Now()
	for _, m := range g.members {
		if err := m.Ready(ctx); err != nil {
			return fmt.Errorf("%s, after the fault: %w", m.Name, err)
		}
	}
	if err := l.waitForResponses(ctx); err != nil {
		return err
	}
	logStep("recovered %s after the fault", time.Since(begun).Round(time.Millisecond))
	return nil
}

// waitForResponses waits until the clients have got 20 more responses per member.
func (l *clientLoad) waitForResponses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	enough := l.answered() + 20*len(l.group.members)
	for l.answered() < enough {
		select {
		case <-ctx.Done():
			return fmt.Errorf("clients got too few responses within %s", recoverWithin)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (l *clientLoad) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally["answered"]
}
