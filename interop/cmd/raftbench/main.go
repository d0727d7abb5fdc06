// Command raftbench runs the benchmark of `cargo bench -p raft` with etcd's raft: three members in
// one thread commit and apply proposals of 256 bytes, with asynchronous storage writes that
// complete at once.
package main

import (
	"fmt"
	"io"
	"log"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	payload = 256
	rounds  = 9
	round   = 700 * time.Millisecond
	// kept is the number of applied entries that stay in memory before compaction.
	kept = 10_000
)

type member struct {
	id      uint64
	node    *raft.RawNode
	storage *raft.MemoryStorage
	applied uint64
}

type cluster struct {
	members []*member
	network []*pb.Message
}

func newCluster(size int) *cluster {
	raft.SetLogger(&raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)})
	c := &cluster{}
	var voters []uint64
	for id := 1; id <= size; id++ {
		voters = append(voters, uint64(id))
	}
	for _, id := range voters {
		storage := raft.NewMemoryStorage()
		first := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &pb.ConfState{Voters: voters},
		}}
		must(storage.ApplySnapshot(first))
		node, err := raft.NewRawNode(&raft.Config{
			ID: id, ElectionTick: 10, HeartbeatTick: 1, Storage: storage, Applied: 1,
			AsyncStorageWrites: true, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 512,
			MaxCommittedSizePerReady: math.MaxUint64,
		})
		must(err)
		c.members = append(c.members, &member{id: id, node: node, storage: storage, applied: 1})
	}
	must(c.members[0].node.Campaign())
	c.settle()
	return c
}

// settle delivers messages and completes storage writes until nothing is left to do.
func (c *cluster) settle() {
	for busy := true; busy; {
		busy = false
		for _, m := range c.members {
			for m.node.HasReady() {
				c.turn(m)
				busy = true
			}
		}
		for len(c.network) > 0 {
			messages := c.network
			c.network = nil
			for _, message := range messages {
				must(c.members[message.GetTo()-1].node.Step(message))
			}
			busy = true
		}
	}
}

func (c *cluster) turn(m *member) {
	for _, message := range m.node.Ready().Messages {
		switch message.GetTo() {
		case raft.LocalAppendThread:
			must(m.storage.Append(message.Entries))
		case raft.LocalApplyThread:
			m.applied = message.Entries[len(message.Entries)-1].GetIndex()
			m.compact()
		default:
			c.network = append(c.network, message)
			continue
		}
		for _, response := range message.Responses {
			if response.GetTo() == m.id {
				must(m.node.Step(response))
			} else {
				c.network = append(c.network, response)
			}
		}
	}
}

func (m *member) compact() {
	first, err := m.storage.FirstIndex()
	must(err)
	if m.applied > first+kept {
		must(m.storage.Compact(m.applied - 1))
	}
}

func (c *cluster) commit(batch int, data []byte) {
	entries := make([]*pb.Entry, batch)
	for i := range entries {
		entries[i] = &pb.Entry{Data: data}
	}
	must(c.members[0].node.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: new(uint64(1)), Entries: entries}))
	before := c.members[0].applied
	c.settle()
	for _, m := range c.members {
		if m.applied != before+uint64(batch) {
			log.Fatalf("applied %d of %d proposals", m.applied-before, batch)
		}
	}
}

func main() {
	log.SetFlags(0)
	fmt.Printf("etcd's raft: three members commit and apply proposals of %d bytes\n\n", payload)
	fmt.Printf("%8s %14s %29s\n", "batch", "entries/s", "slowest .. fastest")
	data := make([]byte, payload)
	for _, batch := range []int{1, 64, 1000} {
		c := newCluster(3)
		var rates []float64
		for range rounds {
			done, begun := 0, time.Now()
			for time.Since(begun) < round {
				c.commit(batch, data)
				done += batch
			}
			rates = append(rates, float64(done)/time.Since(begun).Seconds())
		}
		slices.Sort(rates)
		fmt.Printf("%8d %14.0f %15.0f .. %.0f\n", batch, rates[rounds/2], rates[0], rates[rounds-1])
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
