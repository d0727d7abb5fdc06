package clients

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// namedLine is a line of `pprof -top` with a function: "0.02s 1.5% 1.5% 0.02s 1.5%  runtime.futex".
// An address that was not resolved starts with a digit.
var namedLine = regexp.MustCompile(`(?m)^\s*\S+\s+\S+%\s+\S+%\s+\S+\s+\S+%\s+[A-Za-z_<[]`)

func TestUnresolvedFunctionsHaveNoName(t *testing.T) {
	const header = "      flat  flat%   sum%        cum   cum%\n"
	for line, named := range map[string]bool{
		"     0.02s  1.50%  1.50%      0.02s  1.50%  runtime.futex":              true,
		"     0.02s 60.00% 60.00%      0.90s 90.00%  <alloc::vec::Vec<T>>::push": true,
		"        3 60.00% 60.00%           3 60.00%  [sleeping in futex_wait]":   true,
		"     0.02s 60.00% 60.00%      0.90s 90.00%  0x000055d0c8a1b2c3":         false,
	} {
		if namedLine.MatchString(header+line+"\n") != named {
			t.Errorf("named %v: %s", !named, line)
		}
	}
}

// TestProfiles has `go tool pprof` read the profiles of a busy server.
func TestProfiles(t *testing.T) {
	t.Parallel()
	s := alone(t, "--enable-pprof")
	client := s.client(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		value := strings.Repeat("v", 100_000)
		for ctx.Err() == nil {
			if _, err := client.Put(ctx, "profiled", value); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for path, kind := range map[string]string{
		"profile?seconds=2": "cpu",
		"heap":              "inuse_space",
		"allocs":            "alloc_space",
		"goroutine":         "goroutine",
		"threadcreate":      "threadcreate",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		// By default pprof waits for 8 seconds, in which a busy machine may not resolve all symbols of
		// an unoptimized program.
		top := exec.CommandContext(ctx, "go", "tool", "pprof", "-timeout=50", "-top", s.endpoint()+"/debug/pprof/"+path)
		top.Env = append(top.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := top.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
			continue
		}
		// A process that has created no threads since it can tell has no lines.
		isNamed := path == "threadcreate" || namedLine.Match(out)
		if !strings.Contains(string(out), "Type: "+kind+"\n") || !isNamed {
			t.Errorf("%s:\n%s", path, out)
		}
	}
	stop()
	must(t, <-done)
}
