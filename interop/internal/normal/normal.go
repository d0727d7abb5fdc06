// Package normal normalises the parts of outputs that differ between any two servers, and nothing
// else:
//
//   - addresses and folders, replaced with their role: <client>
//   - ids of members, clusters and leases, in hex or decimal, numbered as they appear: <id 3>
//   - times, database sizes and raft's numbers, by the rules below
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

// Places adds further places to the existing ones.
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

// members matches a list of members, which is in the order of their random ids.
var members = regexp.MustCompile(`ETCD_INITIAL_CLUSTER="[^"]*"`)

func sortMembers(line string) string {
	name, list, _ := strings.Cut(strings.TrimSuffix(line, `"`), `"`)
	all := strings.Split(list, ",")
	slices.Sort(all)
	return name + `"` + strings.Join(all, ",") + `"`
}

// Ids have 64 bits, of which the first byte is rarely zero. Shorter numbers are not ids.
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

// rule is a pattern that may differ in the output of commands with this prefix.
type rule struct {
	command string
	pattern *regexp.Regexp
	with    string
}

func every(pattern, with string) rule { return rule{"", regexp.MustCompile(pattern), with} }

func of(command, pattern, with string) rule { return rule{command, regexp.MustCompile(pattern), with} }

var rules = []rule{
	// Client logs: time, connection and object address.
	every(`"ts":"[^"]*"`, `"ts":"<time>"`),
	every(`(?m)^\d{4}-\d\d-\d\dT[0-9:.]+Z`, `<time>`),
	every(`LocalAddr: '127\.0\.0\.1:\d+'`, `LocalAddr: <local>`),
	every(`etcd-endpoints://0x[0-9a-f]+/`, `etcd-endpoints://<pointer>/`),
	every(`Logger: 0x[0-9a-f]+`, `Logger: <pointer>`),
	// Go's protobuf library separates the fields of a message with one or two spaces, at random per
	// build.
	every(`(memberID:\d+) +(alarm:)`, `$1 $2`),
	// The space in its errors is a plain or a non-breaking one.
	every(`proto:[\x{a0} ]`, `proto: `),
	// An id with a leading zero is padded.
	every(`(Member|cluster) +`, `$1 `),
	// Durations.
	every(`((?:took|Took)(?: = |" : |":"| ))[0-9.]+(?:ns|µs|ms|s)`, `$1<took>`),
	of("endpoint health", `(│ +(?:true|false) │ +)[0-9.]+(?:ns|µs|ms|s)`, `$1<took>`),
	// Raft's term and indexes: servers may propose entries of their own.
	every(`("(?:raft_term|raftTerm|raftIndex|raftAppliedIndex)":)"?\d+"?`, `$1<raft>`),
	every(`("(?:RaftTerm|RaftIndex|RaftAppliedIndex)" : )\d+`, `$1<raft>`),
	every(`(raft_term: +)\d+`, `$1<raft>`),
	// The storage version rises to the cluster version some seconds after the start.
	every(`("storage":)"3\.[57]\.0"`, `$1<storage>`),
	every(`(?i)("?storage_?version"?\s*:\s*)"3\.[57]\.0"`, `$1<storage>`),
	of("endpoint status", `(3\.7\.1[ ,│]+)3\.[57]\.0`, `$1<storage>`),
	// Sizes of databases.
	every(`("(?:dbSize|dbSizeInUse|totalSize)":)"?\d+"?`, `$1<size>`),
	every(`("(?:DBSize|DBSizeInUse|Size)" : )\d+`, `$1<size>`),
	of("snapshot save", `"size":"[^"]*"`, `"size":<size>`),
	// A row of endpoint status: both sizes, their ratio, and raft's numbers.
	of("endpoint status", `\d+(?:\.\d+)? [kM]?B([ ,│]+)\d+(?:\.\d+)? [kM]?B([ ,│]+)\d+%`, `<size>$1<size>$2<share>`),
	of("endpoint status", `(true|false)([ ,│]+)\d+([ ,│]+)\d+([ ,│]+)\d+([ ,│])`, `$1$2<raft>$3<raft>$4<raft>$5`),
	// A database contains ids, so its hash is unique.
	of("POST /v3/maintenance/hash ", `"hash":\d+`, `"hash":<hash>`),
	of("snapshot restore", `sha256 \[[0-9 ]+\], got \[[0-9 ]+\]`, `sha256 <hash>, got <hash>`),
	of("snapshot status", `"hash":\d+`, `"hash":<hash>`),
	of("snapshot status", `"Hash" : \d+`, `"Hash" : <hash>`),
	of("snapshot status", `[0-9a-f]+(, \d+, \d+, )[0-9.]+ [kM]?B`, `<hash>$1<size>`),
	of("snapshot status", `│ +[0-9a-f]+ │( +\d+ │ +\d+ │) +[0-9.]+ [kM]?B`, `│ <hash> │$1 <size>`),
	// The remaining TTL of a lease.
	of("lease timetolive", `remaining\(\d+s\)`, `remaining(<left>)`),
	of("lease timetolive", `("ttl":)\d+`, `$1<left>`),
	of("lease timetolive", `("TTL" : )\d+`, `$1<left>`),
}

// blanks match padding, whose width depends on the longest cell.
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

// objects puts each object of a JSON array on its own line.
var objects = strings.NewReplacer("[{", "[\n{", "},{", "}\n{", "}]", "}\n]")

// Unordered sorts the lines of a text, and the objects of JSON arrays.
func Unordered(text string) string {
	parts := strings.Split(objects.Replace(text), "\n")
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}
