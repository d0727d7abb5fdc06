package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bowline/interop/internal/ports"
)

// program is a server that can be started.
type program struct{ name, path string }

// target is a running server.
type target struct {
	address string
	// certificates is set if the server uses TLS.
	certificates *certificates
	process      *exec.Cmd
	log          string
	exited       chan struct{}
	// member is the server of a proxy, or nil.
	member *target
}

const (
	// serverTimeout bounds the start and the shutdown of a server.
	serverTimeout = 30 * time.Second
)

// start runs a program in a role, with new files below a directory, and waits until it accepts
// connections. The flags are for the member.
func start(program program, on role, dir string, tls bool, flags ...string) (*target, error) {
	t, err := startMember(program, dir, tls, flags...)
	if err != nil || on == member {
		return t, err
	}
	return startProxy(program, dir, t)
}

// startProxy runs a grpc-proxy in front of a member without TLS.
func startProxy(program program, dir string, member *target) (*target, error) {
	address, err := ports.Free()
	if err != nil {
		return nil, errors.Join(err, member.stop())
	}
	t := &target{address: address, log: filepath.Join(dir, "proxy.log"), exited: make(chan struct{}), member: member}
	args := []string{
		"grpc-proxy", "start",
		"--endpoints=" + member.address,
		"--listen-addr=" + address,
		"--advertise-client-url=" + address,
		"--data-dir=" + filepath.Join(dir, "proxy"),
	}
	if err := t.launch(program.path, args); err != nil {
		return nil, errors.Join(err, member.stop())
	}
	return t, t.untilReady()
}

// startMember runs a program as the only member of a cluster.
func startMember(program program, dir string, tls bool, flags ...string) (*target, error) {
	client, err := ports.Free()
	peer, peerErr := ports.Free()
	if err := errors.Join(err, peerErr); err != nil {
		return nil, err
	}
	t := &target{address: client, log: filepath.Join(dir, "log"), exited: make(chan struct{})}
	scheme := "http"
	if tls {
		if t.certificates, err = makeCertificates(dir); err != nil {
			return nil, err
		}
		scheme = "https"
		flags = append(flags, "--cert-file="+t.certificates.certFile, "--key-file="+t.certificates.keyFile)
	}
	args := append([]string{
		"--name=m1",
		"--data-dir=" + filepath.Join(dir, "data"),
		"--listen-client-urls=" + scheme + "://" + client,
		"--advertise-client-urls=" + scheme + "://" + client,
		"--listen-peer-urls=http://" + peer,
		"--initial-advertise-peer-urls=http://" + peer,
		"--initial-cluster=m1=http://" + peer,
		"--log-level=error",
	}, flags...)
	if err := t.launch(program.path, args); err != nil {
		return nil, err
	}
	return t, t.untilReady()
}

func (t *target) launch(path string, args []string) error {
	log, err := os.Create(t.log)
	if err != nil {
		return err
	}
	defer log.Close()
	t.process = exec.Command(path, args...)
	t.process.Stdout, t.process.Stderr = log, log
	// The server must not outlive this program.
	t.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.process.Start(); err != nil {
		return err
	}
	go func() {
		t.process.Wait()
		close(t.exited)
	}()
	return nil
}

// untilReady waits for the port. The bystanders wait for the first response.
func (t *target) untilReady() error {
	for begun := time.Now(); time.Since(begun) < serverTimeout; time.Sleep(20 * time.Millisecond) {
		if t.ended() {
			return errors.New("the server exited: " + t.logTail())
		}
		conn, err := net.Dial("tcp", t.address)
		if err == nil {
			return conn.Close()
		}
	}
	return errors.New("timed out waiting for the server to accept connections: " + t.logTail())
}

func (t *target) ended() bool {
	select {
	case <-t.exited:
		return true
	default:
		return false
	}
}

// stop stops a server, and then the member of a proxy.
func (t *target) stop() error {
	err := t.stopAlone()
	if t.member != nil {
		err = errors.Join(err, t.member.stop())
	}
	return err
}

func (t *target) stopAlone() error {
	if t.ended() {
		return nil
	}
	if err := t.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-t.exited:
		return nil
	case <-time.After(serverTimeout):
		return errors.Join(errors.New("the server did not exit"), t.process.Process.Kill())
	}
}

// died reports whether a server, or the member of a proxy, has exited.
func (t *target) died() bool { return t.ended() || t.member != nil && t.member.died() }

// panicked reports whether the log of a server, or of the member of a proxy, contains a panic.
func (t *target) panicked() bool {
	text, err := os.ReadFile(t.log)
	return err != nil || bytes.Contains(text, []byte("panic")) || t.member != nil && t.member.panicked()
}

func (t *target) logTail() string {
	text, err := os.ReadFile(t.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// memory returns the anonymous memory of the process, in megabytes.
func (t *target) memory() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.process.Process.Pid))
	if err != nil {
		return 0
	}
	return anonymous(string(text))
}

// anonymous parses RssAnon from /proc/PID/status.
func anonymous(status string) float64 {
	_, rest, _ := strings.Cut(status, "\nRssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return 0
	}
	return kilobytes * 1024 / 1e6
}

// descriptors returns the number of open descriptors of the process.
func (t *target) descriptors() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.process.Process.Pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// raiseDescriptorLimit raises the descriptor limit of this program and its servers to the maximum.
func raiseDescriptorLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
