package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// passingResult returns a result without violations.
func passingResult() *attackResult {
	served := clientFigures{Persistent: figures{Count: 1}, Reconnecting: figures{Count: 1}}
	normal := phase{seen: served, memory: 10, descriptors: 20}
	return &attackResult{quiet: normal, attack: normal, after: normal, opened: 3, cut: 2}
}

func TestVerdict(t *testing.T) {
	a := attack{name: "some", growthMax: 50, cutMin: 2}
	if failures := passingResult().verdict(a); failures != nil {
		t.Fatal(failures)
	}
	for want, change := range map[string]func(*attackResult){
		"got 1 errors": func(s *attackResult) { s.attack.seen.Reconnecting.Errors = 1 },
		"got no responses": func(s *attackResult) {
			s.quiet.seen.Reconnecting, s.attack.seen.Reconnecting, s.after.seen.Reconnecting = figures{}, figures{}, figures{}
		},
		"memory grew": func(s *attackResult) { s.attack.memory = 61 },
		"memory is":   func(s *attackResult) { s.after.left = 10 + memorySlack + 1 },
		"descriptors": func(s *attackResult) { s.after.descriptors = 20 + descriptorSlack + 1 },
		"died":        func(s *attackResult) { s.died = true },
		"panic":       func(s *attackResult) { s.panicked = true },
		"no attack":   func(s *attackResult) { s.opened = 0 },
		"only 1":      func(s *attackResult) { s.cut = 1 },
	} {
		changed := passingResult()
		change(changed)
		failures := changed.verdict(a)
		if len(failures) != 1 || !strings.Contains(failures[0].Error(), want) {
			t.Errorf("%s: %v", want, failures)
		}
	}
}

func TestAttacksAreNamedOnceAndBounded(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks {
		if seen[a.name] || a.growthMax <= 0 || a.full.connections == 0 || a.brief.connections == 0 || a.full.perSecond == 0 || a.brief.perSecond == 0 {
			t.Errorf("%s is a duplicate name, or has no bounds", a.name)
		}
		seen[a.name] = true
	}
	if _, err := choose("idle,nothing"); err == nil {
		t.Error("an unknown attack was accepted")
	}
}

func TestSummary(t *testing.T) {
	var took []time.Duration
	for n := range 200 {
		took = append(took, time.Duration(200-n))
	}
	if got := summary(took); got.P50 != 101 || got.P99 != 199 || got.Most != 200 || got.Count != 200 {
		t.Error(got)
	}
	if got := summary(nil); got != (figures{}) {
		t.Error(got)
	}
}

func TestMemoryExcludesMappedFiles(t *testing.T) {
	if got := anonymous("Name:\tx\nVmRSS:\t  9000 kB\nRssAnon:\t    1000 kB\nRssFile:\t 8000 kB\n"); got != 1.024 {
		t.Error(got)
	}
}

func TestPaceLimitsTheRate(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	pace, begun := newPace(200), time.Now()
	for n := range 21 {
		if !pace.wait(ctx, 1) {
			t.Fatalf("permit %d was not given", n)
		}
	}
	if took := time.Since(begun); took < 100*time.Millisecond {
		t.Errorf("21 permits at 200 per second took only %s", took)
	}
	cancel()
	if pace.wait(ctx, 1) {
		t.Error("a permit was given after the end")
	}
}

func TestClientHelloIsOneRecord(t *testing.T) {
	hello, err := clientHello()
	if err != nil || hello[0] != 0x16 || len(hello) != 5+int(hello[3])<<8+int(hello[4]) {
		t.Error(len(hello), err)
	}
}

func TestADeepTransactionIsValid(t *testing.T) {
	deep, err := deepTxn(2)
	if err != nil || string(deep) != "\x12\x06\x22\x04\x12\x02\x22\x00" {
		t.Errorf("%x, %v", deep, err)
	}
}
