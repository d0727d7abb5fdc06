package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/version"

	"bowline/interop/internal/certs"
	"bowline/interop/internal/cluster"
	"bowline/interop/internal/normal"
)

const (
	// programTimeout bounds the run time of a program.
	programTimeout = 5 * time.Minute
	// stderrShown is the number of bytes of stderr in an error.
	stderrShown = 4000
)

// programRun is the run of one program with its own server.
type programRun struct {
	language language
	mode     mode
	cluster  *cluster.Cluster
	certs    *certs.Files
	dir      string
	plant    *plant
}

// runProgram starts a server, runs a program against it and returns the normalized transcript.
func (c *config) runProgram(ctx context.Context, l language, m mode, binary *cluster.Binary, plant *plant) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(c.dir, l.name+"-"+m.name+"-")
	if err != nil {
		return "", err
	}
	r := &programRun{language: l, mode: m, dir: dir, plant: plant}
	defer r.close()
	if err := r.start(ctx, binary); err != nil {
		return "", fmt.Errorf("start: %w", err)
	}
	transcript, err := r.run(ctx)
	if err != nil {
		return transcript, fmt.Errorf("%w\nafter\n%sthe server's log ends with\n%s", err, indented(transcript), r.member().LogEnd())
	}
	return transcript, nil
}

func (r *programRun) member() *cluster.Member { return r.cluster.Members[0] }

func (r *programRun) close() {
	if r.cluster != nil {
		r.cluster.Close()
	}
}

// start starts the server and prepares it for the mode.
func (r *programRun) start(ctx context.Context, binary *cluster.Binary) error {
	var err error
	if r.certs, err = certs.New(r.dir); err != nil {
		return err
	}
	if r.cluster, err = cluster.New(binary, r.dir, 1); err != nil {
		return err
	}
	if r.mode.secure {
		r.member().TLS = r.certs.Client
	}
	if err := r.cluster.Start(ctx, r.mode.flags(r.certs)...); err != nil {
		return err
	}
	if err := r.mode.prepare(ctx, r.member()); err != nil {
		return err
	}
	return r.plant.prepare(ctx, r.member())
}

// run runs the program to its end and serves its requests meanwhile.
func (r *programRun) run(ctx context.Context) (string, error) {
	endpoint, err := r.plant.endpoint(r.member().Endpoint())
	if err != nil {
		return "", err
	}
	defer r.plant.close()
	program := exec.CommandContext(ctx, r.language.command[0], r.language.command[1:]...)
	program.Env = append(os.Environ(), "MODE="+r.mode.name, "ENDPOINT="+endpoint, "WORKDIR="+r.dir)
	program.Env = append(program.Env, r.mode.environment(r.certs)...)
	if r.mode.brief {
		program.Env = append(program.Env, "BRIEF=yes")
	}
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaints bytes.Buffer
	program.Stderr = &complaints
	input, err := program.StdinPipe()
	if err != nil {
		return "", err
	}
	output, err := program.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := program.Start(); err != nil {
		return "", err
	}
	transcript, err := r.listen(ctx, output, input)
	if err != nil {
		program.Process.Kill()
	}
	if err = errors.Join(err, program.Wait()); err != nil {
		err = fmt.Errorf("%w: %s", err, ending(complaints.String()))
	}
	names := normal.New(endpoint, "<client>", r.member().Endpoint(), "<client>", r.member().PeerURL, "<peer>", r.dir, "<dir>", version.Version, "<version>")
	names.Know(r.cluster.ID, r.member().ID)
	return names.Text(nil, transcript), err
}

// listen collects the output of a program and serves its requests.
func (r *programRun) listen(ctx context.Context, output io.Reader, input io.Writer) (string, error) {
	var transcript strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		request, isRequest := strings.CutPrefix(lines.Text(), "@")
		if !isRequest {
			transcript.WriteString(lines.Text() + "\n")
			continue
		}
		answer, err := r.handleRequest(ctx, strings.Fields(request))
		if err != nil {
			return transcript.String(), fmt.Errorf("@%s: %w", request, err)
		}
		if _, err := io.WriteString(input, answer+"\n"); err != nil {
			return transcript.String(), err
		}
	}
	return transcript.String(), lines.Err()
}

func (r *programRun) handleRequest(ctx context.Context, request []string) (string, error) {
	switch {
	case len(request) == 1 && request[0] == "restart":
		return "restarted", r.restart(ctx)
	case len(request) == 1 && request[0] == "expire":
		return "expired", expire(ctx, r.member())
	case len(request) == 2 && request[0] == "status":
		return snapshotStatus(ctx, request[1])
	}
	return "", errors.New("unknown request")
}

// restart kills the server, because a graceful stop would wait for the streams of its clients.
func (r *programRun) restart(ctx context.Context) error {
	m := r.member()
	if err := m.Kill(); err != nil {
		return err
	}
	if err := r.cluster.StartMember(m, r.mode.flags(r.certs)...); err != nil {
		return err
	}
	return m.Ready(ctx)
}

// snapshotStatus returns the number of keys and the revision of a snapshot as reported by etcdutl,
// which also verifies it.
func snapshotStatus(ctx context.Context, path string) (string, error) {
	tool, err := filepath.Abs("bin/etcdutl")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, tool, "snapshot", "status", path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("etcdutl: %w: %s", err, out)
	}
	// The fields are hash, revision, number of keys and size.
	fields := strings.Split(strings.TrimSpace(string(out)), ", ")
	if len(fields) < 4 {
		return "", fmt.Errorf("unexpected output of etcdutl: %q", out)
	}
	return fmt.Sprintf("revision %s, %s keys", fields[1], fields[2]), nil
}

func ending(text string) string { return text[max(0, len(text)-stderrShown):] }
