package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/history"
	"bowline/interop/internal/load"
)

const (
	// recordClients is the number of concurrent clients.
	recordClients = 5
	// recordHalf is the time before the member is killed, and after it is restarted.
	recordHalf = time.Second
	// recordPause is the time between two requests of a client: a history has a few hundred.
	recordPause = 20 * time.Millisecond
	// recordBurst is the time before the kill during which clients do not pause, so that the kill
	// interrupts requests.
	recordBurst = 20 * time.Millisecond
	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
)

// phase is the state of the member, as its clients see it.
type phase = int32

const (
	up phase = iota
	// burst is the time shortly before and during the kill.
	burst
	down
)

// recordBoth records a history of each server and returns the paths.
func recordBoth(ctx context.Context, dir, bowline, etcd string) ([]string, error) {
	var paths []string
	for _, server := range []struct{ name, path string }{{"bowline", bowline}, {"etcd", etcd}} {
		binary, err := cluster.Find(server.path)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, server.name+".jsonl")
		if err := record(ctx, binary, filepath.Join(dir, server.name), path); err != nil {
			return nil, fmt.Errorf("record a history of %s: %w", server.name, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// record runs clients against a single member, kills and restarts it halfway, and writes the
// history to path.
func record(ctx context.Context, binary *cluster.Binary, dir, path string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	c, err := cluster.New(binary, dir, 1)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		return err
	}
	file, err := history.Create(path)
	if err != nil {
		return err
	}
	member := c.Members[0]
	working, stop := context.WithCancel(ctx)
	defer stop()
	var current atomic.Int32
	var clients sync.WaitGroup
	for number := range uint64(recordClients) {
		etcd, err := member.Client("", "")
		if err != nil {
			return err
		}
		client := &load.Client{
			Number: number + 1, Member: member.ID, Etcd: etcd, File: file, Timeout: requestTimeout, Varied: true,
		}
		clients.Go(func() {
			defer etcd.Close()
			work(working, client, &current)
		})
	}
	time.Sleep(recordHalf)
	err = restart(ctx, c, member, &current)
	time.Sleep(recordHalf)
	stop()
	clients.Wait()
	return errors.Join(err, file.Close())
}

// work sends requests while the member is up. A request to a member that is down would have an
// unknown outcome, and each of those multiplies the orders that a checker has to try.
func work(ctx context.Context, client *load.Client, current *atomic.Int32) {
	for ctx.Err() == nil {
		var err error
		if current.Load() != down {
			_, err = client.Ask(ctx)
		}
		if err == nil && current.Load() == burst {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(recordPause):
		}
	}
}

// restart kills the member amid requests and starts it again.
func restart(ctx context.Context, c *cluster.Cluster, member *cluster.Member, current *atomic.Int32) error {
	current.Store(burst)
	defer current.Store(up)
	time.Sleep(recordBurst)
	if err := member.Kill(); err != nil {
		return err
	}
	current.Store(down)
	if err := c.StartMember(member); err != nil {
		return err
	}
	return member.Ready(ctx)
}
