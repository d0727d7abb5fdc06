// Package script parses scripts of commands for a server:
//
//	# A lease and a key under it.
//	server --quota-backend-bytes=10000000     starts the server with additional flags
//	lease = lease grant 3600                  etcdctl; $lease becomes the first id that it prints
//	put "a b" --lease=$lease                  double quotes as in Go; single quotes are literal
//	| from standard input                     a line of standard input for the command above
//	unordered member list                     its lines may come in any order
//	utl snapshot status $dir/saved            etcdutl
//	http POST /v3/kv/range {"key":"YQ=="}     a request to the client port, with a body
//	http GET /health @Accept:text/plain       a request with a header
//	background w watch a --rev=1              starts a command in the background
//	await w "PUT"                             waits for this text after that of the last await
//	tell w progress                           writes a line to its standard input
//	end w                                     interrupts it; its output is the result
//	join w                                    waits for its exit; its output is the result
//	until get a has "1"                       repeats a command until it prints this; not compared
//	server stop | kill | start [FLAG...]      keeps the data directory
//	server on $dir/restored                   restarts on another data directory
//
// Predefined are $dir, a directory for files, $endpoint and $peer, the server's addresses, and
// $member, its id.
package script

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Verb is the action of a statement.
type Verb string

// The verbs. A statement that begins with another word is an etcdctl command.
const (
	Ctl        Verb = "ctl"
	Utl        Verb = "utl"
	HTTP       Verb = "http"
	Server     Verb = "server"
	Background Verb = "background"
	Await      Verb = "await"
	Tell       Verb = "tell"
	End        Verb = "end"
	Join       Verb = "join"
	Until      Verb = "until"
)

var verbs = []Verb{Utl, HTTP, Server, Background, Await, Tell, End, Join, Until}

// Statement is one command of a script.
type Statement struct {
	File string
	Line int
	Verb Verb
	// Name is the name of the background command, or of the variable for an id.
	Name  string
	Words []string
	// Stdin is the input of the command.
	Stdin string
	// Text is the text that Until waits for.
	Text      string
	Unordered bool
	Written   string
}

func (s Statement) String() string { return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Written) }

// Read reads a script.
func Read(path string) ([]Statement, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, string(text))
}

// Parse reads a script from its text.
func Parse(file, text string) ([]Statement, error) {
	var statements []Statement
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if input, is := stdin(line); is {
			if len(statements) == 0 {
				return nil, fmt.Errorf("%s:%d: input without a command", file, i+1)
			}
			statements[len(statements)-1].Stdin += input + "\n"
			continue
		}
		statement, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		statement.File, statement.Line, statement.Written = file, i+1, line
		statements = append(statements, statement)
	}
	return statements, nil
}

func stdin(line string) (string, bool) {
	if line == "|" {
		return "", true
	}
	return strings.CutPrefix(line, "| ")
}

var named = regexp.MustCompile(`^([a-z]+) = (.*)$`)

func parse(line string) (Statement, error) {
	s := Statement{Verb: Ctl}
	if parts := named.FindStringSubmatch(line); parts != nil {
		s.Name, line = parts[1], parts[2]
	}
	line, s.Unordered = strings.CutPrefix(line, "unordered ")
	words, err := Words(line)
	if err != nil {
		return s, err
	}
	if slices.Contains(verbs, Verb(words[0])) {
		s.Verb, words = Verb(words[0]), words[1:]
	}
	s.Words = words
	return s.shaped(line)
}

// shaped parses the words with a meaning of their own.
func (s Statement) shaped(line string) (Statement, error) {
	if s.Verb != Server && len(s.Words) == 0 {
		return s, fmt.Errorf("%s needs arguments", s.Verb)
	}
	switch s.Verb {
	case Background, Await, Tell, End, Join:
		s.Name, s.Words = s.Words[0], s.Words[1:]
	case Until:
		at := slices.Index(s.Words, "has")
		if at < 1 || at != len(s.Words)-2 {
			return s, fmt.Errorf("expected until COMMAND has TEXT, got %q", s.Words)
		}
		s.Words, s.Text = s.Words[:at], s.Words[at+1]
	case HTTP:
		// The body keeps its quotes.
		parts := strings.SplitN(line, " ", 4)
		s.Words = parts[1:]
	}
	return s, nil
}
