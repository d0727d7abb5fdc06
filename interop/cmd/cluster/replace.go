package main

import (
	"context"
	"fmt"
	"time"

	"bowline/interop/internal/cluster"
)

const (
	// readRequestTimeout is longer than a server's own request timeout.
	readRequestTimeout = 12 * time.Second
	// between is the time between two replacements.
	between = 500 * time.Millisecond
)

// fewEntries makes members snapshot often and keep few log entries.
var fewEntries = []string{"--snapshot-count=200", "--snapshot-catchup-entries=50"}

// replace turns a cluster of etcd into one of Bowline and back, member by member, under load: once
// in place on the same data directories, once by removing members and adding new ones.
func replace(ctx context.Context, c *config) (string, error) {
	summary := ""
	for _, way := range []struct {
		name    string
		replace func(*replacing, context.Context, *cluster.Member, *cluster.Binary) error
	}{{"in place", (*replacing).inPlace}, {"by others", (*replacing).byAnother}} {
		l, err := c.replaceAllTwice(ctx, way.replace)
		if err != nil {
			return "", fmt.Errorf("%s: %w", way.name, err)
		}
		if summary != "" {
			summary += "; "
		}
		summary += fmt.Sprintf("%s: %v", way.name, l)
	}
	return summary, nil
}

// replacing is a cluster under replacement with its clients.
type replacing struct {
	*group
	load *clientLoad
}

// underLoad runs do on a cluster of these programs under load, and checks the history.
func (c *config) underLoad(ctx context.Context, programs []*cluster.Binary, do func(*replacing) error) (*clientLoad, error) {
	g, err := c.startGroup(ctx, programs, fewEntries...)
	if err != nil {
		return nil, err
	}
	defer g.close()
	l, err := g.startLoad(ctx, readRequestTimeout)
	if err != nil {
		return nil, err
	}
	if err := do(&replacing{g, l}); err != nil {
		return nil, err
	}
	if err := l.end(ctx, c.checker); err != nil {
		return nil, err
	}
	if err := l.allExplained(); err != nil {
		return nil, err
	}
	return l, g.discard()
}

func (c *config) replaceAllTwice(
	ctx context.Context, replace func(*replacing, context.Context, *cluster.Member, *cluster.Binary) error,
) (*clientLoad, error) {
	return c.underLoad(ctx, c.mix(0, 3), func(r *replacing) error {
		for _, program := range []*cluster.Binary{c.ours, c.theirs} {
			for range 3 {
				// The oldest member goes first; its replacement is the youngest.
				m := r.members[0]
				if err := replace(r, ctx, m, program); err != nil {
					return fmt.Errorf("%s by %s: %w", m.Name, program.Name(), err)
				}
				if i := len(r.members) - 1; r.members[0] == m {
					copy(r.members, r.members[1:])
					r.members[i] = m
				}
				logStep("%s is replaced by %s", m.Name, program.Name())
				time.Sleep(between)
			}
		}
		return nil
	})
}

// inPlace stops a server and starts the other program on its directory.
func (r *replacing) inPlace(ctx context.Context, m *cluster.Member, by *cluster.Binary) error {
	return r.load.without(m, func() error { return r.replace(ctx, m, by) })
}

// byAnother adds a new member, which catches up from the others, and removes the old one.
func (r *replacing) byAnother(ctx context.Context, m *cluster.Member, by *cluster.Binary) error {
	via := r.others(m)[0]
	joined, err := r.add(ctx, by, true, via)
	if err != nil {
		return fmt.Errorf("add: %w", err)
	}
	if err := r.promote(ctx, joined, via); err != nil {
		return err
	}
	if err := joined.Ready(ctx); err != nil {
		return err
	}
	if err := r.load.startClients(joined); err != nil {
		return err
	}
	return r.load.retire(m, func() error { return r.remove(ctx, m, via) })
}
