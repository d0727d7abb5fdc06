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
	// falsify changes a result and reports whether it was applicable.
	falsify func(script.Statement, *answer) bool
	done    bool
}

var plants = []plant{
	{name: "exit code", falsify: func(s script.Statement, a *answer) bool { a.code++; return s.Verb == script.Ctl }},
	{name: "a line less", falsify: changeLines(func(lines []string) []string { return lines[1:] })},
	{name: "a line more", falsify: changeLines(func(lines []string) []string { return append(lines, lines[0]) })},
	{name: "lines the other way round", falsify: changeLines(func(lines []string) []string {
		slices.Reverse(lines)
		return lines
	})},
	{name: "a revision", falsify: replaceMatches(`("revision":)(\d+)`, `${1}1$2`)},
	{name: "a value", falsify: replaceMatches(`("value":")\w`, `$1/`)},
	{name: "a value in a message", falsify: replaceMatches(`(value:\s+")[^"]`, `$1?`)},
	{name: "a field more", falsify: replaceMatches(`("header":)`, `"more":true,$1`)},
	{name: "a number that is a word", falsify: replaceMatches(`("count":)(\d+)`, `$1"$2"`)},
	{name: "one id for another", falsify: replaceMatches(`("cluster_id":)(\d+)(,"member_id":)\d+`, `$1$2$3$2`)},
	{name: "a lost event", falsify: func(s script.Statement, a *answer) bool {
		return s.Verb == script.End && replaced(&a.out, regexp.MustCompile(`(?s)DELETE\n.*`), "")
	}},
	{name: "an error's text", falsify: func(_ script.Statement, a *answer) bool {
		return replaced(&a.err, regexp.MustCompile(`etcdserver: `), "")
	}},
	{name: "an error's code", falsify: func(_ script.Statement, a *answer) bool {
		return replaced(&a.err, regexp.MustCompile(`code = \w+`), "code = Unknown")
	}},
	{name: "a status", falsify: func(s script.Statement, a *answer) bool { a.code = 201; return s.Verb == script.HTTP }},
	{name: "a header", falsify: replaceMatches(`(Content-Type: [a-z/]+)`, `$1; charset=latin1`)},
}

// changeLines falsifies the lines of an output with several lines.
func changeLines(change func([]string) []string) func(script.Statement, *answer) bool {
	return func(_ script.Statement, a *answer) bool {
		lines := strings.Split(strings.TrimSuffix(a.out, "\n"), "\n")
		if len(lines) < 2 || lines[0] == lines[len(lines)-1] {
			return false
		}
		a.out = strings.Join(change(lines), "\n") + "\n"
		return true
	}
}

// replaceMatches falsifies the parts of an output that match a pattern.
func replaceMatches(pattern, with string) func(script.Statement, *answer) bool {
	compiled := regexp.MustCompile(pattern)
	return func(_ script.Statement, a *answer) bool { return replaced(&a.out, compiled, with) }
}

func replaced(text *string, pattern *regexp.Regexp, with string) bool {
	before := *text
	*text = pattern.ReplaceAllString(before, with)
	return *text != before
}

// apply applies the plant to the first applicable result.
func (p *plant) apply(statement script.Statement, a *answer) {
	if p == nil || p.done {
		return
	}
	falsified := *a
	if p.falsify(statement, &falsified) {
		*a, p.done = falsified, true
	}
}

// atATime is the number of concurrent comparisons: their servers spend most of the time waiting for
// an election.
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
		compared, err := c.runScript(ctx, path, plant)
		if err != nil {
			return err
		}
		differences = append(differences, compared.differences...)
	}
	if !plant.done || len(differences) != 1 {
		return fmt.Errorf("planted %s: applied %v, got %d differences, expected 1:\n%s", plant.name, plant.done, len(differences), strings.Join(differences, "\n"))
	}
	return nil
}
