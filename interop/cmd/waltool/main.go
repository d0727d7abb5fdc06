// Waltool opens a log for writing with etcd's own package, as a server does, and appends to it.
//
//	waltool check DIR                            read all records, print a summary
//	waltool append -seed 1 -round 0 [-big] DIR   append a round of the workload shared with wal_write
//	waltool noops -n 5 DIR                       append empty, committed entries
//	waltool hold DIR COMMAND [ARGUMENT...]       run a command while the log is open
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"bowline/interop/internal/workload"
)

const usage = "usage: waltool check|append|noops [flags] DIR, or waltool hold DIR COMMAND [ARGUMENT...]"

func main() {
	log.SetFlags(0)
	log.SetPrefix("waltool: ")
	if len(os.Args) < 2 {
		log.Fatal(usage)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	seed := flags.Uint64("seed", 1, "what decides the entries")
	round := flags.Int("round", 0, "the round to append")
	big := flags.Bool("big", false, "entries of over a megabyte, so that segments fill")
	n := flags.Int("n", 1, "number of empty entries")
	flags.Parse(os.Args[2:])
	if flags.NArg() < 1 || (os.Args[1] == "hold") != (flags.NArg() > 1) {
		log.Fatal(usage)
	}
	dir := flags.Arg(0)

	var err error
	switch os.Args[1] {
	case "check":
		err = check(dir)
	case "append":
		err = appendRound(dir, workload.LogRound(*seed, *round, *big))
	case "noops":
		err = noops(dir, *n)
	case "hold":
		err = hold(dir, flags.Args()[1:])
	default:
		log.Fatal(usage)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func hold(dir string, command []string) error {
	l, err := open(dir)
	if err != nil {
		return err
	}
	run := exec.Command(command[0], command[1:]...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	return errors.Join(run.Run(), l.Close())
}

func check(dir string) error {
	l, err := open(dir)
	if err != nil {
		return err
	}
	fmt.Printf("ok entries %d last %d state %d %d %d\n",
		l.entries, l.last, l.state.GetTerm(), l.state.GetVote(), l.state.GetCommit())
	return l.Close()
}

func appendRound(dir string, saves *workload.Log) error {
	l, err := openOrCreate(dir)
	if err != nil {
		return err
	}
	for entries := range saves.Saves() {
		if err := l.save(saves.Term, 1, entries); err != nil {
			return err
		}
	}
	err = l.SaveSnapshot(&walpb.Snapshot{
		Index: new(l.last), Term: new(saves.Term),
		ConfState: &raftpb.ConfState{Voters: []uint64{1}, AutoLeave: new(false)},
	})
	if err != nil {
		return err
	}
	return l.Close()
}

func noops(dir string, n int) error {
	l, err := open(dir)
	if err != nil {
		return err
	}
	for range n {
		if err := l.save(l.state.GetTerm(), l.state.GetVote(), [][]byte{nil}); err != nil {
			return err
		}
	}
	return l.Close()
}

// opened is a log that is ready for appends.
type opened struct {
	*wal.WAL
	entries int
	last    uint64
	state   *raftpb.HardState
}

func openOrCreate(dir string) (*opened, error) {
	if wal.Exist(dir) {
		return open(dir)
	}
	w, err := wal.Create(zap.NewNop(), dir, []byte(workload.LogMetadata))
	return &opened{WAL: w}, err
}

// open starts at the newest committed snapshot record, as a server does.
func open(dir string) (*opened, error) {
	valid, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return nil, err
	}
	if len(valid) == 0 {
		return nil, fmt.Errorf("%s has no valid snapshot record", dir)
	}
	start := valid[len(valid)-1]
	if _, err := wal.Verify(zap.NewNop(), dir, start); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	w, err := wal.Open(zap.NewNop(), dir, start)
	if err != nil {
		return nil, err
	}
	_, state, entries, err := w.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read all: %w", err)
	}
	last := start.GetIndex()
	if len(entries) > 0 {
		last = entries[len(entries)-1].GetIndex()
	}
	return &opened{WAL: w, entries: len(entries), last: last, state: state}, nil
}

// save appends entries with these data, and commits them.
func (l *opened) save(term, vote uint64, data [][]byte) error {
	var entries []*raftpb.Entry
	for _, d := range data {
		l.last++
		entries = append(entries, &raftpb.Entry{
			Type: raftpb.EntryNormal.Enum(), Term: new(term), Index: new(l.last), Data: d,
		})
	}
	return l.Save(&raftpb.HardState{Term: new(term), Vote: new(vote), Commit: new(l.last)}, entries)
}
