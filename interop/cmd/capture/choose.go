package main

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// perLabel bounds how many messages of one variant are kept.
	perLabel = 8
	// bytesPerLabel bounds their size; the first is kept whatever its size.
	bytesPerLabel = 1400
)

// choice is a message to be written out.
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

// chosen picks the messages of a kind to keep. Variety comes first: one of
// every outline, one of every shape, then the same shapes from other places,
// then longer ones, until a variant has had its share.
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

// picker takes messages as long as their variant has room.
type picker struct {
	chosen      []choice
	count, size map[string]int
	taken       map[string]bool
}

// takeNew takes the first of all that have the same key.
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
