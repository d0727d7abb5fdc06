package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/faulty"
	"bowline/interop/internal/links"
)

const (
	// statusTimeout bounds a status request.
	statusTimeout = 2 * time.Second
	// changeAttemptTimeout bounds one attempt at a membership change.
	changeAttemptTimeout = 4 * time.Second
)

// group is a cluster whose members may run different programs.
type group struct {
	net     *links.Net
	members []*cluster.Member
	dir     string
	keep    bool
	flags   []string
	ours    *cluster.Binary
	// placed counts all members ever created, for the name of the next.
	placed int
	// faultyHosts are the faulty disks and clocks of our members.
	faultyHosts map[*cluster.Member]*faulty.Faults
	// faulty is the path of the library for them, or empty.
	faulty string
	// joined are the members that were added to the running cluster.
	joined map[*cluster.Member]bool
}

// newGroup creates a member for each program without starting it.
func (c *config) newGroup(programs []*cluster.Binary, flags ...string) (*group, error) {
	dir, err := os.MkdirTemp(c.dir, "group")
	if err != nil {
		return nil, err
	}
	g := &group{net: links.New(), dir: dir, keep: c.keep, flags: flags, ours: c.ours, faulty: c.faulty,
		faultyHosts: map[*cluster.Member]*faulty.Faults{}, joined: map[*cluster.Member]bool{}}
	for _, program := range programs {
		if _, err := g.place(program); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// startGroup creates and starts a group, and waits until all members agree.
func (c *config) startGroup(ctx context.Context, programs []*cluster.Binary, flags ...string) (*group, error) {
	g, err := c.newGroup(programs, flags...)
	if err != nil {
		return nil, err
	}
	for _, m := range g.members {
		if err := g.launch(m); err != nil {
			g.close()
			return nil, err
		}
	}
	if err := g.settle(ctx); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *group) place(program *cluster.Binary) (*cluster.Member, error) {
	return g.placeWith(program, g.net.Add)
}

// placeDirectly creates a member without a proxy in front, so its links cannot be cut.
func (g *group) placeDirectly(program *cluster.Binary) (*cluster.Member, error) {
	return g.placeWith(program, func(_, target string) (string, error) { return target, nil })
}

func (g *group) placeWith(
	program *cluster.Binary, before func(name, target string) (string, error),
) (*cluster.Member, error) {
	g.placed++
	m, err := cluster.Place(program, g.dir, fmt.Sprintf("m%d", g.placed), before)
	if err != nil {
		return nil, err
	}
	g.members = append(g.members, m)
	if g.faulty != "" && program == g.ours {
		err = g.installFaulty(m)
	}
	return m, err
}

// launch starts a member, for the first time or again.
func (g *group) launch(m *cluster.Member, extra ...string) error {
	state, initial := "new", []string{}
	if g.joined[m] {
		state = "existing"
	}
	for _, other := range g.members {
		initial = append(initial, other.Name+"="+other.PeerURL)
	}
	flags := slices.Concat([]string{
		"--initial-cluster-state=" + state,
		"--initial-cluster=" + strings.Join(initial, ","),
		"--initial-cluster-token=" + filepath.Base(g.dir),
		"--logger=zap",
		"--bcrypt-cost=4",
	}, g.flagsFor(m), extra)
	return m.Start(flags...)
}

// flagsFor returns the group's flags as the member's version spells them.
func (g *group) flagsFor(m *cluster.Member) []string {
	var flags []string
	for _, flag := range g.flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		flags = append(flags, m.Binary().Flag(name, value)...)
	}
	return flags
}

// close kills the running members.
func (g *group) close() {
	for _, m := range g.members {
		m.Kill()
	}
	g.net.Close()
}

// discard stops all members and removes their files.
func (g *group) discard() error {
	var errs []error
	for _, m := range g.members {
		errs = append(errs, m.Stop())
	}
	g.net.Close()
	if err := errors.Join(errs...); err != nil || g.keep {
		return err
	}
	return os.RemoveAll(g.dir)
}

// acrossElection sends an idempotent request, and sends it once more if an election interrupts it.
func (g *group) acrossElection(ctx context.Context, request func(context.Context) error) error {
	return cluster.AcrossElection(ctx, g.members, request)
}

// ---- status ----

// status requests the status of a member.
func status(ctx context.Context, m *cluster.Member) (*clientv3.StatusResponse, error) {
	var answer *clientv3.StatusResponse
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		var err error
		answer, err = client.Status(ctx, m.Endpoint())
		return err
	})
	return answer, err
}

// settle waits until all running members respond with the same leader and applied index.
func (g *group) settle(ctx context.Context) error {
	return cluster.Until(ctx, "the members to agree", g.agree)
}

func (g *group) agree(ctx context.Context) error {
	var first *clientv3.StatusResponse
	for _, m := range g.running() {
		s, err := status(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		g.learn(m, s)
		if first == nil {
			first = s
		}
		if s.Leader == 0 || s.Leader != first.Leader || s.RaftAppliedIndex != first.RaftAppliedIndex {
			return fmt.Errorf("%s has leader %x and applied %d, another leader %x and applied %d",
				m.Name, s.Leader, s.RaftAppliedIndex, first.Leader, first.RaftAppliedIndex)
		}
	}
	for _, m := range g.members {
		if m.Process() != 0 && !m.Running() {
			return fmt.Errorf("%s has ended; its log ends with:\n%s", m.Name, m.LogEnd())
		}
	}
	if first == nil {
		return errors.New("no member runs")
	}
	return nil
}

func (g *group) learn(m *cluster.Member, s *clientv3.StatusResponse) {
	m.ID = s.Header.MemberId
	g.net.Name(fmt.Sprintf("%x", m.ID), m.Name)
}

func (g *group) running() []*cluster.Member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m *cluster.Member) bool { return !m.Running() })
}

// leader waits for a member that reports itself as the leader, and returns it.
func (g *group) leader(ctx context.Context) (*cluster.Member, error) {
	var leader *cluster.Member
	err := cluster.Until(ctx, "a leader", func(ctx context.Context) error {
		for _, m := range g.running() {
			s, err := status(ctx, m)
			if err != nil {
				continue
			}
			g.learn(m, s)
			if s.Leader == m.ID {
				leader = m
				return nil
			}
		}
		return errors.New("no leader")
	})
	return leader, err
}

// moveLeaderTo transfers leadership to a member, and waits until all running members report it.
func (g *group) moveLeaderTo(ctx context.Context, to *cluster.Member) error {
	return cluster.Until(ctx, to.Name+" to lead", func(ctx context.Context) error {
		from, err := g.leader(ctx)
		if err != nil {
			return err
		}
		if from != to {
			if err := from.MoveLeader(ctx, to); err != nil {
				return err
			}
		}
		return g.checkLeader(ctx, to)
	})
}

// checkLeader returns an error unless all running members report this leader.
func (g *group) checkLeader(ctx context.Context, by *cluster.Member) error {
	for _, m := range g.running() {
		s, err := status(ctx, m)
		if err != nil {
			return err
		}
		if s.Leader != by.ID {
			return fmt.Errorf("%s reports leader %x, not %s", m.Name, s.Leader, by.Name)
		}
	}
	return nil
}

// checkIdle checks an idle cluster: all members have the same hash, and there is no alarm.
func (g *group) checkIdle(ctx context.Context) error {
	if err := g.settle(ctx); err != nil {
		return err
	}
	var first *clientv3.HashKVResponse
	for _, m := range g.running() {
		hash, err := hashKV(ctx, m, 0)
		if err != nil {
			return fmt.Errorf("hash of %s: %w", m.Name, err)
		}
		if first == nil {
			first = hash
		}
		if hash.Hash != first.Hash || hash.Header.Revision != first.Header.Revision || hash.CompactRevision != first.CompactRevision {
			return fmt.Errorf("%s: hash %d at revision %d, compacted %d; another has %d at %d, %d", m.Name, hash.Hash,
				hash.Header.Revision, hash.CompactRevision, first.Hash, first.Header.Revision, first.CompactRevision)
		}
	}
	return g.checkAlarms(ctx)
}

func hashKV(ctx context.Context, m *cluster.Member, revision int64) (*clientv3.HashKVResponse, error) {
	var hash *clientv3.HashKVResponse
	err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		var err error
		hash, err = client.HashKV(ctx, m.Endpoint(), revision)
		return err
	})
	return hash, err
}

// checkAlarms returns an error if there are alarms.
func (g *group) checkAlarms(ctx context.Context) error {
	alarms, err := g.alarmsOf(ctx, g.running()[0])
	if err == nil && len(alarms) > 0 {
		err = fmt.Errorf("alarms: %v", alarms)
	}
	return err
}

// alarmsOf returns the alarms that a member reports.
func (g *group) alarmsOf(ctx context.Context, m *cluster.Member) ([]*pb.AlarmMember, error) {
	var alarms []*pb.AlarmMember
	err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		list, err := client.AlarmList(ctx)
		if err == nil {
			alarms = list.Alarms
		}
		return err
	})
	return alarms, err
}

// ---- membership ----

// replace stops a member and starts another program on its directory.
func (g *group) replace(ctx context.Context, m *cluster.Member, by *cluster.Binary) error {
	if err := m.Stop(); err != nil {
		return err
	}
	m.Become(by)
	if err := g.launch(m); err != nil {
		return err
	}
	return m.Ready(ctx)
}

// add adds a new member through an existing one, and starts it.
func (g *group) add(ctx context.Context, program *cluster.Binary, learner bool, via *cluster.Member) (*cluster.Member, error) {
	m, err := g.introduce(ctx, program, learner, via)
	if err != nil {
		return nil, err
	}
	if err := g.launch(m); err != nil {
		return nil, err
	}
	return m, g.answers(ctx, m)
}

// introduce adds a new member to the cluster without starting it, and waits until all members list
// it.
func (g *group) introduce(
	ctx context.Context, program *cluster.Binary, learner bool, via *cluster.Member,
) (*cluster.Member, error) {
	m, err := g.place(program)
	if err != nil {
		return nil, err
	}
	g.joined[m] = true
	err = retryChange(ctx, via, m.Name+" to be added", func(ctx context.Context, client *clientv3.Client) error {
		call := client.MemberAdd
		if learner {
			call = client.MemberAddAsLearner
		}
		added, err := call(ctx, []string{m.PeerURL})
		switch {
		case err == nil:
			m.ID = added.Member.ID
			return nil
		case errors.Is(err, rpctypes.ErrPeerURLExist):
			return identify(ctx, client, m)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	g.net.Name(fmt.Sprintf("%x", m.ID), m.Name)
	return m, cluster.Listed(ctx, g.members, m.PeerURL)
}

// retryChange retries a membership change until it succeeds. A proposal without a leader may be
// lost, and etcd then waits until the client's timeout. An attempt that seems to have failed may
// have been executed, so `ask` must be idempotent.
func retryChange(
	ctx context.Context, via *cluster.Member, what string, ask func(context.Context, *clientv3.Client) error,
) error {
	return cluster.Until(ctx, what, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, changeAttemptTimeout)
		defer cancel()
		return via.Do(ctx, ask)
	})
}

// identify looks up the id of a member that was already added.
func identify(ctx context.Context, client *clientv3.Client, m *cluster.Member) error {
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, known := range list.Members {
		if slices.Contains(known.PeerURLs, m.PeerURL) {
			m.ID = known.ID
			return nil
		}
	}
	return fmt.Errorf("no member has the peer URL %s", m.PeerURL)
}

// answers waits until a member responds to a status request, which a learner does too.
func (g *group) answers(ctx context.Context, m *cluster.Member) error {
	return cluster.Until(ctx, m.Name+" to answer", func(ctx context.Context) error {
		s, err := status(ctx, m)
		if err == nil && s.Leader == 0 {
			err = errors.New("no leader known")
		}
		return err
	})
}

// promote promotes a learner, once it has caught up.
func (g *group) promote(ctx context.Context, m, via *cluster.Member) error {
	return retryChange(ctx, via, m.Name+" to be promoted", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.MemberPromote(ctx, m.ID)
		if errors.Is(err, rpctypes.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
}

// remove removes a member from the cluster and stops its process.
func (g *group) remove(ctx context.Context, m, via *cluster.Member) error {
	err := retryChange(ctx, via, m.Name+" to be removed", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.MemberRemove(ctx, m.ID)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	g.members = slices.DeleteFunc(g.members, func(other *cluster.Member) bool { return other == m })
	if err := m.Stop(); err != nil && m.Binary() == g.ours {
		return err
	}
	// etcd panics on a status request between its removal and its exit, so its exit status is ignored.
	return nil
}
