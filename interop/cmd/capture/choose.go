package main

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// perLabel bounds the number of kept messages per variant.
	perLabel = 8
	// bytesPerLabel bounds their total size; the first message is kept whatever its size.
	bytesPerLabel = 1400
)

// choice is a message to write.
type choice struct {
	*sample
	bytes []byte
}

func (c choice) heading() string {
	if c.label == "" {
		return c.origin
	}
	return c.label + ", " + c.origin
}

// chosen selects the messages of a kind. Variety comes first: one of every outline, one of every
// shape, then the same shapes from other origins, then longer messages, until the variant reaches
// its limit.
func (k *kindSamples) chosen() []choice {
	all := slices.SortedFunc(maps.Values(k.seen), func(a, b *sample) int { return cmp.Compare(a.first, b.first) })
	p := picker{count: map[string]int{}, size: map[string]int{}, taken: map[string]bool{}}
	p.takeNew(all, func(one *sample) string { return one.label + "|" + one.outline })
	p.takeNew(all, func(one *sample) string { return one.label + "|" + one.shape })
	for _, one := range all {
		p.take(choice{one, one.shortest})
	}
	for _, one := range all {
		p.take(choice{one, one.longest})
	}
	slices.SortStableFunc(p.chosen, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.label, b.label), cmp.Compare(a.origin, b.origin))
	})
	return p.chosen
}

// picker collects messages while their variant is below its limit.
type picker struct {
	chosen      []choice
	count, size map[string]int
	taken       map[string]bool
}

// takeNew takes the first message for each key.
func (p *picker) takeNew(all []*sample, key func(*sample) string) {
	seen := map[string]bool{}
	for _, one := range all {
		if k := key(one); !seen[k] {
			seen[k] = true
			p.take(choice{one, one.shortest})
		}
	}
}

func (p *picker) take(c choice) {
	full := p.count[c.label] >= perLabel || p.count[c.label] > 0 && p.size[c.label]+len(c.bytes) > bytesPerLabel
	if full || p.taken[string(c.bytes)] {
		return
	}
	p.taken[string(c.bytes)] = true
	p.count[c.label]++
	p.size[c.label] += len(c.bytes)
	p.chosen = append(p.chosen, c)
}
