package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bowline/interop/internal/cluster"
)

// server executes a server statement.
func (s *side) server(ctx context.Context, words []string) error {
	switch {
	case s.cluster == nil:
		return s.begin(ctx, words)
	case len(words) == 0:
		return errors.New("the server is already running")
	}
	m := s.cluster.Members[0]
	switch words[0] {
	case "stop":
		return m.Stop()
	case "kill":
		return m.Kill()
	case "start":
		if err := s.cluster.StartMember(m, words[1:]...); err != nil {
			return err
		}
		return m.Ready(ctx)
	case "on":
		return s.on(ctx, words[1])
	default:
		return fmt.Errorf("unknown server statement %q", words[0])
	}
}

// begin starts the server on a new directory.
func (s *side) begin(ctx context.Context, flags []string) error {
	files := filepath.Join(s.dir, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return err
	}
	s.names["dir"] = files
	c, err := cluster.New(s.binary, s.dir, 1)
	if err != nil {
		return err
	}
	s.cluster = c
	if err := c.Start(ctx, flags...); err != nil {
		return err
	}
	s.learnAddresses()
	return s.cluster.Members[0].Ready(ctx)
}

// on starts the server on an existing directory.
func (s *side) on(ctx context.Context, dir string) error {
	s.cluster.Close()
	c, err := cluster.Existing(s.binary, "m1", dir)
	if err != nil {
		return err
	}
	s.cluster = c
	if err := c.Settle(ctx); err != nil {
		return err
	}
	s.learnAddresses()
	return s.cluster.Members[0].Ready(ctx)
}

// learnAddresses learns the addresses and ids of the server.
func (s *side) learnAddresses() {
	m := s.cluster.Members[0]
	s.names["endpoint"], s.names["peer"] = m.Endpoint(), m.PeerURL
	s.names["member"] = fmt.Sprintf("%x", m.ID)
	s.normal.Know(s.cluster.ID, m.ID)
	s.normal.ReplaceTexts(m.Endpoint(), "<client>", m.PeerURL, "<peer>", s.dir, "<dir>")
}
