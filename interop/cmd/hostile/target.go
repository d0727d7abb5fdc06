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
}

const (
	// patience bounds the start and the shutdown of a server.
	patience = 30 * time.Second
)

// start runs a program on a new data directory below a folder, and waits until it accepts
// connections.
func start(program program, folder string, tls bool, flags ...string) (*target, error) {
	client, err := ports.Free()
	peer, peerErr := ports.Free()
	if err := errors.Join(err, peerErr); err != nil {
		return nil, err
	}
	t := &target{address: client, log: filepath.Join(folder, "log"), exited: make(chan struct{})}
	scheme := "http"
	if tls {
		if t.certificates, err = makeCertificates(folder); err != nil {
			return nil, err
		}
		scheme = "https"
		flags = append(flags, "--cert-file="+t.certificates.certFile, "--key-file="+t.certificates.keyFile)
	}
	args := append([]string{
		"--name=m1",
		"--data-dir=" + filepath.Join(folder, "data"),
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

// untilReady waits for the port. The well-behaved clients wait for the first response.
func (t *target) untilReady() error {
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(20 * time.Millisecond) {
		if t.ended() {
			return errors.New("the server exited: " + t.lastWords())
		}
		conn, err := net.Dial("tcp", t.address)
		if err == nil {
			return conn.Close()
		}
	}
	return errors.New("timed out waiting for the server to accept connections: " + t.lastWords())
}

func (t *target) ended() bool {
	select {
	case <-t.exited:
		return true
	default:
		return false
	}
}

func (t *target) stop() error {
	if t.ended() {
		return nil
	}
	if err := t.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-t.exited:
		return nil
	case <-time.After(patience):
		return errors.Join(errors.New("the server did not exit"), t.process.Process.Kill())
	}
}

// panicked reports whether the log contains a panic.
func (t *target) panicked() bool {
	text, err := os.ReadFile(t.log)
	return err != nil || bytes.Contains(text, []byte("panic"))
}

func (t *target) lastWords() string {
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
