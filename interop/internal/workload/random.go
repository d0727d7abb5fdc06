// Package workload generates deterministic lists of changes to bolt files and logs. Bowline's
// programs generate the same lists, so that each side can verify the other's files.
package workload

import "math"

const (
	golden = 0x9E3779B97F4A7C15
	stride = 0xD1B54A32D192ED03
)

// Random is the splitmix64 generator, which takes a few lines in any language.
type Random struct{ state uint64 }

// Seeded starts a sequence; different salts give different sequences for the same seed.
func Seeded(seed, salt uint64) *Random { return &Random{state: seed*golden + salt} }

// SeededRound starts the sequence of one round of a seed.
func SeededRound(seed uint64, round int) *Random { return Seeded(seed, (uint64(round)+1)*stride) }

// Next draws the next number.
func (r *Random) Next() uint64 {
	r.state += golden
	z := r.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Fill returns a value of this length that is determined by the drawn number.
func Fill(drawn uint64, length uint64) []byte {
	value := make([]byte, length)
	for i := range value {
		value[i] = byte((drawn>>24 + uint64(i)) & math.MaxUint8)
	}
	return value
}
