// Package oracle runs scripts of raft commands with etcd's own raft.
//
// A script is a sequence of commands as the raft library's interaction
// environment understands them, each closed by a line of four dashes:
//
//	add-nodes 3 voters=(1,2,3) index=10
//	----
//
//	campaign 1
//	----
//
// Whatever follows the dashes, up to the next blank line, is the output. Run
// plainly, the test compares it with what etcd's raft says; with -rewrite it
// replaces it. So a file of bare commands becomes a file of facts, to which
// another implementation can be held.
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

var scripts = flag.String("scripts", "testdata", "folder of scripts to run")

// What the nodes log is part of a script's output. The library's own logger,
// which its storage uses just before it panics, would only repeat that aside.
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

// runner plays one script. Raft panics when a script drives it where no
// correct caller would; that is an answer too, and worth comparing, but what
// the cluster would do afterwards means nothing.
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

// node is the member that an argument names.
func (r *runner) node(t *testing.T, d *datadriven.TestData, arg int) *rafttest.Node {
	id, err := strconv.Atoi(d.CmdArgs[arg].Key)
	if err != nil || id < 1 || id > len(r.env.Nodes) {
		d.Fatalf(t, "no such member: %s", d.CmdArgs[arg].Key)
	}
	return &r.env.Nodes[id-1]
}

// setElectionTimeout reaches into the node, because raft offers the setter to
// its own tests only. It fails loudly should a new version rename the fields.
func setElectionTimeout(node *raft.RawNode, ticks int) {
	core := reflect.ValueOf(node).Elem().FieldByName("raft").Elem()
	field := core.FieldByName("randomizedElectionTimeout")
	*(*int)(unsafe.Pointer(field.UnsafeAddr())) = ticks
}
