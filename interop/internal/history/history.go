// Package history writes down what clients asked and were told, in the form
// that crates/history reads: a record a line, as JSON.
//
//	{"operation":{"client":1,"invoked_ns":10,"request":{"put":{"key":"a","value":"1"}},
//	              "outcome":{"answered":{"at_ns":20,"response":{"revision":2,"body":{"put":{}}}}}}}
//
// (broken in two here, to be read). Times are nanoseconds since the history began, of one clock that never goes back.
package history

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Record is a line: one of its fields is set.
type Record struct {
	Operation *Operation `json:"operation,omitempty"`
	Watch     *Watch     `json:"watch,omitempty"`
	Final     *Final     `json:"final,omitempty"`
	Hash      *Hash      `json:"hash,omitempty"`
}

// Operation is a request and what came of it.
type Operation struct {
	Client  uint64  `json:"client"`
	Member  uint64  `json:"member,omitempty"`
	Invoked int64   `json:"invoked_ns"`
	Request Request `json:"request"`
	Outcome Outcome `json:"outcome"`
}

// Request is what was asked: one of its fields is set.
type Request struct {
	Put    *Put    `json:"put,omitempty"`
	Delete *Delete `json:"delete,omitempty"`
	Range  *Range  `json:"range,omitempty"`
	Txn    *Txn    `json:"txn,omitempty"`
}

type Put struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type Delete struct {
	Key string `json:"key"`
}

type Range struct {
	Key          string `json:"key"`
	End          string `json:"end,omitempty"`
	Serializable bool   `json:"serializable,omitempty"`
}

// Txn compares, and does one thing or the other.
type Txn struct {
	Compares []Compare `json:"compares"`
	Then     []Request `json:"then"`
	Else     []Request `json:"else"`
}

// Compare asks for the revision that last changed a key.
type Compare struct {
	Key string `json:"key"`
	Is  string `json:"is"`
	To  Target `json:"to"`
}

type Target struct {
	Mod int64 `json:"mod"`
}

// Outcome is what came of a request: one of its fields is set.
type Outcome struct {
	Answered *Answered `json:"answered,omitempty"`
	Unknown  *Unknown  `json:"unknown,omitempty"`
}

type Answered struct {
	At       int64    `json:"at_ns"`
	Response Response `json:"response"`
}

// Unknown may have happened, may happen yet, or may never.
type Unknown struct {
	Error string `json:"error"`
}

type Response struct {
	Revision int64 `json:"revision"`
	Body     Body  `json:"body"`
}

// Body is what was answered: one of its fields is set.
type Body struct {
	Put    *struct{}   `json:"put,omitempty"`
	Delete *DeleteBody `json:"delete,omitempty"`
	Range  *RangeBody  `json:"range,omitempty"`
	Txn    *TxnBody    `json:"txn,omitempty"`
}

type DeleteBody struct {
	Deleted int64 `json:"deleted"`
}

type RangeBody struct {
	KVs   []KV  `json:"kvs"`
	Count int64 `json:"count"`
}

type TxnBody struct {
	Succeeded bool   `json:"succeeded"`
	Results   []Body `json:"results"`
}

// KV is a key with what the store has for it.
type KV struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Create  int64  `json:"create"`
	Mod     int64  `json:"mod"`
	Version int64  `json:"version"`
}

// Watch is one watch and all that it was told.
type Watch struct {
	Client    uint64          `json:"client"`
	Member    uint64          `json:"member"`
	Request   WatchRequest    `json:"request"`
	Responses []WatchResponse `json:"responses"`
}

type WatchRequest struct {
	Key   string `json:"key"`
	End   string `json:"end,omitempty"`
	Start int64  `json:"start,omitempty"`
}

type WatchResponse struct {
	At       int64 `json:"at_ns"`
	Revision int64 `json:"revision"`
	News     News  `json:"news"`
}

// News are events.
type News struct {
	Events []Event `json:"events"`
}

type Event struct {
	KV     KV   `json:"kv"`
	Delete bool `json:"delete,omitempty"`
}

// Final is all that a member held when all was over.
type Final struct {
	Member   uint64 `json:"member"`
	At       int64  `json:"at_ns"`
	Revision int64  `json:"revision"`
	KVs      []KV   `json:"kvs"`
}

// Hash is what HashKV answered.
type Hash struct {
	Member   uint64 `json:"member"`
	Revision int64  `json:"revision"`
	Compact  int64  `json:"compact_revision"`
	Hash     uint32 `json:"hash"`
}

// KVs are keys as etcd tells them.
func KVs(kvs []*mvccpb.KeyValue) []KV {
	made := make([]KV, 0, len(kvs))
	for _, kv := range kvs {
		made = append(made, Told(kv))
	}
	return made
}

// Told is a key as etcd tells it.
func Told(kv *mvccpb.KeyValue) KV {
	return KV{string(kv.Key), string(kv.Value), kv.CreateRevision, kv.ModRevision, kv.Version}
}

// File is a history that is being written.
type File struct {
	begun time.Time
	mu    sync.Mutex
	file  *os.File
	lines *bufio.Writer
	// Records is how many there are.
	Records int
}

// Create begins a history.
func Create(path string) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{begun: time.Now(), file: file, lines: bufio.NewWriter(file)}, nil
}

// Now is the time in the history.
func (f *File) Now() int64 { return int64(time.Since(f.begun)) }

// Add writes a record. Should it fail, Close tells.
func (f *File) Add(record Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Records++
	json.NewEncoder(f.lines).Encode(record)
}

// Close ends the history.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lines.Flush(); err != nil {
		return err
	}
	return f.file.Close()
}
