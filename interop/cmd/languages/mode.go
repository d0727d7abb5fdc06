package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"bowline/interop/internal/cluster"
)

const (
	rootPassword   = "pw"
	reader         = "reader"
	readerPassword = "secret"
	// tokenTTL is for how many seconds a token is good that nobody uses. A program that cannot renew its own must not pause
	// for so long.
	tokenTTL = 5
	// tokenPause is a second more, which is how exact a server is about it.
	tokenPause = (tokenTTL + 1) * time.Second
)

// mode is how a server is set up.
type mode struct {
	name string
	// flags make the server so.
	flags func(*certificates) []string
	// prepare is done once it runs.
	prepare func(context.Context, *cluster.Member) error
	// environment is what a program is told, beside what it is always told.
	environment func(*certificates) []string
}

var modes = []mode{
	{
		name:        "plain",
		flags:       func(*certificates) []string { return nil },
		prepare:     func(context.Context, *cluster.Member) error { return nil },
		environment: func(*certificates) []string { return nil },
	},
	{
		name: "tls",
		flags: func(c *certificates) []string {
			return []string{
				"--cert-file=" + c.serverCert, "--key-file=" + c.serverKey, "--trusted-ca-file=" + c.authority, "--client-cert-auth",
			}
		},
		prepare: func(context.Context, *cluster.Member) error { return nil },
		environment: func(c *certificates) []string {
			return []string{"CACERT=" + c.authority, "CERT=" + c.clientCert, "KEY=" + c.clientKey}
		},
	},
	{
		name:    "auth",
		flags:   func(*certificates) []string { return []string{fmt.Sprintf("--auth-token-ttl=%d", tokenTTL)} },
		prepare: lockUp,
		environment: func(*certificates) []string {
			return []string{
				"USERNAME=root", "PASSWORD=" + rootPassword, "READER=" + reader, "READER_PASSWORD=" + readerPassword,
			}
		},
	},
}

// lockUp makes root and a user who may read below a prefix, and turns auth on.
func lockUp(ctx context.Context, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		var errs [8]error
		_, errs[0] = client.UserAdd(ctx, "root", rootPassword)
		_, errs[1] = client.RoleAdd(ctx, "root")
		_, errs[2] = client.UserGrantRole(ctx, "root", "root")
		_, errs[3] = client.UserAdd(ctx, reader, readerPassword)
		_, errs[4] = client.RoleAdd(ctx, "reader")
		_, errs[5] = client.RoleGrantPermission(ctx, "reader", "r/", clientv3.GetPrefixRangeEnd("r/"), clientv3.PermissionType(clientv3.PermRead))
		_, errs[6] = client.UserGrantRole(ctx, reader, "reader")
		_, errs[7] = client.AuthEnable(ctx)
		return errors.Join(errs[:]...)
	})
}

// expire waits until tokens have run out that nobody uses, by the example of a new one. To ask whether it still is good would
// prolong it, so it is asked only when it should not be.
func expire(ctx context.Context, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		token, err := client.Authenticate(ctx, "root", rootPassword)
		if err != nil {
			return err
		}
		asked := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token.Token)
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tokenPause):
			}
			_, err := client.Get(asked, "r/")
			switch {
			case errors.Is(err, rpctypes.ErrInvalidAuthToken):
				return nil
			case err != nil:
				return err
			}
		}
	})
}
