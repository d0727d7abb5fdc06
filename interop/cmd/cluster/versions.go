package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bowline/interop/internal/cluster"
)

// versions mixes our members with other versions of etcd, each of which leads once. Then it
// replaces a cluster of the other version with ours, member by member, under load; the cluster
// version must rise to ours.
func versions(ctx context.Context, c *config) (string, error) {
	results := []string{}
	for _, old := range c.older {
		for _, programs := range [][]*cluster.Binary{{old, old, c.ours}, {c.ours, old, c.ours}} {
			if err := c.eachMemberLeads(ctx, programs); err != nil {
				return "", fmt.Errorf("%s: %w", programNames(programs), err)
			}
		}
		l, err := c.upgrade(ctx, old)
		if err != nil {
			return "", fmt.Errorf("from %s to ours: %w", old.Name(), err)
		}
		results = append(results, fmt.Sprintf("%s, which became ours (%v)", old.Version.String(), l))
	}
	if len(results) == 0 {
		return "no other versions given", nil
	}
	return "with " + strings.Join(results, " and "), nil
}

func (c *config) upgrade(ctx context.Context, old *cluster.Binary) (*clientLoad, error) {
	return c.underLoad(ctx, []*cluster.Binary{old, old, old}, func(r *replacing) error {
		for _, m := range r.members {
			if err := r.inPlace(ctx, m, c.ours); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			logStep("%s was %s and is ours", m.Name, old.Name())
			time.Sleep(between)
		}
		return r.ofVersion(ctx, "3.7.0")
	})
}

// ofVersion waits until every member reports this cluster version. Each member then sets its own
// storage version, which it reports since 3.6.
func (g *group) ofVersion(ctx context.Context, version string) error {
	return cluster.Until(ctx, "the cluster to be of version "+version, func(ctx context.Context) error {
		for _, m := range g.members {
			text, err := fetch(ctx, m.ClientURL()+"/version")
			if err != nil {
				return err
			}
			if !strings.Contains(text, `"etcdcluster":"`+version+`"`) {
				return fmt.Errorf("%s reports %s", m.Name, text)
			}
			if strings.Contains(text, `"storage":`) && !strings.Contains(text, `"storage":"`+version+`"`) {
				return fmt.Errorf("%s reports %s", m.Name, text)
			}
		}
		return nil
	})
}
