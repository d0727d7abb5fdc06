package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

// server is a running server.
type server struct {
	// endpoint is the client address.
	endpoint string
	process  *exec.Cmd
	begun    time.Time
	// ready receives the time of the log line that reports readiness.
	ready  chan time.Time
	exited chan error
}

const (
	// readyLine is in the log of both servers once they serve clients.
	readyLine     = "ready to serve client requests"
	serverTimeout = 2 * time.Minute
	// ending bounds the shutdown of a server.
	ending = 20 * time.Second
	// ticks is the number of units per second in /proc/PID/stat, a constant on Linux.
	ticks = 100
)

// start runs a program with its data directory and log below a directory.
func start(program program, dir string) (*server, error) {
	client, err := ports.Free()
	peer, peerErr := ports.Free()
	if err := errors.Join(err, peerErr); err != nil {
		return nil, err
	}
	s := &server{endpoint: client, ready: make(chan time.Time, 1), exited: make(chan error, 1)}
	s.process = exec.Command(program.path, append(connSecurity.flags(),
		"--name=m1",
		"--data-dir="+filepath.Join(dir, "data"),
		"--listen-client-urls="+connSecurity.scheme()+"://"+client,
		"--advertise-client-urls="+connSecurity.scheme()+"://"+client,
		"--listen-peer-urls=http://"+peer,
		"--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=m1=http://"+peer,
	)...)
	// The server must not outlive this program.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.process.Stdout, s.process.Stderr = in, in
	s.begun = time.Now()
	err = s.process.Start()
	in.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	go s.watchLog(out, filepath.Join(dir, "log"))
	go func() { s.exited <- s.process.Wait() }()
	return s, nil
}

// watchLog keeps the log and notes when the server is ready.
func (s *server) watchLog(out io.ReadCloser, path string) {
	defer out.Close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, readyLine) {
			select {
			case s.ready <- time.Now():
			default:
			}
		}
		io.WriteString(file, line)
		if err != nil {
			return
		}
	}
}

// untilReady returns the time from the start to readiness.
func (s *server) untilReady() (time.Duration, error) {
	select {
	case at := <-s.ready:
		return at.Sub(s.begun), nil
	case err := <-s.exited:
		s.exited <- err
		return 0, fmt.Errorf("the server exited before it was ready: %w", err)
	case <-time.After(serverTimeout):
		return 0, errors.New("timed out waiting for the server")
	}
}

// stop sends SIGTERM and waits for the exit.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
		// Both servers end by the signal after an orderly shutdown.
		return nil
	case <-time.After(ending):
		// The measurements remain valid.
		fmt.Fprintf(os.Stderr, "%s did not end within %v and was killed\n", s.process.Path, ending)
		return s.process.Process.Kill()
	}
}

// running calls a function with a ready server on a new data directory.
func running[T any](dir string, program program, use func(context.Context, *server) (T, error)) (result T, err error) {
	s, err := start(program, dir)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if _, err := s.untilReady(); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return use(ctx, s)
}

// processorTime returns the user and system time of the process so far.
func (s *server) processorTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	return processorTime(string(text))
}

// processorTime parses utime and stime, the 14th and 15th field of /proc/PID/stat. The second
// field, the name, may contain spaces and parentheses, so fields are counted from the last
// parenthesis.
func processorTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("not a line of /proc/PID/stat: %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	kernel, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+kernel) * time.Second / ticks, nil
}

// memory is the resident memory of a process.
type memory struct {
	// all includes the pages of mapped files, which belong to the system's cache; own does not.
	all, own, most float64
}

func (s *server) memory() (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	megabytes := func(name string) float64 {
		_, rest, _ := strings.Cut(string(text), "\n"+name+":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		kilobytes, _ := strconv.ParseFloat(fields[0], 64)
		return kilobytes * 1024 / 1e6
	}
	return memory{all: megabytes("VmRSS"), own: megabytes("RssAnon"), most: megabytes("VmHWM")}, nil
}
