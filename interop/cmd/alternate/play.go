package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// flags make snapshots and log segments frequent, elections quick and passwords cheap.
var flags = []string{
	"--heartbeat-interval=50", "--election-timeout=500", "--snapshot-count=50", "--snapshot-catchup-entries=5", "--bcrypt-cost=4",
}

// ending is the way in which a turn ends the server.
type ending int

const (
	stopped ending = iota
	killed
	killedUnderLoad
)

// uncommitted makes a server keep writes in its log only for as long as possible, so that after a
// kill the next server must recover them from the log.
var uncommitted = []string{"--backend-batch-interval=1h", "--snapshot-count=100000"}

// turnTimeout bounds the duration of a turn.
const turnTimeout = 3 * time.Minute

// play is a data directory and the server that currently runs on it.
type play struct {
	*config
	data  string
	turns int
	// endings are the endings of the turns, used in rotation.
	endings []ending

	cluster *cluster.Cluster
	client  *clientv3.Client
	// known holds the facts of the last server, from before the load if it was killed under load.
	// It is nil before the first turn.
	known *facts
	// acked holds the acknowledged puts of a kill under load.
	acked  *load
	loaded int
	// locked is set while auth is enabled.
	locked bool
	// learner is the id of an added learner, or 0.
	learner uint64
}

func (p *play) binary() *cluster.Binary {
	if (p.turns%2 == 1) != p.oursFirst {
		return p.ours
	}
	return p.theirs
}

func (p *play) ending() ending { return p.endings[p.turns%len(p.endings)] }

func (p *play) programName() string { return filepath.Base(p.binary().Path) }

func (p *play) origin() string {
	if p.from == "" {
		return ""
	}
	return " from " + p.from
}

// turn runs one server on the directory, from start to end.
func (p *play) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if err := p.startAndCompare(ctx); err != nil {
		return err
	}
	if err := p.change(ctx); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	var err error
	if p.known, err = p.facts(ctx, present); err != nil {
		return err
	}
	if p.ending() == killedUnderLoad {
		return p.killUnderLoad(ctx)
	}
	return p.endServer(p.ending())
}

// startAndCompare starts a server and compares its facts with those of the previous one.
func (p *play) startAndCompare(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	found, err := p.facts(ctx, present)
	if err != nil {
		return err
	}
	if p.known != nil {
		if err := p.compare(ctx, found); err != nil {
			return err
		}
	}
	p.known = found
	return nil
}

// compare reports differences from the known facts. After a load it compares the facts of the
// revision before the load.
func (p *play) compare(ctx context.Context, found *facts) error {
	if p.acked == nil {
		return p.known.same(found)
	}
	if err := p.acked.check(p.known, found); err != nil {
		return err
	}
	p.acked = nil
	before, err := p.facts(ctx, p.known.revision)
	if err != nil {
		return err
	}
	return p.known.same(before)
}

// readInitialFacts reads the facts from the server that wrote the directory.
func (p *play) readInitialFacts(ctx context.Context) error {
	if p.before == nil {
		return nil
	}
	var err error
	if p.cluster, err = cluster.Existing(p.before, p.name, p.data); err != nil {
		return err
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	if p.known, err = p.facts(ctx, present); err != nil {
		return err
	}
	p.known.forget("auth", "versions")
	return p.endServer(killed)
}

func (p *play) start(ctx context.Context) error {
	var err error
	if p.turns == 0 && p.from == "" {
		if p.cluster, err = cluster.New(p.binary(), filepath.Dir(p.data), 1); err == nil {
			err = p.cluster.StartMember(p.cluster.Members[0], p.flags()...)
		}
	} else {
		p.cluster, err = cluster.Existing(p.binary(), p.name, p.data, p.flags()...)
	}
	if err != nil {
		return err
	}
	return p.begin(ctx)
}

// flags returns the flags of this turn.
func (p *play) flags() []string {
	if p.ending() == killed {
		return slices.Concat(flags, uncommitted)
	}
	return flags
}

// begin waits until the server is ready.
func (p *play) begin(ctx context.Context) error {
	if err := p.cluster.Members[0].Ready(ctx); err != nil {
		return err
	}
	return p.login()
}

// login connects as root if auth is enabled.
func (p *play) login() error {
	user, password := "", ""
	if p.locked {
		user, password = root, rootPassword
	}
	if p.client != nil {
		p.client.Close()
	}
	var err error
	p.client, err = p.cluster.Members[0].Client(user, password)
	return err
}

// endServer ends the server in the given way.
func (p *play) endServer(how ending) error {
	m := p.cluster.Members[0]
	p.client.Close()
	if how == stopped {
		return errors.Join(m.Stop(), p.releaseCluster())
	}
	return errors.Join(m.Kill(), p.releaseCluster())
}

func (p *play) releaseCluster() error {
	p.cluster.Net.Close()
	p.cluster = nil
	return nil
}

func (p *play) close() {
	if p.cluster != nil {
		p.cluster.Close()
	}
}
