package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"bowline/interop/internal/cluster"
)

// Every program puts this value and reads it again.
const (
	trueValue  = "planted-true"
	falseValue = "planted-fake"
	// The base64 forms, as in the JSON of the gateway.
	trueBase64  = "cGxhbnRlZC10cnVl"
	falseBase64 = "cGxhbnRlZC1mYWtl"
)

// plant deceives a program, which the comparison must detect. A nil plant does nothing.
type plant struct {
	name string
	// key is put before the program starts.
	key string
	// lie places a proxy between program and server that alters a value in responses.
	lie bool

	listener net.Listener
	lies     atomic.Int64
}

// plants returns new plants for each run.
func plants() []*plant {
	return []*plant{{name: "a revision more", key: "planted"}, {name: "another value", lie: true}}
}

func (p *plant) prepare(ctx context.Context, m *cluster.Member) error {
	if p == nil || p.key == "" {
		return nil
	}
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, p.key, "")
		return err
	})
}

// endpoint returns the address that the program connects to.
func (p *plant) endpoint(server string) (string, error) {
	if p == nil || !p.lie {
		return server, nil
	}
	var err error
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return "", err
	}
	go p.serve(server)
	return p.listener.Addr().String(), nil
}

func (p *plant) close() {
	if p != nil && p.listener != nil {
		p.listener.Close()
	}
}

func (p *plant) serve(server string) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.join(client, server)
	}
}

// join copies bytes in both directions until a side closes.
func (p *plant) join(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	// Both protocols prefix a value with its length, so the false value has the length of the true
	// one.
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if _, failed := client.Write(p.falsify(buffer[:n])); failed != nil || err != nil {
			return
		}
	}
}

func (p *plant) falsify(text []byte) []byte {
	falsified := bytes.ReplaceAll(text, []byte(trueValue), []byte(falseValue))
	falsified = bytes.ReplaceAll(falsified, []byte(trueBase64), []byte(falseBase64))
	if !bytes.Equal(falsified, text) {
		p.lies.Add(1)
	}
	return falsified
}

// findPlanted deceives each program in each way and expects its transcript to differ.
func (c *config) findPlanted(ctx context.Context, name string) error {
	var group errgroup.Group
	group.SetLimit(atATime)
	found := atomic.Int64{}
	for _, l := range c.languages {
		chosen := slices.DeleteFunc(plants(), func(p *plant) bool { return name != "all" && p.name != name })
		if len(chosen) == 0 {
			return fmt.Errorf("no plant is called %q", name)
		}
		for _, plant := range chosen {
			group.Go(func() error {
				found.Add(1)
				return c.findOne(ctx, l, plant)
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	log.Printf("planted %d falsehoods, and detected each", found.Load())
	return nil
}

func (c *config) findOne(ctx context.Context, l language, plant *plant) error {
	plain := modes[0]
	transcript, err := c.runProgram(ctx, l, plain, c.servers[0].binary, plant)
	if plant.lie && plant.lies.Load() == 0 {
		return fmt.Errorf("%s: found no place to plant %s: %w", l.name, plant.name, err)
	}
	// A program that failed has detected the plant too.
	if err == nil {
		err = c.same(l, plain, transcript, nil)
	}
	if err == nil {
		return errors.New(l.name + ": " + plant.name + " was planted and not detected")
	}
	return nil
}
