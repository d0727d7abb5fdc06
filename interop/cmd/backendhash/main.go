// Backendhash prints the hash of a member's database, as the member returns it for
// Maintenance.Hash, computed by etcd's own packages.
//
//	backendhash FILE
package main

import (
	"fmt"
	"log"
	"os"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("backendhash: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: backendhash FILE")
	}
	store := backend.NewDefaultBackend(zap.NewNop(), os.Args[1])
	defer store.Close()
	hash, err := store.Hash(schema.DefaultIgnores)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hash)
}
