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

// play is the run of one program with its own server.
type play struct {
	language language
	mode     mode
	cluster  *cluster.Cluster
	certs    *certs.Files
	dir      string
	plant    *plant
}

// play starts a server, runs a program against it and returns the normalised transcript.
func (c *config) play(ctx context.Context, l language, m mode, binary *cluster.Binary, plant *plant) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(c.dir, l.name+"-"+m.name+"-")
	if err != nil {
		return "", err
	}
	p := &play{language: l, mode: m, dir: dir, plant: plant}
	defer p.close()
	if err := p.start(ctx, binary); err != nil {
		return "", fmt.Errorf("start: %w", err)
	}
	transcript, err := p.run(ctx)
	if err != nil {
		return transcript, fmt.Errorf("%w\nafter\n%sthe server's log ends with\n%s", err, indented(transcript), p.member().LogEnd())
	}
	return transcript, nil
}

func (p *play) member() *cluster.Member { return p.cluster.Members[0] }

func (p *play) close() {
	if p.cluster != nil {
		p.cluster.Close()
	}
}

// start starts the server and prepares it for the mode.
func (p *play) start(ctx context.Context, binary *cluster.Binary) error {
	var err error
	if p.certs, err = certs.New(p.dir); err != nil {
		return err
	}
	if p.cluster, err = cluster.New(binary, p.dir, 1); err != nil {
		return err
	}
	if p.mode.secure {
		p.member().TLS = p.certs.Client
	}
	if err := p.cluster.Start(ctx, p.mode.flags(p.certs)...); err != nil {
		return err
	}
	if err := p.mode.prepare(ctx, p.member()); err != nil {
		return err
	}
	return p.plant.prepare(ctx, p.member())
}

// run runs the program to its end and serves its requests meanwhile.
func (p *play) run(ctx context.Context) (string, error) {
	endpoint, err := p.plant.endpoint(p.member().Endpoint())
	if err != nil {
		return "", err
	}
	defer p.plant.close()
	program := exec.CommandContext(ctx, p.language.command[0], p.language.command[1:]...)
	program.Env = append(os.Environ(), "MODE="+p.mode.name, "ENDPOINT="+endpoint, "WORKDIR="+p.dir)
	program.Env = append(program.Env, p.mode.environment(p.certs)...)
	if p.mode.brief {
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
	transcript, err := p.listen(ctx, output, input)
	if err != nil {
		program.Process.Kill()
	}
	if err = errors.Join(err, program.Wait()); err != nil {
		err = fmt.Errorf("%w: %s", err, ending(complaints.String()))
	}
	names := normal.New(endpoint, "<client>", p.member().Endpoint(), "<client>", p.member().PeerURL, "<peer>", p.dir, "<dir>", version.Version, "<version>")
	names.Know(p.cluster.ID, p.member().ID)
	return names.Text(nil, transcript), err
}

// listen collects the output of a program and serves its requests.
func (p *play) listen(ctx context.Context, output io.Reader, input io.Writer) (string, error) {
	var transcript strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		request, isRequest := strings.CutPrefix(lines.Text(), "@")
		if !isRequest {
			transcript.WriteString(lines.Text() + "\n")
			continue
		}
		answer, err := p.handleRequest(ctx, strings.Fields(request))
		if err != nil {
			return transcript.String(), fmt.Errorf("@%s: %w", request, err)
		}
		if _, err := io.WriteString(input, answer+"\n"); err != nil {
			return transcript.String(), err
		}
	}
	return transcript.String(), lines.Err()
}

func (p *play) handleRequest(ctx context.Context, request []string) (string, error) {
	switch {
	case len(request) == 1 && request[0] == "restart":
		return "restarted", p.restart(ctx)
	case len(request) == 1 && request[0] == "expire":
		return "expired", expire(ctx, p.member())
	case len(request) == 2 && request[0] == "status":
		return snapshotStatus(ctx, request[1])
	}
	return "", errors.New("unknown request")
}

// restart kills the server, because a graceful stop would wait for the streams of its clients.
func (p *play) restart(ctx context.Context) error {
	m := p.member()
	if err := m.Kill(); err != nil {
		return err
	}
	if err := p.cluster.StartMember(m, p.mode.flags(p.certs)...); err != nil {
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
