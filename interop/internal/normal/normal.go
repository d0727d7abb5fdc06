// Package normal normalizes the parts of outputs that differ between any two servers, and nothing
// else:
//
//   - addresses and directories, replaced with their role: <client>
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

// Normal normalizes the outputs of one server. It remembers the ids it has seen.
type Normal struct {
	replacements []string
	ids          map[uint64]string
	// known are ids that are recognized in any notation and length.
	known map[uint64]bool
}

// New returns a Normal that replaces these texts, each followed by its replacement.
func New(replacements ...string) *Normal {
	n := &Normal{ids: map[uint64]string{}, known: map[uint64]bool{}}
	n.ReplaceTexts(replacements...)
	return n
}

// ReplaceTexts adds further texts with their replacements.
func (n *Normal) ReplaceTexts(replacements ...string) {
	n.replacements = append(replacements, n.replacements...)
}

// Know registers ids of this server. An id that is not registered is recognized by its length and
// its context.
func (n *Normal) Know(ids ...uint64) {
	for _, id := range ids {
		n.known[id] = true
	}
}

// Text normalizes the output of a command.
func (n *Normal) Text(command []string, text string) string {
	text = strings.NewReplacer(n.replacements...).Replace(text)
	for _, rule := range rules {
		if strings.HasPrefix(strings.Join(command, " "), rule.command) {
			text = rule.pattern.ReplaceAllString(text, rule.with)
		}
	}
	// All ids in hex are numbered before those in decimal.
	for _, base := range []int{16, 10} {
		text = replaceWords(text, func(before, word string) string {
			if n.baseOf(command, before, word) != base {
				return word
			}
			return n.id(word, base)
		})
	}
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

// idWord matches words that may be ids, in hex or decimal. The shortest ones are ids only if known.
var idWord = regexp.MustCompile(`\b[0-9a-f]{10,20}\b`)

// replaceWords replaces words that may be ids. The function also gets the text before the word.
func replaceWords(text string, with func(before, word string) string) string {
	var out strings.Builder
	end := 0
	for _, at := range idWord.FindAllStringIndex(text, -1) {
		out.WriteString(text[end:at[0]])
		out.WriteString(with(text[:at[0]], text[at[0]:at[1]]))
		end = at[1]
	}
	return out.String() + text[end:]
}

const (
	// Ids have 64 bits, of which the first byte is rarely zero. A shorter number is an id only if
	// known.
	idDigitsMin = 14
	hexDigits   = 16
)

// decimalBefore matches the text before a decimal number: JSON, the format "fields", and a
// protobuf message as text.
var decimalBefore = regexp.MustCompile(`(":"?|" : |ID:)$`)

// baseOf returns the base of an id, or 0 if the word is not an id. Up to 16 digits, a number may be
// an id in either base; then a known id decides, or else the text before it.
func (n *Normal) baseOf(command []string, before, word string) int {
	hex, hexErr := strconv.ParseUint(word, 16, 64)
	decimal, decimalErr := strconv.ParseUint(word, 10, 64)
	switch {
	case decimalErr == nil && n.known[decimal]:
		return 10
	case hexErr == nil && n.known[hex]:
		return 16
	case len(word) < idDigitsMin:
		return 0
	case len(word) > hexDigits && decimalErr == nil:
		return 10
	case len(word) > hexDigits:
		return 0
	case decimalErr == nil && !slices.Contains(command, "--hex") && decimalBefore.MatchString(before):
		return 10
	}
	return 16
}

// FirstID returns the first id in a text, in hex: the first one printed in hex, if there is one.
func FirstID(text string) string {
	first := ""
	for _, base := range []int{10, 16} {
		for _, at := range slices.Backward(idWord.FindAllStringIndex(text, -1)) {
			if word := text[at[0]:at[1]]; New().baseOf(nil, text[:at[0]], word) == base {
				id, _ := strconv.ParseUint(word, base, 64)
				first = fmt.Sprintf("%x", id)
			}
		}
	}
	return first
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
	of("endpoint status", `(3\.7\.\d+[ ,│]+)3\.[57]\.0`, `$1<storage>`),
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
