package main

import (
	"context"
	"fmt"
	"strings"

	"bowline/interop/internal/cluster"
)

// secure runs members of both programs with TLS between peers: with required client certificates of
// one CA, and with --peer-auto-tls.
func secure(ctx context.Context, c *config) (string, error) {
	files, err := c.certificates()
	if err != nil {
		return "", err
	}
	signed := []string{
		"--peer-cert-file=" + files.ServerCert, "--peer-key-file=" + files.ServerKey,
		"--peer-trusted-ca-file=" + files.Authority, "--peer-client-cert-auth",
	}
	for _, bits := range []int{0b101, 0b010} {
		for how, flags := range map[string][]string{
			"signed":           signed,
			"signed for names": append([]string{"--peer-cert-allowed-cn=server"}, signed...),
			"of their own":     {"--peer-auto-tls"},
		} {
			programs := c.mix(bits, 3)
			if err := c.eachMemberLeadsOverTLS(ctx, programs, flags); err != nil {
				return "", fmt.Errorf("%s, certificates %s: %w", programNames(programs), how, err)
			}
		}
	}
	return "two mixes of three, with certificates of three kinds, each member of each has led", c.rejectsUntrustedPeer(ctx, signed)
}

func (c *config) eachMemberLeadsOverTLS(ctx context.Context, programs []*cluster.Binary, flags []string) error {
	g, err := c.startSecurely(ctx, programs, func(int) []string { return flags })
	if err != nil {
		return err
	}
	defer g.close()
	if err := g.settle(ctx); err != nil {
		return err
	}
	return g.eachMemberLeads(ctx)
}

// startSecurely starts members with TLS between peers and no proxy in between.
func (c *config) startSecurely(ctx context.Context, programs []*cluster.Binary, flags func(int) []string) (*group, error) {
	g, err := c.newGroup(nil)
	if err != nil {
		return nil, err
	}
	for _, program := range programs {
		m, err := g.placeDirectly(program)
		if err != nil {
			return nil, err
		}
		m.PeerURL = strings.Replace(m.PeerURL, "http://", "https://", 1)
	}
	for i, m := range g.members {
		if err := g.launch(m, flags(i)...); err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

// rejectsUntrustedPeer starts one of three members with a self-signed certificate: the others must
// work without it.
func (c *config) rejectsUntrustedPeer(ctx context.Context, signed []string) error {
	for _, stranger := range []int{0, 1} {
		g, err := c.startSecurely(ctx, []*cluster.Binary{c.ours, c.theirs, c.ours}, func(i int) []string {
			if i == stranger {
				return []string{"--peer-auto-tls"}
			}
			return signed
		})
		if err != nil {
			return err
		}
		defer g.close()
		outside := g.members[stranger]
		for _, m := range g.others(outside) {
			if err := m.Ready(ctx); err != nil {
				return fmt.Errorf("%s has an untrusted certificate: %w", outside.Name, err)
			}
		}
		if s, err := status(ctx, outside); err == nil && s.Leader != 0 {
			return fmt.Errorf("%s has an untrusted certificate and still knows the leader", outside.Name)
		}
	}
	return nil
}
