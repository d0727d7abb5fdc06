// Package faulty controls lib/faulty.c, a library that is preloaded into a server and makes its
// disk and clock fail on demand.
package faulty

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"time"
)

// Faults controls the faulty disk and clock of one server.
type Faults struct {
	library string
	control *os.File
}

// Offsets of the fields of struct control in lib/faulty.c.
const (
	clockAt = 0
	fullAt  = 8
	syncAt  = 12
	size    = 16
)

// New returns a control without active faults. It talks to the library through a file at this path.
func New(library, path string) (*Faults, error) {
	library, err := filepath.Abs(library)
	if err != nil {
		return nil, err
	}
	control, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Faults{library, control}, control.Truncate(size)
}

// Environment returns the environment variables that load the library.
func (g *Faults) Environment() []string {
	return []string{"LD_PRELOAD=" + g.library, "FAULTY=" + g.control.Name()}
}

// Fill sets whether the disk is full.
func (g *Faults) Fill(full bool) error {
	var value uint32
	if full {
		value = 1
	}
	return g.write(fullAt, binary.LittleEndian.AppendUint32(nil, value))
}

// SlowDown sets the additional time that a sync takes.
func (g *Faults) SlowDown(by time.Duration) error {
	return g.write(syncAt, binary.LittleEndian.AppendUint32(nil, uint32(by.Milliseconds())))
}

// SetClock moves the wall clock ahead, or back if negative.
func (g *Faults) SetClock(ahead time.Duration) error {
	return g.write(clockAt, binary.LittleEndian.AppendUint64(nil, uint64(ahead)))
}

func (g *Faults) write(at int64, bytes []byte) error {
	_, err := g.control.WriteAt(bytes, at)
	return err
}

// Close closes the file. Running servers keep their mapping.
func (g *Faults) Close() error { return g.control.Close() }
