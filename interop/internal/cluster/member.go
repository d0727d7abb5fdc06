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
	// PeerURL is the advertised address, which is the proxy's. Its scheme is that of the address it listens on, too.
	PeerURL string
	// TLS is how clients of this package speak to the member, if they need it. The flags that make the member ask for it
	// are the caller's.
	TLS *tls.Config
	// Environment is what the server finds in its environment beside what this program has.
	Environment []string

	binary     *Binary
	clientAddr string
	peerAddr   string
	process    *exec.Cmd
	exited     chan struct{}
}

// Place gives a server that does not run yet its name, its addresses, and a data directory below dir. What stands before
// the address that others reach it by is the caller's: it is told the member's name and address, and returns its own.
func Place(binary *Binary, dir, name string, before func(name, target string) (string, error)) (*Member, error) {
	m := &Member{Name: name, Dir: filepath.Join(dir, name), binary: binary}
	var errs [3]error
	m.clientAddr, errs[0] = ports.Free()
	m.peerAddr, errs[1] = ports.Free()
	advertised, err := before(name, m.peerAddr)
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("lay out %s: %w", name, err)
	}
	m.PeerURL = "http://" + advertised
	return m, nil
}

// Binary is the program that the member runs.
func (m *Member) Binary() *Binary { return m.binary }

// Become has the member run another program from its next start on, on the same directory.
func (m *Member) Become(binary *Binary) { m.binary = binary }

// Signal sends a signal to the server, which goes on.
func (m *Member) Signal(signal syscall.Signal) error {
	if m.process == nil {
		return m.failed("does not run")
	}
	return m.process.Process.Signal(signal)
}

// Process is the id of the server's process, or zero.
func (m *Member) Process() int {
	if m.process == nil {
		return 0
	}
	return m.process.Process.Pid
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

// Ended waits for a server to end by itself.
func (m *Member) Ended(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-m.exited:
		return nil
	case <-ctx.Done():
		return m.failed(fmt.Sprintf("was to end by itself and did not within %s", patience))
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
