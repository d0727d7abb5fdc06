// Package oracle runs scripts of raft commands with etcd's own raft.
//
// A script is a sequence of commands of the raft library's interaction environment, each followed
// by a line of four dashes:
//
//	add-nodes 3 voters=(1,2,3) index=10
//	----
//
//	campaign 1
//	----
//
// The text after the dashes, up to the next blank line, is the output. The test compares it with
// the output of etcd's raft; with -rewrite it replaces it. The result is the expected output for
// other implementations.
package oracle

import (
	"flag"
	"fmt"
	"io"
	"log"
	"reflect"
	"strconv"
	"testing"
	"unsafe"

	"github.com/cockroachdb/datadriven"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/rafttest"
)

var scripts = flag.String("scripts", "testdata", "directory of scripts to run")

// init silences the library's own logger, which its storage uses just before a panic. The logs of
// the nodes are part of a script's output.
func init() {
	raft.SetLogger(&raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)})
}

func TestScripts(t *testing.T) {
	ran := 0
	datadriven.Walk(t, *scripts, func(t *testing.T, path string) {
		ran++
		datadriven.RunTest(t, path, handlerFor(path))
	})
	if ran == 0 && !t.Failed() {
		t.Fatalf("no scripts in %s", *scripts)
	}
}

// runner runs one script. Raft panics if a script makes a call that no correct caller would make.
// The panic is part of the output; after it the state of the cluster is undefined.
type runner struct {
	env  *rafttest.InteractionEnv
	dead bool
}

func newRunner() *runner {
	return &runner{env: rafttest.NewInteractionEnv(&rafttest.InteractionOpts{
		SetRandomizedElectionTimeout: setElectionTimeout,
	})}
}

func (r *runner) handle(t *testing.T, d *datadriven.TestData) (out string) {
	if r.dead {
		return "dead"
	}
	defer func() {
		if cause := recover(); cause != nil {
			r.dead = true
			out = fmt.Sprintf("panic: %v", cause)
		}
	}()
	switch d.Cmd {
	case "read-index":
		r.node(t, d, 0).ReadIndex([]byte(d.CmdArgs[1].Key))
		return "ok"
	case "report-snapshot":
		status := raft.SnapshotFinish
		var failed bool
		if d.HasArg("failed") {
			d.ScanArgs(t, "failed", &failed)
		}
		if failed {
			status = raft.SnapshotFailure
		}
		r.node(t, d, 0).ReportSnapshot(r.node(t, d, 1).Config.ID, status)
		return "ok"
	}
	return r.env.Handle(t, *d)
}

// node returns the member that an argument names.
func (r *runner) node(t *testing.T, d *datadriven.TestData, arg int) *rafttest.Node {
	id, err := strconv.Atoi(d.CmdArgs[arg].Key)
	if err != nil || id < 1 || id > len(r.env.Nodes) {
		d.Fatalf(t, "no such member: %s", d.CmdArgs[arg].Key)
	}
	return &r.env.Nodes[id-1]
}

// setElectionTimeout sets the field by reflection, because raft offers the setter only to its own
// tests. It panics if a new version renames the fields.
func setElectionTimeout(node *raft.RawNode, ticks int) {
	core := reflect.ValueOf(node).Elem().FieldByName("raft").Elem()
	field := core.FieldByName("randomizedElectionTimeout")
	*(*int)(unsafe.Pointer(field.UnsafeAddr())) = ticks
}
