// Package dump prints the content of etcd's files as text, for comparison with the output of
// Bowline's programs for the same files.
//
// Bytes are lower-case hex, "-" if empty, and their SHA-256 if they are long. Numbers are decimal,
// fields are separated by one space.
package dump

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// longest is the number of bytes up to which hex is printed.
const longest = 1024

// Bytes returns the text of some bytes.
func Bytes(b []byte) string {
	switch {
	case len(b) == 0:
		return "-"
	case len(b) > longest:
		return "sha256:" + digest(b)
	default:
		return hex.EncodeToString(b)
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func numbers(ids []uint64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatUint(id, 10)
	}
	return strings.Join(texts, ",")
}
