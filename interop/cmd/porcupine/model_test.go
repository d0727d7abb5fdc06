package main

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"bowline/interop/internal/history"
)

func get(key string) history.Request { return history.Request{Range: &history.Range{Key: key}} }

func put(key, value string) history.Request {
	return history.Request{Put: &history.Put{Key: key, Value: value}}
}

// answered is an operation with a response.
func answered(from, to, revision int64, request history.Request, body history.Body) history.Operation {
	return history.Operation{Client: 1, Invoked: from, Request: request, Outcome: history.Outcome{
		Answered: &history.Answered{At: to, Response: history.Response{Revision: revision, Body: body}},
	}}
}

// unknown is an operation without a response.
func unknown(from int64, request history.Request) history.Operation {
	return history.Operation{Client: 2, Invoked: from, Request: request, Outcome: history.Outcome{
		Unknown: &history.Unknown{Error: "timeout"},
	}}
}

// refused is an operation that was not executed.
func refused(from int64, request history.Request) history.Operation {
	return history.Operation{Client: 3, Invoked: from, Request: request, Outcome: history.Outcome{
		Refused: &history.Refused{At: from + 1},
	}}
}

func done() history.Body { return history.Body{Put: &struct{}{}} }

func deletedBody(count int64) history.Body {
	return history.Body{Delete: &history.DeleteBody{Deleted: count}}
}

func found(kvs ...history.KV) history.Body {
	return history.Body{Range: &history.RangeBody{KVs: kvs, Count: int64(len(kvs))}}
}

func ran(succeeded bool, results ...history.Body) history.Body {
	return history.Body{Txn: &history.TxnBody{Succeeded: succeeded, Results: results}}
}

func swap(to history.Target, is string) history.Request {
	return history.Request{Txn: &history.Txn{
		Compares: []history.Compare{{Key: "a", Is: is, To: to}},
		Then:     []history.Request{put("a", "new"), get("a"), {Delete: &history.Delete{Key: "b"}}},
		Else:     []history.Request{get("a")},
	}}
}

func TestTheModelDecidesHandWrittenHistories(t *testing.T) {
	two, value := int64(2), "1"
	first := history.KV{Key: "a", Value: "1", Create: 2, Mod: 2, Version: 1}
	second := history.KV{Key: "a", Value: "new", Create: 2, Mod: 3, Version: 2}
	putFirst := answered(1, 2, 2, put("a", "1"), done())
	for _, test := range []struct {
		name       string
		accepted   bool
		operations []history.Operation
	}{
		{"read after put", true, []history.Operation{putFirst, answered(3, 4, 2, get("a"), found(first))}},
		{"stale read", false, []history.Operation{putFirst, answered(3, 4, 1, get("a"), found())}},
		{"concurrent read may miss a put", true, []history.Operation{
			answered(1, 9, 2, put("a", "1"), done()), answered(3, 4, 1, get("a"), found()),
		}},
		{"skipped revision", false, []history.Operation{answered(1, 2, 3, put("a", "1"), done())}},
		{"wrong version", false, []history.Operation{putFirst, answered(3, 4, 2, get("a"), found(
			history.KV{Key: "a", Value: "1", Create: 2, Mod: 2, Version: 2},
		))}},
		{"write with an unknown outcome takes effect", true, []history.Operation{
			unknown(1, put("a", "1")), answered(3, 4, 2, get("a"), found(first)),
		}},
		{"write with an unknown outcome has no effect", true, []history.Operation{
			unknown(1, put("a", "1")), answered(3, 4, 1, get("a"), found()),
		}},
		{"write with an unknown outcome is undone", false, []history.Operation{
			unknown(1, put("a", "1")), answered(3, 4, 2, get("a"), found(first)),
			answered(5, 6, 1, get("a"), found()),
		}},
		{"effect before the invocation", false, []history.Operation{
			answered(3, 4, 2, get("a"), found(first)), unknown(5, put("a", "1")),
		}},
		{"refused write has no effect", true, []history.Operation{
			refused(1, put("a", "0")), answered(3, 4, 2, put("a", "1"), done()),
		}},
		{"delete of a missing key keeps the revision", true, []history.Operation{
			putFirst, answered(3, 4, 2, history.Request{Delete: &history.Delete{Key: "b"}}, deletedBody(0)),
		}},
		{"delete of a range", true, []history.Operation{
			putFirst, answered(3, 4, 3, history.Request{Delete: &history.Delete{Key: "a", End: "c"}}, deletedBody(1)),
			answered(5, 6, 3, get("a"), found()),
		}},
		{"transaction reads its own put", true, []history.Operation{
			putFirst, answered(3, 4, 3, swap(history.Target{Mod: &two}, "equal"), ran(true, done(), found(second), deletedBody(0))),
		}},
		{"transaction with a failed compare", true, []history.Operation{
			putFirst, answered(3, 4, 2, swap(history.Target{Version: &two}, "equal"), ran(false, found(first))),
		}},
		{"transaction with a wrong branch", false, []history.Operation{
			putFirst, answered(3, 4, 2, swap(history.Target{Create: &two}, "less"), ran(true, done(), found(second), deletedBody(0))),
		}},
		{"compare of a value", true, []history.Operation{
			putFirst, answered(3, 4, 2, swap(history.Target{Value: &value}, "not_equal"), ran(false, found(first))),
		}},
		{"compare of the value of a missing key fails", true, []history.Operation{
			answered(3, 4, 1, swap(history.Target{Value: &value}, "not_equal"), ran(false, found())),
		}},
	} {
		if err := supported(test.operations); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := porcupine.CheckOperations(model, porcupineOperations(test.operations)); got != test.accepted {
			t.Errorf("%s: accepted is %t", test.name, got)
		}
	}
}

func TestUnsupportedOperationsAreRejected(t *testing.T) {
	for _, request := range []history.Request{
		{},
		{Range: &history.Range{Key: "a", Serializable: true}},
		{Txn: &history.Txn{Compares: []history.Compare{{Key: "a", Is: "equal"}}}},
		{Txn: &history.Txn{Then: []history.Request{{Txn: &history.Txn{}}}}},
	} {
		if supported([]history.Operation{unknown(1, request)}) == nil {
			t.Errorf("%+v is supported", request)
		}
	}
}

func TestFalsificationsLeaveTheOriginalUnchanged(t *testing.T) {
	original := []history.Operation{
		answered(10, 20, 2, put("a", "1"), done()),
		answered(30, 40, 3, put("a", "2"), done()),
		answered(50, 60, 3, get("a"), found(history.KV{Key: "a", Value: "2", Create: 2, Mod: 3, Version: 2})),
		answered(70, 80, 3, get("b"), found()),
	}
	for _, falsify := range falsifications {
		falsified := clone(original)
		if !falsify.apply(rand.New(rand.NewPCG(1, 1)), falsified) {
			t.Errorf("%s: no operation fits", falsify.name)
		}
		if !porcupine.CheckOperations(model, porcupineOperations(original)) {
			t.Fatalf("%s changed the original", falsify.name)
		}
	}
}
