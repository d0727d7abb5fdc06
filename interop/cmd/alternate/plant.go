package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// plant is a database record that is deleted or altered between two turns.
type plant struct {
	// finds is the section of facts that must differ.
	finds  string
	bucket string
	spoil  func(*bolt.Bucket, []byte, []byte) error
	// after lists how the turns before the change end.
	after []ending
}

var (
	// The second turn raises alarms.
	calm = []ending{stopped, stopped}
	// Facts that the load does not touch must survive it too.
	loaded = []ending{stopped, stopped, killedUnderLoad}
)

func remove(bucket *bolt.Bucket, key, _ []byte) error { return bucket.Delete(key) }

// falsify flips a bit in the last byte of a record: in a key record, part of the value or of the
// lease id.
func falsify(bucket *bolt.Bucket, key, value []byte) error {
	value = slices.Clone(value)
	value[len(value)-1] ^= 1
	return bucket.Put(key, value)
}

var plants = []plant{
	{"history", "key", remove, calm},
	{"hashes", "key", falsify, calm},
	{"leases", "lease", remove, calm},
	{"users", "authUsers", remove, calm},
	{"roles", "authRoles", remove, calm},
	{"alarms", "alarm", remove, calm},
	{"leases", "lease", remove, loaded},
	{"users", "authUsers", remove, loaded},
}

// findPlanted takes some turns for each plant, alters the files, and checks that the next server
// finds the difference.
func (c *config) findPlanted(ctx context.Context, name string) error {
	found := 0
	for _, plant := range plants {
		if name != "all" && name != plant.finds {
			continue
		}
		if err := c.findOne(ctx, plant); err != nil {
			return fmt.Errorf("planted in %s: %w", plant.bucket, err)
		}
		found++
	}
	if found == 0 {
		return fmt.Errorf("no plant is called %q", name)
	}
	log.Printf("planted %d changes in files, and detected each", found)
	return nil
}

func (c *config) findOne(ctx context.Context, plant plant) error {
	dir, err := os.MkdirTemp(c.dir, plant.bucket)
	if err != nil {
		return err
	}
	s, err := c.newSession(dir)
	if err != nil {
		return err
	}
	defer s.close()
	s.endings = plant.after
	for range plant.after {
		if err := s.turn(ctx); err != nil {
			return err
		}
		s.turns++
	}
	if err := plant.in(filepath.Join(s.data, "member", "snap", "db")); err != nil {
		return err
	}
	switch err := s.startAndCompare(ctx); {
	case err == nil:
		return errors.New("the planted change was not detected")
	case !strings.Contains(err.Error(), plant.finds+"\n"):
		return fmt.Errorf("a different change was detected: %w", err)
	}
	return nil
}

// in alters the last record of the bucket.
func (plant plant) in(path string) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte(plant.bucket))
		key, value := bucket.Cursor().Last()
		if key == nil {
			return errors.New("the bucket is empty")
		}
		return plant.spoil(bucket, key, value)
	})
}
