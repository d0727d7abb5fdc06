package main

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type leaseGrant = etcdserverpb.LeaseGrantRequest

func leaseClient(client *clientv3.Client) etcdserverpb.LeaseClient {
	return etcdserverpb.NewLeaseClient(client.ActiveConnection())
}

// authOn creates users and roles and enables auth.
func authOn(ctx context.Context, client *clientv3.Client) error {
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	for i, request := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "pw"); return err },
		func() error { _, err := client.UserAdd(ctx, "ann", "secret"); return err },
		func() error {
			_, err := client.UserAddWithOptions(ctx, "cert", "", &clientv3.UserAddOptions{NoPassword: true})
			return err
		},
		func() error { _, err := client.RoleAdd(ctx, "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "worker"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "worker", "ann/", "ann0", readWrite)
			return err
		},
		func() error { _, err := client.RoleGrantPermission(ctx, "worker", "a", "", readWrite); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "ann", "worker"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := request(); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

func authOff(ctx context.Context, client *clientv3.Client) error {
	_, err := client.AuthDisable(ctx)
	return err
}
