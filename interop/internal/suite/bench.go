// Package suite runs tests of etcd's module go.etcd.io/etcd/tests/v3, compiled and unmodified,
// against a server.
//
// Each test runs as a process of its own, in its own directory and network namespace, because
// etcd's tests use fixed ports. The directory is laid out as etcd's repository:
//
//	bin/etcd, etcdctl, etcdutl, etcd-last-release
//	<n>/etcd.conf.yml.sample
//	<n>/tests/fixtures             etcd's certificates
//	<n>/tests/<suite>              the working directory of a test
//	<n>/tmp                        its temporary files
package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"bowline/interop/internal/netns"
)

// Test is a test of a suite: a function, or a subtest with its path.
type Test struct {
	Suite, Name string
}

func (t Test) String() string { return t.Suite + " " + t.Name }

// Options are the programs and files that tests need.
type Options struct {
	Etcd, LastRelease, Ctl, Utl string
	// Module is the directory of etcd's tests module.
	Module string
	// Sample is the configuration file that a test starts a server with.
	Sample string
	// Compiled is the path of the compiled suites without their names.
	Compiled string
	// Converter is Go's test2json.
	Converter string
	// Timeout bounds the run time of a test.
	Timeout time.Duration
	// Out is the directory for logs. It is new and temporary unless given.
	Out string
}

// Flags defines a flag for each option.
func (o *Options) Flags() {
	flag.StringVar(&o.Etcd, "etcd", "", "server to test")
	flag.StringVar(&o.LastRelease, "last-release", "", "etcd of the previous minor version, for mixed clusters")
	flag.StringVar(&o.Ctl, "etcdctl", "bin/etcdctl", "etcdctl of the reference version")
	flag.StringVar(&o.Utl, "etcdutl", "bin/etcdutl", "etcdutl of the reference version")
	flag.StringVar(&o.Module, "tests", "", "directory of etcd's tests module")
	flag.StringVar(&o.Sample, "sample", "suites/etcd.conf.yml.sample", "configuration file that a test starts a server with")
	flag.StringVar(&o.Compiled, "compiled", "bin/suites-", "path of the compiled suites without their names")
	flag.StringVar(&o.Converter, "test2json", "bin/test2json", "Go's test2json")
	flag.DurationVar(&o.Timeout, "timeout", 15*time.Minute, "bound on the run time of a test")
	flag.StringVar(&o.Out, "out", "", "directory for the logs of failed tests; new and temporary unless given")
}

// Bench is a place to run tests.
type Bench struct {
	Options
	dir      string
	dirCount atomic.Int64
	// namespaces has the network namespaces of the running tests.
	namespaces sync.Map
}

// New prepares a bench.
func New(want Options) (*Bench, error) {
	if want.Etcd == "" || want.LastRelease == "" || want.Module == "" {
		return nil, errors.New("-etcd, -last-release and -tests are required")
	}
	if err := netns.Available(); err != nil {
		return nil, fmt.Errorf("network namespaces are not available: run as root, or allow unprivileged user namespaces "+
			"(sysctl -w kernel.apparmor_restrict_unprivileged_userns=0): %w", err)
	}
	dir, err := os.MkdirTemp("", "suites-")
	if err != nil {
		return nil, err
	}
	b := &Bench{Options: want, dir: dir}
	if err := b.prepare(); err != nil {
		b.Close()
		return nil, err
	}
	go b.endOnSignal()
	return b, nil
}

// endOnSignal ends this process, with all tests and their servers, when it is interrupted.
func (b *Bench) endOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	b.Close()
	os.Exit(130)
}

func (b *Bench) prepare() error {
	var err error
	if b.Out == "" {
		b.Out, err = os.MkdirTemp("", "bowline-suites-")
	} else if err = os.MkdirAll(b.Out, 0o755); err == nil {
		b.Out, err = filepath.Abs(b.Out)
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(b.dir, "bin"), 0o755); err != nil {
		return err
	}
	links := map[string]string{"etcd": b.Etcd, "etcd-last-release": b.LastRelease, "etcdctl": b.Ctl, "etcdutl": b.Utl}
	for name, program := range links {
		if err := link(program, filepath.Join(b.dir, "bin", name)); err != nil {
			return err
		}
	}
	return nil
}

func link(from, to string) error {
	from, err := absolute(from)
	if err != nil {
		return err
	}
	return os.Symlink(from, to)
}

// absolute returns the absolute path of a file that must exist.
func absolute(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	return path, err
}

// Close kills the running tests and removes everything except logs.
func (b *Bench) Close() {
	b.namespaces.Range(func(namespace, _ any) bool {
		netns.Kill(namespace.(string))
		return true
	})
	os.RemoveAll(b.dir)
	// Only an empty directory is removed.
	os.Remove(b.Out)
}

// List returns the test functions of a suite.
func (b *Bench) List(suite string) ([]Test, error) {
	command, root, err := b.command(suite, "-test.list", ".*")
	defer os.RemoveAll(root)
	if err != nil {
		return nil, err
	}
	output, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w: %s", suite, err, output)
	}
	var tests []Test
	for line := range bytes.Lines(output) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("list the tests of %s: %w: %s", suite, err, line)
		}
		if name := strings.TrimSpace(e.Output); strings.HasPrefix(name, "Test") {
			tests = append(tests, Test{suite, name})
		}
	}
	return tests, nil
}

// command returns a command that runs a compiled suite in a new directory, and that directory.
func (b *Bench) command(suite string, arguments ...string) (*exec.Cmd, string, error) {
	root := filepath.Join(b.dir, fmt.Sprint(b.dirCount.Add(1)))
	dir, temporary := filepath.Join(root, "tests", suite), filepath.Join(root, "tmp")
	for _, path := range []string{dir, temporary} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, root, err
		}
	}
	if err := link(filepath.Join(b.Module, "fixtures"), filepath.Join(root, "tests", "fixtures")); err != nil {
		return nil, root, err
	}
	if err := link(b.Sample, filepath.Join(root, "etcd.conf.yml.sample")); err != nil {
		return nil, root, err
	}
	program, err := absolute(b.Compiled + suite)
	if err != nil {
		return nil, root, err
	}
	arguments = append([]string{"-t", program, "-bin-dir", filepath.Join(b.dir, "bin")}, arguments...)
	command, err := netns.Command(b.Converter, arguments...)
	if err != nil {
		return nil, root, err
	}
	command.Dir = dir
	command.Env = append(os.Environ(), "TMPDIR="+temporary)
	return command, root, nil
}

// Run runs a test with additional environment variables, and kills all processes that it leaves.
func (b *Bench) Run(t Test, environment ...string) *Result {
	begun := time.Now()
	command, root, err := b.command(t.Suite, "-test.v=test2json", "-test.run", t.pattern(), "-test.timeout", b.Timeout.String())
	defer os.RemoveAll(root)
	var output []byte
	if err == nil {
		command.Env = append(command.Env, environment...)
		output, err = b.bounded(command, filepath.Join(root, "output"))
	}
	result := readResult(t, output, err)
	result.Took = time.Since(begun)
	return result
}

// pattern returns the regular expressions that select the test alone.
func (t Test) pattern() string {
	return "^" + strings.ReplaceAll(t.Name, "/", "$/^") + "$"
}

// bounded runs a command, kills everything in its namespace when it ends, or is late, and returns
// the output. That goes through a file, since servers that outlive a dead test would hold a pipe
// open.
func (b *Bench) bounded(command *exec.Cmd, path string) ([]byte, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return nil, err
	}
	namespace, err := netns.Of(command.Process.Pid)
	if err != nil {
		return nil, err
	}
	b.namespaces.Store(namespace, true)
	defer b.namespaces.Delete(namespace)
	// The test itself ends, with the stacks of its goroutines, after its timeout.
	late, cancel := context.WithTimeout(context.Background(), b.Timeout+time.Minute)
	defer cancel()
	stop := context.AfterFunc(late, func() { netns.Kill(namespace) })
	defer stop()
	err = errors.Join(command.Wait(), netns.Kill(namespace))
	output, readErr := os.ReadFile(path)
	return output, errors.Join(err, readErr)
}

// Keep writes the output of a test to the directory for logs and returns the path.
func (b *Bench) Keep(r *Result, prefix string) (string, error) {
	name := strings.ReplaceAll(r.Test.Name, "/", "-")
	path := filepath.Join(b.Out, fmt.Sprintf("%s%s-%s.log", prefix, r.Test.Suite, name))
	return path, os.WriteFile(path, r.Output, 0o644)
}
