package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/ports"
)

// reachedWithin bounds the time until a member reaches its failpoint.
const reachedWithin = time.Minute

// panicPoints is a set of failpoints at which a member panics, with the request that makes it reach
// them if the clients' load does not.
type panicPoints struct {
	// leads requires the member to be the leader, follows to be a follower.
	leads, follows bool
	points         []string
	provoke        func(context.Context, *group, *cluster.Member) error
}

var allPanicPoints = []panicPoints{
	{points: []string{
		"walBeforeSync", "walAfterSync", "raftBeforeSave", "raftAfterSave", "raftBeforeAdvance", "beforeApplyOneEntryNormal",
		"beforeStartDBTxn", "afterStartDBTxn", "beforeCommit", "afterCommit", "beforeWritebackBuf", "afterWritebackBuf",
		"beforeSyncDataPages", "beforeSyncMetaPage", "raftBeforeWALSaveSnaphot", "beforeSendWatchResponse",
		"commitBeforePreCommitHook", "commitAfterPreCommitHook", "beforeWriteMetaError", "raftDropHeartbeat",
	}},
	{leads: true, points: []string{"raftBeforeLeaderSend"}},
	{leads: true, provoke: onFailingMember(renewLease), points: []string{"beforeCheckpointInLeaseRenew"}},
	{leads: true, provoke: onFailingMember(askForLease), points: []string{"beforeLookupWhenLeaseTimeToLive"}},
	{leads: true, provoke: onOtherMember(renewLease), points: []string{"beforeServeHTTPLeaseRenew"}},
	{leads: true, provoke: onOtherMember(askForLease), points: []string{"beforeLookupWhenForwardLeaseTimeToLive"}},
	{provoke: onFailingMember(rangeStream), points: []string{"beforeRangeStreamChunk"}},
	{provoke: growFile, points: []string{"lackOfDiskSpace", "resizeFileError"}},
	{follows: true, points: []string{"raftBeforeFollowerSend"}},
	{provoke: compact, points: []string{
		"compactBeforeCommitScheduledCompact", "compactAfterCommitScheduledCompact", "compactAfterAcquiredBatchTxLock",
		"compactBeforeSetFinishedCompact", "compactAfterSetFinishedCompact", "compactBeforeCommitBatch", "compactAfterCommitBatch",
	}},
	{provoke: defragment, points: []string{"defragBeforeCopy", "defragBeforeRename", "defragOpenFileError", "defragdbFail"}},
	{provoke: updateMember, points: []string{"beforeApplyOneConfChange"}},
}

// newMemberPoints are the failpoints of a new member that receives a snapshot.
var newMemberPoints = []string{
	"raftBeforeSaveSnap", "raftAfterSaveSnap", "raftAfterWALRelease", "raftBeforeApplySnap", "applyBeforeOpenSnapshot",
	"applyAfterOpenSnapshot", "raftAfterApplySnap", "beforePublishing", "snapDBRenameBeforeDirSync", "snapDBDirSyncError",
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
	l, err := g.startLoad(ctx, faultRequestTimeout)
	if err != nil {
		return "", err
	}
	died := 0
	for range c.times {
		count, err := g.panicAtAllPoints(ctx, l, c.fault)
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

// panicAtAllPoints goes through the failpoints whose name contains wanted.
func (g *group) panicAtAllPoints(ctx context.Context, l *clientLoad, wanted string) (int, error) {
	died := 0
	for _, kind := range allPanicPoints {
		for _, point := range kind.points {
			if !strings.Contains(point, wanted) {
				continue
			}
			died++
			if err := g.panicAt(ctx, l, kind, point, died%2 == 0); err != nil {
				return died, fmt.Errorf("%s: %w", point, err)
			}
		}
	}
	for _, point := range newMemberPoints {
		if !strings.Contains(point, wanted) {
			continue
		}
		died++
		if err := g.newMemberPanicsAt(ctx, point); err != nil {
			return died, fmt.Errorf("%s, a new member: %w", point, err)
		}
	}
	return died, nil
}

// panicAt lets a member panic at a failpoint and restarts it.
func (g *group) panicAt(ctx context.Context, l *clientLoad, kind panicPoints, point string, leader bool) error {
	m, err := g.panickedAt(ctx, kind, point, leader)
	if err != nil {
		return err
	}
	if err := errors.Join(m.Kill(), g.launch(m), m.Ready(ctx)); err != nil {
		return err
	}
	return l.waitForResponses(ctx)
}

// panickedAt sets a failpoint of a member, and returns the member once it has panicked there. If
// the leadership moves, so that the member cannot reach the point, it starts over.
func (g *group) panickedAt(ctx context.Context, kind panicPoints, point string, leader bool) (*cluster.Member, error) {
	for range rolesTried {
		m, err := g.leader(ctx)
		if err != nil {
			return nil, err
		}
		if kind.follows || !kind.leads && !leader {
			m = g.others(m)[0]
		}
		logStep("%s (%s)", point, m.Name)
		if err := setPoint(ctx, m, point); err != nil {
			return nil, err
		}
		err = g.reach(ctx, kind, m)
		if !errors.Is(err, errRoleLost) {
			return m, err
		}
		if err := clearPoint(ctx, m, point); err != nil && m.Running() {
			return nil, err
		}
		if !m.Running() {
			return m, nil
		}
	}
	return nil, errRoleLost
}

const (
	// rolesTried is how often a failpoint is set again because the leadership moved.
	rolesTried = 5
	// roleChecked is the time between two looks at a member that has not reached its failpoint.
	roleChecked = time.Second
)

// errRoleLost says that a member lost the role that its failpoint requires.
var errRoleLost = errors.New("the leadership moved before the failpoint was reached")

// reach waits until a member panics at its failpoint, and provokes it if necessary. A request that
// was lost is sent again.
func (g *group) reach(ctx context.Context, kind panicPoints, m *cluster.Member) error {
	ctx, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	provoked := kind.provoke == nil
	for {
		if !provoked {
			// The member may panic before it responds.
			err := kind.provoke(ctx, g, m)
			if err != nil && m.Running() && !cluster.IsLost(err) {
				return err
			}
			provoked = err == nil
		}
		err := m.Ended(ctx, roleChecked)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !g.has(ctx, kind, m) && m.Running() {
			return errRoleLost
		}
	}
}

// has reports whether a member has the role that its failpoint requires. It is true in doubt.
func (g *group) has(ctx context.Context, kind panicPoints, m *cluster.Member) bool {
	s, err := status(ctx, m)
	switch {
	case err != nil || s.Leader == 0:
		return true
	case kind.leads:
		return s.Leader == m.ID
	case kind.follows:
		return s.Leader != m.ID
	}
	return true
}

// setPoint sets a failpoint of a member to panic, clearPoint removes it, over gofail's HTTP
// interface.
func setPoint(ctx context.Context, m *cluster.Member, point string) error {
	return askForPoint(ctx, http.MethodPut, m, point, "panic")
}

func clearPoint(ctx context.Context, m *cluster.Member, point string) error {
	return askForPoint(ctx, http.MethodDelete, m, point, "")
}

func askForPoint(ctx context.Context, method string, m *cluster.Member, point, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+m.Note+"/"+point, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		body, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return nil
}

// newMemberPanicsAt lets a new member panic at a failpoint while it joins, restarts it, and waits
// until it has caught up.
func (g *group) newMemberPanicsAt(ctx context.Context, point string) error {
	via := g.members[0]
	m, err := g.introduce(ctx, g.members[0].Binary(), true, via)
	if err != nil {
		return err
	}
	logStep("%s (%s, which is new)", point, m.Name)
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
		ctx, cancel := context.WithTimeout(ctx, faultRequestTimeout)
		defer cancel()
		if _, err = client.Compact(ctx, revision); errors.Is(err, rpctypes.ErrCompacted) {
			// A lost request was executed after all.
			return nil
		}
		return err
	})
}

func defragment(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(ctx, faultRequestTimeout)
		defer cancel()
		_, err := client.Defragment(ctx, m.Endpoint())
		return err
	})
}

// onFailingMember sends a request to the member with the failpoint.
func onFailingMember(request func(context.Context, *clientv3.Client) error) func(context.Context, *group, *cluster.Member) error {
	return func(ctx context.Context, _ *group, m *cluster.Member) error {
		ctx, cancel := context.WithTimeout(ctx, faultRequestTimeout)
		defer cancel()
		return m.Do(ctx, request)
	}
}

// onOtherMember sends a request to a member without the failpoint.
func onOtherMember(request func(context.Context, *clientv3.Client) error) func(context.Context, *group, *cluster.Member) error {
	send := onFailingMember(request)
	return func(ctx context.Context, g *group, m *cluster.Member) error { return send(ctx, g, g.others(m)[0]) }
}

// leaseTTL outlives the scenario.
const leaseTTL = 3600

func renewLease(ctx context.Context, client *clientv3.Client) error {
	granted, err := client.Grant(ctx, leaseTTL)
	if err == nil {
		_, err = client.KeepAliveOnce(ctx, granted.ID)
	}
	return err
}

func askForLease(ctx context.Context, client *clientv3.Client) error {
	granted, err := client.Grant(ctx, leaseTTL)
	if err == nil {
		_, err = client.TimeToLive(ctx, granted.ID)
	}
	return err
}

func rangeStream(ctx context.Context, client *clientv3.Client) error {
	stream, err := pb.NewKVClient(client.ActiveConnection()).RangeStream(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// growFile writes more than a database file grows by at once, until the member ends: roles with
// long permissions. Keys would have revisions that no recorded request has written.
func growFile(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		for n := 0; n < grownRoles && m.Running(); n++ {
			// On a busy machine a request may take too long. The next one adds to the file as well.
			if err := addLongRole(ctx, client, n); err != nil && m.Running() && !cluster.IsLost(err) {
				return err
			}
		}
		return nil
	})
}

// grownRoles is the number of roles of a megabyte, of which some may be lost, that a file must grow
// for.
const grownRoles = 60

func addLongRole(ctx context.Context, client *clientv3.Client, n int) error {
	ctx, cancel := context.WithTimeout(ctx, faultRequestTimeout)
	defer cancel()
	role := fmt.Sprintf("grown-%d-%d", time.Now().UnixNano(), n)
	if _, err := client.RoleAdd(ctx, role); err != nil {
		return err
	}
	key := strings.Repeat("x", 1<<20)
	_, err := client.RoleGrantPermission(ctx, role, key, "", clientv3.PermissionType(clientv3.PermRead))
	return err
}

// updateMember proposes a membership change that changes nothing.
func updateMember(ctx context.Context, _ *group, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(ctx, faultRequestTimeout)
		defer cancel()
		_, err := client.MemberUpdate(ctx, m.ID, []string{m.PeerURL})
		return err
	})
}
