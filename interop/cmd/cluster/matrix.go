package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

const (
	mixes = 8
	// mixesAtATime is the number of concurrent clusters, which mostly wait.
	mixesAtATime = 4
)

// matrix runs clusters of three in every mix. Each member leads once, and each writes and reads
// both as a follower and as the leader.
func matrix(ctx context.Context, c *config) (string, error) {
	errs := make([]error, mixes)
	var group sync.WaitGroup
	places := make(chan struct{}, mixesAtATime)
	for bits := range mixes {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			programs := c.mix(bits, 3)
			if err := c.eachMemberLeads(ctx, programs); err != nil {
				errs[bits] = fmt.Errorf("%s: %w", programNames(programs), err)
			}
		})
	}
	group.Wait()
	return fmt.Sprintf("%d mixes of three, each member of each has led", mixes), errors.Join(errs...)
}

// mix returns our program where a bit is set and etcd elsewhere.
func (c *config) mix(bits, size int) []*cluster.Binary {
	programs := make([]*cluster.Binary, size)
	for i := range programs {
		programs[i] = c.theirs
		if bits>>i&1 == 1 {
			programs[i] = c.ours
		}
	}
	return programs
}

func programNames(programs []*cluster.Binary) string {
	names := ""
	for i, program := range programs {
		if i > 0 {
			names += ", "
		}
		names += program.Name()
	}
	return names
}

func (c *config) eachMemberLeads(ctx context.Context, programs []*cluster.Binary) error {
	g, err := c.startGroup(ctx, programs)
	if err != nil {
		return err
	}
	defer g.close()
	return g.eachMemberLeads(ctx)
}

// eachMemberLeads lets each member lead once while all write and read, and then discards the group.
func (g *group) eachMemberLeads(ctx context.Context) error {
	for _, leader := range g.members {
		if err := g.moveLeaderTo(ctx, leader); err != nil {
			return err
		}
		if err := g.eachMemberWrites(ctx, leader.Name); err != nil {
			return fmt.Errorf("%s leads: %w", leader.Name, err)
		}
	}
	if err := g.checkIdle(ctx); err != nil {
		return err
	}
	return g.discard()
}

// eachMemberWrites puts a key through each member and reads it through all.
func (g *group) eachMemberWrites(ctx context.Context, key string) error {
	for _, writer := range g.members {
		value := writer.Name + " " + time.Now().String()
		if err := g.put(ctx, writer, key, value); err != nil {
			return fmt.Errorf("put through %s: %w", writer.Name, err)
		}
		for _, reader := range g.members {
			err := g.acrossElection(ctx, func(ctx context.Context) error { return expect(ctx, reader, key, value) })
			if err != nil {
				return fmt.Errorf("put through %s, read through %s: %w", writer.Name, reader.Name, err)
			}
		}
	}
	return nil
}

// putTimeout bounds a put. It is longer than a server's own request timeout.
const putTimeout = 15 * time.Second

// put puts a key through a member. After an election it repeats the put, but makes no second change
// if the first attempt was executed.
func (g *group) put(ctx context.Context, m *cluster.Member, key, value string) error {
	attempts := 0
	return g.acrossElection(ctx, func(ctx context.Context) error {
		attempts++
		ctx, cancel := context.WithTimeout(ctx, putTimeout)
		defer cancel()
		return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) (err error) {
			if attempts == 1 {
				_, err = client.Put(ctx, key, value)
			} else {
				_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", value)).
					Else(clientv3.OpPut(key, value)).Commit()
			}
			return err
		})
	})
}

// expect checks the value of a key with a linearizable read.
func expect(ctx context.Context, m *cluster.Member, key, value string) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		got, err := client.Get(ctx, key)
		switch {
		case err != nil:
			return err
		case len(got.Kvs) != 1:
			return errors.New("not found")
		case string(got.Kvs[0].Value) != value:
			return fmt.Errorf("found %q, not %q", got.Kvs[0].Value, value)
		}
		return nil
	})
}

// others returns all members but this one.
func (g *group) others(m *cluster.Member) []*cluster.Member {
	return slices.DeleteFunc(slices.Clone(g.members), func(other *cluster.Member) bool { return other == m })
}
