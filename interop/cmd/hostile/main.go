// Hostile attacks a member, or a grpc-proxy in front of one, as any client on the network can, and
// measures the effect on well-behaved clients: first etcd's server, then Bowline's, over loopback.
//
//	hostile [-etcd PROGRAM] [-bowline PROGRAM] [-only slow-headers,...] [-seconds 8]
//	hostile -check [-bowline PROGRAM] [-only ...] [-seconds 1]
//
// For each attack a server starts on a new data directory; attacks.go says whether a proxy in front
// of it is attacked and measured instead. Two well-behaved clients, the bystanders, alternate puts
// and gets in their own process throughout: one over a persistent connection, one that reconnects
// for each request. Their latencies and errors, and the server's memory and descriptors, are
// measured in three phases:
//
//	quiet ──────── attack ──────── after
//
// attacks.go sets the size of an attack: connections, rate and bytes.
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
	only := flag.String("only", "", "comma-separated attacks to run; all if empty")
	seconds := flag.Float64("seconds", 0, "duration of each phase; default 8, with -check 1 for the attack and less for the others")
	check := flag.Bool("check", false, "attack only Bowline, with less load, and fail if it exceeds its limits")
	share := flag.Float64("share", 1, "with -check: factor of the memory limits, to test the check itself")
	bystanders := flag.String("bystanders", "", "run as the well-behaved clients of the server at this address (used internally)")
	authority := flag.String("authority", "", "with -bystanders: the CA of the server's certificate, if it uses TLS")
	flag.Parse()

	if *bystanders != "" {
		must(serveFigures(*bystanders, *authority))
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
			attackResult, err := p.one(a, program)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", a.name, program.name, err)
			}
			fmt.Println(attackResult.row(a.name, program.name))
			if p.check {
				failures = append(failures, attackResult.verdict(a)...)
			}
		}
	}
	return errors.Join(failures...)
}

// one runs one attack on one program. It keeps the files on failure.
func (p plan) one(a attack, program program) (*attackResult, error) {
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return nil, err
	}
	attackResult, err := p.measureAttack(a, program, dir)
	if err != nil || p.check && len(attackResult.verdict(a)) > 0 {
		fmt.Fprintf(os.Stderr, "%s on %s: the log is in %s\n", a.name, program.name, dir)
		return attackResult, err
	}
	return attackResult, os.RemoveAll(dir)
}
