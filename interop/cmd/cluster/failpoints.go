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

// reachedWithin bounds the time until a member reaches its failpoint.
const reachedWithin = 20 * time.Second

// deadly is a set of failpoints at which a member panics, with the request that makes it reach them
// if the clients' load does not.
type deadly struct {
	// leads requires the member to be the leader, follows to be a follower.
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

// newcomersPoints are the failpoints of a new member that receives a snapshot.
var newcomersPoints = []string{
	"raftBeforeSaveSnap", "raftAfterSaveSnap", "raftAfterWALRelease", "raftBeforeApplySnap", "applyBeforeOpenSnapshot",
	"applyAfterOpenSnapshot", "raftAfterApplySnap", "beforePublishing",
}

// failpoints lets members panic at each failpoint under load, and restarts them.
func failpoints(ctx context.Context, c *config) (string, error) {
	if c.failing == nil {
		return "", errors.New("needs a server with failpoints: see -failing")
	}
	// With this limit a compaction takes several batches.
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
	return fmt.Sprintf("panicked at %d failpoints, %v", died, l), g.discard()
}

// launchFailing starts members whose failpoints are set over HTTP.
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

// dieEverywhere goes through the failpoints whose name contains wanted.
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

// diesAt lets a member panic at a failpoint and restarts it.
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
		// The member may panic before it responds.
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

// isLost reports whether an error is a timeout or a lost connection.
func isLost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rpctypes.ErrTimeout) ||
		strings.Contains(err.Error(), "code = Unavailable")
}

// setPoint sets a failpoint of a member to panic, over gofail's HTTP interface.
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

// newcomerDiesAt lets a new member panic at a failpoint while it joins, restarts it, and waits
// until it has caught up.
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

// settled waits until a member has nearly caught up with another.
func (g *group) settled(ctx context.Context, m *cluster.Member) error {
	return cluster.Until(ctx, m.Name+" to catch up", func(ctx context.Context) error {
		other, err := status(ctx, g.others(m)[0])
		if err != nil {
			return err
		}
		own, err := status(ctx, m)
		if err == nil && own.RaftAppliedIndex+lag < other.RaftAppliedIndex {
			err = fmt.Errorf("applied %d of %d entries", own.RaftAppliedIndex, other.RaftAppliedIndex)
		}
		return err
	})
}

const (
	// lag is the number of entries that a member under load may be behind.
	lag = 50
	// spared is the number of revisions that a compaction keeps for the watchers.
	spared = 400
)

// compact compacts all but the newest revisions.
func compact(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		var revision int64
		err := cluster.Until(ctx, "enough revisions", func(ctx context.Context) error {
			got, err := client.Get(ctx, "k")
			if err != nil {
				return err
			}
			if revision = got.Header.Revision - spared; revision < 1 {
				return fmt.Errorf("only %d revisions", got.Header.Revision)
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

// updateMember proposes a membership change that changes nothing.
func updateMember(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(ctx, faultPatience)
		defer cancel()
		_, err := client.MemberUpdate(ctx, m.ID, []string{m.PeerURL})
		return err
	})
}
