package scenario

import (
	"bytes"

	"bowline/interop/internal/workload"
)

// keys are few, so that requests collide: prefixes of each other, neighbors, bytes with a meaning
// in ranges, and enough keys of one prefix for a non-trivial sort.
var keys = [][]byte{
	{0}, {0, 0}, {0, 0xff}, []byte("a"), []byte("a\x00"), []byte("a\x00b"), []byte("aa"), []byte("ab"), []byte("b"), []byte("c"),
	[]byte("foo"), []byte("foo/"), []byte("foo/1"), []byte("foo/2"), []byte("foo/3"), []byte("foo/4"), []byte("foo/5"),
	[]byte("foo/6"), []byte("foo/7"), []byte("foo/8"), []byte("foo/9"), []byte("foo0"), []byte("fop"), []byte("z"),
	{0xff}, {0xff, 0}, {0xff, 0xff},
}

// values repeat, so that comparisons and sorts find equal ones.
var values = [][]byte{nil, []byte("1"), []byte("2"), []byte("22"), []byte("\x00"), []byte("\xff"), []byte("foo")}

const (
	// largeValue fits into a request, tooLarge does not.
	largeValue = 300 << 10
	tooLarge   = 1600 << 10
)

func (s *Scenario) key() []byte {
	if s.dice.chance(15) {
		return nil
	}
	return one(s.dice, keys)
}

// rangeEnd returns a range end of any kind for this key. With auth, the range is not inverted:
// whether etcd permits such a range depends on the shape of a tree.
func (s *Scenario) rangeEnd(key []byte) []byte {
	end := s.anyEnd(key)
	upsideDown := len(end) > 0 && !bytes.Equal(end, []byte{0}) && bytes.Compare(end, key) <= 0
	if s.auth && upsideDown {
		return prefixEnd(key)
	}
	return end
}

// anyEnd returns a range end before or after this key.
func (s *Scenario) anyEnd(key []byte) []byte {
	switch n := s.dice.below(100); {
	case n < 30:
		return nil
	case n < 42:
		return []byte{0}
	case n < 67:
		return prefixEnd(key)
	case n < 72:
		return key
	case n < 77:
		return append(bytes.Clone(key), 0)
	default:
		return one(s.dice, keys)
	}
}

// prefixEnd returns the first key after all keys with this prefix.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}

func (s *Scenario) value() []byte {
	switch n := s.dice.below(10000); {
	case n < 5:
		return make([]byte, tooLarge)
	case n < 15:
		return workload.Fill(s.dice.random.Next(), largeValue)
	case n < 3000:
		return workload.Fill(s.dice.random.Next(), s.dice.random.Next()%40)
	default:
		return one(s.dice, values)
	}
}
