// Package history reads and writes recorded client histories in the format of crates/history: one
// JSON record per line.
//
//	{"operation":{"client":1,"invoked_ns":10,"request":{"put":{"key":"a","value":"1"}},
//	              "outcome":{"answered":{"at_ns":20,"response":{"revision":2,"body":{"put":{}}}}}}}
//
// (The record is broken into two lines here for reading.) Times are nanoseconds of one monotonic
// clock since the start of the history.
package history

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Record is a line of a history. Exactly one field is set.
type Record struct {
	Operation *Operation `json:"operation,omitempty"`
	Watch     *Watch     `json:"watch,omitempty"`
	Final     *Final     `json:"final,omitempty"`
	Hash      *Hash      `json:"hash,omitempty"`
}

// Operation is a request with its outcome.
type Operation struct {
	Client  uint64  `json:"client"`
	Member  uint64  `json:"member,omitempty"`
	Invoked int64   `json:"invoked_ns"`
	Request Request `json:"request"`
	Outcome Outcome `json:"outcome"`
}

// Request is a request to the store. Exactly one field is set.
type Request struct {
	Put    *Put    `json:"put,omitempty"`
	Delete *Delete `json:"delete,omitempty"`
	Range  *Range  `json:"range,omitempty"`
	Txn    *Txn    `json:"txn,omitempty"`
}

// Put sets a key.
type Put struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Delete deletes a key, or the keys up to End (exclusive).
type Delete struct {
	Key string `json:"key"`
	End string `json:"end,omitempty"`
}

// Range reads a key, or the keys up to End (exclusive).
type Range struct {
	Key          string `json:"key"`
	End          string `json:"end,omitempty"`
	Serializable bool   `json:"serializable,omitempty"`
}

// Txn executes Then if all compares hold, otherwise Else.
type Txn struct {
	Compares []Compare `json:"compares"`
	Then     []Request `json:"then"`
	Else     []Request `json:"else"`
}

// Compare is a condition on a key: equal, not_equal, greater or less than the target.
type Compare struct {
	Key string `json:"key"`
	Is  string `json:"is"`
	To  Target `json:"to"`
}

// Target is the compared attribute with its value. Exactly one field is set.
type Target struct {
	Value   *string `json:"value,omitempty"`
	Version *int64  `json:"version,omitempty"`
	Create  *int64  `json:"create,omitempty"`
	Mod     *int64  `json:"mod,omitempty"`
}

// Outcome is the outcome of a request. Exactly one field is set.
type Outcome struct {
	Answered *Answered `json:"answered,omitempty"`
	Refused  *Refused  `json:"refused,omitempty"`
	Unknown  *Unknown  `json:"unknown,omitempty"`
}

// Answered is the outcome of an executed request.
type Answered struct {
	At       int64    `json:"at_ns"`
	Response Response `json:"response"`
}

// Refused is the outcome of a request that was not executed and never will be.
type Refused struct {
	At      int64           `json:"at_ns"`
	Refusal json.RawMessage `json:"refusal"`
}

// Unknown is the outcome of a request that may or may not be executed, now or later.
type Unknown struct {
	Error string `json:"error"`
}

// Response is the revision of a response header with the body.
type Response struct {
	Revision int64 `json:"revision"`
	Body     Body  `json:"body"`
}

// Body is a response without its header. Exactly one field is set.
type Body struct {
	Put    *struct{}   `json:"put,omitempty"`
	Delete *DeleteBody `json:"delete,omitempty"`
	Range  *RangeBody  `json:"range,omitempty"`
	Txn    *TxnBody    `json:"txn,omitempty"`
}

// DeleteBody is the response to a delete.
type DeleteBody struct {
	Deleted int64 `json:"deleted"`
}

// RangeBody is the response to a range.
type RangeBody struct {
	KVs   []KV  `json:"kvs"`
	Count int64 `json:"count"`
}

// TxnBody is the response to a transaction.
type TxnBody struct {
	Succeeded bool   `json:"succeeded"`
	Results   []Body `json:"results"`
}

// KV is a key with its value and metadata.
type KV struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Create  int64  `json:"create"`
	Mod     int64  `json:"mod"`
	Version int64  `json:"version"`
}

// Watch is a watch with all its responses.
type Watch struct {
	Client    uint64          `json:"client"`
	Member    uint64          `json:"member"`
	Request   WatchRequest    `json:"request"`
	Responses []WatchResponse `json:"responses"`
}

// WatchRequest creates a watch.
type WatchRequest struct {
	Key   string `json:"key"`
	End   string `json:"end,omitempty"`
	Start int64  `json:"start,omitempty"`
}

// WatchResponse is a response to a watch.
type WatchResponse struct {
	At       int64 `json:"at_ns"`
	Revision int64 `json:"revision"`
	News     News  `json:"news"`
}

// News is the body of a watch response: its events.
type News struct {
	Events []Event `json:"events"`
}

// Event is a put or a delete, as a watch reports it.
type Event struct {
	KV     KV   `json:"kv"`
	Delete bool `json:"delete,omitempty"`
}

// Final is the state of a member at the end of the history.
type Final struct {
	Member   uint64 `json:"member"`
	At       int64  `json:"at_ns"`
	Revision int64  `json:"revision"`
	KVs      []KV   `json:"kvs"`
}

// Hash is a response to HashKV.
type Hash struct {
	Member   uint64 `json:"member"`
	Revision int64  `json:"revision"`
	Compact  int64  `json:"compact_revision"`
	Hash     uint32 `json:"hash"`
}

// KVs converts the key-value pairs of an etcd response.
func KVs(kvs []*mvccpb.KeyValue) []KV {
	made := make([]KV, 0, len(kvs))
	for _, kv := range kvs {
		made = append(made, FromKeyValue(kv))
	}
	return made
}

// FromKeyValue converts a key-value pair of an etcd response.
func FromKeyValue(kv *mvccpb.KeyValue) KV {
	return KV{string(kv.Key), string(kv.Value), kv.CreateRevision, kv.ModRevision, kv.Version}
}

// File is a history under construction. Its methods may be called concurrently.
type File struct {
	begun time.Time
	mu    sync.Mutex
	file  *os.File
	lines *bufio.Writer
	// Records is the number of records written.
	Records int
}

// Create creates a history file and starts its clock.
func Create(path string) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{begun: time.Now(), file: file, lines: bufio.NewWriter(file)}, nil
}

// Now returns the time since the start of the history, in nanoseconds.
func (f *File) Now() int64 { return int64(time.Since(f.begun)) }

// Add writes a record. Close reports write errors.
func (f *File) Add(record Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Records++
	json.NewEncoder(f.lines).Encode(record)
}

// Close flushes and closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lines.Flush(); err != nil {
		return err
	}
	return f.file.Close()
}
