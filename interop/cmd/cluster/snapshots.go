package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/links"
)

// missed is the number of writes that a member misses: more than the kept log entries.
const missed = 500

// snapshots lets a leader of each program send a snapshot to a follower of the other that was
// killed or cut off.
func snapshots(ctx context.Context, c *config) (string, error) {
	results := []string{}
	for _, leader := range []*cluster.Binary{c.ours, c.theirs} {
		follower := c.other(leader)
		for _, absence := range []struct {
			name string
			away func(context.Context, *group, *cluster.Member) (func() error, error)
		}{{"killed", killed}, {"cut off", cutOff}} {
			var worst time.Duration
			for range c.times {
				took, err := c.caughtUp(ctx, leader, follower, absence.away)
				if err != nil {
					return "", fmt.Errorf("%s leads, %s is %s: %w", leader.Name(), follower.Name(), absence.name, err)
				}
				worst = max(worst, took)
			}
			results = append(results, fmt.Sprintf("%s from %s, %s, after %.1f s", follower.Name(), leader.Name(), absence.name, worst.Seconds()))
		}
	}
	return strings.Join(results, "; "), nil
}

func (c *config) other(program *cluster.Binary) *cluster.Binary {
	if program == c.ours {
		return c.theirs
	}
	return c.ours
}

func killed(_ context.Context, g *group, m *cluster.Member) (func() error, error) {
	return func() error { return g.launch(m) }, m.Kill()
}

func cutOff(_ context.Context, g *group, m *cluster.Member) (func() error, error) {
	g.net.Set(isolated(m.Name))
	return func() error {
		g.net.Heal()
		return nil
	}, nil
}

// isolated cuts all links to and from a member.
func isolated(name string) links.Rule {
	return func(from, to string) links.State {
		if (from == name) != (to == name) {
			return links.Cut
		}
		return links.Open
	}
}

// caughtUp returns the time until a follower served again that had missed more than the log holds.
// It needs a new cluster each time, since a leader keeps its log for a while after it sent a
// snapshot.
func (c *config) caughtUp(
	ctx context.Context, leader, follower *cluster.Binary,
	away func(context.Context, *group, *cluster.Member) (func() error, error),
) (time.Duration, error) {
	g, err := c.startGroup(ctx, []*cluster.Binary{leader, follower, leader}, fewEntries...)
	if err != nil {
		return 0, err
	}
	defer g.close()
	behind := g.members[1]
	if err := g.moveLeaderTo(ctx, g.members[0]); err != nil {
		return 0, err
	}
	took, err := g.fallsBehind(ctx, behind, away)
	if err != nil {
		return 0, err
	}
	logStep("%s caught up after %s", follower.Name(), took)
	if err := g.eachMemberWrites(ctx, "after"); err != nil {
		return 0, err
	}
	if err := g.checkIdle(ctx); err != nil {
		return 0, err
	}
	return took, g.discard()
}

// fallsBehind makes a member miss so many writes that it needs a snapshot, and returns the time
// until it served again.
func (g *group) fallsBehind(
	ctx context.Context, behind *cluster.Member,
	away func(context.Context, *group, *cluster.Member) (func() error, error),
) (time.Duration, error) {
	back, err := away(ctx, g, behind)
	if err != nil {
		return 0, err
	}
	if err := g.fill(ctx, g.members[2], missed); err != nil {
		return 0, err
	}
	// A killed member restarts its counter at zero, and does not respond yet.
	before, _ := received(ctx, behind)
	begun := time.Now()
	if err := back(); err != nil {
		return 0, err
	}
	if err := behind.Ready(ctx); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	// etcd counts a snapshot only after it has handed it to raft.
	return took, cluster.Until(ctx, behind.Name+" to count a snapshot", func(ctx context.Context) error {
		after, err := received(ctx, behind)
		if err == nil && after <= before {
			err = fmt.Errorf("%s has received no snapshot", behind.Name)
		}
		return err
	})
}

// fill puts 200 keys in turn. After an election it continues with the put that failed.
func (g *group) fill(ctx context.Context, via *cluster.Member, count int) error {
	filled := 0
	return g.acrossElection(ctx, func(ctx context.Context) error {
		client, err := via.Client("", "")
		if err != nil {
			return err
		}
		defer client.Close()
		for ; filled < count; filled++ {
			if err := fillOne(ctx, client, filled); err != nil {
				return fmt.Errorf("put %d of %d: %w", filled, count, err)
			}
		}
		return nil
	})
}

func fillOne(ctx context.Context, client *clientv3.Client, i int) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	_, err := client.Put(ctx, fmt.Sprintf("filled/%03d", i%200), strings.Repeat(fmt.Sprintf("%d ", i), 100))
	return err
}

var receivedLine = regexp.MustCompile(`(?m)^etcd_network_snapshot_receive_success\{[^}]*\} (\d+)$`)

// received returns the number of snapshots that a member has received.
func received(ctx context.Context, m *cluster.Member) (int, error) {
	text, err := fetch(ctx, m.ClientURL()+"/metrics")
	if err != nil {
		return 0, err
	}
	total := 0
	for _, found := range receivedLine.FindAllStringSubmatch(text, -1) {
		var count int
		fmt.Sscan(found[1], &count)
		total += count
	}
	return total, nil
}

// fetch returns the body of a GET, which must have status 200.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, body)
	}
	return string(body), err
}
