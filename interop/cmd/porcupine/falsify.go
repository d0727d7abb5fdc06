package main

import (
	"encoding/json"
	"math/rand/v2"

	"bowline/interop/internal/history"
)

// falsification changes a history in place, most often into one that no store could have produced.
// It returns false if the history has no suitable operation.
type falsification struct {
	name  string
	apply func(*rand.Rand, []history.Operation) bool
}

var falsifications = []falsification{
	{"change a read value", changeValue},
	{"change the revision of a response", changeRevision},
	{"change the metadata of a read", changeMetadata},
	{"swap two responses", swapResponses},
	{"drop an acknowledged put", dropPut},
	{"move a response before its cause", moveBeforeCause},
	// This one keeps a history linearizable.
	{"make the outcome of a write unknown", forgetOutcome},
}

// clone returns a deep copy.
func clone(operations []history.Operation) []history.Operation {
	text, err := json.Marshal(operations)
	if err != nil {
		panic(err)
	}
	var copied []history.Operation
	if err := json.Unmarshal(text, &copied); err != nil {
		panic(err)
	}
	return copied
}

// pick returns a random operation that fits, or nil.
func pick(dice *rand.Rand, operations []history.Operation, fits func(*history.Operation) bool) *history.Operation {
	var fitting []*history.Operation
	for i := range operations {
		if operations[i].Outcome.Answered != nil && fits(&operations[i]) {
			fitting = append(fitting, &operations[i])
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return fitting[dice.IntN(len(fitting))]
}

// read returns the keys that an operation has read, by itself or in a transaction.
func read(operation *history.Operation) []history.KV {
	body := operation.Outcome.Answered.Response.Body
	if body.Range != nil {
		return body.Range.KVs
	}
	if body.Txn != nil {
		for _, result := range body.Txn.Results {
			if result.Range != nil {
				return result.Range.KVs
			}
		}
	}
	return nil
}

func hasRead(operation *history.Operation) bool { return len(read(operation)) > 0 }

func isPut(operation *history.Operation) bool { return operation.Request.Put != nil }

func isAny(*history.Operation) bool { return true }

func changeValue(dice *rand.Rand, operations []history.Operation) bool {
	operation := pick(dice, operations, hasRead)
	if operation == nil {
		return false
	}
	kvs := read(operation)
	kv := &kvs[dice.IntN(len(kvs))]
	if other := pick(dice, operations, isPut); dice.IntN(2) == 0 && other != nil {
		kv.Value = other.Request.Put.Value
	} else {
		kv.Value += "9"
	}
	return true
}

func changeRevision(dice *rand.Rand, operations []history.Operation) bool {
	operation := pick(dice, operations, isAny)
	if operation == nil {
		return false
	}
	operation.Outcome.Answered.Response.Revision += []int64{-2, -1, 1, 2}[dice.IntN(4)]
	return true
}

func changeMetadata(dice *rand.Rand, operations []history.Operation) bool {
	operation := pick(dice, operations, hasRead)
	if operation == nil {
		return false
	}
	kvs := read(operation)
	kv := &kvs[dice.IntN(len(kvs))]
	*[]*int64{&kv.Create, &kv.Mod, &kv.Version}[dice.IntN(3)] += 1
	return true
}

// swapResponses exchanges the responses of two operations of the same kind.
func swapResponses(dice *rand.Rand, operations []history.Operation) bool {
	one := pick(dice, operations, isAny)
	if one == nil {
		return false
	}
	two := pick(dice, operations, func(other *history.Operation) bool {
		a, b := one.Request, other.Request
		return other != one && (a.Put == nil) == (b.Put == nil) && (a.Delete == nil) == (b.Delete == nil) &&
			(a.Range == nil) == (b.Range == nil)
	})
	if two == nil {
		return false
	}
	a, b := one.Outcome.Answered, two.Outcome.Answered
	a.Response, b.Response = b.Response, a.Response
	return true
}

// dropPut marks a put for removal by dropped.
func dropPut(dice *rand.Rand, operations []history.Operation) bool {
	operation := pick(dice, operations, isPut)
	if operation == nil {
		return false
	}
	operation.Request = history.Request{}
	return true
}

// dropped removes the operations that dropPut has marked.
func dropped(operations []history.Operation) []history.Operation {
	var kept []history.Operation
	for _, operation := range operations {
		if operation.Request != (history.Request{}) {
			kept = append(kept, operation)
		}
	}
	return kept
}

// moveBeforeCause moves a read to just before the invocation of the put whose value it returned.
func moveBeforeCause(dice *rand.Rand, operations []history.Operation) bool {
	puts := map[string]int64{}
	for _, operation := range operations {
		if put := operation.Request.Put; put != nil && operation.Invoked > 2 {
			puts[put.Value] = operation.Invoked
		}
	}
	operation := pick(dice, operations, func(operation *history.Operation) bool {
		kvs := read(operation)
		return len(kvs) == 1 && puts[kvs[0].Value] > 0
	})
	if operation == nil {
		return false
	}
	cause := puts[read(operation)[0].Value]
	operation.Outcome.Answered.At = cause - 1
	operation.Invoked = min(operation.Invoked, cause-2)
	return true
}

func forgetOutcome(dice *rand.Rand, operations []history.Operation) bool {
	operation := pick(dice, operations, isPut)
	if operation == nil {
		return false
	}
	operation.Outcome = history.Outcome{Unknown: &history.Unknown{Error: "the outcome was removed"}}
	return true
}
