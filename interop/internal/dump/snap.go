package dump

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap/snappb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// Snapshots prints a line for each snapshot file in a directory: name, index, term, checksum, and
// the SHA-256 of its data. A server that is killed while it writes one leaves it unreadable.
func Snapshots(w io.Writer, dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.snap"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := dumpSnapshot(w, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func dumpSnapshot(w io.Writer, path string) error {
	snapshot, err := snap.Read(zap.NewNop(), path)
	if err != nil {
		_, err = fmt.Fprintf(w, "snap %s unreadable\n", filepath.Base(path))
		return err
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var frame snappb.Snapshot
	if err := proto.Unmarshal(file, &frame); err != nil {
		return err
	}
	meta := snapshot.GetMetadata()
	_, err = fmt.Fprintf(w, "snap %s %d %d %d %s\n",
		filepath.Base(path), meta.GetIndex(), meta.GetTerm(), frame.GetCrc(), digest(snapshot.GetData()))
	return err
}
