package workload

import (
	bolt "go.etcd.io/bbolt"
)

// Apply applies the changes of a list to a database; fill is the fill percent of pages.
func (b *Bolt) Apply(db *bolt.DB, fill float64) error {
	for tx := range b.Txs() {
		if err := db.Update(func(to *bolt.Tx) error { return tx.apply(to, fill) }); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) apply(to *bolt.Tx, fill float64) error {
	alpha, err := to.CreateBucketIfNotExists([]byte("alpha"))
	if err != nil {
		return err
	}
	if _, err := alpha.NextSequence(); err != nil {
		return err
	}
	if t.DropBeta && to.Bucket([]byte("beta")) != nil {
		if err := to.DeleteBucket([]byte("beta")); err != nil {
			return err
		}
	}
	for _, change := range t.Changes {
		if err := change.apply(to, fill); err != nil {
			return err
		}
	}
	return nil
}

func (c *Change) apply(to *bolt.Tx, fill float64) error {
	bucket, err := to.CreateBucketIfNotExists([]byte(c.Bucket[0]))
	for _, name := range c.Bucket[1:] {
		if err != nil {
			return err
		}
		bucket, err = bucket.CreateBucketIfNotExists([]byte(name))
	}
	if err != nil {
		return err
	}
	bucket.FillPercent = fill
	if c.Delete {
		return bucket.Delete(c.Key)
	}
	return bucket.Put(c.Key, c.Value)
}
