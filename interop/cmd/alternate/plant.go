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

// plant is a record that is taken out of a database, or changed, between two turns.
type plant struct {
	// finds is the kind of facts that must differ.
	finds  string
	bucket string
	spoil  func(*bolt.Bucket, []byte, []byte) error
}

func remove(bucket *bolt.Bucket, key, _ []byte) error { return bucket.Delete(key) }

// falsify changes the last byte of a record, which in a key is one of its value or its lease.
func falsify(bucket *bolt.Bucket, key, value []byte) error {
	value = slices.Clone(value)
	value[len(value)-1] ^= 1
	return bucket.Put(key, value)
}

var plants = []plant{
	{"history", "key", remove},
	{"hashes", "key", falsify},
	{"leases", "lease", remove},
	{"users", "authUsers", remove},
	{"roles", "authRoles", remove},
	{"alarms", "alarm", remove},
}

// findPlanted takes two turns for each plant, the files being changed in between.
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
		return fmt.Errorf("nothing planted that is called %q", name)
	}
	log.Printf("planted %d changes of a file, and noticed each", found)
	return nil
}

func (c *config) findOne(ctx context.Context, plant plant) error {
	dir, err := os.MkdirTemp(c.dir, plant.bucket)
	if err != nil {
		return err
	}
	p, err := c.newPlay(dir)
	if err != nil {
		return err
	}
	defer p.close()
	// Of a second turn there are alarms, and a database in which all is written down.
	for range 2 {
		if err := p.turn(ctx); err != nil {
			return err
		}
		p.turns++
	}
	if err := plant.in(filepath.Join(p.data, "member", "snap", "db")); err != nil {
		return err
	}
	switch err := p.arrive(ctx); {
	case err == nil:
		return errors.New("nobody noticed")
	case !strings.Contains(err.Error(), plant.finds+"\n"):
		return fmt.Errorf("something else was noticed: %w", err)
	}
	return nil
}

// in spoils the last record of the bucket.
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
			return errors.New("an empty bucket")
		}
		return plant.spoil(bucket, key, value)
	})
}
