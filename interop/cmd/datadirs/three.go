package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// three adds and removes members.
var three = []step{
	{"keys", with(func(ctx context.Context, client *clientv3.Client) error { return put(ctx, client, "key/", 60) })},
	{"a member is added and removed", with(addAndRemove)},
	{"a learner joins", addLearner},
	{"more keys", with(func(ctx context.Context, client *clientv3.Client) error { return put(ctx, client, "key/", 60) })},
	{"agreement", func(ctx context.Context, c *cluster.Cluster) error { return c.Settle(ctx) }},
	{"one is killed", func(_ context.Context, c *cluster.Cluster) error { return c.Members[1].Kill() }},
	{"the others stop", stop},
}

func addAndRemove(ctx context.Context, client *clientv3.Client) error {
	id, err := cluster.AddMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		return client.MemberAdd(ctx, []string{"http://127.0.0.1:1"})
	})
	if err != nil {
		return err
	}
	return cluster.RemoveMember(ctx, client, id)
}

func addLearner(ctx context.Context, c *cluster.Cluster) error {
	m, err := c.Join()
	if err != nil {
		return err
	}
	err = c.Members[0].Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := cluster.AddMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
			return client.MemberAddAsLearner(ctx, []string{m.PeerURL})
		})
		return err
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
	return c.Settle(ctx)
}
