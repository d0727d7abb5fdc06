package workload

import "iter"

// LogMetadata is the metadata at the head of every segment that a round creates.
const LogMetadata = "bowline interop"

// saves is the number of saves per round.
const saves = 40

// Log is the entries of one round, grouped into saves.
type Log struct {
	Term   uint64
	random *Random
	extra  uint64
}

// LogRound returns a round of a seed. The entries of a big one fill segments.
func LogRound(seed uint64, round int, big bool) *Log {
	l := &Log{Term: uint64(round) + 1, random: SeededRound(seed, round)}
	if big {
		l.extra = 1 << 20
	}
	return l
}

// Saves generates the data of the entries per save. It can be called once.
func (l *Log) Saves() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		for range saves {
			if !yield(l.entries()) {
				return
			}
		}
	}
}

func (l *Log) entries() [][]byte {
	var data [][]byte
	for range 1 + l.random.Next()%5 {
		v := l.random.Next()
		data = append(data, Fill(v, v%2000+l.extra))
	}
	return data
}
