// Datadirs creates data directories with an etcd server of some version, each with a different
// history:
//
//	OUT/busy/m1     data in every bucket, several log segments and snapshots; stopped
//	OUT/killed/m1   killed during writes
//	OUT/quota/m1    exceeded its quota twice; the second alarm is still raised
//	OUT/three/m*    three members, of which one was removed and one killed, and a learner (m4)
//	OUT/logged/m*   three members whose logs hold every kind of entry; only if named in -only
//
// Next to each directory is the log of the server, for example m1.log.
//
//	datadirs -etcd bin/etcd -out OUT [-only busy,three]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"bowline/interop/internal/cluster"
)

// directory is the sequence of operations that produces one directory.
type directory struct {
	name  string
	size  int
	flags []string
	steps []step
	// calm raises the election timeout, since one client's requests are not repeated after an
	// election.
	calm bool
	// onlyByName is set if the directory is created only when it is named.
	onlyByName bool
}

type step struct {
	what string
	do   func(context.Context, *cluster.Cluster) error
}

var directories = []directory{
	{name: "busy", size: 1, flags: []string{"--snapshot-count=200"}, steps: busy},
	{name: "killed", size: 1, flags: []string{"--snapshot-count=100"}, steps: killed},
	{name: "quota", size: 1, flags: []string{"--snapshot-count=10000", quotaFlag}, steps: overQuota},
	{name: "three", size: 3, calm: true, steps: three},
	{name: "logged", size: 3, calm: true, flags: []string{loggedEntries, quotaFlag}, steps: logged, onlyByName: true},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("datadirs: ")
	etcd := flag.String("etcd", "bin/etcd", "server to create the directories with")
	out := flag.String("out", "datadirs", "parent of the data directories")
	only := flag.String("only", "", "comma-separated names of the directories to create")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binary, err := cluster.Find(*etcd)
	if err != nil {
		log.Fatal(err)
	}
	for _, directory := range directories {
		if named := slices.Contains(strings.Split(*only, ","), directory.name); !named && (directory.onlyByName || *only != "") {
			continue
		}
		if err := directory.create(ctx, binary, filepath.Join(*out, directory.name)); err != nil {
			log.Fatalf("etcd %s, %s: %v", binary.Version.String(), directory.name, err)
		}
	}
}

func (l *directory) create(ctx context.Context, binary *cluster.Binary, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c, err := cluster.New(binary, dir, l.size)
	if err != nil {
		return err
	}
	defer c.Close()
	if l.calm {
		c.CalmDown()
	}
	begun := time.Now()
	if err := c.Start(ctx, l.flags...); err != nil {
		return err
	}
	for _, step := range l.steps {
		if err := step.do(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	log.Printf("etcd %s, %s: %.1f s", binary.Version.String(), l.name, time.Since(begun).Seconds())
	return nil
}
