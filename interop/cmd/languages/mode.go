package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"bowline/interop/internal/certs"
	"bowline/interop/internal/cluster"
)

const (
	rootPassword   = "pw"
	reader         = "reader"
	readerPassword = "secret"
	// tokenTTL is for how many seconds a token is good that nobody uses. A program that cannot renew its own must not pause
	// for so long.
	tokenTTL = 5
	// signedTTL is the same for a token that no use prolongs.
	signedTTL = 2 * tokenTTL
	// tokenPause is a second more, which is how exact a server is about it.
	tokenPause = (tokenTTL + 1) * time.Second
)

// mode is how a server is set up.
type mode struct {
	name string
	// flags make the server so.
	flags func(*certs.Files) []string
	// prepare is done once it runs.
	prepare func(context.Context, *cluster.Member) error
	// environment is what a program is told, beside what it is always told.
	environment func(*certs.Files) []string
	// secure is whether it takes TLS to reach the server.
	secure bool
	// brief is for those who differ from others in who is let in alone: the rest is left out.
	brief bool
}

var modes = []mode{
	{
		name:        "plain",
		flags:       func(*certs.Files) []string { return nil },
		prepare:     func(context.Context, *cluster.Member) error { return nil },
		environment: func(*certs.Files) []string { return nil },
	},
	{
		name:        "tls",
		flags:       tlsFlags,
		prepare:     func(context.Context, *cluster.Member) error { return nil },
		environment: tlsEnvironment,
		secure:      true,
	},
	{name: "auth", flags: authFlags, prepare: lockUp, environment: authEnvironment},
	// Whoever says no name is the one of their certificate, who may read.
	{
		name:  "tls-auth",
		flags: func(c *certs.Files) []string { return append(tlsFlags(c), authFlags(c)...) },
		prepare: func(ctx context.Context, m *cluster.Member) error {
			return errors.Join(knowClient(ctx, m), lockUp(ctx, m))
		},
		environment: func(c *certs.Files) []string { return append(tlsEnvironment(c), authEnvironment(c)...) },
		secure:      true,
		brief:       true,
	},
	// Tokens that are signed: they outlive the server, and no use prolongs them.
	{
		name: "jwt",
		flags: func(c *certs.Files) []string {
			return []string{fmt.Sprintf("--auth-token=jwt,pub-key=%s,priv-key=%s,sign-method=ES256,ttl=%ds", c.TokenPublic, c.TokenKey, signedTTL)}
		},
		prepare:     lockUp,
		environment: authEnvironment,
		brief:       true,
	},
}

func tlsFlags(c *certs.Files) []string {
	return []string{
		"--cert-file=" + c.ServerCert, "--key-file=" + c.ServerKey, "--trusted-ca-file=" + c.Authority, "--client-cert-auth",
	}
}

func tlsEnvironment(c *certs.Files) []string {
	return []string{"CACERT=" + c.Authority, "CERT=" + c.ClientCert, "KEY=" + c.ClientKey}
}

func authFlags(*certs.Files) []string { return []string{fmt.Sprintf("--auth-token-ttl=%d", tokenTTL)} }

func authEnvironment(*certs.Files) []string {
	return []string{"USERNAME=root", "PASSWORD=" + rootPassword, "READER=" + reader, "READER_PASSWORD=" + readerPassword}
}

// knowClient makes a user of the name that is in the certificate of clients, who may read below a prefix.
func knowClient(ctx context.Context, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, userErr := client.UserAddWithOptions(ctx, certs.ClientName, "", &clientv3.UserAddOptions{NoPassword: true})
		_, roleErr := client.RoleAdd(ctx, certs.ClientName)
		_, grantErr := client.RoleGrantPermission(ctx, certs.ClientName, "r/", clientv3.GetPrefixRangeEnd("r/"), clientv3.PermissionType(clientv3.PermRead))
		_, haveErr := client.UserGrantRole(ctx, certs.ClientName, certs.ClientName)
		return errors.Join(userErr, roleErr, grantErr, haveErr)
	})
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
