// Boltcheck checks the pages of a bolt file with bbolt, and counts its buckets and keys.
//
//	boltcheck FILE
package main

import (
	"errors"
	"fmt"
	"log"
	"os"

	bolt "go.etcd.io/bbolt"

	"bowline/interop/internal/dump"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("boltcheck: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: boltcheck FILE")
	}
	if err := check(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func check(file string) error {
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		var faults []error
		for fault := range tx.Check() {
			faults = append(faults, fault)
		}
		if faults != nil {
			return errors.Join(faults...)
		}
		buckets, keys, err := dump.Count(tx)
		fmt.Printf("ok buckets %d keys %d\n", buckets, keys)
		return err
	})
}
