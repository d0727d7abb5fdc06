package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bowline/interop/internal/cluster"
)

// auth makes users and roles of every sort, works under them, and turns auth off again.
func auth(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	if err := with(ctx, leader, enableAuth); err != nil {
		return err
	}
	if err := withUser(ctx, leader, "ann", "secret", asUser); err != nil {
		return err
	}
	if err := withUser(ctx, leader, "root", "pw", disableAuth); err != nil {
		return err
	}
	return c.Settle(ctx)
}

func enableAuth(ctx context.Context, client *clientv3.Client) error {
	users := []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "pw"); return err },
		func() error { _, err := client.UserAdd(ctx, "ann", "secret"); return err },
		func() error { _, err := client.UserAdd(ctx, "bob", "gone"); return err },
		func() error { return addUserWithoutPassword(ctx, client, "cert") },
		func() error { _, err := client.RoleAdd(ctx, "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "empty"); return err },
		func() error { _, err := client.RoleAdd(ctx, "worker"); return err },
		func() error { return grantPermissions(ctx, client, "worker") },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "ann", "worker"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "ann", "empty"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	}
	return each(users)
}

func addUserWithoutPassword(ctx context.Context, client *clientv3.Client, name string) error {
	_, err := client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	return err
}

func grantPermissions(ctx context.Context, client *clientv3.Client, role string) error {
	ranges := []struct {
		key, end string
		kind     clientv3.PermissionType
	}{
		{"a", "", clientv3.PermissionType(clientv3.PermReadWrite)},
		{"dir/", "dir0", clientv3.PermissionType(clientv3.PermRead)},
		{"tail", "\x00", clientv3.PermissionType(clientv3.PermWrite)},
		{"gone", "", clientv3.PermissionType(clientv3.PermRead)},
	}
	for _, r := range ranges {
		if _, err := client.RoleGrantPermission(ctx, role, r.key, r.end, r.kind); err != nil {
			return err
		}
	}
	return nil
}

// asUser makes requests whose raft header names the user and the auth revision.
func asUser(ctx context.Context, client *clientv3.Client) error {
	_, putErr := client.Put(ctx, "a", "by ann")
	_, getErr := client.Get(ctx, "a")
	_, txnErr := client.Txn(ctx).Then(clientv3.OpPut("a", "by ann again")).Commit()
	return errors.Join(putErr, getErr, txnErr)
}

func disableAuth(ctx context.Context, client *clientv3.Client) error {
	return each([]func() error{
		func() error { return authStatus(ctx, client) },
		func() error { _, err := client.UserGet(ctx, "ann"); return err },
		func() error { _, err := client.UserList(ctx); return err },
		func() error { _, err := client.RoleGet(ctx, "worker"); return err },
		func() error { _, err := client.RoleList(ctx); return err },
		func() error { _, err := client.UserChangePassword(ctx, "bob", "new"); return err },
		func() error { _, err := client.UserRevokeRole(ctx, "ann", "empty"); return err },
		func() error { _, err := client.RoleRevokePermission(ctx, "worker", "gone", ""); return err },
		func() error { _, err := client.RoleRevokePermission(ctx, "worker", "dir/", "dir0"); return err },
		func() error { _, err := client.UserDelete(ctx, "bob"); return err },
		func() error { _, err := client.RoleAdd(ctx, "gone"); return err },
		func() error { _, err := client.RoleDelete(ctx, "gone"); return err },
		func() error { _, err := client.AuthDisable(ctx); return err },
	})
}

// authStatus came with 3.5.
func authStatus(ctx context.Context, client *clientv3.Client) error {
	_, err := client.AuthStatus(ctx)
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return err
}

func each(requests []func() error) error {
	for i, request := range requests {
		if err := request(); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// membership takes a new member through its whole life, and two others through the parts of it that need no process.
func membership(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	return with(ctx, leader, func(ctx context.Context, client *clientv3.Client) error {
		if err := neverStarted(ctx, client); err != nil {
			return fmt.Errorf("members that never start: %w", err)
		}
		return learner(ctx, c, client)
	})
}

func neverStarted(ctx context.Context, client *clientv3.Client) error {
	voter, err := addMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		return client.MemberAdd(ctx, []string{"http://127.0.0.1:1"})
	})
	if err != nil {
		return err
	}
	if _, err := client.MemberUpdate(ctx, voter, []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}); err != nil {
		return err
	}
	_, err = client.MemberRemove(ctx, voter)
	return err
}

func learner(ctx context.Context, c *cluster.Cluster, client *clientv3.Client) error {
	m, err := c.Join()
	if err != nil {
		return err
	}
	id, err := addMember(ctx, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		return client.MemberAddAsLearner(ctx, []string{m.PeerURL})
	})
	if err != nil {
		return err
	}
	if err := c.StartJoined(m); err != nil {
		return err
	}
	// A learner that is not yet in step with the leader is refused.
	err = cluster.Until(ctx, "the learner to be promoted", func(ctx context.Context) error {
		_, err := client.MemberPromote(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.Settle(ctx); err != nil {
		return err
	}
	if _, err := client.MemberRemove(ctx, id); err != nil {
		return err
	}
	if err := c.Retire(m); err != nil {
		return err
	}
	return c.Settle(ctx)
}

// addMember insists, because a cluster takes new members only after some seconds of good health.
func addMember(ctx context.Context, add func(context.Context) (*clientv3.MemberAddResponse, error)) (uint64, error) {
	var id uint64
	err := cluster.Until(ctx, "the cluster to take a member", func(ctx context.Context) error {
		added, err := add(ctx)
		if err == nil {
			id = added.Member.ID
		}
		return err
	})
	return id, err
}

// leaseCheckpoint waits for the leader to write down how much of a long lease is left, which it does every five minutes.
func leaseCheckpoint(ctx context.Context, c *cluster.Cluster) error {
	err := all(ctx, c, func(ctx context.Context, client *clientv3.Client) error {
		grant := &etcdserverpb.LeaseGrantRequest{ID: 79, TTL: 3600}
		_, err := etcdserverpb.NewLeaseClient(client.ActiveConnection()).LeaseGrant(ctx, grant)
		return err
	})
	return errors.Join(err, pause(ctx, 5*time.Minute+20*time.Second))
}
