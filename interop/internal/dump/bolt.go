package dump

import (
	"encoding/hex"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"
)

// Bolt prints every bucket of a database, depth first in key order:
//
//	bucket 616c706861 seq 2            the path in hex, and the sequence
//	kv 3030303030303031 07080a         a key and its value
//	bucket 616c706861/696e6e6572 seq 0 a nested bucket
func Bolt(w io.Writer, tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		return dumpBucket(w, hex.EncodeToString(name), bucket)
	})
}

func dumpBucket(w io.Writer, path string, bucket *bolt.Bucket) error {
	if _, err := fmt.Fprintf(w, "bucket %s seq %d\n", path, bucket.Sequence()); err != nil {
		return err
	}
	err := bucket.ForEach(func(key, value []byte) error {
		if value == nil {
			return nil
		}
		_, err := fmt.Fprintf(w, "kv %s %s\n", Bytes(key), Bytes(value))
		return err
	})
	if err != nil {
		return err
	}
	return bucket.ForEachBucket(func(name []byte) error {
		return dumpBucket(w, path+"/"+hex.EncodeToString(name), bucket.Bucket(name))
	})
}

// Count counts the buckets at all depths, without the root, and their keys.
func Count(tx *bolt.Tx) (buckets, keys int, err error) {
	err = tx.ForEach(func(_ []byte, bucket *bolt.Bucket) error { return count(bucket, &buckets, &keys) })
	return buckets, keys, err
}

func count(bucket *bolt.Bucket, buckets, keys *int) error {
	*buckets++
	return bucket.ForEach(func(key, value []byte) error {
		if value == nil {
			return count(bucket.Bucket(key), buckets, keys)
		}
		*keys++
		return nil
	})
}
