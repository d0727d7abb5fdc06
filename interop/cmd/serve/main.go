// Serve starts an etcd server on an existing data directory, runs a command against it, and stops
// the server.
//
//	serve -etcd bin/etcd DIR COMMAND [ARGUMENT...]
//
// The command finds the endpoint in ETCDCTL_ENDPOINTS. Serve exits with its exit code. The log of
// the server is DIR.log.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"bowline/interop/internal/cluster"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("serve: ")
	etcd := flag.String("etcd", "bin/etcd", "server to start")
	name := flag.String("name", "m1", "name of the member")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: serve [flags] DIR COMMAND [ARGUMENT...]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binary, err := cluster.Find(*etcd)
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(ctx, binary, *name, flag.Arg(0), flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, binary *cluster.Binary, name, dir string, command []string) error {
	c, err := cluster.Existing(binary, name, dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Settle(ctx); err != nil {
		return err
	}
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	// etcdctl's own timeouts of 2 s and 5 s are too short for a busy machine.
	run.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS=http://"+c.Members[0].Endpoint(),
		"ETCDCTL_DIAL_TIMEOUT=20s", "ETCDCTL_COMMAND_TIMEOUT=30s")
	return errors.Join(run.Run(), c.Stop())
}
