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

// session is a data directory and the server that currently runs on it.
type session struct {
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

func (s *session) binary() *cluster.Binary {
	if (s.turns%2 == 1) != s.oursFirst {
		return s.ours
	}
	return s.theirs
}

func (s *session) ending() ending { return s.endings[s.turns%len(s.endings)] }

func (s *session) programName() string { return filepath.Base(s.binary().Path) }

func (s *session) origin() string {
	if s.from == "" {
		return ""
	}
	return " from " + s.from
}

// turn runs one server on the directory, from start to end.
func (s *session) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if err := s.startAndCompare(ctx); err != nil {
		return err
	}
	if err := s.change(ctx); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	var err error
	if s.known, err = s.facts(ctx, present); err != nil {
		return err
	}
	if s.ending() == killedUnderLoad {
		return s.killUnderLoad(ctx)
	}
	return s.endServer(s.ending())
}

// startAndCompare starts a server and compares its facts with those of the previous one.
func (s *session) startAndCompare(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	found, err := s.facts(ctx, present)
	if err != nil {
		return err
	}
	if s.known != nil {
		if err := s.compare(ctx, found); err != nil {
			return err
		}
	}
	s.known = found
	return nil
}

// compare reports differences from the known facts. After a load it compares the facts of the
// revision before the load.
func (s *session) compare(ctx context.Context, found *facts) error {
	if s.acked == nil {
		return s.known.same(found)
	}
	if err := s.acked.check(s.known, found); err != nil {
		return err
	}
	s.acked = nil
	before, err := s.facts(ctx, s.known.revision)
	if err != nil {
		return err
	}
	return s.known.same(before)
}

// readInitialFacts reads the facts from the server that wrote the directory.
func (s *session) readInitialFacts(ctx context.Context) error {
	if s.before == nil {
		return nil
	}
	var err error
	if s.cluster, err = cluster.Existing(s.before, s.name, s.data); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if s.known, err = s.facts(ctx, present); err != nil {
		return err
	}
	s.known.forget("auth", "versions")
	return s.endServer(killed)
}

func (s *session) start(ctx context.Context) error {
	var err error
	if s.turns == 0 && s.from == "" {
		if s.cluster, err = cluster.New(s.binary(), filepath.Dir(s.data), 1); err == nil {
			err = s.cluster.StartMember(s.cluster.Members[0], s.flags()...)
		}
	} else {
		s.cluster, err = cluster.Existing(s.binary(), s.name, s.data, s.flags()...)
	}
	if err != nil {
		return err
	}
	return s.begin(ctx)
}

// flags returns the flags of this turn.
func (s *session) flags() []string {
	if s.ending() == killed {
		return slices.Concat(flags, uncommitted)
	}
	return flags
}

// begin waits until the server is ready.
func (s *session) begin(ctx context.Context) error {
	if err := s.cluster.Members[0].Ready(ctx); err != nil {
		return err
	}
	return s.login()
}

// login connects as root if auth is enabled.
func (s *session) login() error {
	user, password := "", ""
	if s.locked {
		user, password = root, rootPassword
	}
	if s.client != nil {
		s.client.Close()
	}
	var err error
	s.client, err = s.cluster.Members[0].Client(user, password)
	return err
}

// endServer ends the server in the given way.
func (s *session) endServer(how ending) error {
	m := s.cluster.Members[0]
	s.client.Close()
	if how == stopped {
		return errors.Join(m.Stop(), s.releaseCluster())
	}
	return errors.Join(m.Kill(), s.releaseCluster())
}

func (s *session) releaseCluster() error {
	s.cluster.Net.Close()
	s.cluster = nil
	return nil
}

func (s *session) close() {
	if s.cluster != nil {
		s.cluster.Close()
	}
}
