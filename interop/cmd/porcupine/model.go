package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"bowline/interop/internal/history"
)

// store is the state of the model: an etcd store without leases, compactions and old revisions.
// It is immutable.
type store struct {
	revision int64
	// kvs are sorted by key.
	kvs []history.KV
}

// model is the sequential specification. An input is a history.Request, an output a
// *history.Response, which is nil for an unknown outcome. etcd's revisions are global, so histories
// cannot be partitioned by key.
var model = porcupine.Model{
	Init: func() any { return store{revision: 1} },
	Step: func(state, input, output any) (bool, any) {
		response, after := state.(store).execute(input.(history.Request))
		expected := output.(*history.Response)
		if expected == nil {
			return true, after
		}
		return response.Revision == expected.Revision && sameBody(response.Body, expected.Body), after
	},
	Equal: func(a, b any) bool {
		one, two := a.(store), b.(store)
		return one.revision == two.revision && slices.Equal(one.kvs, two.kvs)
	},
	Hash: func(state any) uint64 { return uint64(state.(store).revision) },
}

// execute returns the response to a request and the state after it.
func (s store) execute(request history.Request) (history.Response, store) {
	draft := &draft{revision: s.revision + 1, kvs: slices.Clone(s.kvs)}
	body := draft.execute(request)
	if !draft.changed {
		return history.Response{Revision: s.revision, Body: body}, s
	}
	return history.Response{Revision: draft.revision, Body: body}, store{draft.revision, draft.kvs}
}

// draft is a store during the execution of a request.
type draft struct {
	// revision is that of the changes.
	revision int64
	kvs      []history.KV
	changed  bool
}

func (d *draft) execute(request history.Request) history.Body {
	switch {
	case request.Put != nil:
		return d.put(request.Put)
	case request.Delete != nil:
		return d.delete(request.Delete)
	case request.Range != nil:
		kvs := d.find(request.Range.Key, request.Range.End)
		return history.Body{Range: &history.RangeBody{KVs: kvs, Count: int64(len(kvs))}}
	default:
		return d.txn(request.Txn)
	}
}

func (d *draft) put(put *history.Put) history.Body {
	d.changed = true
	kv := history.KV{Key: put.Key, Value: put.Value, Create: d.revision, Mod: d.revision, Version: 1}
	at, exists := slices.BinarySearchFunc(d.kvs, put.Key, func(kv history.KV, key string) int {
		return strings.Compare(kv.Key, key)
	})
	if exists {
		kv.Create, kv.Version = d.kvs[at].Create, d.kvs[at].Version+1
		d.kvs[at] = kv
	} else {
		d.kvs = slices.Insert(d.kvs, at, kv)
	}
	return history.Body{Put: &struct{}{}}
}

func (d *draft) delete(delete *history.Delete) history.Body {
	before := len(d.kvs)
	d.kvs = slices.DeleteFunc(d.kvs, func(kv history.KV) bool { return within(kv.Key, delete.Key, delete.End) })
	deleted := before - len(d.kvs)
	d.changed = d.changed || deleted > 0
	return history.Body{Delete: &history.DeleteBody{Deleted: int64(deleted)}}
}

// txn evaluates all compares before the first change.
func (d *draft) txn(txn *history.Txn) history.Body {
	body := &history.TxnBody{Succeeded: true}
	for _, compare := range txn.Compares {
		body.Succeeded = body.Succeeded && d.holds(compare)
	}
	requests := txn.Then
	if !body.Succeeded {
		requests = txn.Else
	}
	for _, request := range requests {
		body.Results = append(body.Results, d.execute(request))
	}
	return history.Body{Txn: body}
}

// holds reports whether a compare holds. A missing key has zero numbers and no value: each compare
// of the value fails.
func (d *draft) holds(compare history.Compare) bool {
	var kv history.KV
	found := d.find(compare.Key, "")
	if len(found) > 0 {
		kv = found[0]
	}
	var order int
	switch to := compare.To; {
	case to.Value != nil && len(found) == 0:
		return false
	case to.Value != nil:
		order = strings.Compare(kv.Value, *to.Value)
	case to.Version != nil:
		order = cmp.Compare(kv.Version, *to.Version)
	case to.Create != nil:
		order = cmp.Compare(kv.Create, *to.Create)
	default:
		order = cmp.Compare(kv.Mod, *to.Mod)
	}
	switch compare.Is {
	case "equal":
		return order == 0
	case "not_equal":
		return order != 0
	case "greater":
		return order > 0
	default:
		return order < 0
	}
}

func (d *draft) find(key, end string) []history.KV {
	var found []history.KV
	for _, kv := range d.kvs {
		if within(kv.Key, key, end) {
			found = append(found, kv)
		}
	}
	return found
}

// within reports whether a key is in a range: one key without an end, all keys from the first with
// the end "\0".
func within(key, first, end string) bool {
	switch end {
	case "":
		return key == first
	case "\x00":
		return key >= first
	}
	return key >= first && key < end
}

// sameBody compares responses. Missing and empty lists are equal.
func sameBody(a, b history.Body) bool {
	switch {
	case a.Put != nil:
		return b.Put != nil
	case a.Delete != nil:
		return b.Delete != nil && *a.Delete == *b.Delete
	case a.Range != nil:
		return b.Range != nil && a.Range.Count == b.Range.Count && slices.Equal(a.Range.KVs, b.Range.KVs)
	default:
		return b.Txn != nil && a.Txn.Succeeded == b.Txn.Succeeded &&
			slices.EqualFunc(a.Txn.Results, b.Txn.Results, sameBody)
	}
}

// porcupineOperations converts a history. It leaves out refused operations, which have no effect,
// and reads with an unknown outcome, which have neither an effect nor a response. A write with an
// unknown outcome returns after all others: an execution at the very end is as good as none.
func porcupineOperations(operations []history.Operation) []porcupine.Operation {
	var end int64
	for _, operation := range operations {
		end = max(end, operation.Invoked)
		if answered := operation.Outcome.Answered; answered != nil {
			end = max(end, answered.At)
		}
	}
	var made []porcupine.Operation
	for _, operation := range operations {
		converted := porcupine.Operation{
			ClientId: int(operation.Client), Input: operation.Request, Call: operation.Invoked,
			Output: (*history.Response)(nil), Return: end + 1,
		}
		switch answered := operation.Outcome.Answered; {
		case answered != nil:
			converted.Output, converted.Return = &answered.Response, answered.At
		case operation.Outcome.Refused != nil || operation.Request.Range != nil:
			continue
		}
		made = append(made, converted)
	}
	return made
}

// supported returns an error if the model lacks an operation of the history. Leases, compactions
// and reads at old revisions are already rejected by history.ReadOperations.
func supported(operations []history.Operation) error {
	for _, operation := range operations {
		if err := supportedRequest(operation.Request); err != nil {
			return fmt.Errorf("request of client %d at %d ns: %w", operation.Client, operation.Invoked, err)
		}
	}
	return nil
}

func supportedRequest(request history.Request) error {
	switch {
	case request.Range != nil && request.Range.Serializable:
		return errors.New("serializable reads are not supported")
	case request.Put != nil, request.Delete != nil, request.Range != nil:
		return nil
	case request.Txn == nil:
		return errors.New("neither a put, a delete, a range nor a transaction")
	}
	for _, compare := range request.Txn.Compares {
		to := compare.To
		if to.Value == nil && to.Version == nil && to.Create == nil && to.Mod == nil {
			return errors.New("a compare has no supported target")
		}
		if !slices.Contains([]string{"equal", "not_equal", "greater", "less"}, compare.Is) {
			return fmt.Errorf("unknown relation %q", compare.Is)
		}
	}
	for _, nested := range slices.Concat(request.Txn.Then, request.Txn.Else) {
		if nested.Txn != nil {
			return errors.New("nested transactions are not supported")
		}
		if err := supportedRequest(nested); err != nil {
			return err
		}
	}
	return nil
}
