// Waldump prints the records of a log, as etcd's decoder reads them, and optionally snapshot files.
//
//	waldump [-snap DIR] DIR
package main

import (
	"bufio"
	"flag"
	"io"
	"log"
	"os"

	"bowline/interop/internal/dump"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("waldump: ")
	snap := flag.String("snap", "", "directory with snapshot files to print too")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: waldump [-snap DIR] DIR")
	}
	out := bufio.NewWriter(os.Stdout)
	err := print(out, flag.Arg(0), *snap)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		log.Fatal(err)
	}
}

func print(w io.Writer, dir, snap string) error {
	if err := dump.WAL(w, dir); err != nil {
		return err
	}
	if snap == "" {
		return nil
	}
	return dump.Snapshots(w, snap)
}
