// Snapimage prints the membership in the newest snapshot file of a directory: the voters and
// learners, and the files of the v2 store by name.
//
//	snapimage DIR
//	snapimage -replace OLD=NEW DIR
//
//	voters=1,2 learners=
//	/0/members/305db25c258609ea/raftAttributes {"peerURLs":["http://127.0.0.1:10807"]}
//	/0/version 3.5.0
//
// With -replace it replaces OLD with NEW in the image and writes a valid file.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("snapimage: ")
	replace := flag.String("replace", "", "OLD=NEW: text to replace in the image")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: snapimage [-replace OLD=NEW] DIR")
	}
	if err := run(flag.Arg(0), *replace); err != nil {
		log.Fatal(err)
	}
}

func run(dir, replace string) error {
	files := snap.New(zap.NewNop(), dir)
	newest, err := files.Load()
	if err != nil {
		return err
	}
	if replace == "" {
		out := bufio.NewWriter(os.Stdout)
		return errors.Join(show(out, newest), out.Flush())
	}
	old, text, found := strings.Cut(replace, "=")
	if !found || !bytes.Contains(newest.GetData(), []byte(old)) {
		return fmt.Errorf("the image does not contain %q", old)
	}
	newest.Data = bytes.ReplaceAll(newest.GetData(), []byte(old), []byte(text))
	return files.SaveSnap(newest)
}

func show(w io.Writer, snapshot *raftpb.Snapshot) error {
	var image struct{ Root node }
	if err := json.Unmarshal(snapshot.GetData(), &image); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	conf := snapshot.GetMetadata().GetConfState()
	fmt.Fprintf(w, "voters=%s learners=%s\n", numbers(conf.GetVoters()), numbers(conf.GetLearners()))
	image.Root.show(w)
	return nil
}

// node is a file or a directory of the v2 store.
type node struct {
	Path, Value string
	Children    map[string]node
}

// show prints the files of a directory in the order of their names. It skips empty directories.
func (n node) show(w io.Writer) {
	if n.Children == nil {
		fmt.Fprintln(w, n.Path, n.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Children)) {
		n.Children[name].show(w)
	}
}

func numbers(ids []uint64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(ids))), "[]"), " ", ",")
}
