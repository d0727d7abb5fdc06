package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"bowline/interop/internal/script"
)

// answer is what a statement has come to on one side.
type answer struct {
	code     int
	out, err string
	// failed says that the side cannot go on, or that what was waited for has not come.
	failed error
}

func (a answer) String() string {
	if a.failed != nil {
		return a.failed.Error()
	}
	text := fmt.Sprintf("exit code %d\n%s", a.code, a.out)
	if a.err != "" {
		text += "--- on standard error\n" + a.err
	}
	return text
}

// play is a script under way, on etcd and on us.
type play struct {
	sides       [2]*side
	verbose     bool
	statements  int
	differences []string
}

// run does each statement on both sides. It ends early where one side cannot go on, which is a
// difference if it is ours.
func (p *play) run(ctx context.Context, statements []script.Statement) error {
	for _, statement := range statements {
		theirs, ours := p.both(func(s *side) answer { return s.do(ctx, statement) })
		p.statements++
		if p.verbose {
			log.Printf("%s\n%s", statement, theirs)
		}
		if theirs.failed != nil {
			return fmt.Errorf("%s: etcd: %w", statement, theirs.failed)
		}
		if theirs != ours {
			p.differences = append(p.differences, fmt.Sprintf("%s\n--- etcd: %s\n--- ours: %s", statement, theirs, ours))
		}
		if ours.failed != nil && statement.Verb == script.Server {
			return nil
		}
	}
	return p.finish()
}

// finish ends both sides.
func (p *play) finish() error {
	theirs, ours := p.both(func(s *side) answer { return s.finish() })
	if theirs.failed != nil {
		return fmt.Errorf("at the end: etcd: %w", theirs.failed)
	}
	if ours.failed != nil {
		p.differences = append(p.differences, fmt.Sprintf("at the end\n--- ours: %s", ours))
	}
	return nil
}

func (p *play) both(do func(*side) answer) (theirs, ours answer) {
	var group sync.WaitGroup
	group.Go(func() { theirs = do(p.sides[0]) })
	group.Go(func() { ours = do(p.sides[1]) })
	group.Wait()
	return theirs, ours
}
