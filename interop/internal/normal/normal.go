// Package normal normalises the parts of outputs that differ between any two servers, and nothing
// else:
//
//   - addresses and folders, by what they are: <client>
//   - ids of members, clusters and leases, in hex or decimal, by the order in which they turned up: <id 3>
//   - what the rules below say: times, sizes of databases, raft's numbers
//
// Everything else is left unchanged, and so is compared.
package normal

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Normal normalises the outputs of one server. It remembers the ids it has seen.
type Normal struct {
	places []string
	ids    map[uint64]string
}

// New returns a Normal with these places, each followed by its name.
func New(places ...string) *Normal {
	n := &Normal{ids: map[uint64]string{}}
	n.Places(places...)
	return n
}

// Places are further ones. What was one before stays one.
func (n *Normal) Places(places ...string) { n.places = append(places, n.places...) }

// Text normalises the output of a command.
func (n *Normal) Text(command []string, text string) string {
	text = strings.NewReplacer(n.places...).Replace(text)
	for _, rule := range rules {
		if strings.HasPrefix(strings.Join(command, " "), rule.command) {
			text = rule.pattern.ReplaceAllString(text, rule.with)
		}
	}
	text = hexID.ReplaceAllStringFunc(text, func(id string) string { return n.id(id, 16) })
	text = decimalID.ReplaceAllStringFunc(text, func(id string) string { return n.id(id, 10) })
	text = members.ReplaceAllStringFunc(text, sortMembers)
	return tables(text)
}

// Members are printed in the order of their ids, which are at random.
var members = regexp.MustCompile(`ETCD_INITIAL_CLUSTER="[^"]*"`)

func sortMembers(line string) string {
	name, list, _ := strings.Cut(strings.TrimSuffix(line, `"`), `"`)
	all := strings.Split(list, ",")
	slices.Sort(all)
	return name + `"` + strings.Join(all, ",") + `"`
}

// Ids are 64 bits of which the first byte is hardly ever zero. Shorter numbers are something else.
var (
	hexID     = regexp.MustCompile(`\b[0-9a-f]{14,16}\b`)
	decimalID = regexp.MustCompile(`\b[0-9]{17,20}\b`)
)

// FirstID returns the first id in a text, in hex.
func FirstID(text string) string {
	if hex := hexID.FindString(text); hex != "" {
		return hex
	}
	id, err := strconv.ParseUint(decimalID.FindString(text), 10, 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", id)
}

func (n *Normal) id(text string, base int) string {
	id, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		return text
	}
	if n.ids[id] == "" {
		n.ids[id] = fmt.Sprintf("<id %d>", len(n.ids)+1)
	}
	return n.ids[id]
}

// rule is a piece of text that may differ in the output of commands that begin like this.
type rule struct {
	command string
	pattern *regexp.Regexp
	with    string
}

func every(pattern, with string) rule { return rule{"", regexp.MustCompile(pattern), with} }

func of(command, pattern, with string) rule { return rule{command, regexp.MustCompile(pattern), with} }

var rules = []rule{
	// What clients log: when, over which connection, from which object.
	every(`"ts":"[^"]*"`, `"ts":"<time>"`),
	every(`(?m)^\d{4}-\d\d-\d\dT[0-9:.]+Z`, `<time>`),
	every(`LocalAddr: '127\.0\.0\.1:\d+'`, `LocalAddr: <local>`),
	every(`etcd-endpoints://0x[0-9a-f]+/`, `etcd-endpoints://<pointer>/`),
	every(`Logger: 0x[0-9a-f]+`, `Logger: <pointer>`),
	// Go's protobuf library puts one blank between the fields of a message, or two, as each build
	// decides by chance.
	every(`(memberID:\d+) +(alarm:)`, `$1 $2`),
	// And the blank in its errors is one that breaks, or one that does not.
	every(`proto:[\x{a0} ]`, `proto: `),
	// An id that begins with a zero is padded.
	every(`(Member|cluster) +`, `$1 `),
	// How long it took.
	every(`((?:took|Took)(?: = |" : |":"| ))[0-9.]+(?:ns|µs|ms|s)`, `$1<took>`),
	of("endpoint health", `(│ +(?:true|false) │ +)[0-9.]+(?:ns|µs|ms|s)`, `$1<took>`),
	// How far raft has come: servers may propose things of their own.
	every(`("(?:raft_term|raftTerm|raftIndex|raftAppliedIndex)":)"?\d+"?`, `$1<raft>`),
	every(`("(?:RaftTerm|RaftIndex|RaftAppliedIndex)" : )\d+`, `$1<raft>`),
	every(`(raft_term: +)\d+`, `$1<raft>`),
	// The version of the storage rises to the cluster's some seconds after the start.
	every(`("storage":)"3\.[57]\.0"`, `$1<storage>`),
	every(`(?i)("?storage_?version"?\s*:\s*)"3\.[57]\.0"`, `$1<storage>`),
	of("endpoint status", `(3\.7\.1[ ,│]+)3\.[57]\.0`, `$1<storage>`),
	// How much room a database takes.
	every(`("(?:dbSize|dbSizeInUse|totalSize)":)"?\d+"?`, `$1<size>`),
	every(`("(?:DBSize|DBSizeInUse|Size)" : )\d+`, `$1<size>`),
	of("snapshot save", `"size":"[^"]*"`, `"size":<size>`),
	// In a row of its status: both sizes, the share of them, and the numbers of raft.
	of("endpoint status", `\d+(?:\.\d+)? [kM]?B([ ,│]+)\d+(?:\.\d+)? [kM]?B([ ,│]+)\d+%`, `<size>$1<size>$2<share>`),
	of("endpoint status", `(true|false)([ ,│]+)\d+([ ,│]+)\d+([ ,│]+)\d+([ ,│])`, `$1$2<raft>$3<raft>$4<raft>$5`),
	// A database has ids in it, so its hash is no other's.
	of("POST /v3/maintenance/hash ", `"hash":\d+`, `"hash":<hash>`),
	of("snapshot restore", `sha256 \[[0-9 ]+\], got \[[0-9 ]+\]`, `sha256 <hash>, got <hash>`),
	of("snapshot status", `"hash":\d+`, `"hash":<hash>`),
	of("snapshot status", `"Hash" : \d+`, `"Hash" : <hash>`),
	of("snapshot status", `[0-9a-f]+(, \d+, \d+, )[0-9.]+ [kM]?B`, `<hash>$1<size>`),
	of("snapshot status", `│ +[0-9a-f]+ │( +\d+ │ +\d+ │) +[0-9.]+ [kM]?B`, `│ <hash> │$1 <size>`),
	// How much is left of a lease.
	of("lease timetolive", `remaining\(\d+s\)`, `remaining(<left>)`),
	of("lease timetolive", `("ttl":)\d+`, `$1<left>`),
	of("lease timetolive", `("TTL" : )\d+`, `$1<left>`),
}

// blanks are as many as the longest cell needs.
var blanks = regexp.MustCompile(` {2,}|─+`)

func tables(text string) string {
	if !strings.ContainsAny(text, "│┌") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.IndexAny(line, "│┌├└") == 0 {
			lines[i] = blanks.ReplaceAllString(line, " ")
		}
	}
	return strings.Join(lines, "\n")
}

// objects are where a JSON array of objects begins, goes on and ends.
var objects = strings.NewReplacer("[{", "[\n{", "},{", "}\n{", "}]", "}\n]")

// Unordered sorts the lines of a text and, where one is a JSON array of objects, those.
func Unordered(text string) string {
	parts := strings.Split(objects.Replace(text), "\n")
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}
