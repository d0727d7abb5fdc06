// Ctldiff runs the same etcdctl and etcdutl commands against etcd and another server, and reports
// where stdout, stderr or the exit code differ.
//
//	ctldiff -ours PROGRAM [-etcd bin/etcd] [-tools bin] [-verbose] SCRIPT...
//	ctldiff -both-etcd SCRIPT...              compares etcd with itself: no difference may occur
//	ctldiff -both-etcd -plant all SCRIPT...   falsifies results of one side; each must be detected
//
// Scripts are explained in internal/script; internal/normal lists the differences that are allowed.
// Each script has its own servers on new directories.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/script"
)

type config struct {
	theirs, ours *cluster.Binary
	tools        string
	dir          string
	verbose      bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("ctldiff: ")
	var c config
	etcd := flag.String("etcd", "bin/etcd", "server to compare with")
	ours := flag.String("ours", "", "our server")
	bothEtcd := flag.Bool("both-etcd", false, "compare with a second etcd instead")
	plant := flag.String("plant", "", "name of a falsification to plant in results, or all")
	flag.StringVar(&c.tools, "tools", "bin", "directory with etcdctl and etcdutl")
	flag.BoolVar(&c.verbose, "verbose", false, "print every statement and etcd's result")
	flag.Parse()
	if (*ours == "") != *bothEtcd || flag.NArg() == 0 {
		log.Fatal("usage: ctldiff -ours PROGRAM | -both-etcd [flags] SCRIPT...")
	}
	if *bothEtcd {
		*ours = *etcd
	}
	if err := c.prepare(*etcd, *ours); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := c.compare
	if *plant != "" {
		run = func(ctx context.Context, scripts []string) error { return c.findPlanted(ctx, scripts, *plant) }
	}
	if err := run(ctx, flag.Args()); err != nil {
		log.Fatalf("%v\nthe servers' files and logs are in %s", err, c.dir)
	}
	os.RemoveAll(c.dir)
}

func (c *config) prepare(etcd, ours string) error {
	var errs [4]error
	c.theirs, errs[0] = cluster.Find(etcd)
	c.ours, errs[1] = cluster.Find(ours)
	c.tools, errs[2] = filepath.Abs(c.tools)
	c.dir, errs[3] = os.MkdirTemp("", "ctldiff")
	return errors.Join(errs[:]...)
}

// compare runs every script to its end, so that one run reports all differences.
func (c *config) compare(ctx context.Context, scripts []string) error {
	begun, statements, differences := time.Now(), 0, 0
	for _, path := range scripts {
		compared, err := c.runScript(ctx, path, nil)
		if err != nil {
			return err
		}
		for _, difference := range compared.differences {
			fmt.Println(difference)
		}
		statements += compared.statements
		differences += len(compared.differences)
	}
	if differences > 0 {
		return fmt.Errorf("%d of %d statements have different results", differences, statements)
	}
	log.Printf("%d statements in %d scripts: no difference; %.0f s", statements, len(scripts), time.Since(begun).Seconds())
	return nil
}

// runScript runs one script on two new servers.
func (c *config) runScript(ctx context.Context, path string, plant *plant) (*comparison, error) {
	statements, err := script.Read(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.dir, filepath.Base(path)+"-")
	if err != nil {
		return nil, err
	}
	compared := &comparison{verbose: c.verbose}
	for i, binary := range []*cluster.Binary{c.theirs, c.ours} {
		compared.sides[i] = newSide(binary, c.tools, filepath.Join(dir, []string{"etcd", "ours"}[i]))
		defer compared.sides[i].close()
	}
	compared.sides[1].plant = plant
	return compared, compared.run(ctx, statements)
}
