package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const (
	// saves is the number of measured saves, which fit into one segment.
	saves = 500
	// warmUp is the number of saves before the measurement.
	warmUp = 20
)

// appends measures synced saves of this many entries each.
func appends(entries int) func(string, func(string, float64, string)) error {
	return func(dir string, report func(string, float64, string)) error {
		dir = filepath.Join(dir, "storagebench.wal")
		os.RemoveAll(dir)
		defer os.RemoveAll(dir)
		log, err := wal.Create(zap.NewNop(), dir, []byte("storagebench"))
		if err != nil {
			return err
		}
		defer log.Close()
		took, cpu, err := saveAll(log, newBatch(entries))
		if err != nil {
			return err
		}
		slices.Sort(took)
		report(fmt.Sprintf("wal_append_%d_p50", entries), micros(took[saves/2]), "us")
		report(fmt.Sprintf("wal_append_%d_p99", entries), micros(took[saves*99/100]), "us")
		report(fmt.Sprintf("wal_append_%d_cpu", entries), micros(cpu)/saves, "us")
		return nil
	}
}

func saveAll(log *wal.WAL, batch batch) (took []time.Duration, cpu time.Duration, err error) {
	for range warmUp {
		if err := log.Save(batch.advance(), batch); err != nil {
			return nil, 0, err
		}
	}
	cpuBefore := cpuTime()
	for range saves {
		state := batch.advance()
		begun := time.Now()
		if err := log.Save(state, batch); err != nil {
			return nil, 0, err
		}
		took = append(took, time.Since(begun))
	}
	return took, cpuTime() - cpuBefore, nil
}

// batch is the entries of one save. They are reused, so that the measurement excludes allocating
// them.
type batch []*raftpb.Entry

func newBatch(entries int) batch {
	var b batch
	for i := range entries {
		b = append(b, &raftpb.Entry{
			Term: new(uint64(1)), Index: new(uint64(i + 1 - entries)), Data: value,
		})
	}
	return b
}

// advance moves the indexes of the entries past the batch, and returns the hard state that commits
// them.
func (b batch) advance() *raftpb.HardState {
	for _, entry := range b {
		*entry.Index += uint64(len(b))
	}
	return &raftpb.HardState{Term: new(uint64(1)), Vote: new(uint64(1)), Commit: new(*b[len(b)-1].Index)}
}

// cpuTime returns the user and system time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
