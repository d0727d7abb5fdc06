package oracle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/quorum"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// changer runs scripts about configurations. The last index grows with every command, so that the
// output shows when a member's progress was created.
type changer struct{ confchange.Changer }

func newChanger() *changer {
	return &changer{confchange.Changer{Tracker: tracker.MakeProgressTracker(10, 0)}}
}

func (c *changer) handle(t *testing.T, d *datadriven.TestData) string {
	defer func() { c.LastIndex++ }()
	changes, err := pb.ConfChangesFromString(d.Input)
	if err != nil {
		return err.Error() + "\n"
	}
	var config tracker.Config
	var progress tracker.ProgressMap
	switch d.Cmd {
	case "simple":
		config, progress, err = c.Simple(changes...)
	case "enter-joint":
		var autoLeave bool
		if d.HasArg("autoleave") {
			d.ScanArgs(t, "autoleave", &autoLeave)
		}
		config, progress, err = c.EnterJoint(autoLeave, changes...)
	case "leave-joint":
		if len(changes) > 0 {
			err = errors.New("this command takes no input")
			break
		}
		config, progress, err = c.LeaveJoint()
	default:
		d.Fatalf(t, "unknown command")
	}
	if err != nil {
		return err.Error() + "\n"
	}
	c.Tracker.Config, c.Tracker.Progress = config, progress
	return fmt.Sprintf("%s\n%s", config, progress)
}

// ackedIndexes maps voters to the index they acknowledged or the vote they cast.
type ackedIndexes map[uint64]string

// AckedIndex returns the index that a voter acknowledged.
func (s ackedIndexes) AckedIndex(id uint64) (quorum.Index, bool) {
	index, err := strconv.ParseUint(s[id], 10, 64)
	return quorum.Index(index), err == nil
}

// quorums runs scripts about quorums: voters in one half or two, and their acknowledgements or
// votes in the order in which they are named.
func quorums(t *testing.T, d *datadriven.TestData) string {
	voters := quorum.JointConfig{{}, {}}
	acked, order := ackedIndexes{}, []uint64{}
	for half, key := range []string{"cfg", "cfgj"} {
		for _, id := range values(d, key) {
			if id == "zero" {
				continue
			}
			number, err := strconv.ParseUint(id, 10, 64)
			if err != nil {
				d.Fatalf(t, "not an id: %s", id)
			}
			if _, named := voters.IDs()[number]; !named {
				order = append(order, number)
			}
			voters[half][number] = struct{}{}
		}
	}
	for i, value := range append(values(d, "idx"), values(d, "votes")...) {
		if i < len(order) {
			acked[order[i]] = value
		}
	}
	switch d.Cmd {
	case "committed":
		return fmt.Sprintf("%s%s\n", voters.Describe(acked), voters.CommittedIndex(acked))
	case "vote":
		votes := map[uint64]bool{}
		for id, vote := range acked {
			if vote != "_" {
				votes[id] = vote == "y"
			}
		}
		return fmt.Sprintf("%s\n", voters.VoteResult(votes))
	}
	d.Fatalf(t, "unknown command")
	return ""
}

func values(d *datadriven.TestData, key string) []string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

// handlerFor returns the handler for scripts in a directory.
func handlerFor(path string) func(*testing.T, *datadriven.TestData) string {
	switch {
	case strings.Contains(path, "/confchange/"):
		return newChanger().handle
	case strings.Contains(path, "/quorum/"):
		return quorums
	}
	return newRunner().handle
}
