package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// learnerLife adds a learner, promotes it and removes it.
func learnerLife(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	return with(ctx, leader, func(ctx context.Context, client *clientv3.Client) error {
		return learner(ctx, c, client)
	})
}

// neverStarted adds and removes a member that never runs, through a follower, which forwards the
// changes to the leader.
func neverStarted(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	return with(ctx, c.Followers(leader)[0], func(ctx context.Context, client *clientv3.Client) error {
		voter, err := cluster.AddMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
			return client.MemberAdd(ctx, []string{"http://127.0.0.1:1"})
		})
		if err != nil {
			return err
		}
		updateAtOnce(ctx, client, voter)
		return cluster.RemoveMember(ctx, client, voter)
	})
}

// updateAtOnce requests more conf changes than the leader allows at a time. The leader replaces
// each further one with an empty entry, and its proposer times out.
func updateAtOnce(ctx context.Context, client *clientv3.Client, member uint64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() { client.MemberUpdate(ctx, member, []string{fmt.Sprintf("http://127.0.0.1:%d", i+1)}) })
	}
	group.Wait()
}

func learner(ctx context.Context, c *cluster.Cluster, client *clientv3.Client) error {
	m, err := c.Join()
	if err != nil {
		return err
	}
	id, err := cluster.AddMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		return client.MemberAddAsLearner(ctx, []string{m.PeerURL})
	})
	if err != nil {
		return err
	}
	if err := cluster.Listed(ctx, c.Members, m.PeerURL); err != nil {
		return err
	}
	if err := c.StartJoined(m); err != nil {
		return err
	}
	// The leader refuses to promote a learner that is too far behind.
	err = cluster.Until(ctx, "the promotion of the learner", func(ctx context.Context) error {
		_, err := client.MemberPromote(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.Settle(ctx); err != nil {
		return err
	}
	if err := cluster.RemoveMember(ctx, client, id); err != nil {
		return err
	}
	if err := c.Retire(m); err != nil {
		return err
	}
	return c.Settle(ctx)
}
