// Dbdiff compares the database that an etcd member wrote with the one that results from applying
// its log, record by record, and prints the differences.
//
//	dbdiff [-version 3.5.1] THEIRS OURS
//
// The version is that of the etcd; expected_differences.go lists the differences of older versions.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"
	bolt "go.etcd.io/bbolt"

	"bowline/interop/internal/dump"
)

// shown is the number of printed differences.
const shown = 20

// record is a key-value pair of a bucket.
type record struct {
	bucket, key string
	value       []byte
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("dbdiff: ")
	version := flag.String("version", "3.7", "version of the etcd that wrote THEIRS, with or without its patch")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: dbdiff [-version 3.5.1] THEIRS OURS")
	}
	if strings.Count(*version, ".") == 1 {
		*version += ".0"
	}
	writer, err := semver.NewVersion(*version)
	if err != nil {
		log.Fatal(err)
	}
	theirs, theirErr := read(flag.Arg(0), *writer)
	ours, ourErr := read(flag.Arg(1), *writer)
	if err := errors.Join(theirErr, ourErr); err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	differences := compare(out, theirs, ours)
	out.Flush()
	if differences > 0 {
		log.Fatalf("%d differences", differences)
	}
	log.Printf("%d records, all the same", len(theirs))
}

// read returns all records of a file. It omits or normalizes records that may differ.
func read(path string, version semver.Version) ([]record, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer db.Close()
	var records []record
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			// A bucket is a record as well, since an empty bucket differs from a missing one.
			records = append(records, record{bucket: string(name)})
			return bucket.ForEach(func(key, value []byte) error {
				r := record{string(name), string(key), bytes.Clone(value)}
				if normal(version, &r) {
					records = append(records, r)
				}
				return nil
			})
		})
	})
	return records, err
}

// compare prints the records that are in only one list, and returns their number. Both lists are in
// file order.
func compare(out io.Writer, theirs, ours []record) int {
	differences := 0
	differ := func(format string, arguments ...any) {
		if differences++; differences <= shown {
			fmt.Fprintf(out, format+"\n", arguments...)
		}
	}
	for len(theirs) > 0 || len(ours) > 0 {
		switch order(theirs, ours) {
		case -1:
			differ("only theirs: %s", theirs[0])
			theirs = theirs[1:]
		case 1:
			differ("only ours:   %s", ours[0])
			ours = ours[1:]
		default:
			if !bytes.Equal(theirs[0].value, ours[0].value) {
				differ("theirs:      %s\nours:        %s", theirs[0], ours[0])
			}
			theirs, ours = theirs[1:], ours[1:]
		}
	}
	return differences
}

// order returns which list has the smaller first record.
func order(theirs, ours []record) int {
	switch {
	case len(theirs) == 0:
		return 1
	case len(ours) == 0:
		return -1
	}
	one, other := theirs[0], ours[0]
	return slices.Compare([]string{one.bucket, one.key}, []string{other.bucket, other.key})
}

func (r record) String() string {
	return cmp.Or(r.bucket, "?") + " " + fmt.Sprintf("%q", r.key) + " " + dump.Bytes(r.value)
}
