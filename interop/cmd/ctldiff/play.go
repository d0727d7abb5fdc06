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

// run does each statement on both sides. It ends early where one side cannot go on, which is a difference if it is ours.
func (p *play) run(ctx context.Context, statements []script.Statement) error {
	for _, statement := range statements {
		theirs, ours := p.both(ctx, statement)
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
	return nil
}

func (p *play) both(ctx context.Context, statement script.Statement) (theirs, ours answer) {
	var group sync.WaitGroup
	group.Go(func() { theirs = p.sides[0].do(ctx, statement) })
	group.Go(func() { ours = p.sides[1].do(ctx, statement) })
	group.Wait()
	return theirs, ours
}
