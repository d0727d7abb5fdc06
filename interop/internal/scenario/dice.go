package scenario

import "bowline/interop/internal/workload"

// dice draws small things from a seeded sequence.
type dice struct{ random *workload.Random }

// newDice starts somewhere else for each seed. The sequences of neighbouring seeds would otherwise
// be the same but for one number at the start.
func newDice(seed uint64) *dice { return &dice{workload.Seeded(0, workload.Seeded(seed, 0).Next())} }

// below draws a number from 0 to n-1.
func (d *dice) below(n int) int { return int(d.random.Next() % uint64(n)) }

// between draws a number from low to high, or low if there is nothing between.
func (d *dice) between(low, high int64) int64 {
	if high <= low {
		return low
	}
	return low + int64(d.random.Next()%uint64(high-low+1))
}

// chance is true this many times out of a thousand.
func (d *dice) chance(perMille int) bool { return d.below(1000) < perMille }

// one draws from a list, all being as likely.
func one[T any](d *dice, of []T) T { return of[d.below(len(of))] }
