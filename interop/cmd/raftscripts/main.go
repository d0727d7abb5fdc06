// Command raftscripts writes random scripts of raft commands. The oracle adds the output of etcd's
// raft, which Bowline's raft must reproduce.
//
//	raftscripts -seed 1 -count 200 DIR    write scripts without outputs
//	raftscripts -trim DIR                 cut each script where etcd's raft panicked
//
// The seed alone determines a script. Election timeouts, which etcd's raft draws at random, are set
// before every tick that could depend on them.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	seed := flag.Int64("seed", 1, "seed of the first script")
	count := flag.Int("count", 100, "number of scripts")
	trim := flag.Bool("trim", false, "cut the scripts in DIR where the oracle reports a panic")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: raftscripts [-seed N] [-count N] [-trim] DIR")
	}
	if *trim {
		trimAll(flag.Arg(0))
		return
	}
	for i := *seed; i < *seed+int64(*count); i++ {
		path := filepath.Join(flag.Arg(0), fmt.Sprintf("random_%06d.txt", i))
		if err := os.WriteFile(path, []byte(script(i)), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// trimAll cuts scripts before the first command that made etcd's raft panic: the result of
// incorrect use is not specified.
func trimAll(dir string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		before, _, panicked := strings.Cut(string(text), "\n----\npanic: ")
		if !panicked {
			continue
		}
		// The command itself, which follows the last blank line, is cut too.
		before = before[:strings.LastIndex(before, "\n\n")+1]
		if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generator holds the state that determines the possible commands.
type generator struct {
	*rand.Rand
	out     strings.Builder
	nodes   int
	members int // ids named in conf changes
	stable  int // first members, which have certainly applied entry 11
	writes  int
	async   bool
}

func script(seed int64) string {
	g := &generator{Rand: rand.New(rand.NewSource(seed))}
	fmt.Fprintf(&g.out, "# Random script %d.\n", seed)
	g.start()
	for range 30 + g.Intn(90) {
		g.step()
	}
	for id := 1; id <= g.nodes; id++ {
		g.emit("raft-log %d", id)
	}
	g.emit("raft-state")
	return g.out.String()
}

// emit writes a command without input. The oracle adds the output.
func (g *generator) emit(format string, args ...any) {
	fmt.Fprintf(&g.out, format+"\n----\n\n", args...)
}

// start adds the first members, all with the same options.
func (g *generator) start() {
	voters := 1 + g.Intn(4)
	var ids []string
	for id := 1; id <= voters; id++ {
		ids = append(ids, fmt.Sprint(id))
	}
	options := fmt.Sprintf("voters=(%s) index=10", strings.Join(ids, ","))
	g.nodes, g.members = voters, voters
	if g.Intn(4) == 0 {
		g.nodes++
		g.members++
		options += fmt.Sprintf(" learners=(%d)", g.nodes)
	}
	g.async = g.Intn(2) == 0
	for _, option := range []string{"prevote", "checkquorum", "step-down-on-removal"} {
		if g.Intn(2) == 0 {
			options += " " + option + "=true"
		}
	}
	if g.async {
		options += " async-storage-writes=true"
	}
	if g.Intn(3) == 0 {
		options += fmt.Sprintf(" inflight=%d", 1+g.Intn(3))
	}
	if g.Intn(3) == 0 {
		options += fmt.Sprintf(" max-committed-size-per-ready=%d", 1+g.Intn(60))
	}
	if strings.Contains(options, "checkquorum") && g.Intn(3) == 0 {
		options += " read-only=lease-based"
	}
	if g.Intn(8) == 0 {
		options += " disable-conf-change-validation=true"
	}
	g.emit("add-nodes %d %s", g.nodes, options)
	g.emit("campaign 1")
	if g.Intn(4) > 0 {
		g.emit("stabilize")
		g.stable = g.nodes
	}
}

func (g *generator) node() int { return 1 + g.Intn(g.nodes) }

func (g *generator) step() {
	switch n := g.Intn(100); {
	case n < 14:
		g.writes++
		g.emit("propose %d w%d", g.node(), g.writes)
	case n < 40:
		g.work()
	case n < 55:
		g.deliver()
	case n < 63:
		g.emit("stabilize")
	case n < 67:
		g.emit("stabilize %d %d", g.node(), g.node())
	case n < 73:
		g.tick()
	case n < 76:
		g.emit("campaign %d", g.node())
	case n < 80:
		g.emit("read-index %d r%d", g.node(), g.Intn(1000))
	case n < 83:
		g.emit("transfer-leadership from=%d to=%d", g.node(), g.node())
	case n < 84:
		g.emit("forget-leader %d", g.node())
	case n < 90:
		g.change()
	case n < 92:
		g.emit("report-unreachable %d %d", g.node(), g.node())
	case n < 93:
		failed := [...]string{"", " failed=true"}[g.Intn(2)]
		g.emit("report-snapshot %d %d%s", g.node(), g.node(), failed)
	case n < 95:
		// Entries that are not applied must not be compacted.
		if node := g.node(); node <= g.stable {
			g.emit("compact %d 11", node)
		}
	default:
		g.emit("status %d", g.node())
	}
}

func (g *generator) work() {
	node := g.node()
	g.emit("process-ready %d", node)
	if g.async && g.Intn(2) == 0 {
		g.emit("process-append-thread %d", node)
	}
	if g.async && g.Intn(2) == 0 {
		g.emit("process-apply-thread %d", node)
	}
}

func (g *generator) deliver() {
	kind := ""
	if g.Intn(4) == 0 {
		kinds := []string{"MsgApp", "MsgAppResp", "MsgHeartbeat", "MsgHeartbeatResp", "MsgVote", "MsgVoteResp", "MsgSnap"}
		kind = " type=" + kinds[g.Intn(len(kinds))]
	}
	to, drop := g.node(), g.node()
	switch {
	case g.Intn(3) == 0:
		g.emit("deliver-msgs drop=%d%s", drop, kind)
	case to != drop && g.Intn(2) == 0:
		g.emit("deliver-msgs %d drop=%d%s", to, drop, kind)
	default:
		g.emit("deliver-msgs %d%s", to, kind)
	}
}

func (g *generator) tick() {
	node := g.node()
	g.emit("set-randomized-election-timeout %d timeout=%d", node, 3+g.Intn(3))
	if g.Intn(3) == 0 {
		g.emit("tick-election %d", node)
	} else {
		g.emit("tick-heartbeat %d", node)
	}
}

// change proposes a conf change, and starts the members that it may add.
func (g *generator) change() {
	if g.members < 6 && g.Intn(2) == 0 {
		g.members++
		g.nodes++
		g.emit("add-nodes 1%s", [...]string{"", " async-storage-writes=true"}[b2i(g.async)])
	}
	kinds := "vlru"
	var changes []string
	for range 1 + g.Intn(3) {
		changes = append(changes, fmt.Sprintf("%c%d", kinds[g.Intn(len(kinds))], 1+g.Intn(g.members)))
	}
	options := [...]string{"", " transition=implicit", " transition=explicit"}[g.Intn(3)]
	if g.Intn(3) == 0 {
		changes, options = changes[:1], " v1=true"
	} else if g.Intn(4) == 0 {
		changes, options = nil, ""
	}
	fmt.Fprintf(&g.out, "propose-conf-change %d%s\n%s\n----\n\n", g.node(), options, strings.Join(changes, " "))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
