package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"bowline/interop/internal/script"
)

// answer is the result of a statement on one side.
type answer struct {
	code     int
	out, err string
	// failed is set if the side cannot continue, or if a wait timed out.
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

// comparison is the run of a script on etcd and on our server.
type comparison struct {
	sides       [2]*side
	verbose     bool
	statements  int
	differences []string
}

// run executes each statement on both sides. It ends early if a side cannot continue; on our side
// that is a difference.
func (c *comparison) run(ctx context.Context, statements []script.Statement) error {
	for _, statement := range statements {
		theirs, ours := c.both(func(s *side) answer { return s.do(ctx, statement) })
		c.statements++
		if c.verbose {
			log.Printf("%s\n%s", statement, theirs)
		}
		if theirs.failed != nil {
			return fmt.Errorf("%s: etcd: %w", statement, theirs.failed)
		}
		if theirs != ours {
			c.differences = append(c.differences, fmt.Sprintf("%s\n--- etcd: %s\n--- ours: %s", statement, theirs, ours))
		}
		if ours.failed != nil && statement.Verb == script.Server {
			return nil
		}
	}
	return c.finish()
}

// finish ends both sides and compares their final results.
func (c *comparison) finish() error {
	theirs, ours := c.both(func(s *side) answer { return s.finish() })
	if theirs.failed != nil {
		return fmt.Errorf("at the end: etcd: %w", theirs.failed)
	}
	if ours.failed != nil {
		c.differences = append(c.differences, fmt.Sprintf("at the end\n--- ours: %s", ours))
	}
	return nil
}

func (c *comparison) both(do func(*side) answer) (theirs, ours answer) {
	var group sync.WaitGroup
	group.Go(func() { theirs = do(c.sides[0]) })
	group.Go(func() { ours = do(c.sides[1]) })
	group.Wait()
	return theirs, ours
}
