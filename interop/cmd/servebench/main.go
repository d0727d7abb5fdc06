// Servebench benchmarks a single member: etcd's server and Bowline's in turn, as processes on the
// same disk, with the same client over loopback.
//
//	servebench [-etcd PROGRAM] [-bowline PROGRAM] [-dir DIR]
//	           [-only put,get,...] [-rounds 3] [-seconds 6] [-quick]
//
// Each case runs on a new data directory and process, etcd and Bowline alternating, once per round.
// It prints medians with minimum and maximum. Servers have their default settings except for
// addresses.
//
// The client and the server share the processors, so requests per second measure both together. The
// figure to look at is the CPU time of the server per completed request.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// effort is the size of a run.
type effort struct {
	rounds int
	// warm is the duration of a load before the measurement, and measure that of the measurement.
	warm, measure time.Duration
	// keys is the number of keys for reads.
	keys int
	// manyKeys is the number of keys for the memory and start cases.
	manyKeys int
	// rest is the idle time before memory is measured.
	rest time.Duration
}

var (
	full  = effort{rounds: 3, warm: time.Second, measure: 6 * time.Second, keys: 10_000, manyKeys: 1_000_000, rest: 10 * time.Second}
	quick = effort{rounds: 1, warm: 100 * time.Millisecond, measure: 300 * time.Millisecond, keys: 1_000, manyKeys: 2_000, rest: 100 * time.Millisecond}
)

// cases in the order in which they run and are printed.
var cases = []struct {
	name    string
	measure func(dir string, program program, effort effort) ([]figure, error)
}{
	{"put", measured(putLoad)},
	{"put-alone", measured(putAloneLoad)},
	{"get", measured(linearizableLoad)},
	{"get-alone", measured(getAloneLoad)},
	{"serializable", measured(serializableLoad)},
	{"range", measured(rangeLoad)},
	{"page", measured(pageLoad)},
	{"txn", measured(txnLoad)},
	{"watch", measured(watchLoad)},
	{"watch-connections", measured(watchConnectionsLoad)},
	{"keepalive", measured(keepAliveLoad)},
	{"connect", measured(connectLoad)},
	{"json-put", measured(jsonPutLoad)},
	{"json-get", measured(jsonGetLoad)},
	{"json-range", measured(jsonRangeLoad)},
	{"read-under-writes", measureMixed},
	{"delays", measureDelays},
	{"start", measureStart},
	{"many-keys", measureManyKeys},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("servebench: ")
	etcd := flag.String("etcd", "bin/etcd", "etcd's server")
	bowline := flag.String("bowline", "../target/release/bowline", "our server")
	dir := flag.String("dir", os.TempDir(), "directory on the disk to measure")
	only := flag.String("only", "", "comma-separated cases to run; all if empty")
	rounds := flag.Int("rounds", 0, "number of runs of each case with each server")
	seconds := flag.Float64("seconds", 0, "duration of each measurement")
	isQuick := flag.Bool("quick", false, "a small run, to check that the benchmarks work")
	isSecure := flag.Bool("tls", false, "use TLS")
	flag.Parse()
	// Garbage collection of the client would take CPU time from the server.
	debug.SetGCPercent(800)

	chosen := full
	if *isQuick {
		chosen = quick
	}
	if *rounds > 0 {
		chosen.rounds = *rounds
	}
	if *seconds > 0 {
		chosen.measure = time.Duration(*seconds * float64(time.Second))
	}
	if *isSecure {
		certs, err := os.MkdirTemp("", "servebench")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(certs)
		if connSecurity, err = secured(certs); err != nil {
			log.Fatal(err)
		}
	}
	if err := compare(program{"etcd", *etcd}, program{"bowline", *bowline}, *dir, names(*only), chosen); err != nil {
		log.Fatal(err)
	}
}

func names(only string) []string {
	if only == "" {
		return nil
	}
	return strings.Split(only, ",")
}

// compare runs the chosen cases with both programs and prints a table.
func compare(etcd, bowline program, dir string, only []string, effort effort) error {
	fmt.Printf("load average before %s\n\n", loadAverage())
	fmt.Println("| figure | etcd | Bowline | ratio |\n| --- | ---: | ---: | ---: |")
	for _, c := range cases {
		if only != nil && !slices.Contains(only, c.name) {
			continue
		}
		var table table
		for round := range effort.rounds {
			// The first server has the emptier disk cache, so the order alternates too.
			turn := []program{etcd, bowline}
			if round%2 == 1 {
				slices.Reverse(turn)
			}
			for _, program := range turn {
				figures, err := inTempDir(dir, func(dir string) ([]figure, error) { return c.measure(dir, program, effort) })
				if err != nil {
					return fmt.Errorf("%s with %s: %w", c.name, program.name, err)
				}
				table.add(program.name, figures)
				fmt.Fprintf(os.Stderr, "%s, %s, load %s: %s\n", c.name, program.name, loadAverage(), line(figures))
			}
		}
		table.print(etcd.name, bowline.name)
	}
	fmt.Printf("\nload average after %s\n", loadAverage())
	return nil
}

// inTempDir runs a function with a temporary directory. The directory is kept on failure, for the
// server's log.
func inTempDir(parent string, use func(dir string) ([]figure, error)) ([]figure, error) {
	dir, err := os.MkdirTemp(parent, "servebench-")
	if err != nil {
		return nil, err
	}
	figures, err := use(dir)
	if err != nil {
		return nil, fmt.Errorf("%w (see %s)", err, dir)
	}
	return figures, os.RemoveAll(dir)
}
