// Languages runs programs written with common client libraries in several languages against etcd
// and against us. Each prints a transcript, which must equal the expected one with either server.
//
//	languages -ours PROGRAM [-etcd bin/etcd] [-modes plain,tls] [-languages rust,java] [-verbose]
//	languages -only-etcd              checks the expected transcripts with etcd alone
//	languages -only-etcd -write       rewrites the expected transcripts
//	languages -only-etcd -plant all   responses are falsified in transit; each must be detected
//
// A program finds the server through its environment:
//
//	MODE       plain, tls, auth, tls-auth or jwt
//	ENDPOINT   127.0.0.1:12345
//	CACERT     the CA of the server's certificate; CERT and KEY: the client's own (tls, tls-auth)
//	USERNAME   root, and PASSWORD (auth, tls-auth, jwt)
//	READER     a user with read permission below r/, and READER_PASSWORD
//	BRIEF      set in tls-auth and jwt: skip the steps that other modes cover
//	WORKDIR    a directory for its files
//
// It prints one line for each step, `step: result`. A line that begins with @ is a request,
// answered with one line on its input:
//
//	@restart        kill and restart the server
//	@expire         wait until all existing tokens have expired (auth, tls-auth, jwt)
//	@status FILE    the output of etcdutl snapshot status
//
// It exits with 0 if it ran to its end. table.go gives the reason for each program that is left out
// of a mode.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"bowline/interop/internal/cluster"
)

// atATime is the number of concurrent runs: they mostly wait for elections and for leases to
// expire.
const atATime = 8

type config struct {
	servers   []server
	languages []language
	modes     []mode
	expected  string
	known     string
	dir       string
	verbose   bool
	write     bool
}

// server is a tested server program with its display name.
type server struct {
	name   string
	binary *cluster.Binary
	ours   bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("languages: ")
	var c config
	etcd := flag.String("etcd", "bin/etcd", "server that the expected transcripts come from")
	ours := flag.String("ours", "", "our server")
	onlyEtcd := flag.Bool("only-etcd", false, "run etcd alone")
	plant := flag.String("plant", "", "name of a falsification to plant in responses, or all")
	languageNames := flag.String("languages", "", "languages to run, instead of all")
	modeNames := flag.String("modes", "", "modes to run, instead of all")
	flag.StringVar(&c.expected, "expected", "languages/expected", "directory of the expected transcripts")
	flag.StringVar(&c.known, "known", "languages/known.txt", "file of the steps that are known to differ with our server")
	flag.BoolVar(&c.verbose, "verbose", false, "print transcripts")
	flag.BoolVar(&c.write, "write", false, "write the expected transcripts instead of comparing with them")
	flag.Parse()
	if (*ours == "") != *onlyEtcd || flag.NArg() > 0 || c.write && !*onlyEtcd {
		log.Fatal("usage: languages -ours PROGRAM | -only-etcd [flags]")
	}
	if err := c.prepare(*etcd, *ours, *languageNames, *modeNames); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := c.compare
	if *plant != "" {
		run = func(ctx context.Context) error { return c.findPlanted(ctx, *plant) }
	}
	if err := run(ctx); err != nil {
		log.Fatalf("%v\nthe servers' files and logs are in %s", err, c.dir)
	}
	os.RemoveAll(c.dir)
}

func (c *config) prepare(etcd, ours, languageNames, modeNames string) error {
	var errs [5]error
	theirs, err := cluster.Find(etcd)
	errs[0] = err
	c.servers = []server{{name: "etcd", binary: theirs}}
	if ours != "" {
		binary, err := cluster.Find(ours)
		errs[1] = err
		c.servers = append(c.servers, server{name: "bowline", binary: binary, ours: true})
	}
	c.languages, errs[2] = choose(languages, languageNames, func(l language) string { return l.name })
	c.modes, errs[3] = choose(modes, modeNames, func(m mode) string { return m.name })
	c.dir, errs[4] = os.MkdirTemp("", "languages")
	return errors.Join(errs[:]...)
}

// choose returns the named programs, or all if none is named.
func choose[T any](all []T, names string, nameOf func(T) string) ([]T, error) {
	if names == "" {
		return all, nil
	}
	var chosen []T
	for _, name := range strings.Split(names, ",") {
		at := slices.IndexFunc(all, func(one T) bool { return nameOf(one) == name })
		if at < 0 {
			return nil, fmt.Errorf("unknown name %q", name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// compare runs every program in every mode with every server, so that one run reports all
// differences.
func (c *config) compare(ctx context.Context) error {
	begun, failures, steps := time.Now(), make(chan error, c.size()), make(chan int, c.size())
	var group errgroup.Group
	group.SetLimit(atATime)
	c.each(func(l language, m mode, s server) {
		group.Go(func() error {
			lines, err := c.one(ctx, l, m, s)
			if err != nil {
				failures <- fmt.Errorf("%s, %s, %s: %w", l.name, m.name, s.name, err)
			}
			steps <- lines
			return nil
		})
	})
	group.Wait()
	close(failures)
	close(steps)
	c.reportSkipped()
	return c.report(failures, steps, time.Since(begun))
}

func (c *config) report(failures <-chan error, steps <-chan int, took time.Duration) error {
	total := 0
	for lines := range steps {
		total += lines
	}
	failed := 0
	for failure := range failures {
		fmt.Println(failure)
		failed++
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs failed", failed, c.size())
	}
	log.Printf("%d runs, %d steps: all as expected; %.0f s", c.size(), total, took.Seconds())
	return nil
}

// each calls run for every combination that the library supports.
func (c *config) each(run func(language, mode, server)) {
	for _, m := range c.modes {
		for _, l := range c.languages {
			if l.lacks[m.name] != "" {
				continue
			}
			for _, s := range c.servers {
				run(l, m, s)
			}
		}
	}
}

// reportSkipped prints the skipped runs with their reasons.
func (c *config) reportSkipped() {
	for _, m := range c.modes {
		for _, l := range c.languages {
			if reason := l.lacks[m.name]; reason != "" {
				log.Printf("no run of %s, %s: %s", l.name, m.name, reason)
			}
		}
	}
}

func (c *config) size() int {
	size := 0
	c.each(func(language, mode, server) { size++ })
	return size
}

// one runs a program and compares its transcript. It returns the number of steps.
func (c *config) one(ctx context.Context, l language, m mode, s server) (int, error) {
	transcript, err := c.runProgram(ctx, l, m, s.binary, nil)
	if err != nil {
		return 0, err
	}
	if c.verbose {
		fmt.Printf("== %s, %s, %s\n%s", l.name, m.name, s.name, transcript)
	}
	steps := strings.Count(transcript, "\n")
	if c.write {
		return steps, os.WriteFile(c.path(l, m), []byte(transcript), 0o644)
	}
	var known []string
	if s.ours {
		if known, err = knownOf(c.known, l, m); err != nil {
			return 0, err
		}
	}
	return steps, c.same(l, m, transcript, known)
}

// same compares a transcript with the expected one, except for known differences.
func (c *config) same(l language, m mode, transcript string, known []string) error {
	expected, err := os.ReadFile(c.path(l, m))
	if err != nil {
		return err
	}
	return differs(string(expected), transcript, known)
}

func (c *config) path(l language, m mode) string {
	return filepath.Join(c.expected, l.name+"."+m.name+".txt")
}
