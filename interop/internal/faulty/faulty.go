// Package faulty has a server stand on a disk and a clock that fail on demand. The library lib/faulty.c, which is loaded
// into the server, does it; this tells it what to do.
package faulty

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"time"
)

// Ground is what one server stands on.
type Ground struct {
	library string
	control *os.File
}

// Where the parts of struct control in lib/faulty.c are.
const (
	clockAt = 0
	fullAt  = 8
	syncAt  = 12
	size    = 16
)

// New is ground that is firm so far. What the library is told goes through a file at this path.
func New(library, path string) (*Ground, error) {
	library, err := filepath.Abs(library)
	if err != nil {
		return nil, err
	}
	control, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Ground{library, control}, control.Truncate(size)
}

// Environment is what a server must be started with.
func (g *Ground) Environment() []string {
	return []string{"LD_PRELOAD=" + g.library, "FAULTY=" + g.control.Name()}
}

// Fill says whether the disk is full.
func (g *Ground) Fill(full bool) error {
	var value uint32
	if full {
		value = 1
	}
	return g.tell(fullAt, binary.LittleEndian.AppendUint32(nil, value))
}

// SlowDown says how much longer than usual it takes until something is on the disk.
func (g *Ground) SlowDown(by time.Duration) error {
	return g.tell(syncAt, binary.LittleEndian.AppendUint32(nil, uint32(by.Milliseconds())))
}

// SetClock puts the time of day ahead, or back.
func (g *Ground) SetClock(ahead time.Duration) error {
	return g.tell(clockAt, binary.LittleEndian.AppendUint64(nil, uint64(ahead)))
}

func (g *Ground) tell(at int64, bytes []byte) error {
	_, err := g.control.WriteAt(bytes, at)
	return err
}

// Close lets go of the file. Servers that were started keep theirs.
func (g *Ground) Close() error { return g.control.Close() }
