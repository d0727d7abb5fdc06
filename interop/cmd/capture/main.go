// Capture runs a cluster of an etcd version through all kinds of operations, and keeps the protobuf
// messages that it wrote to disk and sent between its members.
//
//	capture -etcd bin/etcd -out ../crates/proto/testdata/captured
//
// It writes DIR/<version>/<message type>.hex, whose lines are comments, starting with #, or a
// message type and one message in hex, and DIR/<version>/presence.md, which counts whether fields
// with a zero value are encoded.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"bowline/interop/internal/cluster"
)

type options struct {
	etcd, etcdutl, out string
	checkpoint, keep   bool
}

func main() {
	var want options
	flag.StringVar(&want.etcd, "etcd", "bin/etcd", "server to capture from")
	flag.StringVar(&want.etcdutl, "etcdutl", "", "its etcdutl, to capture the files of a restored snapshot")
	flag.StringVar(&want.out, "out", "captured", "directory to write to; each version has a subdirectory")
	flag.BoolVar(&want.checkpoint, "checkpoint", false, "also wait five minutes for a lease checkpoint")
	flag.BoolVar(&want.keep, "keep", false, "keep the servers' data and logs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := capture(ctx, want); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", err)
		os.Exit(1)
	}
}

func capture(ctx context.Context, want options) error {
	binary, err := cluster.Find(want.etcd)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bowline-capture-")
	if err != nil {
		return err
	}
	kept := want.keep
	defer func() {
		if kept {
			fmt.Fprintln(os.Stderr, "capture: data and logs are in", dir)
		} else {
			os.RemoveAll(dir)
		}
	}()

	samples, err := record(ctx, binary, dir, want)
	if err != nil {
		// The server logs help to find the cause.
		kept = true
		return err
	}
	return samples.write(filepath.Join(want.out, binary.Version.String()), binary.Version.String())
}

func record(ctx context.Context, binary *cluster.Binary, dir string, want options) (*samples, error) {
	c, err := cluster.New(binary, dir, 3)
	if err != nil {
		return nil, err
	}
	defer c.Close()

	begun := time.Now()
	for _, step := range scenario(want) {
		if step.since != 0 && !binary.AtLeast(3, step.since) {
			continue
		}
		if err := step.do(ctx, c); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(os.Stderr, "capture: %5.1fs  %s\n", time.Since(begun).Seconds(), step.what)
	}

	all := newSamples()
	if err := fromNetwork(all, c.Net.Tapes()); err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(c.Members, c.Retired) {
		if err := fromDisk(all, m); err != nil {
			return nil, fmt.Errorf("files of %s: %w", m.Name, err)
		}
	}
	if missing := all.missing(); missing != nil {
		return nil, fmt.Errorf("captured no messages of %v", missing)
	}
	return all, nil
}
