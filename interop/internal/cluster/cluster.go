// Package cluster runs etcd clusters as processes on loopback. Links between members can be
// recorded and cut.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/ports"
	"bowline/interop/internal/proxy"
)

const (
	// hastyHeartbeat is short, since a single member and a capture mostly wait for elections.
	hastyHeartbeat = 50 * time.Millisecond
	// calmHeartbeat gives an election timeout that a slow disk of a busy machine does not exceed.
	calmHeartbeat = 200 * time.Millisecond
	// electionTicks is the election timeout in heartbeats.
	electionTicks = 10
	// SnapshotEntries is the number of entries between snapshots.
	SnapshotEntries = 20
)

// Cluster is a set of members of one version.
type Cluster struct {
	Binary  *Binary
	Net     *proxy.Network
	Members []*Member
	// Retired are the removed members. Their files remain.
	Retired []*Member
	// Dir holds the members' data directories and logs.
	Dir string
	// ID is known once the members agree.
	ID uint64

	initial   string
	heartbeat time.Duration
	flags     []string
}

// New creates a cluster of this size below a directory, without starting it.
func New(binary *Binary, dir string, size int) (*Cluster, error) {
	c := &Cluster{Binary: binary, Net: proxy.New(), Dir: dir, heartbeat: hastyHeartbeat}
	c.flags = append(c.flags,
		fmt.Sprintf("--snapshot-count=%d", SnapshotEntries),
		"--initial-cluster-token=capture",
		"--logger=zap",
		"--bcrypt-cost=4",
	)
	c.flags = append(c.flags, binary.flag("snapshot-catchup-entries", "5")...)
	c.flags = append(c.flags, checkpointFlags(binary)...)
	var initial []string
	for range size {
		m, err := c.layOut()
		if err != nil {
			return nil, err
		}
		initial = append(initial, m.Name+"="+m.PeerURL)
	}
	c.initial = strings.Join(initial, ",")
	return c, nil
}

// Existing starts a single server on an existing data directory, with extra flags.
func Existing(binary *Binary, name, dir string, extra ...string) (*Cluster, error) {
	if _, err := os.Stat(filepath.Join(dir, "member")); err != nil {
		return nil, fmt.Errorf("no data directory: %w", err)
	}
	m := &Member{Name: name, Dir: filepath.Clean(dir), binary: binary}
	var errs [2]error
	m.clientAddr, errs[0] = ports.Free()
	m.peerAddr, errs[1] = ports.Free()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.PeerURL = "http://" + m.peerAddr
	c := &Cluster{Binary: binary, Net: proxy.New(), Dir: filepath.Dir(m.Dir), Members: []*Member{m}}
	return c, m.Start(append([]string{"--initial-cluster=" + name + "=" + m.PeerURL, "--logger=zap"}, extra...)...)
}

// checkpointFlags enable lease checkpoints: a feature gate since 3.6, a flag before.
func checkpointFlags(binary *Binary) []string {
	if gates := binary.flag("feature-gates", "LeaseCheckpoint=true,LeaseCheckpointPersist=true"); gates != nil {
		return gates
	}
	return binary.flag("enable-lease-checkpoint", "true")
}

// KeptEntries returns the number of entries that a member may be behind without needing a snapshot.
func (c *Cluster) KeptEntries() int {
	if c.Binary.flag("snapshot-catchup-entries", "") != nil {
		return 5
	}
	return 5000
}

func (c *Cluster) layOut() (*Member, error) {
	m, err := Place(c.Binary, c.Dir, fmt.Sprintf("m%d", len(c.Members)+len(c.Retired)+1), c.Net.Add)
	if err == nil {
		c.Members = append(c.Members, m)
	}
	return m, err
}

// Start starts every member with extra flags and waits for a leader.
func (c *Cluster) Start(ctx context.Context, extra ...string) error {
	for _, m := range c.Members {
		if err := c.StartMember(m, extra...); err != nil {
			return err
		}
	}
	return c.Settle(ctx)
}

// StartMember starts or restarts an initial member.
func (c *Cluster) StartMember(m *Member, extra ...string) error {
	return m.Start(append(c.startFlags("new", c.initial), extra...)...)
}

// Join creates one more member. The caller must add it to the cluster before it starts.
func (c *Cluster) Join() (*Member, error) { return c.layOut() }

// StartJoined starts a member that was added to the cluster.
func (c *Cluster) StartJoined(m *Member) error {
	initial := c.initial + "," + m.Name + "=" + m.PeerURL
	return m.Start(c.startFlags("existing", initial)...)
}

// Retire stops a member that was removed from the cluster, if it still runs.
func (c *Cluster) Retire(m *Member) error {
	c.Members = slices.DeleteFunc(c.Members, func(other *Member) bool { return other == m })
	c.Retired = append(c.Retired, m)
	return m.Stop()
}

func (c *Cluster) startFlags(state, initial string) []string {
	return append([]string{
		"--initial-cluster-state=" + state,
		"--initial-cluster=" + initial,
		fmt.Sprintf("--heartbeat-interval=%d", c.heartbeat.Milliseconds()),
		fmt.Sprintf("--election-timeout=%d", (electionTicks * c.heartbeat).Milliseconds()),
	}, c.flags...)
}

// CalmDown raises the election timeout from 0.5 s to 2 s, for steps that an election would disturb.
// The minimum TTL of a lease, one and a half election timeouts, rises from 1 s to 3 s. It must be
// called before the start.
func (c *Cluster) CalmDown() { c.heartbeat = calmHeartbeat }

// Stop stops all running members.
func (c *Cluster) Stop() error {
	var errs []error
	for _, m := range c.Members {
		errs = append(errs, m.Stop())
	}
	return errors.Join(errs...)
}

// Close kills the running members. It may be called after Stop.
func (c *Cluster) Close() {
	for _, m := range c.Members {
		m.Kill()
	}
	c.Net.Close()
}

// Settle waits until the members agree.
func (c *Cluster) Settle(ctx context.Context) error {
	return Until(ctx, "the members to agree", c.Agree)
}

// Agree returns an error unless all running members have the same leader and applied index. It also
// learns the members' ids.
func (c *Cluster) Agree(ctx context.Context) error {
	states, err := c.states(ctx)
	if err != nil {
		return err
	}
	first := states[0]
	for _, s := range states {
		if s.Leader == 0 || s.Leader != first.Leader || s.RaftAppliedIndex != first.RaftAppliedIndex {
			return fmt.Errorf("leader %x at %d, leader %x at %d",
				s.Leader, s.RaftAppliedIndex, first.Leader, first.RaftAppliedIndex)
		}
	}
	return nil
}

func (c *Cluster) states(ctx context.Context) ([]*clientv3.StatusResponse, error) {
	var states []*clientv3.StatusResponse
	for _, m := range c.Members {
		if m.process == nil {
			continue
		}
		if !m.Running() {
			return nil, fatal{m.failed("has ended")}
		}
		state, err := m.status(ctx)
		if err != nil {
			return nil, err
		}
		m.ID, c.ID = state.Header.MemberId, state.Header.ClusterId
		states = append(states, state)
	}
	if len(states) == 0 {
		return nil, errors.New("no member runs")
	}
	return states, nil
}

func (m *Member) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	client, err := m.Client(m.User, m.Password)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return client.Status(ctx, m.clientAddr)
}

// Leader waits for a member that reports itself as the leader, ignoring members that the caller has
// cut off.
func (c *Cluster) Leader(ctx context.Context, without ...*Member) (*Member, error) {
	var leader *Member
	err := Until(ctx, "a leader", func(ctx context.Context) error {
		for _, m := range c.Members {
			if !m.Running() || slices.Contains(without, m) {
				continue
			}
			state, err := m.status(ctx)
			if err == nil && state.Leader == m.ID {
				leader = m
				return nil
			}
		}
		return errors.New("no leader")
	})
	return leader, err
}

// Followers returns the running members other than the leader.
func (c *Cluster) Followers(leader *Member) []*Member {
	var followers []*Member
	for _, m := range c.Members {
		if m.Running() && m != leader {
			followers = append(followers, m)
		}
	}
	return followers
}

// Isolate cuts every link to and from a member.
func (c *Cluster) Isolate(m *Member) {
	id := fmt.Sprintf("%x", m.ID)
	c.Net.Set(func(from, to, _ string) bool { return from != id && to != m.Name })
}

// Only blocks everything but raft POST requests from one member to another.
func (c *Cluster) Only(sender, receiver *Member) {
	id := fmt.Sprintf("%x", sender.ID)
	c.Net.Set(func(from, to, path string) bool { return from == id && to == receiver.Name && path == "/raft" })
}

// Refuse blocks requests to peer paths with this prefix.
func (c *Cluster) Refuse(prefix string) {
	c.Net.Set(func(_, _, path string) bool { return !strings.HasPrefix(path, prefix) })
}

// AddMember retries, because a cluster accepts new members only after some seconds of good health.
func AddMember(ctx context.Context, add func(context.Context) (*clientv3.MemberAddResponse, error)) (uint64, error) {
	var id uint64
	err := Until(ctx, "the cluster to take a member", func(ctx context.Context) error {
		added, err := add(ctx)
		if err == nil {
			id = added.Member.ID
		}
		return err
	})
	return id, err
}

// fatal is an error that ends a wait.
type fatal struct{ error }

// Until polls an attempt every 50 ms until it succeeds, for at most 30 s. Servers do not announce
// the end of elections and health checks.
func Until(ctx context.Context, what string, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := attempt(ctx)
		var final fatal
		switch {
		case err == nil:
			return nil
		case errors.As(err, &final):
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
