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

const (
	// testTimeout bounds every operation. It only ends a test that hangs, so it is generous.
	testTimeout = 5 * time.Minute
	// dialTimeout bounds the connection of a client, with its login.
	dialTimeout = time.Minute
	// exchangeTimeout is how long a raw HTTP/1 exchange lasts in which the server stays silent.
	exchangeTimeout = 30 * time.Second
)

var (
	program = flag.String("server", "../bin/etcd", "server to test with")
	// binary is that server, and shared the instance that most tests use.
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

// server is a running single-member cluster.
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

// alone starts a server for one test and checks that it stops cleanly at the end.
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

// startAgain restarts the server on its data directory, and waits until it responds.
func (s *server) startAgain(t *testing.T) {
	t.Helper()
	m := s.cluster.Members[0]
	must(t, s.cluster.StartMember(m, s.flags...))
	must(t, m.Ready(context.Background()))
}

// config returns the client configuration for the server.
func (s *server) config() clientv3.Config {
	return clientv3.Config{Endpoints: []string{s.endpoint()}, DialTimeout: dialTimeout, Logger: zap.NewNop()}
}

func (s *server) client(t *testing.T) *clientv3.Client { return connect(t, s.config()) }

func (s *server) clientAs(t *testing.T, user, password string) *clientv3.Client {
	config := s.config()
	config.Username, config.Password = user, password
	return connect(t, config)
}

// connect returns a client whose requests time out after testTimeout, even without a context.
func connect(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	config.Context = ctx
	client, err := clientv3.New(config)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// within returns a context that ends with the test, or after testTimeout.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// prefixOf returns the key prefix of a test on the shared server.
func prefixOf(t *testing.T) string { return filepath.Base(t.Name()) + "/" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got returns the value of a call, which must succeed.
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
		t.Errorf("%s: got %v, want %v", what, have, want)
	}
}

// fails checks that an error equals the expected one.
func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// next receives from a channel and fails if it is closed or if receiving times out.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value, open := <-from:
		if !open {
			t.Fatal("the channel is closed")
		}
		return value
	case <-time.After(testTimeout):
		t.Fatal("timed out waiting for a value")
		panic("unreachable")
	}
}

// ends waits until a channel is closed.
func ends[T any](t *testing.T, channel <-chan T) {
	t.Helper()
	deadline := time.After(testTimeout)
	for {
		select {
		case _, open := <-channel:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("timed out waiting for the channel to close")
		}
	}
}
