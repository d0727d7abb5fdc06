package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"bowline/interop/internal/ports"
)

const (
	// shutdownTimeout bounds the shutdown of a server.
	shutdownTimeout = 60 * time.Second
	// logShown is the number of bytes at the end of a log that errors include.
	logShown = 4000
)

// Member is one server of a cluster: a data directory and the process that currently runs on it.
type Member struct {
	Name string
	// ID is known once the cluster has listed its members.
	ID uint64
	// Dir is the data directory.
	Dir string
	// Note is free text for the caller.
	Note string
	// PeerURL is the advertised peer URL, which is the proxy's. The member listens with the same
	// scheme.
	PeerURL string
	// TLS configures the clients of this package. The caller passes the matching flags to the member.
	TLS *tls.Config
	// User and Password are those of status requests, which need a user while auth is enabled.
	User, Password string
	// Environment is added to the environment of the server.
	Environment []string

	binary     *Binary
	clientAddr string
	peerAddr   string
	process    *exec.Cmd
	exited     chan struct{}
}

// Place creates a member without starting it: a name, addresses and a data directory below dir. The
// function before starts a proxy for a name and peer address, and returns the address to advertise.
func Place(binary *Binary, dir, name string, before func(name, target string) (string, error)) (*Member, error) {
	m := &Member{Name: name, Dir: filepath.Join(dir, name), binary: binary}
	var errs [3]error
	m.clientAddr, errs[0] = ports.Free()
	m.peerAddr, errs[1] = ports.Free()
	advertised, err := before(name, m.peerAddr)
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("place %s: %w", name, err)
	}
	m.PeerURL = "http://" + advertised
	return m, nil
}

// Binary returns the program of the member.
func (m *Member) Binary() *Binary { return m.binary }

// Become sets the program for the next start, on the same directory.
func (m *Member) Become(binary *Binary) { m.binary = binary }

// Signal sends a signal to the server.
func (m *Member) Signal(signal syscall.Signal) error {
	if m.process == nil {
		return m.failed("does not run")
	}
	return m.process.Process.Signal(signal)
}

// Process returns the id of the server's process, or zero.
func (m *Member) Process() int {
	if m.process == nil {
		return 0
	}
	return m.process.Process.Pid
}

// Endpoint returns the client address.
func (m *Member) Endpoint() string { return m.clientAddr }

// ClientURL returns the client address with its scheme.
func (m *Member) ClientURL() string {
	if m.TLS != nil {
		return "https://" + m.clientAddr
	}
	return "http://" + m.clientAddr
}

// Start starts the server with its name, directory and addresses, and these flags.
func (m *Member) Start(flags ...string) error {
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// The process has its own descriptor of the file.
	defer log.Close()
	scheme, _, _ := strings.Cut(m.PeerURL, "://")
	args := append([]string{
		"--name=" + m.Name,
		"--data-dir=" + m.Dir,
		"--listen-client-urls=" + m.ClientURL(),
		"--advertise-client-urls=" + m.ClientURL(),
		"--listen-peer-urls=" + scheme + "://" + m.peerAddr,
		"--initial-advertise-peer-urls=" + m.PeerURL,
	}, flags...)
	m.process = exec.Command(m.binary.Path, args...)
	m.process.Stdout, m.process.Stderr = log, log
	m.process.Env = append(os.Environ(), m.Environment...)
	// Servers must not outlive this program.
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		// Wait stores the exit status in process.ProcessState.
		process.Wait()
		close(exited)
	}(m.process, m.exited)
	return nil
}

// Stop sends SIGTERM and waits for the exit. It returns an error if the server crashes, or had
// exited before.
func (m *Member) Stop() error {
	state, err := m.end(syscall.SIGTERM)
	if err == nil && state != nil && !orderly(state) {
		err = m.failed(fmt.Sprintf("was stopped and ended with %s", state))
	}
	return err
}

// Kill sends SIGKILL and waits for the exit.
func (m *Member) Kill() error {
	_, err := m.end(syscall.SIGKILL)
	return err
}

// orderly reports whether a server ended by SIGTERM or with code 0. A removed member ends with code
// 0 too.
func orderly(state *os.ProcessState) bool {
	status := state.Sys().(syscall.WaitStatus)
	return state.Success() || status.Signaled() && status.Signal() == syscall.SIGTERM
}

// end sends a signal and waits for the process. It returns the exit status, or nil if no process
// runs.
func (m *Member) end(signal syscall.Signal) (*os.ProcessState, error) {
	if m.process == nil {
		return nil, nil
	}
	if err := m.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("signal %s: %w", m.Name, err)
	}
	select {
	case <-m.exited:
	case <-time.After(shutdownTimeout):
		m.process.Process.Kill()
		return nil, m.failed(fmt.Sprintf("did not end within %s", shutdownTimeout))
	}
	state := m.process.ProcessState
	m.process = nil
	return state, nil
}

// failed returns an error with the end of the log.
func (m *Member) failed(how string) error {
	return fmt.Errorf("%s %s; its log is %s, and ends with:\n%s", m.Name, how, m.logPath(), m.LogEnd())
}

func (m *Member) logPath() string { return m.Dir + ".log" }

// LogEnd returns the end of the server's log.
func (m *Member) LogEnd() string {
	text, err := os.ReadFile(m.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logShown):])
}

// Running reports whether the server's process is alive.
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

// Ended waits for the server to exit without a signal.
func (m *Member) Ended(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-m.exited:
		return nil
	case <-ctx.Done():
		return m.failed(fmt.Sprintf("did not exit by itself within %s", timeout))
	}
}

// Files lists the files below the member's data directory that match a pattern.
func (m *Member) Files(pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(m.Dir, "member", pattern))
}

// Client returns a client of this member only.
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

// Ready waits until the member responds to requests, even if only with an auth error.
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

// Do calls use with a client of this member.
func (m *Member) Do(ctx context.Context, use func(context.Context, *clientv3.Client) error) error {
	return m.DoAs(ctx, "", "", use)
}

// DoAs calls use with a client of this member that is logged in as a user.
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
