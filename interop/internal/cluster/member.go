package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// endPatience is how long a server may take to end.
	endPatience = 20 * time.Second
	// logShown is how many bytes of a log tell what went wrong.
	logShown = 4000
)

// Member is one server of a cluster: a process that comes and goes, on a data
// directory that stays.
type Member struct {
	Name string
	// ID is known once the cluster has listed its members.
	ID uint64
	// Dir is the data directory.
	Dir string
	// Note says what is special about the member's files, if anything is.
	Note string
	// PeerURL is the advertised address, which is the proxy's.
	PeerURL string
	// TLS is how clients of this package speak to the member, if they need it. The flags that make the member ask for it
	// are the caller's.
	TLS *tls.Config

	binary     *Binary
	clientAddr string
	peerAddr   string
	process    *exec.Cmd
	exited     chan struct{}
}

// Endpoint is where clients reach the member.
func (m *Member) Endpoint() string { return m.clientAddr }

// ClientURL is the same with a scheme.
func (m *Member) ClientURL() string {
	if m.TLS != nil {
		return "https://" + m.clientAddr
	}
	return "http://" + m.clientAddr
}

// Start runs the server with these flags beside those that give it its place.
func (m *Member) Start(flags ...string) error {
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// The process keeps its own copy of the file.
	defer log.Close()
	args := append([]string{
		"--name=" + m.Name,
		"--data-dir=" + m.Dir,
		"--listen-client-urls=" + m.ClientURL(),
		"--advertise-client-urls=" + m.ClientURL(),
		"--listen-peer-urls=http://" + m.peerAddr,
		"--initial-advertise-peer-urls=" + m.PeerURL,
	}, flags...)
	m.process = exec.Command(m.binary.Path, args...)
	m.process.Stdout, m.process.Stderr = log, log
	// Should this program die, its servers must not stay behind.
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		// How it ended is then known to the process.
		process.Wait()
		close(exited)
	}(m.process, m.exited)
	return nil
}

// Stop asks the server to end, and waits until it has. A server that ends in another way, or did so before it was asked,
// has failed.
func (m *Member) Stop() error {
	state, err := m.end(syscall.SIGTERM)
	if err == nil && state != nil && !orderly(state) {
		err = m.failed(fmt.Sprintf("was to stop, and ended with %s", state))
	}
	return err
}

// Kill ends the server without a chance to say goodbye.
func (m *Member) Kill() error {
	_, err := m.end(syscall.SIGKILL)
	return err
}

// orderly says whether a server ended as one does that is asked to, by the signal or with code 0, or that its cluster has
// removed, which is with code 0 too.
func orderly(state *os.ProcessState) bool {
	status := state.Sys().(syscall.WaitStatus)
	return state.Success() || status.Signaled() && status.Signal() == syscall.SIGTERM
}

// end sends a signal and waits for the process. It returns how that ended, or nil if there was none.
func (m *Member) end(signal syscall.Signal) (*os.ProcessState, error) {
	if m.process == nil {
		return nil, nil
	}
	if err := m.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("signal %s: %w", m.Name, err)
	}
	select {
	case <-m.exited:
	case <-time.After(endPatience):
		m.process.Process.Kill()
		return nil, m.failed(fmt.Sprintf("did not end within %s", endPatience))
	}
	state := m.process.ProcessState
	m.process = nil
	return state, nil
}

// failed is an error that has what is needed to find the reason.
func (m *Member) failed(how string) error {
	return fmt.Errorf("%s %s; its log is %s, and ends with:\n%s", m.Name, how, m.logPath(), m.LogEnd())
}

func (m *Member) logPath() string { return m.Dir + ".log" }

// LogEnd is the end of what the server has logged.
func (m *Member) LogEnd() string {
	text, err := os.ReadFile(m.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logShown):])
}

// Running says whether the server's process is alive.
func (m *Member) Running() bool {
	if m.process == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// Files lists the member's files that match a pattern below its data directory.
func (m *Member) Files(pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(m.Dir, "member", pattern))
}

// Client connects to this member alone.
func (m *Member) Client(user, password string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:   []string{m.clientAddr},
		TLS:         m.TLS,
		DialTimeout: 5 * time.Second,
		Username:    user,
		Password:    password,
		Logger:      zap.NewNop(),
	})
}

// Ready waits until the member answers requests, be it that they need a user.
func (m *Member) Ready(ctx context.Context) error {
	return Until(ctx, "the server to answer", func(ctx context.Context) error {
		if !m.Running() {
			return fatal{m.failed("has ended")}
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Get(ctx, "ready")
			if errors.Is(err, rpctypes.ErrUserEmpty) {
				return nil
			}
			return err
		})
	})
}

// Do lends a client of this member.
func (m *Member) Do(ctx context.Context, use func(context.Context, *clientv3.Client) error) error {
	return m.DoAs(ctx, "", "", use)
}

// DoAs lends a client of this member that a user has logged in with.
func (m *Member) DoAs(
	ctx context.Context, user, password string, use func(context.Context, *clientv3.Client) error,
) error {
	client, err := m.Client(user, password)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return use(ctx, client)
}

const (
	// firstPort to lastPort are below those that systems give to outgoing connections, one of which could take an
	// address between its being found free and a server's listening on it.
	firstPort = 10000
	lastPort  = 32000
	portTries = 100
)

// freeAddr finds a loopback port that nobody listens on. It is drawn, so that programs that look at a time rarely meet.
func freeAddr() (string, error) {
	var err error
	for range portTries {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		var listener net.Listener
		if listener, err = net.Listen("tcp", addr); err == nil {
			return addr, listener.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
