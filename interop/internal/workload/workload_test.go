package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"bowline/interop/internal/dump"
)

func openFile(t *testing.T) *bolt.DB {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestRandomIsSplitmix64(t *testing.T) {
	random := Seeded(0, 0)
	got := []uint64{random.Next(), random.Next()}
	if want := []uint64{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4}; !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestWrittenIsPinned pins the file that Bowline's bolt_tool must produce from the same arguments.
func TestWrittenIsPinned(t *testing.T) {
	db := openFile(t)
	if err := Written(7, 3000, true, true).Apply(db, bolt.DefaultFillPercent); err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	if err := db.View(func(tx *bolt.Tx) error { return dump.Bolt(hash, tx) }); err != nil {
		t.Fatal(err)
	}
	const want = "5151ca54c20b91e1bfa6b6012145717c3c64563ff95b3d806e7f0e78a5f2a0ba"
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("unexpected dump hash %s", got)
	}
}

func TestModelAgreesWithBolt(t *testing.T) {
	db, model := openFile(t), NewModel()
	for round := range 4 {
		if err := Round(1, round).Apply(db, 0.9); err != nil {
			t.Fatal(err)
		}
		model.Apply(Round(1, round))
		if err := db.View(model.Compare); err != nil {
			t.Fatalf("after round %d: %v", round, err)
		}
	}
}

func TestCompareDetectsDifferences(t *testing.T) {
	// Each case alters a file that matches the model.
	cases := map[string]func(tx *bolt.Tx) error{
		"sequence": func(tx *bolt.Tx) error { return tx.Bucket([]byte("alpha")).SetSequence(1) },
		"buckets":  func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("gamma")) },
		"keys and buckets": func(tx *bolt.Tx) error {
			bucket := tx.Bucket([]byte("alpha")).Bucket([]byte("inner"))
			key, _ := bucket.Cursor().First()
			return bucket.Delete(key)
		},
		"unexpected key": func(tx *bolt.Tx) error { return tx.Bucket([]byte("alpha")).Put([]byte("new"), []byte("x")) },
		"unexpected bucket": func(tx *bolt.Tx) error {
			_, err := tx.Bucket([]byte("alpha")).CreateBucket([]byte("new"))
			return err
		},
		"has 78": func(tx *bolt.Tx) error {
			bucket := tx.Bucket([]byte("alpha"))
			key, _ := bucket.Cursor().First()
			return bucket.Put(slices.Clone(key), []byte("x"))
		},
	}
	for want, spoil := range cases {
		db, model := openFile(t), NewModel()
		if err := Round(1, 0).Apply(db, bolt.DefaultFillPercent); err != nil {
			t.Fatal(err)
		}
		model.Apply(Round(1, 0))
		if err := db.Update(spoil); err != nil {
			t.Fatal(err)
		}
		if err := db.View(model.Compare); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestBigRoundsHaveLargeEntries(t *testing.T) {
	for big, least := range map[bool]int{false: 0, true: 1 << 20} {
		count := 0
		for entries := range LogRound(1, 0, big).Saves() {
			count++
			for _, data := range entries {
				if len(data) < least || len(data) >= least+2000 {
					t.Errorf("big %v: unexpected entry size of %d bytes", big, len(data))
				}
			}
		}
		if count != saves {
			t.Errorf("unexpected number of saves: %d", count)
		}
	}
}
