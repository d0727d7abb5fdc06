package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// restore takes a snapshot from the running cluster and restores it with etcdutl, which writes a
// log of its own.
func restore(etcdutl string) func(context.Context, *cluster.Cluster) error {
	return func(ctx context.Context, c *cluster.Cluster) error {
		image := filepath.Join(c.Dir, "image")
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		err = with(ctx, leader, func(ctx context.Context, client *clientv3.Client) error {
			return saveImage(ctx, client, image)
		})
		if err != nil {
			return err
		}
		restored := &cluster.Member{Name: "restored", Note: "restored", Dir: filepath.Join(c.Dir, "restored")}
		c.Retired = append(c.Retired, restored)
		// The stream lacks the checksum that etcdctl appends to the file.
		output, err := exec.CommandContext(ctx, etcdutl, "snapshot", "restore", image, "--skip-hash-check",
			"--name=restored", "--data-dir="+restored.Dir,
			"--initial-cluster=restored=http://127.0.0.1:1", "--initial-advertise-peer-urls=http://127.0.0.1:1",
		).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	}
}

func saveImage(ctx context.Context, client *clientv3.Client, file string) error {
	image, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer image.Close()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, image)
	return err
}

// forceNewCluster restarts a stopped member with --force-new-cluster. The member appends the
// removal of the others to its log.
func forceNewCluster(ctx context.Context, c *cluster.Cluster) error {
	m := c.Members[0]
	if err := c.StartMember(m, "--force-new-cluster"); err != nil {
		return err
	}
	if err := c.Settle(ctx); err != nil {
		return err
	}
	return m.Stop()
}
