package workload

import (
	"fmt"
	"iter"
)

// buckets are the targets of changes. Only the first two are used without nesting.
var buckets = [][]string{{"alpha"}, {"beta"}, {"alpha", "inner"}, {"gamma", "deep", "deeper"}}

// Change is a put or a delete in a bucket, which is created if it is missing.
type Change struct {
	Bucket []string
	Key    []byte
	Value  []byte
	Delete bool
}

// Tx is one transaction: it takes a sequence number of bucket alpha, which is created if it is
// missing, optionally drops bucket beta, and applies changes.
type Tx struct {
	DropBeta bool
	Changes  []Change
}

// Bolt is a list of transactions, determined by its fields.
type Bolt struct {
	Random          *Random
	Changes, PerTx  int
	Keys            uint64
	Nested, Deletes bool
}

// Written returns the list that fills a file.
func Written(seed uint64, count int, nested, deletes bool) *Bolt {
	return &Bolt{
		Random: Seeded(seed, 0x77), Changes: count, PerTx: 500, Keys: uint64(max(count, 1)),
		Nested: nested, Deletes: deletes,
	}
}

// Round returns the list of one of several rounds that two programs apply in turn.
func Round(seed uint64, round int) *Bolt {
	return &Bolt{Random: SeededRound(seed, round), Changes: 2000, PerTx: 100, Keys: 3000, Nested: true, Deletes: true}
}

// Txs generates the transactions. It can be called once.
func (b *Bolt) Txs() iter.Seq[Tx] {
	return func(yield func(Tx) bool) {
		for left := b.Changes; left > 0; left -= b.PerTx {
			if !yield(b.tx(min(left, b.PerTx))) {
				return
			}
		}
	}
}

func (b *Bolt) tx(changes int) Tx {
	a := b.Random.Next()
	tx := Tx{DropBeta: b.Deletes && a%8 == 0}
	for range changes {
		tx.Changes = append(tx.Changes, b.change())
	}
	return tx
}

func (b *Bolt) change() Change {
	a, k, v := b.Random.Next(), b.Random.Next()%b.Keys, b.Random.Next()
	among := uint64(2)
	if b.Nested {
		among = 4
	}
	c := Change{Bucket: buckets[a%among], Key: fmt.Appendf(nil, "%08d", k)}
	if c.Delete = b.Deletes && (a>>8)%10 < 4; !c.Delete {
		c.Value = Fill(v, length(v))
	}
	return c
}

// length makes one value in eight long, so that some need overflow pages.
func length(drawn uint64) uint64 {
	if drawn%8 == 0 {
		return (drawn >> 8) % 9000
	}
	return (drawn >> 8) % 200
}
