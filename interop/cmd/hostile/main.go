// Hostile attacks a member as any client on the network can, and measures the effect on
// well-behaved clients: first etcd's server, then Bowline's, over loopback.
//
//	hostile [-etcd PROGRAM] [-bowline PROGRAM] [-only slow-headers,...] [-seconds 8]
//	hostile -check [-bowline PROGRAM] [-only ...] [-seconds 1]
//
// For each attack a server starts on a fresh data directory. Two clients that behave, in a process
// of their own, put and get by turns all the while: one over a connection that stays, one that
// comes anew for every request. What they see and what the server takes is measured three times:
//
//	quiet ──────── attack ──────── after
//	               └ what attacks.go grants: connections, so many a second, bytes
//
// With -check it attacks only Bowline, with less load, and checks the limits in attacks.go: no
// error for well-behaved clients, bounded memory, memory and descriptors released afterwards, and
// no panic in the log.
//
// Memory is the anonymous memory of a process (RssAnon); pages of the mapped database belong to the
// system's cache. It is sampled every 20 ms, and the maximum counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("hostile: ")
	etcd := flag.String("etcd", "bin/etcd", "etcd's server")
	bowline := flag.String("bowline", "../target/release/bowline", "our server")
	only := flag.String("only", "", "which attacks, separated by commas; all if empty")
	seconds := flag.Float64("seconds", 0, "how long each of quiet, attack and after lasts; 8, and with -check 1 for the attack and less for the others")
	check := flag.Bool("check", false, "attack Bowline alone, with less, and fail unless it keeps to its bounds")
	share := flag.Float64("share", 1, "with -check: how much of what it may memory may grow, to see that it is looked at")
	behave := flag.String("behave", "", "be the clients that behave, of the server at this address (what this program starts itself)")
	authority := flag.String("authority", "", "with -behave: the certificate that the server's is signed with, if it speaks TLS")
	flag.Parse()

	if *behave != "" {
		must(serveFigures(*behave, *authority))
		return
	}
	must(raiseDescriptorLimit())
	plan := plan{seconds: 8, programs: []program{{"etcd", *etcd}, {"bowline", *bowline}}}
	if *check {
		plan.seconds, plan.check, plan.programs = 1, true, plan.programs[1:]
	}
	if *seconds > 0 {
		plan.seconds = *seconds
	}
	chosen, err := choose(*only)
	must(err)
	for n := range chosen {
		chosen[n].growthMax *= *share
	}
	must(plan.run(chosen))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// choose finds attacks by their names.
func choose(only string) ([]attack, error) {
	if only == "" {
		return slices.Clone(attacks), nil
	}
	var chosen []attack
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no attack named %s", name)
		}
		chosen = append(chosen, attacks[at])
	}
	return chosen, nil
}

// plan holds the parsed flags.
type plan struct {
	seconds  float64
	check    bool
	programs []program
}

func (p plan) duration() time.Duration { return time.Duration(p.seconds * float64(time.Second)) }

func (p plan) run(chosen []attack) error {
	fmt.Println(tableHead)
	var failures []error
	for _, a := range chosen {
		for _, program := range p.programs {
			story, err := p.one(a, program)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", a.name, program.name, err)
			}
			fmt.Println(story.row(a.name, program.name))
			if p.check {
				failures = append(failures, story.verdict(a)...)
			}
		}
	}
	return errors.Join(failures...)
}

// one runs one attack on one program. It keeps the files on failure.
func (p plan) one(a attack, program program) (*story, error) {
	folder, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return nil, err
	}
	story, err := p.tell(a, program, folder)
	if err != nil || p.check && len(story.verdict(a)) > 0 {
		fmt.Fprintf(os.Stderr, "%s on %s: the log is in %s\n", a.name, program.name, folder)
		return story, err
	}
	return story, os.RemoveAll(folder)
}
