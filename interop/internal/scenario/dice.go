package scenario

import "bowline/interop/internal/workload"

// dice draws random choices from a seeded sequence.
type dice struct{ random *workload.Random }

// newDice scrambles the seed. The sequences of neighboring seeds would otherwise equal each other
// but for one number at the start.
func newDice(seed uint64) *dice { return &dice{workload.Seeded(0, workload.Seeded(seed, 0).Next())} }

// below draws a number from 0 to n-1.
func (d *dice) below(n int) int { return int(d.random.Next() % uint64(n)) }

// between draws a number from low to high, or low if the interval is empty.
func (d *dice) between(low, high int64) int64 {
	if high <= low {
		return low
	}
	return low + int64(d.random.Next()%uint64(high-low+1))
}

// chance is true with this probability, in thousandths.
func (d *dice) chance(perMille int) bool { return d.below(1000) < perMille }

// one draws an element of a list, all with equal probability.
func one[T any](d *dice, of []T) T { return of[d.below(len(of))] }
