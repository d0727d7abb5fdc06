package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// requestMax bounds a request; a slower one counts as an error.
	requestMax = 5 * time.Second
	// pauses between requests, so that these clients are no load themselves.
	persistentPause   = 2 * time.Millisecond
	reconnectingPause = 10 * time.Millisecond
)

// figures are the measurements of a client since the last report.
type figures struct {
	Count    int
	Errors   int
	First    string
	P50, P99 time.Duration
	Most     time.Duration
}

// clientFigures has the figures of the bystanders: one client with a persistent connection, and one
// that reconnects for each request.
type clientFigures struct{ Persistent, Reconnecting figures }

func (c clientFigures) errors() int { return c.Persistent.Errors + c.Reconnecting.Errors }

func (c clientFigures) firstError() string {
	if c.Persistent.First != "" {
		return "persistent: " + c.Persistent.First
	}
	return "reconnecting: " + c.Reconnecting.First
}

// record collects the measurements of a client.
type record struct {
	mu    sync.Mutex
	took  []time.Duration
	fails int
	first string
}

func (r *record) note(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.took = append(r.took, took)
		return
	}
	r.fails++
	if r.first == "" {
		r.first = err.Error()
	}
}

// take returns and clears the record.
func (r *record) take() figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := summary(r.took)
	taken.Errors, taken.First = r.fails, r.first
	r.took, r.fails, r.first = nil, 0, ""
	return taken
}

func summary(took []time.Duration) figures {
	if len(took) == 0 {
		return figures{}
	}
	slices.Sort(took)
	share := func(percent int) time.Duration { return took[len(took)*percent/100] }
	return figures{Count: len(took), P50: share(50), P99: share(99), Most: took[len(took)-1]}
}

// serveFigures is the process of the bystanders: for each input line it prints their figures.
func serveFigures(address, authority string) error {
	creds := insecure.NewCredentials()
	if authority != "" {
		pool, err := readPool(authority)
		if err != nil {
			return err
		}
		creds = credentials.NewClientTLSFromCert(pool, "")
	}
	dial := func() (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig())
	}
	persistent, err := dial()
	if err != nil {
		return err
	}
	if err := untilServed(persistent); err != nil {
		return err
	}
	var persistentRecord, reconnectingRecord record
	go repeat(&persistentRecord, persistentPause, func(n int) error { return ask(persistent, "persistent", n) })
	go repeat(&reconnectingRecord, reconnectingPause, func(n int) error {
		conn, err := dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		return ask(conn, "reconnecting", n)
	})
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := json.NewEncoder(os.Stdout).Encode(clientFigures{persistentRecord.take(), reconnectingRecord.take()}); err != nil {
			return err
		}
	}
	return nil
}

// untilServed waits until a new server has a leader.
func untilServed(conn *grpc.ClientConn) error {
	var err error
	for begun := time.Now(); time.Since(begun) < serverTimeout; time.Sleep(10 * time.Millisecond) {
		if err = ask(conn, "first", 0); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the server does not serve: %w", err)
}

func repeat(record *record, pause time.Duration, step func(n int) error) {
	for n := 0; ; n++ {
		begun := time.Now()
		err := step(n)
		record.note(time.Since(begun), err)
		time.Sleep(pause)
	}
}

// ask alternates puts and gets, and expects to get the last put value.
func ask(conn *grpc.ClientConn, name string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestMax)
	defer cancel()
	kv, key, value := pb.NewKVClient(conn), []byte("bystanders/"+name), fmt.Appendf(nil, "%s %d", name, n/2)
	if n%2 == 0 {
		_, err := kv.Put(ctx, &pb.PutRequest{Key: key, Value: value}, grpc.WaitForReady(true))
		return err
	}
	got, err := kv.Range(ctx, &pb.RangeRequest{Key: key}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if len(got.Kvs) != 1 || !bytes.Equal(got.Kvs[0].Value, value) {
		return fmt.Errorf("put %q, got %v", value, got.Kvs)
	}
	return nil
}

// bystanderProcess is a handle of the process of the bystanders.
type bystanderProcess struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func startBystanders(t *target) (*bystanderProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-bystanders", t.address}
	if t.certificates != nil {
		args = append(args, "-authority", t.certificates.certFile)
	}
	b := &bystanderProcess{process: exec.Command(self, args...)}
	b.process.Stderr = os.Stderr
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, inErr := b.process.StdinPipe()
	out, outErr := b.process.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	b.in, b.out = in, bufio.NewReader(out)
	if err := b.process.Start(); err != nil {
		return nil, err
	}
	_, err = b.out.ReadString('\n')
	return b, err
}

// take requests the figures since the last call.
func (b *bystanderProcess) take() (seen clientFigures, err error) {
	if _, err := io.WriteString(b.in, "\n"); err != nil {
		return seen, err
	}
	line, err := b.out.ReadBytes('\n')
	if err != nil {
		return seen, err
	}
	return seen, json.Unmarshal(line, &seen)
}

func (b *bystanderProcess) end() error {
	b.in.Close()
	return b.process.Wait()
}
