package workload

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Model is a bucket in memory: the expected result of lists of changes.
type Model struct {
	sequence uint64
	keys     map[string][]byte
	buckets  map[string]*Model
}

// NewModel returns an empty model.
func NewModel() *Model {
	return &Model{keys: map[string][]byte{}, buckets: map[string]*Model{}}
}

// Apply applies the changes of a list to the model.
func (m *Model) Apply(list *Bolt) {
	for tx := range list.Txs() {
		m.bucket("alpha").sequence++
		if tx.DropBeta {
			delete(m.buckets, "beta")
		}
		for _, c := range tx.Changes {
			bucket := m.bucket(c.Bucket...)
			if c.Delete {
				delete(bucket.keys, string(c.Key))
			} else {
				bucket.keys[string(c.Key)] = c.Value
			}
		}
	}
}

func (m *Model) bucket(path ...string) *Model {
	for _, name := range path {
		if m.buckets[name] == nil {
			m.buckets[name] = NewModel()
		}
		m = m.buckets[name]
	}
	return m
}

// Compare returns an error for the first difference between a database and the model.
func (m *Model) Compare(tx *bolt.Tx) error {
	var names []string
	err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		names = append(names, string(name))
		return nil
	})
	if err != nil {
		return err
	}
	if want := sorted(m.buckets); !slices.Equal(names, want) {
		return fmt.Errorf("got buckets %q, expected %q", names, want)
	}
	for _, name := range names {
		if err := m.buckets[name].compare(name, tx.Bucket([]byte(name))); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) compare(path string, bucket *bolt.Bucket) error {
	if got := bucket.Sequence(); got != m.sequence {
		return fmt.Errorf("%s: got sequence %d, expected %d", path, got, m.sequence)
	}
	seen := 0
	err := bucket.ForEach(func(key, value []byte) error {
		seen++
		inner := m.buckets[string(key)]
		want, known := m.keys[string(key)]
		switch {
		case value == nil && inner != nil:
			return inner.compare(path+"/"+string(key), bucket.Bucket(key))
		case value == nil:
			return fmt.Errorf("%s: unexpected bucket %q", path, key)
		case !known:
			return fmt.Errorf("%s: unexpected key %q", path, key)
		case !bytes.Equal(value, want):
			return fmt.Errorf("%s: key %q has %x, expected %x", path, key, value, want)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if want := len(m.keys) + len(m.buckets); seen != want {
		return fmt.Errorf("%s: found %d of %d keys and buckets", path, seen, want)
	}
	return nil
}

func sorted[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
