package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/ports"
)

// reachedWithin is how soon a member must come to a point at which it dies.
const reachedWithin = 20 * time.Second

// deadly are points in our code, by their names, at which a member dies; and what brings it there, if clients at work do not.
type deadly struct {
	// leads is whether it must be the leader, follows whether it must not.
	leads, follows bool
	points         []string
	provoke        func(context.Context, *group, *cluster.Member) error
}

var deadlyPoints = []deadly{
	{points: []string{
		"walBeforeSync", "walAfterSync", "raftBeforeSave", "raftAfterSave", "raftBeforeAdvance", "beforeApplyOneEntryNormal",
		"beforeStartDBTxn", "afterStartDBTxn", "beforeCommit", "afterCommit", "beforeWritebackBuf", "afterWritebackBuf",
		"beforeSyncDataPages", "beforeSyncMetaPage", "raftBeforeWALSaveSnaphot", "beforeSendWatchResponse",
	}},
	{leads: true, points: []string{"raftBeforeLeaderSend"}},
	{follows: true, points: []string{"raftBeforeFollowerSend"}},
	{provoke: compact, points: []string{
		"compactBeforeCommitScheduledCompact", "compactAfterCommitScheduledCompact", "compactAfterAcquiredBatchTxLock",
		"compactBeforeSetFinishedCompact", "compactAfterSetFinishedCompact", "compactBeforeCommitBatch", "compactAfterCommitBatch",
	}},
	{provoke: defragment, points: []string{"defragBeforeCopy", "defragBeforeRename"}},
	{provoke: updateMember, points: []string{"beforeApplyOneConfChange"}},
}

// newcomersPoints are those that a new member comes to, to which a snapshot is sent.
var newcomersPoints = []string{
	"raftBeforeSaveSnap", "raftAfterSaveSnap", "raftAfterWALRelease", "raftBeforeApplySnap", "applyBeforeOpenSnapshot",
	"applyAfterOpenSnapshot", "raftAfterApplySnap", "beforePublishing",
}

// failpoints has members die at each of these points, while clients are at work, and come back.
func failpoints(ctx context.Context, c *config) (string, error) {
	if c.failing == nil {
		return "", errors.New("needs a server with failpoints: see -failing")
	}
	// So that a compaction takes several turns.
	flags := append([]string{"--compaction-batch-limit=10"}, fewEntries...)
	g, err := c.newGroup([]*cluster.Binary{c.failing, c.failing, c.failing}, flags...)
	if err != nil {
		return "", err
	}
	defer g.close()
	if err := g.launchFailing(ctx); err != nil {
		return "", err
	}
	l, err := g.startLoad(ctx, faultPatience)
	if err != nil {
		return "", err
	}
	died := 0
	for range c.times {
		count, err := g.dieEverywhere(ctx, l, c.fault)
		if err != nil {
			return "", err
		}
		died += count
	}
	if err := l.end(ctx, c.checker); err != nil {
		return "", err
	}
	return fmt.Sprintf("died at %d points, %v", died, l), g.discard()
}

// launchFailing starts members that are told over HTTP where to die.
func (g *group) launchFailing(ctx context.Context) error {
	for _, m := range g.members {
		if err := listenForPoints(m); err != nil {
			return err
		}
		if err := g.launch(m); err != nil {
			return err
		}
	}
	return g.settle(ctx)
}

func listenForPoints(m *cluster.Member) error {
	addr, err := ports.Free()
	m.Environment = append(m.Environment, "GOFAIL_HTTP="+addr)
	m.Note = addr
	return err
}

// dieEverywhere goes through the points whose names have this in them.
func (g *group) dieEverywhere(ctx context.Context, l *clientLoad, wanted string) (int, error) {
	died := 0
	for _, kind := range deadlyPoints {
		for _, point := range kind.points {
			if !strings.Contains(point, wanted) {
				continue
			}
			died++
			if err := g.diesAt(ctx, l, kind, point, died%2 == 0); err != nil {
				return died, fmt.Errorf("%s: %w", point, err)
			}
		}
	}
	for _, point := range newcomersPoints {
		if !strings.Contains(point, wanted) {
			continue
		}
		died++
		if err := g.newcomerDiesAt(ctx, point); err != nil {
			return died, fmt.Errorf("%s, a new member: %w", point, err)
		}
	}
	return died, nil
}

// diesAt has a member die at a point, and come back.
func (g *group) diesAt(ctx context.Context, l *clientLoad, kind deadly, point string, leader bool) error {
	m, err := g.leader(ctx)
	if err != nil {
		return err
	}
	if kind.follows || !kind.leads && !leader {
		m = g.others(m)[0]
	}
	tell("%s (%s)", point, m.Name)
	if err := setPoint(ctx, m, point); err != nil {
		return err
	}
	if kind.provoke != nil {
		// The member may die before it answers.
		if err := kind.provoke(ctx, g, m); err != nil && m.Running() && !isLost(err) {
			return err
		}
	}
	if err := m.Ended(ctx, reachedWithin); err != nil {
		return err
	}
	if err := errors.Join(m.Kill(), g.launch(m), m.Ready(ctx)); err != nil {
		return err
	}
	return l.goesOn(ctx)
}

// isLost says whether an error is that of a connection to somebody who is gone.
func isLost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rpctypes.ErrTimeout) ||
		strings.Contains(err.Error(), "code = Unavailable")
}

// setPoint says, as etcd's own tools would, that a member shall die at a point.
func setPoint(ctx context.Context, m *cluster.Member, point string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+m.Note+"/"+point, strings.NewReader("panic"))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		said, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	return nil
}

// newcomerDiesAt has a new member die at a point on its way into the cluster, and arrive nevertheless.
func (g *group) newcomerDiesAt(ctx context.Context, point string) error {
	via := g.members[0]
	m, err := g.introduce(ctx, g.members[0].Binary(), true, via)
	if err != nil {
		return err
	}
	tell("%s (%s, which is new)", point, m.Name)
	m.Environment = []string{"GOFAIL_FAILPOINTS=" + point + "=panic"}
	if err := errors.Join(g.launch(m), m.Ended(ctx, reachedWithin), m.Kill()); err != nil {
		return err
	}
	m.Environment = nil
	if err := errors.Join(g.launch(m), g.answers(ctx, m), g.settled(ctx, m)); err != nil {
		return err
	}
	return g.remove(ctx, m, via)
}

// settled waits until a member has all that another has.
func (g *group) settled(ctx context.Context, m *cluster.Member) error {
	return cluster.Until(ctx, m.Name+" to have everything", func(ctx context.Context) error {
		other, err := status(ctx, g.others(m)[0])
		if err != nil {
			return err
		}
		own, err := status(ctx, m)
		if err == nil && own.RaftAppliedIndex+lag < other.RaftAppliedIndex {
			err = fmt.Errorf("it is at %d of %d", own.RaftAppliedIndex, other.RaftAppliedIndex)
		}
		return err
	})
}

const (
	// lag is how far a member may be behind while others go on.
	lag = 50
	// spared is how many revisions a compaction leaves for those who watch.
	spared = 400
)

// compact drops all but the newest revisions.
func compact(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		var revision int64
		err := cluster.Until(ctx, "enough revisions", func(ctx context.Context) error {
			got, err := client.Get(ctx, "k")
			if err != nil {
				return err
			}
			if revision = got.Header.Revision - spared; revision < 1 {
				return fmt.Errorf("there are %d", got.Header.Revision)
			}
			return nil
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, faultPatience)
		defer cancel()
		_, err = client.Compact(ctx, revision)
		return err
	})
}

func defragment(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(ctx, faultPatience)
		defer cancel()
		_, err := client.Defragment(ctx, m.Endpoint())
		return err
	})
}

// updateMember changes the members, though not to anything else than they are.
func updateMember(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(ctx, faultPatience)
		defer cancel()
		_, err := client.MemberUpdate(ctx, m.ID, []string{m.PeerURL})
		return err
	})
}
