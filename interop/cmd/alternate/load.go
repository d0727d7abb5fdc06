package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// writers is the number of concurrent clients. The server is killed after this many
	// acknowledged puts in total.
	writers       = 8
	acknowledged  = 400
	loadValueSize = 500
	// loadTimeout bounds the time until then.
	loadTimeout = time.Minute
)

// load records the puts that were acknowledged before a server was killed.
type load struct {
	turn int
	// counts is the number of acknowledged keys per writer.
	counts [writers]int
	// revision is the highest revision in a response.
	revision int64
}

func (l *load) key(writer, i int) string { return fmt.Sprintf("load/%d/%d/%06d", l.turn, writer, i) }

func (l *load) value(writer, i int) string {
	return strings.Repeat(fmt.Sprintf("%d-%d ", writer, i), loadValueSize/8)
}

// killUnderLoad kills the server during writes and records the acknowledged ones.
func (s *session) killUnderLoad(ctx context.Context) error {
	l := &load{turn: s.turns}
	var revisions [writers]int64
	var group sync.WaitGroup
	// A writer ends at its first error, which must not occur before the kill.
	ended := make(chan error, writers)
	acks := make(chan struct{}, acknowledged)
	loading, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	client, member := s.client, s.cluster.Members[0]
	for writer := range writers {
		group.Go(func() {
			for i := 0; ; i++ {
				put, err := client.Put(loading, l.key(writer, i), l.value(writer, i))
				if err != nil {
					ended <- err
					return
				}
				l.counts[writer], revisions[writer] = i+1, put.Header.Revision
				select {
				case acks <- struct{}{}:
				default:
					// The count is reached; the writer goes on until the kill.
				}
			}
		})
	}
	for i := range acknowledged {
		select {
		case <-acks:
		case err := <-ended:
			return fmt.Errorf("under load, after %d acknowledged: %w\nthe log ends with:\n%s", i, err, member.LogEnd())
		}
	}
	err := member.Kill()
	cancel()
	group.Wait()
	for _, revision := range revisions {
		l.revision = max(l.revision, revision)
	}
	s.acked = l
	s.loaded += acknowledged
	client.Close()
	return errors.Join(err, s.releaseCluster())
}

// check verifies that all acknowledged puts and all earlier keys are present. One more key per
// writer is allowed: that put was in flight.
func (l *load) check(before, found *facts) error {
	for key, value := range before.values {
		if found.values[key] != value {
			return fmt.Errorf("%s was %q before the load, got %q", key, value, found.values[key])
		}
	}
	if found.revision < l.revision {
		return fmt.Errorf("found revision %d, but %d was acknowledged", found.revision, l.revision)
	}
	for writer, count := range l.counts {
		for i := range count {
			if found.values[l.key(writer, i)] != l.value(writer, i) {
				return fmt.Errorf("%s was acknowledged, but its value is %q", l.key(writer, i), found.values[l.key(writer, i)])
			}
		}
		if _, exists := found.values[l.key(writer, count+1)]; exists {
			return fmt.Errorf("found %s, which was never written", l.key(writer, count+1))
		}
	}
	return nil
}
