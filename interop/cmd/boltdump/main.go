// Boltdump prints the content of a bolt file, as bbolt reads it.
//
//	boltdump FILE
package main

import (
	"bufio"
	"log"
	"os"

	bolt "go.etcd.io/bbolt"

	"bowline/interop/internal/dump"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("boltdump: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: boltdump FILE")
	}
	if err := print(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func print(file string) error {
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	out := bufio.NewWriter(os.Stdout)
	if err := db.View(func(tx *bolt.Tx) error { return dump.Bolt(out, tx) }); err != nil {
		return err
	}
	return out.Flush()
}
