package main

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bowline/interop/internal/cluster"
)

// auth creates all kinds of users and roles, sends requests as these users, and disables auth
// again.
func auth(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	for _, m := range c.Members {
		m.User, m.Password = "root", "pw"
		defer func() { m.User, m.Password = "", "" }()
	}
	if err := with(ctx, leader, enableAuth(c)); err != nil {
		return err
	}
	if err := withUser(ctx, leader, "ann", "secret", asUser(c)); err != nil {
		return err
	}
	if err := withUser(ctx, leader, "root", "pw", disableAuth(c)); err != nil {
		return err
	}
	return c.Settle(ctx)
}

func enableAuth(c *cluster.Cluster) func(context.Context, *clientv3.Client) error {
	return func(ctx context.Context, client *clientv3.Client) error {
		return each(ctx, c, []func() error{
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
		})
	}
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

// asUser sends requests whose raft header names the user and the auth revision.
func asUser(c *cluster.Cluster) func(context.Context, *clientv3.Client) error {
	return func(ctx context.Context, client *clientv3.Client) error {
		return each(ctx, c, []func() error{
			func() error { _, err := client.Put(ctx, "a", "by ann"); return err },
			func() error { _, err := client.Get(ctx, "a"); return err },
			func() error { _, err := client.Txn(ctx).Then(clientv3.OpPut("a", "by ann again")).Commit(); return err },
		})
	}
}

func disableAuth(c *cluster.Cluster) func(context.Context, *clientv3.Client) error {
	return func(ctx context.Context, client *clientv3.Client) error {
		return each(ctx, c, []func() error{
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
}

// authStatus calls AuthStatus, which exists since 3.5.
func authStatus(ctx context.Context, client *clientv3.Client) error {
	_, err := client.AuthStatus(ctx)
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return err
}

func each(ctx context.Context, c *cluster.Cluster, requests []func() error) error {
	for i, request := range requests {
		if err := ask(ctx, c, func(context.Context) error { return request() }); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}
