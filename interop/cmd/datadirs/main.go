// Datadirs makes data directories with an etcd server of some version, each with a life behind it
// that leaves its traces in the files:
//
//	OUT/busy/m1     all there is in a database, several log segments and snapshots; stopped
//	OUT/killed/m1   killed in the middle of writing
//	OUT/quota/m1    ran out of space twice; the second alarm still stands
//	OUT/three/m*    a cluster of three, of which a member was removed and one is killed, and a learner (m4)
//	OUT/logged/m*   a cluster of three whose logs have every kind of entry, from the first one on; only if asked for
//
// Beside each is the server's log, m1.log.
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

// life is what one cluster is led through.
type life struct {
	name  string
	size  int
	flags []string
	steps []step
	// asked says that it is only made when it is named.
	asked bool
}

type step struct {
	what string
	do   func(context.Context, *cluster.Cluster) error
}

var lives = []life{
	{name: "busy", size: 1, flags: []string{"--snapshot-count=200"}, steps: busy},
	{name: "killed", size: 1, flags: []string{"--snapshot-count=100"}, steps: killed},
	{name: "quota", size: 1, flags: []string{"--snapshot-count=10000", quotaFlag}, steps: crowded},
	{name: "three", size: 3, steps: three},
	{name: "logged", size: 3, flags: []string{loggedEntries, quotaFlag}, steps: logged, asked: true},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("datadirs: ")
	etcd := flag.String("etcd", "bin/etcd", "server to make them with")
	out := flag.String("out", "datadirs", "folder to make them in")
	only := flag.String("only", "", "only these, separated by commas")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binary, err := cluster.Find(*etcd)
	if err != nil {
		log.Fatal(err)
	}
	for _, life := range lives {
		if named := slices.Contains(strings.Split(*only, ","), life.name); !named && (life.asked || *only != "") {
			continue
		}
		if err := life.live(ctx, binary, filepath.Join(*out, life.name)); err != nil {
			log.Fatalf("etcd %s, %s: %v", binary.Version.String(), life.name, err)
		}
	}
}

func (l *life) live(ctx context.Context, binary *cluster.Binary, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c, err := cluster.New(binary, dir, l.size)
	if err != nil {
		return err
	}
	defer c.Close()
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
