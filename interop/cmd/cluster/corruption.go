package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"bowline/interop/internal/cluster"
)

// comparing lets leaders compare hashes every 2 s.
var comparing = []string{"--corrupt-check-time=2s"}

// corruption changes a value in the database of a stopped follower. Either the leader, which runs
// the other program, raises an alarm, or the follower detects the corruption at its start.
func corruption(ctx context.Context, c *config) (string, error) {
	results := []string{}
	for _, leader := range []*cluster.Binary{c.ours, c.theirs} {
		how, err := c.findsCorruption(ctx, leader, c.other(leader))
		if err != nil {
			return "", fmt.Errorf("%s leads: %w", leader.Name(), err)
		}
		results = append(results, fmt.Sprintf("%s led: %s", leader.Name(), how))
	}
	return strings.Join(results, "; "), nil
}

func (c *config) findsCorruption(ctx context.Context, leader, follower *cluster.Binary) (string, error) {
	g, err := c.startGroup(ctx, []*cluster.Binary{leader, follower, leader}, comparing...)
	if err != nil {
		return "", err
	}
	defer g.close()
	if err := errors.Join(g.moveLeaderTo(ctx, g.members[0]), g.fill(ctx, g.members[0], 100), g.checkIdle(ctx)); err != nil {
		return "", err
	}
	victim := g.members[1]
	if err := errors.Join(victim.Stop(), flipBit(filepath.Join(victim.Dir, "member", "snap", "db")), g.launch(victim)); err != nil {
		return "", err
	}
	how := ""
	err = cluster.Until(ctx, "the corruption to be detected", func(ctx context.Context) error {
		if !victim.Running() {
			how = victim.Name + " refused to start"
			if !strings.Contains(victim.LogEnd(), "inconsisten") {
				return fmt.Errorf("the corrupted member ended for another reason:\n%s", victim.LogEnd())
			}
			return nil
		}
		alarms, err := g.alarmsOf(ctx, g.members[0])
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(alarms, func(a *pb.AlarmMember) bool {
			return a.Alarm == pb.AlarmType_CORRUPT && a.MemberID == victim.ID
		}) {
			return fmt.Errorf("alarms: %v", alarms)
		}
		how = "raised an alarm"
		return nil
	})
	return how, err
}

// flipBit flips a bit in the value of the newest revision.
func flipBit(path string) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		key, value := bucket.Cursor().Last()
		if key == nil {
			return errors.New("no keys")
		}
		value = slices.Clone(value)
		value[len(value)-1] ^= 1
		return bucket.Put(slices.Clone(key), value)
	})
}
