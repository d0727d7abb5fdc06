package clients

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"bowline/interop/internal/cluster"
)

// patience is how long anything may take.
const patience = 60 * time.Second

var (
	program = flag.String("server", "../bin/etcd", "server to test with")
	// binary is that server, and shared the one that most tests use.
	binary *cluster.Binary
	shared *server
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clients")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = cluster.Find(*program); err == nil {
		shared, err = start(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.cluster.Close()
	code := m.Run()
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// server is one that runs, alone in its cluster.
type server struct {
	cluster *cluster.Cluster
	flags   []string
}

func start(dir string, flags ...string) (*server, error) {
	c, err := cluster.New(binary, dir, 1)
	if err != nil {
		return nil, err
	}
	if err := c.Start(context.Background(), flags...); err != nil {
		c.Close()
		return nil, err
	}
	return &server{c, flags}, nil
}

// alone starts a server for one test, after which it must also end well.
func alone(t *testing.T, flags ...string) *server {
	t.Helper()
	s, err := start(t.TempDir(), flags...)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log ends with:\n%s", s.cluster.Members[0].LogEnd())
		} else if err := s.cluster.Stop(); err != nil {
			t.Error(err)
		}
		s.cluster.Close()
	})
	return s
}

func (s *server) endpoint() string { return s.cluster.Members[0].Endpoint() }

func (s *server) stop(t *testing.T) {
	t.Helper()
	must(t, s.cluster.Members[0].Stop())
}

func (s *server) kill(t *testing.T) {
	t.Helper()
	must(t, s.cluster.Members[0].Kill())
}

// startAgain starts the server on what it has left, and waits until it answers.
func (s *server) startAgain(t *testing.T) {
	t.Helper()
	m := s.cluster.Members[0]
	must(t, s.cluster.StartMember(m, s.flags...))
	must(t, m.Ready(context.Background()))
}

// config is how clients reach the server.
func (s *server) config() clientv3.Config {
	return clientv3.Config{Endpoints: []string{s.endpoint()}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
}

func (s *server) client(t *testing.T) *clientv3.Client { return connect(t, s.config()) }

func (s *server) clientAs(t *testing.T, user, password string) *clientv3.Client {
	config := s.config()
	config.Username, config.Password = user, password
	return connect(t, config)
}

// connect makes a client that asks in vain no longer than patience, also where no context is given.
func connect(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	config.Context = ctx
	client, err := clientv3.New(config)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// within is a context that ends with the test, or when patience does.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// prefixOf is below what a test has its keys on the shared server.
func prefixOf(t *testing.T) string { return filepath.Base(t.Name()) + "/" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got is what a call returned, which must have succeeded.
func got[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

func equal[T comparable](t *testing.T, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Errorf("%s: %v and not %v", what, have, want)
	}
}

// fails says that an error is this one.
func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v and not %v", what, err, want)
	}
}

// next takes something from a channel, which must not be closed or silent.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value, open := <-from:
		if !open {
			t.Fatal("closed")
		}
		return value
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// ends waits until a channel is closed.
func ends[T any](t *testing.T, channel <-chan T) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, open := <-channel:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("not closed")
		}
	}
}
