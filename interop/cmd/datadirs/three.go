package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// three adds and removes members.
var three = []step{
	{"keys", with(func(ctx context.Context, client *clientv3.Client) error { return put(ctx, client, "key/", 60) })},
	{"a member is added and removed", with(comeAndGo)},
	{"a learner joins", learn},
	{"more keys", with(func(ctx context.Context, client *clientv3.Client) error { return put(ctx, client, "key/", 60) })},
	{"agreement", func(ctx context.Context, c *cluster.Cluster) error { return c.Settle(ctx) }},
	{"one is killed", func(_ context.Context, c *cluster.Cluster) error { return c.Members[1].Kill() }},
	{"the others stop", stop},
}

func comeAndGo(ctx context.Context, client *clientv3.Client) error {
	id, err := cluster.AddMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		return client.MemberAdd(ctx, []string{"http://127.0.0.1:1"})
	})
	if err != nil {
		return err
	}
	return cluster.Until(ctx, "the removal of the member", func(ctx context.Context) error {
		_, err := client.MemberRemove(ctx, id)
		return err
	})
}

func learn(ctx context.Context, c *cluster.Cluster) error {
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
	if err := c.StartJoined(m); err != nil {
		return err
	}
	return c.Settle(ctx)
}
