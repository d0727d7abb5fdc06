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

// server is one that runs.
type server struct {
	// endpoint is where clients reach it.
	endpoint string
	process  *exec.Cmd
	begun    time.Time
	// ready gets the time of the line in its log that says so.
	ready  chan time.Time
	exited chan error
}

const (
	// readyLine is in the log of both once clients are served.
	readyLine = "ready to serve client requests"
	patience  = 2 * time.Minute
	// ending is how long a server may take to put everything away.
	ending = 20 * time.Second
	// ticks a second in which the system counts processor time: fixed for programs, whatever the
	// kernel uses inside.
	ticks = 100
)

// start runs a program on the data directory of a folder.
func start(program program, folder string) (*server, error) {
	client, err := ports.Free()
	peer, peerErr := ports.Free()
	if err := errors.Join(err, peerErr); err != nil {
		return nil, err
	}
	s := &server{endpoint: client, ready: make(chan time.Time, 1), exited: make(chan error, 1)}
	s.process = exec.Command(program.path, append(spoken.flags(),
		"--name=m1",
		"--data-dir="+filepath.Join(folder, "data"),
		"--listen-client-urls="+spoken.scheme()+"://"+client,
		"--advertise-client-urls="+spoken.scheme()+"://"+client,
		"--listen-peer-urls=http://"+peer,
		"--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=m1=http://"+peer,
	)...)
	// Should this program die, its server must not stay behind.
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
	go s.watchLog(out, filepath.Join(folder, "log"))
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

// untilReady says how long the server took from its start.
func (s *server) untilReady() (time.Duration, error) {
	select {
	case at := <-s.ready:
		return at.Sub(s.begun), nil
	case err := <-s.exited:
		s.exited <- err
		return 0, fmt.Errorf("ended before it was ready: %w", err)
	case <-time.After(patience):
		return 0, errors.New("not ready")
	}
}

// stop asks the server to end and waits until it has.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
		// Both end by the signal that they were sent, once they have put everything away.
		return nil
	case <-time.After(ending):
		// What was measured stands.
		fmt.Fprintf(os.Stderr, "%s did not end within %v and was killed\n", s.process.Path, ending)
		return s.process.Process.Kill()
	}
}

// running lends a server on a fresh data directory that is ready.
func running[T any](folder string, program program, use func(context.Context, *server) (T, error)) (result T, err error) {
	s, err := start(program, folder)
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

// processorTime is what the process has used so far, in itself and in the kernel.
func (s *server) processorTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	return processorTime(string(text))
}

// processorTime takes utime and stime, the 14th and 15th field, out of what the system says of a
// process. The name, which is the second, may have blanks and brackets in it, so fields are counted
// from the last bracket.
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

// memory is what of a process is in memory.
type memory struct {
	// all has the pages of mapped files in it, which are the system's cache; own has not.
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
