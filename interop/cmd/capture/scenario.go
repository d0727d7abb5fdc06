package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sync/errgroup"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/wire"
)

// step is one operation on the cluster.
type step struct {
	what string
	// since is the first minor version of etcd 3 that supports the step, 0 for all.
	since int64
	do    func(context.Context, *cluster.Cluster) error
}

// scenario lists the operations on the cluster, each with the messages that it produces. It ends
// with all members stopped.
func scenario(want options) []step {
	steps := []step{
		// Bootstrap entries, cluster version, member attributes; no pre-vote in the first run.
		{"three members start", 0, start("--pre-vote=false")},
		// A MsgApp from the first index, possible only with a log that was never compacted.
		{"a learner joins early", 0, learnerLife},
		{"keys and transactions", 0, keys},
		{"leases", 0, leases},
		{"auth", 0, auth},
		{"an isolated follower calls for votes", 0, isolateFollower},
		{"a follower that is behind is refused votes", 0, refuseVotes},
		{"restart with pre-vote", 0, restart("--pre-vote=true")},
		{"requests through followers", 0, throughFollowers}, // MsgProp, MsgReadIndex
		{"leadership moves", 0, moveLeader},                 // MsgTimeoutNow
		{"streams refused", 0, without("/raft/stream/")},    // every kind as a post
		{"msgapp stream refused", 0, without("/raft/stream/msgapp")},
		{"a follower needs a snapshot", 0, lagFollower}, // MsgSnap
		{"an isolated follower is reconnected", 0, isolateFollower},
		{"a follower that is behind is refused pre-votes", 0, refuseVotes},
		{"an isolated leader's entries are overwritten", 0, divergeLeader}, // rejected MsgApp
		{"the leader is killed", 0, killLeader},
		{"a learner joins late", 0, learnerLife},
		{"a member that never starts comes and goes", 0, neverStarted},
		{"a downgrade is requested and canceled", 5, downgrade},
	}
	if want.checkpoint {
		steps = append(steps, step{"a lease checkpoint", 0, leaseCheckpoint})
	}
	// These steps block most other operations.
	steps = append(steps, step{"alarms", 0, alarms})
	if want.etcdutl != "" {
		steps = append(steps, step{"a database image is restored", 0, restore(want.etcdutl)})
	}
	return append(steps,
		step{"all stop", 0, func(_ context.Context, c *cluster.Cluster) error { return c.Stop() }},
		step{"one continues alone", 0, forceNewCluster},
	)
}

func start(flags ...string) func(context.Context, *cluster.Cluster) error {
	return func(ctx context.Context, c *cluster.Cluster) error { return c.Start(ctx, flags...) }
}

func restart(flags ...string) func(context.Context, *cluster.Cluster) error {
	return func(ctx context.Context, c *cluster.Cluster) error {
		if err := c.Stop(); err != nil {
			return err
		}
		return c.Start(ctx, flags...)
	}
}

// throughFollowers makes each follower forward a proposal and a read, and again if an election
// interrupts it.
func throughFollowers(ctx context.Context, c *cluster.Cluster) error {
	return cluster.AcrossElection(ctx, c.Members, func(ctx context.Context) error { return throughFollowersOnce(ctx, c) })
}

func throughFollowersOnce(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	for _, m := range c.Followers(leader) {
		if err := putAndGet(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func putAndGet(ctx context.Context, m *cluster.Member) error {
	return with(ctx, m, func(ctx context.Context, client *clientv3.Client) error {
		if _, err := client.Put(ctx, "through-"+m.Name, "value"); err != nil {
			return err
		}
		_, err := client.Get(ctx, "through-"+m.Name)
		return err
	})
}

// moveLeader retries, because raft gives up a transfer after an election timeout.
func moveLeader(ctx context.Context, c *cluster.Cluster) error {
	err := cluster.Until(ctx, "a new leader", func(ctx context.Context) error {
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		return leader.MoveLeader(ctx, c.Followers(leader)[0])
	})
	return errors.Join(err, c.Settle(ctx))
}

// without blocks a peer URL path, so that members use the remaining channels.
func without(path string) func(context.Context, *cluster.Cluster) error {
	return func(ctx context.Context, c *cluster.Cluster) error {
		c.Refuse(path)
		defer c.Net.Heal()
		// The leader may lose its leadership meanwhile, and requests fail.
		for range 3 {
			err := cluster.Until(ctx, "a write", func(ctx context.Context) error { return throughFollowersOnce(ctx, c) })
			if err != nil {
				return err
			}
		}
		if err := moveLeader(ctx, c); err != nil {
			return err
		}
		c.Net.Heal()
		return c.Settle(ctx)
	}
}

// isolateFollower partitions a follower for a while. Without pre-vote it returns with a higher
// term, to which the others must respond.
func isolateFollower(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	c.Isolate(c.Followers(leader)[0])
	defer c.Net.Heal()
	if err := put(ctx, c, leader, "missed", 10); err != nil {
		return err
	}
	// Time for a few elections, which are invisible from outside the member.
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	c.Net.Heal()
	return rejoined(ctx, c)
}

// refuseVotes makes a follower with a stale log request a vote, which must be refused. All messages
// of the voter, its response and its own vote requests, are dropped; otherwise it would win an
// election and end the test early.
func refuseVotes(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	behind, voter := c.Followers(leader)[0], c.Followers(leader)[1]
	c.Isolate(behind)
	defer c.Net.Heal()
	if err := put(ctx, c, leader, "missed", 3); err != nil {
		return err
	}
	// A partition of two seconds raises its term; otherwise the elections of the other member could
	// keep pace with its requests.
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	before := refusals(c)
	c.Only(behind, voter)
	err = cluster.Until(ctx, "a refusal", func(context.Context) error {
		if refusals(c) == before {
			return errors.New("no vote was refused yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Net.Heal()
	return rejoined(ctx, c)
}

// refusals counts the refused votes in pipeline messages.
func refusals(c *cluster.Cluster) int {
	count := 0
	for _, tape := range c.Net.Tapes() {
		kind := raftpb.MessageType(wire.Number(tape.Bytes(), messageType))
		if tape.Path == "/raft" && (kind == raftpb.MsgVoteResp || kind == raftpb.MsgPreVoteResp) {
			count += int(wire.Number(tape.Bytes(), messageReject))
		}
	}
	return count
}

// lagFollower stops a follower until the leader's log no longer holds its next entries.
func lagFollower(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	c.Isolate(c.Followers(leader)[0])
	defer c.Net.Heal()
	// Since 3.6 the log in memory is compacted every 100 entries at most.
	if err := put(ctx, c, leader, "lag", c.KeptEntries()+200+2*cluster.SnapshotEntries); err != nil {
		return err
	}
	c.Net.Heal()
	return rejoined(ctx, c)
}

// rejoined waits until the members agree after one has missed entries, which it may get as a
// snapshot. A member reports the applied index of an entry, never that of a snapshot, so its
// arrival shows only with a later entry.
func rejoined(ctx context.Context, c *cluster.Cluster) error {
	return cluster.Until(ctx, "the members to agree", func(ctx context.Context) error {
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, rejoinAttempt)
		defer cancel()
		return errors.Join(putOnce(short, leader, "rejoined", 1), c.Agree(ctx))
	})
}

// rejoinAttempt bounds a put after a partition, which an election may interrupt.
const rejoinAttempt = 3 * time.Second

// divergeLeader lets a partitioned leader append entries while the others elect a new leader and
// continue.
func divergeLeader(ctx context.Context, c *cluster.Cluster) error {
	old, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	c.Isolate(old)
	defer c.Net.Heal()
	// These puts cannot succeed, but they enter the old leader's log.
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if putOnce(short, old, "lost", 3) == nil {
		return errors.New("a leader without followers committed a write")
	}
	leader, err := c.Leader(ctx, old)
	if err != nil {
		return err
	}
	if err := put(ctx, c, leader, "won", 3); err != nil {
		return err
	}
	c.Net.Heal()
	return rejoined(ctx, c)
}

func killLeader(ctx context.Context, c *cluster.Cluster) error {
	old, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	if err := old.Kill(); err != nil {
		return err
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	if err := put(ctx, c, leader, "without-leader", 3); err != nil {
		return err
	}
	if err := c.StartMember(old); err != nil {
		return err
	}
	return rejoined(ctx, c)
}

// put writes a number of keys concurrently, and again if an election interrupts it.
func put(ctx context.Context, c *cluster.Cluster, m *cluster.Member, prefix string, count int) error {
	return cluster.AcrossElection(ctx, c.Members, func(ctx context.Context) error { return putOnce(ctx, m, prefix, count) })
}

func putOnce(ctx context.Context, m *cluster.Member, prefix string, count int) error {
	return with(ctx, m, func(ctx context.Context, client *clientv3.Client) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(64)
		for i := range count {
			group.Go(func() error {
				_, err := client.Put(ctx, fmt.Sprintf("%s-%02d", prefix, i%50), "value")
				return err
			})
		}
		return group.Wait()
	})
}

// with calls use with a client of one member.
func with(ctx context.Context, m *cluster.Member, use func(context.Context, *clientv3.Client) error) error {
	return withUser(ctx, m, "", "", use)
}

func withUser(
	ctx context.Context, m *cluster.Member, user, password string, use func(context.Context, *clientv3.Client) error,
) error {
	return m.DoAs(ctx, user, password, use)
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
