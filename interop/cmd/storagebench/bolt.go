package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.uber.org/zap"

	"bowline/interop/internal/workload"
)

const (
	valueBytes = 256
	// perCommit is the number of changes after which etcd commits.
	perCommit = 10_000
	// smallCommit is the size of a commit under a low, steady rate of writes.
	smallCommit = 100
	commits     = 200
	// fillPercent is etcd's value: revisions grow, so pages can be filled more than bbolt's
	// default.
	fillPercent = 0.9
)

var bucketName = []byte("key")

// options returns etcd's options for its database on Linux.
func options() *bolt.Options {
	return &bolt.Options{
		MmapFlags:       syscall.MAP_POPULATE,
		NoFreelistSync:  true,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: 10 << 30,
	}
}

// revision is a key: 8 bytes of main revision, '_', and 8 bytes of sub revision, here 0.
type revision [17]byte

// at sets the main revision and returns the key.
func (r *revision) at(main uint64) []byte {
	binary.BigEndian.PutUint64(r[:], main)
	r[8] = '_'
	return r[:]
}

var value = bytes.Repeat([]byte{7}, valueBytes)

// million loads a file with a million keys and measures operations on it.
func million(dir string, report func(string, float64, string)) error {
	const keys = 1_000_000
	file := filepath.Join(dir, "storagebench-1m.db")
	os.Remove(file)
	defer os.Remove(file)
	begun := time.Now()
	if err := load(file, keys); err != nil {
		return err
	}
	report("bolt_load_1m", seconds(begun), "s")
	open, err := best(func() error { return opened(file, func(*bolt.DB) error { return nil }) })
	if err != nil {
		return err
	}
	report("bolt_open_1m", open, "s")
	return opened(file, func(db *bolt.DB) error {
		gets, getErr := best(func() error { return db.View(func(tx *bolt.Tx) error { return get(tx, keys) }) })
		scans, scanErr := best(func() error { return db.View(func(tx *bolt.Tx) error { return scan(tx, keys) }) })
		if err := errors.Join(getErr, scanErr); err != nil {
			return err
		}
		report("bolt_get_1m", gets, "s")
		report("bolt_scan_1m", scans, "s")
		return trickle(db, "1m", report)
	})
}

// best returns the shortest of five times.
func best(work func() error) (float64, error) {
	shortest := math.Inf(1)
	for range 5 {
		begun := time.Now()
		if err := work(); err != nil {
			return 0, err
		}
		shortest = min(shortest, seconds(begun))
	}
	return shortest, nil
}

// tenMillion measures a file with ten million keys. Loading takes minutes, so the file is kept for
// later runs.
func tenMillion(dir string, report func(string, float64, string)) error {
	file := filepath.Join(dir, "storagebench-10m.db")
	if _, err := os.Stat(file); err != nil {
		if err := load(file+".part", 10_000_000); err != nil {
			return err
		}
		if err := os.Rename(file+".part", file); err != nil {
			return err
		}
	}
	begun := time.Now()
	return opened(file, func(db *bolt.DB) error {
		report("bolt_open_10m", seconds(begun), "s")
		return trickle(db, "10m", report)
	})
}

func opened(file string, use func(*bolt.DB) error) error {
	db, err := bolt.Open(file, 0o600, options())
	if err != nil {
		return err
	}
	defer db.Close()
	return use(db)
}

// load puts keys in order into a new file, in commits of etcd's size.
func load(file string, keys uint64) error {
	os.Remove(file)
	return opened(file, func(db *bolt.DB) error {
		for first := uint64(0); first < keys; first += perCommit {
			if err := putAll(db, first, min(first+perCommit, keys)); err != nil {
				return err
			}
		}
		return nil
	})
}

func putAll(db *bolt.DB, from, to uint64) error {
	return db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists(bucketName)
		if err != nil {
			return err
		}
		bucket.FillPercent = fillPercent
		var key revision
		for main := from; main < to; main++ {
			if err := bucket.Put(key.at(main), value); err != nil {
				return err
			}
		}
		return nil
	})
}

// get reads random keys, as many as the file holds.
func get(tx *bolt.Tx, keys uint64) error {
	bucket, random := tx.Bucket(bucketName), workload.Seeded(1, 0)
	var key revision
	for range keys {
		if len(bucket.Get(key.at(random.Next()%keys))) != valueBytes {
			return fmt.Errorf("key %x has no value", key)
		}
	}
	return nil
}

func scan(tx *bolt.Tx, keys int) error {
	cursor, sum := tx.Bucket(bucketName).Cursor(), 0
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		sum += len(key) + len(value)
	}
	if want := keys * (17 + valueBytes); sum != want {
		return fmt.Errorf("scanned %d bytes, expected %d", sum, want)
	}
	return nil
}

// trickle appends a few keys per commit.
func trickle(db *bolt.DB, size string, report func(string, float64, string)) error {
	next, err := lastRevision(db)
	if err != nil {
		return err
	}
	var times []float64
	for range commits {
		begun := time.Now()
		if err := putAll(db, next+1, next+1+smallCommit); err != nil {
			return err
		}
		times = append(times, seconds(begun)*1e3)
		next += smallCommit
	}
	slices.Sort(times)
	report("bolt_commit_100_in_"+size, times[len(times)/2], "ms")
	return nil
}

func lastRevision(db *bolt.DB) (last uint64, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		key, _ := tx.Bucket(bucketName).Cursor().Last()
		last = binary.BigEndian.Uint64(key)
		return nil
	})
	return last, err
}

// defragment lets etcd's backend defragment a file of about 1 GB, half of which is free.
func defragment(dir string, report func(string, float64, string)) error {
	const keys = 3_200_000
	file := filepath.Join(dir, "storagebench-1g.db")
	defer os.Remove(file)
	if err := load(file, keys); err != nil {
		return err
	}
	if err := opened(file, func(db *bolt.DB) error { return deleteHalf(db, keys) }); err != nil {
		return err
	}
	store := backend.NewDefaultBackend(zap.NewNop(), file)
	defer store.Close()
	begun := time.Now()
	if err := store.Defrag(); err != nil {
		return err
	}
	report("bolt_defrag_1g", seconds(begun), "s")
	return nil
}

// deleteHalf deletes every other block of 10,000 keys.
func deleteHalf(db *bolt.DB, keys uint64) error {
	for first := uint64(0); first < keys; first += 2 * perCommit {
		err := db.Update(func(tx *bolt.Tx) error {
			var key revision
			for main := first; main < min(first+perCommit, keys); main++ {
				if err := tx.Bucket(bucketName).Delete(key.at(main)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
