// Storagebench benchmarks etcd's storage like Bowline's own benchmarks, and prints a line for each
// figure:
//
//	bolt_load_1m 3.2140 s
//	wal_append_16_p99 812.0000 us
//
// The names are those of `cargo bench -p bolt -p wal`, so that the results can be joined.
//
//	storagebench [-dir DIR] [-only bolt_,wal_append_1_] [-skip 10m]
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"
)

// measure is a group of figures that one function measures.
type measure struct {
	figures []string
	run     func(dir string, report func(name string, value float64, unit string)) error
}

var measures = []measure{
	{[]string{"bolt_load_1m", "bolt_open_1m", "bolt_get_1m", "bolt_scan_1m", "bolt_commit_100_in_1m"}, million},
	{[]string{"bolt_open_10m", "bolt_commit_100_in_10m"}, tenMillion},
	{[]string{"bolt_defrag_1g"}, defragment},
	{[]string{"wal_append_1_p50", "wal_append_1_p99", "wal_append_1_cpu"}, appends(1)},
	{[]string{"wal_append_16_p50", "wal_append_16_p99", "wal_append_16_cpu"}, appends(16)},
	{[]string{"wal_append_256_p50", "wal_append_256_p99", "wal_append_256_cpu"}, appends(256)},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("storagebench: ")
	dir := flag.String("dir", "", "directory on the disk to measure; the file with ten million keys is kept there for later runs")
	only := flag.String("only", "", "comma-separated parts of the names of the figures to measure")
	skip := flag.String("skip", "", "comma-separated parts of the names of the figures to skip")
	flag.Parse()
	if *dir == "" {
		made, err := os.MkdirTemp("", "storagebench-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(made)
		*dir = made
	}
	wanted := func(name string) bool {
		return (*only == "" || containsAny(name, *only)) && (*skip == "" || !containsAny(name, *skip))
	}
	if err := measureAll(*dir, wanted); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func measureAll(dir string, wanted func(string) bool) error {
	report := func(name string, value float64, unit string) {
		if wanted(name) {
			fmt.Printf("%s %.4f %s\n", name, value, unit)
		}
	}
	for _, m := range measures {
		for _, name := range m.figures {
			if !wanted(name) {
				continue
			}
			if err := m.run(dir, report); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			break
		}
	}
	return nil
}

func containsAny(name, parts string) bool {
	for _, part := range strings.Split(parts, ",") {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func seconds(since time.Time) float64 { return time.Since(since).Seconds() }
