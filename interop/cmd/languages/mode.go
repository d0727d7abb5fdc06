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
	// tokenTTL is the lifetime of an unused token, in seconds. A program that cannot renew its token
	// must not pause for that long, for example until a lease has expired.
	tokenTTL = 20
	// signedTTL is the lifetime of a signed token, which use does not prolong.
	signedTTL = tokenTTL
	// tokenPause is longer than tokenTTL by one second, the precision of the server.
	tokenPause = (tokenTTL + 1) * time.Second
)

// mode is a configuration of the server.
type mode struct {
	name string
	// flags returns the server flags of the mode.
	flags func(*certs.Files) []string
	// prepare runs once the server is up.
	prepare func(context.Context, *cluster.Member) error
	// environment returns additional variables for the program.
	environment func(*certs.Files) []string
	// secure is set if clients must use TLS.
	secure bool
	// brief is set for modes that differ only in authentication: their programs skip the other steps.
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
	{name: "auth", flags: authFlags, prepare: enableAuth, environment: authEnvironment},
	// A client without a user name acts as the user of its certificate, which has read permission.
	{
		name:  "tls-auth",
		flags: func(c *certs.Files) []string { return append(tlsFlags(c), authFlags(c)...) },
		prepare: func(ctx context.Context, m *cluster.Member) error {
			return errors.Join(addCertificateUser(ctx, m), enableAuth(ctx, m))
		},
		environment: func(c *certs.Files) []string { return append(tlsEnvironment(c), authEnvironment(c)...) },
		secure:      true,
		brief:       true,
	},
	// Signed tokens survive a restart of the server, and use does not prolong them.
	{
		name: "jwt",
		flags: func(c *certs.Files) []string {
			return []string{fmt.Sprintf("--auth-token=jwt,pub-key=%s,priv-key=%s,sign-method=ES256,ttl=%ds", c.TokenPublic, c.TokenKey, signedTTL)}
		},
		prepare:     enableAuth,
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

// addCertificateUser creates the user named in the client certificate, with read permission below a
// prefix.
func addCertificateUser(ctx context.Context, m *cluster.Member) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, userErr := client.UserAddWithOptions(ctx, certs.ClientName, "", &clientv3.UserAddOptions{NoPassword: true})
		_, roleErr := client.RoleAdd(ctx, certs.ClientName)
		_, grantErr := client.RoleGrantPermission(ctx, certs.ClientName, "r/", clientv3.GetPrefixRangeEnd("r/"), clientv3.PermissionType(clientv3.PermRead))
		_, haveErr := client.UserGrantRole(ctx, certs.ClientName, certs.ClientName)
		return errors.Join(userErr, roleErr, grantErr, haveErr)
	})
}

// enableAuth creates root and a user with read permission below a prefix, and enables auth.
func enableAuth(ctx context.Context, m *cluster.Member) error {
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

// expire waits until unused tokens have expired. It tests a new token once its lifetime is over,
// since using it earlier would renew it.
func expire(ctx context.Context, m *cluster.Member) error {
	client, err := m.Client("", "")
	if err != nil {
		return err
	}
	defer client.Close()
	token, err := client.Authenticate(ctx, "root", rootPassword)
	if err != nil {
		return err
	}
	withToken := metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token.Token)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tokenPause):
		}
		_, err := client.Get(withToken, "r/")
		switch {
		case errors.Is(err, rpctypes.ErrInvalidAuthToken):
			return nil
		case err != nil:
			return err
		}
	}
}
