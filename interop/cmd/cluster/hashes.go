package main

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// hashes compacts at tombstones, of some keys and of all, and compares the hash of every revision
// that is left between the members.
func (g *group) hashes(ctx context.Context, leader *cluster.Member) error {
	for _, deleted := range []string{"hashed/1", "hashed/", "", ""} {
		tombstone, err := writeAndDelete(ctx, leader, deleted)
		if err != nil {
			return err
		}
		err = leader.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Compact(ctx, tombstone, clientv3.WithCompactPhysical())
			return err
		})
		if err != nil {
			return fmt.Errorf("compact %d: %w", tombstone, err)
		}
		if err := g.sameHashes(ctx, tombstone); err != nil {
			return fmt.Errorf("after all keys of %q were deleted, and revision %d was compacted: %w", deleted, tombstone, err)
		}
	}
	return nil
}

// writeAndDelete puts some keys, deletes those with a prefix, and puts one more. It returns the
// revision of the deletion.
func writeAndDelete(ctx context.Context, m *cluster.Member, prefix string) (tombstone int64, err error) {
	err = m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		for _, key := range []string{"hashed/1", "hashed/2", "hashed/1"} {
			if _, err := client.Put(ctx, key, "x"); err != nil {
				return err
			}
		}
		deleted, err := client.Delete(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		tombstone = deleted.Header.Revision
		_, err = client.Put(ctx, "hashed/3", "x")
		return err
	})
	return tombstone, err
}

// sameHashes waits until all members have the same hashes from a compacted revision on. Members
// compact on their own, so that the hash of that revision may differ at first.
func (g *group) sameHashes(ctx context.Context, from int64) error {
	if err := g.settle(ctx); err != nil {
		return err
	}
	now, err := hashKV(ctx, g.members[0], 0)
	if err != nil {
		return err
	}
	return cluster.Until(ctx, "equal hashes", func(ctx context.Context) error {
		for revision := from; revision <= now.Header.Revision; revision++ {
			if err := g.sameHash(ctx, revision); err != nil {
				return err
			}
		}
		return nil
	})
}

func (g *group) sameHash(ctx context.Context, revision int64) error {
	var first *clientv3.HashKVResponse
	for _, m := range g.running() {
		hash, err := hashKV(ctx, m, revision)
		if err != nil {
			return fmt.Errorf("hash of %s: %w", m.Name, err)
		}
		if first == nil {
			first = hash
		}
		if hash.Hash != first.Hash || hash.CompactRevision != first.CompactRevision {
			return fmt.Errorf("%s: hash %d at revision %d, compacted %d; another has %d, %d", m.Name, hash.Hash, revision,
				hash.CompactRevision, first.Hash, first.CompactRevision)
		}
	}
	return nil
}
