// Package dump prints what is in etcd's files as text that can be compared
// line by line with what Bowline's programs print of the same files.
//
// Bytes are lower-case hex, "-" if there are none, and their SHA-256 if they
// are long. Numbers are decimal, fields are separated by one space.
package dump

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// longest is how many bytes are printed as they are.
const longest = 1024

// Bytes is the text of some bytes.
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
