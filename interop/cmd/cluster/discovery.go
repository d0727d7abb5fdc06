package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/certs"
	"bowline/interop/internal/cluster"
)

const (
	token = "interop"
	// user may read and write the discovery keys if the discovery server has auth enabled.
	user, password = "root", "secret"
)

// discovery starts members of both programs through a discovery server of either program: in
// plaintext without users, and over TLS with a user.
func discovery(ctx context.Context, c *config) (string, error) {
	files, err := c.certificates()
	if err != nil {
		return "", err
	}
	for _, keeper := range []*cluster.Binary{c.ours, c.theirs} {
		for _, secret := range []bool{false, true} {
			if err := c.findEachOther(ctx, keeper, secret, files); err != nil {
				return "", fmt.Errorf("discovery server %s, TLS and auth: %t: %w", keeper.Name(), secret, err)
			}
		}
	}
	return "three members found each other through both discovery servers, with and without TLS and auth", nil
}

func (c *config) certificates() (*certs.Files, error) {
	dir := filepath.Join(c.dir, "certificates")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return certs.New(dir)
}

func (c *config) findEachOther(ctx context.Context, program *cluster.Binary, secret bool, files *certs.Files) error {
	list, err := c.newGroup([]*cluster.Binary{program})
	if err != nil {
		return err
	}
	defer list.close()
	keeper, flags := list.members[0], []string{}
	if secret {
		keeper.TLS = files.Client
		flags = []string{"--cert-file=" + files.ServerCert, "--key-file=" + files.ServerKey,
			"--trusted-ca-file=" + files.Authority, "--client-cert-auth"}
	}
	if err := errors.Join(list.launch(keeper, flags...), keeper.Ready(ctx), keeper.Do(ctx, announce(secret))); err != nil {
		return err
	}
	return c.startFromList(ctx, keeper, discoveryFlags(keeper, secret, files))
}

// announce writes the cluster size and, if secret, enables auth.
func announce(secret bool) func(context.Context, *clientv3.Client) error {
	return func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, "/_etcd/registry/"+token+"/_config/size", "3")
		if err != nil || !secret {
			return err
		}
		_, userErr := client.UserAdd(ctx, user, password)
		_, roleErr := client.UserGrantRole(ctx, user, "root")
		_, authErr := client.AuthEnable(ctx)
		return errors.Join(userErr, roleErr, authErr)
	}
}

func discoveryFlags(keeper *cluster.Member, secret bool, files *certs.Files) []string {
	flags := []string{"--discovery-token=" + token, "--discovery-endpoints=" + keeper.ClientURL()}
	if secret {
		flags = append(flags, "--discovery-insecure-transport=false", "--discovery-cacert="+files.Authority,
			"--discovery-cert="+files.ClientCert, "--discovery-key="+files.ClientKey,
			"--discovery-user="+user, "--discovery-password="+password)
	}
	return flags
}

// startFromList starts three members that know only the discovery server, and a fourth, which must
// be turned away because the cluster is full.
func (c *config) startFromList(ctx context.Context, keeper *cluster.Member, flags []string) error {
	g, err := c.newGroup([]*cluster.Binary{c.ours, c.theirs, c.ours})
	if err != nil {
		return err
	}
	defer g.close()
	for _, m := range g.members {
		if err := m.Start(flags...); err != nil {
			return err
		}
	}
	if err := g.settle(ctx); err != nil {
		return err
	}
	late, err := g.place(c.ours)
	if err != nil {
		return err
	}
	g.members = g.members[:3]
	if err := errors.Join(late.Start(flags...), late.Ended(ctx, reachedWithin)); err != nil {
		return err
	}
	if tail := late.LogEnd(); !strings.Contains(tail, "cluster is full") {
		return fmt.Errorf("the fourth member ended without \"cluster is full\": %s", tail)
	}
	return g.eachMemberLeads(ctx)
}
