package main

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"bowline/interop/internal/script"
)

// plant falsifies one result, which the comparison must detect.
type plant struct {
	name string
	// lie falsifies a result and reports whether it was applicable.
	lie  func(script.Statement, *answer) bool
	done bool
}

var plants = []plant{
	{name: "exit code", lie: func(s script.Statement, a *answer) bool { a.code++; return s.Verb == script.Ctl }},
	{name: "a line less", lie: out(func(lines []string) []string { return lines[1:] })},
	{name: "a line more", lie: out(func(lines []string) []string { return append(lines, lines[0]) })},
	{name: "lines the other way round", lie: out(func(lines []string) []string {
		slices.Reverse(lines)
		return lines
	})},
	{name: "a revision", lie: in(`("revision":)(\d+)`, `${1}1$2`)},
	{name: "a value", lie: in(`("value":")\w`, `$1/`)},
	{name: "a value in a message", lie: in(`(value:\s+")[^"]`, `$1?`)},
	{name: "a field more", lie: in(`("header":)`, `"more":true,$1`)},
	{name: "a number that is a word", lie: in(`("count":)(\d+)`, `$1"$2"`)},
	{name: "one id for another", lie: in(`("cluster_id":)(\d+)(,"member_id":)\d+`, `$1$2$3$2`)},
	{name: "a lost event", lie: func(s script.Statement, a *answer) bool {
		return s.Verb == script.End && replaced(&a.out, regexp.MustCompile(`(?s)DELETE\n.*`), "")
	}},
	{name: "an error's text", lie: func(_ script.Statement, a *answer) bool {
		return replaced(&a.err, regexp.MustCompile(`etcdserver: `), "")
	}},
	{name: "an error's code", lie: func(_ script.Statement, a *answer) bool {
		return replaced(&a.err, regexp.MustCompile(`code = \w+`), "code = Unknown")
	}},
	{name: "a status", lie: func(s script.Statement, a *answer) bool { a.code = 201; return s.Verb == script.HTTP }},
	{name: "a header", lie: in(`(Content-Type: [a-z/]+)`, `$1; charset=latin1`)},
}

// out falsifies the lines of an output with several lines.
func out(change func([]string) []string) func(script.Statement, *answer) bool {
	return func(_ script.Statement, a *answer) bool {
		lines := strings.Split(strings.TrimSuffix(a.out, "\n"), "\n")
		if len(lines) < 2 || lines[0] == lines[len(lines)-1] {
			return false
		}
		a.out = strings.Join(change(lines), "\n") + "\n"
		return true
	}
}

// in falsifies the parts of an output that match a pattern.
func in(pattern, with string) func(script.Statement, *answer) bool {
	compiled := regexp.MustCompile(pattern)
	return func(_ script.Statement, a *answer) bool { return replaced(&a.out, compiled, with) }
}

func replaced(text *string, pattern *regexp.Regexp, with string) bool {
	before := *text
	*text = pattern.ReplaceAllString(before, with)
	return *text != before
}

// falsify applies the plant to the first applicable result.
func (p *plant) falsify(statement script.Statement, a *answer) {
	if p == nil || p.done {
		return
	}
	lie := *a
	if p.lie(statement, &lie) {
		*a, p.done = lie, true
	}
}

// atATime is the number of concurrent plays: their servers spend most of the time waiting for an
// election.
const atATime = 4

// findPlanted runs the scripts once per plant and expects exactly one difference.
func (c *config) findPlanted(ctx context.Context, scripts []string, name string) error {
	chosen := slices.Clone(plants)
	if name != "all" {
		chosen = slices.DeleteFunc(chosen, func(p plant) bool { return p.name != name })
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no plant is called %q", name)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, plant := range chosen {
		group.Go(func() error { return c.findOne(ctx, scripts, &plant) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	log.Printf("planted %d falsified results, and detected each", len(chosen))
	return nil
}

func (c *config) findOne(ctx context.Context, scripts []string, plant *plant) error {
	var differences []string
	for _, path := range scripts {
		played, err := c.play(ctx, path, plant)
		if err != nil {
			return err
		}
		differences = append(differences, played.differences...)
	}
	if !plant.done || len(differences) != 1 {
		return fmt.Errorf("planted %s: applied %v, got %d differences, expected 1:\n%s", plant.name, plant.done, len(differences), strings.Join(differences, "\n"))
	}
	return nil
}
