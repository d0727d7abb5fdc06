package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

const (
	// writers put one key after the other, until the server is killed when so many were acknowledged.
	writers       = 8
	acknowledged  = 400
	loadValueSize = 500
)

// load is what was acknowledged when a server was killed.
type load struct {
	turn int
	// counts is how many keys of each writer were.
	counts [writers]int
	// revision is the highest that a client was told.
	revision int64
}

func (l *load) key(writer, i int) string { return fmt.Sprintf("load/%d/%d/%06d", l.turn, writer, i) }

func (l *load) value(writer, i int) string {
	return strings.Repeat(fmt.Sprintf("%d-%d ", writer, i), loadValueSize/8)
}

// killUnderLoad kills the server in the middle of writes, and keeps what it has promised.
func (p *play) killUnderLoad(ctx context.Context) error {
	l := &load{turn: p.turns}
	var revisions [writers]int64
	var group sync.WaitGroup
	acks := make(chan struct{}, writers)
	loading, cancel := context.WithCancel(ctx)
	defer cancel()
	client := p.client
	for writer := range writers {
		group.Go(func() {
			for i := 0; ; i++ {
				put, err := client.Put(loading, l.key(writer, i), l.value(writer, i))
				if err != nil {
					return
				}
				l.counts[writer], revisions[writer] = i+1, put.Header.Revision
				acks <- struct{}{}
			}
		})
	}
	for range acknowledged {
		select {
		case <-acks:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := p.cluster.Members[0].Kill()
	cancel()
	go func() {
		group.Wait()
		close(acks)
	}()
	for range acks {
		// Some were acknowledged in the last moment.
	}
	for _, revision := range revisions {
		l.revision = max(l.revision, revision)
	}
	p.known, p.acked = nil, l
	p.loaded += acknowledged
	client.Close()
	return errors.Join(err, p.closed())
}

// check looks for what was acknowledged. A writer's next key may be there too: it was on its way.
func (l *load) check(found *facts) error {
	if found.revision < l.revision {
		return fmt.Errorf("revision %d, when %d had been acknowledged", found.revision, l.revision)
	}
	for writer, count := range l.counts {
		for i := range count {
			if found.values[l.key(writer, i)] != l.value(writer, i) {
				return fmt.Errorf("%s was acknowledged, and is %q", l.key(writer, i), found.values[l.key(writer, i)])
			}
		}
		if _, there := found.values[l.key(writer, count+1)]; there {
			return fmt.Errorf("%s, which nobody wrote", l.key(writer, count+1))
		}
	}
	return nil
}
