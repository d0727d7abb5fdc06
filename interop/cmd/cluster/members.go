package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// membersComeAndGo adds learners of each program to a cluster led by the other program, promotes
// them through a follower and lets them lead. The previous leader is then removed through the new
// member.
func membersComeAndGo(ctx context.Context, c *config) (string, error) {
	g, err := c.startGroup(ctx, []*cluster.Binary{c.ours, c.theirs, c.ours}, fewEntries...)
	if err != nil {
		return "", err
	}
	defer g.close()
	rounds := 0
	for _, kind := range []*cluster.Binary{c.ours, c.theirs, c.theirs, c.ours} {
		if err := g.newLeader(ctx, c.other(kind), kind); err != nil {
			return "", fmt.Errorf("%s joins: %w", kind.Name(), err)
		}
		rounds++
	}
	if err := g.checkIdle(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d members joined as learners, were promoted and led, and %d leaders were removed", rounds, rounds), g.discard()
}

// newLeader replaces a leader of one program by a new member of the other.
func (g *group) newLeader(ctx context.Context, old, kind *cluster.Binary) error {
	leader := g.members[slices.IndexFunc(g.members, func(m *cluster.Member) bool { return m.Binary() == old })]
	if err := g.moveLeaderTo(ctx, leader); err != nil {
		return err
	}
	via := g.others(leader)[0]
	if err := g.fill(ctx, via, missed); err != nil {
		return err
	}
	joined, err := g.add(ctx, kind, true, via)
	if err != nil {
		return fmt.Errorf("add: %w", err)
	}
	if err := checkLearner(ctx, joined); err != nil {
		return err
	}
	if err := g.promote(ctx, joined, via); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	if err := joined.Ready(ctx); err != nil {
		return err
	}
	if err := g.sameMembers(ctx); err != nil {
		return err
	}
	if err := g.remove(ctx, leader, joined); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	if err := g.moveLeaderTo(ctx, joined); err != nil {
		return err
	}
	logStep("%s (%s) has joined, %s has left", joined.Name, kind.Name(), leader.Name)
	return errors.Join(g.eachMemberWrites(ctx, "led by "+joined.Name), g.sameMembers(ctx))
}

// checkLearner checks that a learner serves serializable reads and refuses linearizable ones.
func checkLearner(ctx context.Context, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if _, err := client.Get(ctx, "k", clientv3.WithSerializable()); err != nil {
			return fmt.Errorf("a learner's own read: %w", err)
		}
		_, err := client.Get(ctx, "k")
		if rpctypes.ErrorDesc(err) != rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner) {
			return fmt.Errorf("a learner's linearizable read: %v", err)
		}
		return nil
	})
}

// sameMembers waits until all members report the same member list.
func (g *group) sameMembers(ctx context.Context) error {
	return cluster.Until(ctx, "the member lists to agree", func(ctx context.Context) error {
		var first string
		for _, m := range g.running() {
			list, err := memberList(ctx, m)
			if err != nil {
				return err
			}
			if first == "" {
				first = list
			}
			if list != first {
				return fmt.Errorf("%s has the member list\n%snot\n%s", m.Name, list, first)
			}
		}
		return nil
	})
}

// memberList returns a member's own, serializable view of the member list.
func memberList(ctx context.Context, m *cluster.Member) (string, error) {
	text := ""
	err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		list, err := client.MemberList(ctx, clientv3.WithSerializable())
		if err != nil {
			return err
		}
		slices.SortFunc(list.Members, func(a, b *pb.Member) int { return cmp.Compare(a.ID, b.ID) })
		for _, known := range list.Members {
			text += fmt.Sprintf("%x %s %v %v %v\n", known.ID, known.Name, known.PeerURLs, known.ClientURLs, known.IsLearner)
		}
		return nil
	})
	return text, err
}
