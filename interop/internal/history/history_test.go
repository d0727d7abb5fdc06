package history

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRecordsAreWrittenAsTheCheckerReadsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	file, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	two := int64(2)
	put := Request{Put: &Put{Key: "a", Value: "1"}}
	file.Add(Record{Operation: &Operation{
		Client: 1, Invoked: 10, Request: put,
		Outcome: Outcome{Answered: &Answered{At: 20, Response: Response{Revision: 2, Body: Body{Put: &struct{}{}}}}},
	}})
	file.Add(Record{Operation: &Operation{
		Client: 2, Invoked: 16, Outcome: Outcome{Unknown: &Unknown{"timeout"}},
		Request: Request{Txn: &Txn{Compares: []Compare{{"a", "equal", Target{Mod: &two}}}, Then: []Request{put}, Else: []Request{}}},
	}})
	file.Add(Record{Watch: &Watch{Client: 3, Request: WatchRequest{Key: "a"}, Responses: []WatchResponse{
		{At: 20, Revision: 2, News: News{Events: []Event{{KV: KV{"a", "1", 2, 2, 1}}}}},
	}}})
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	const expected = `{"operation":{"client":1,"invoked_ns":10,"request":{"put":{"key":"a","value":"1"}},"outcome":{"answered":{"at_ns":20,"response":{"revision":2,"body":{"put":{}}}}}}}
{"operation":{"client":2,"invoked_ns":16,"request":{"txn":{"compares":[{"key":"a","is":"equal","to":{"mod":2}}],"then":[{"put":{"key":"a","value":"1"}}],"else":[]}},"outcome":{"unknown":{"error":"timeout"}}}}
{"watch":{"client":3,"member":0,"request":{"key":"a"},"responses":[{"at_ns":20,"revision":2,"news":{"events":[{"kv":{"key":"a","value":"1","create":2,"mod":2,"version":1}}]}}]}}
`
	if found, err := os.ReadFile(path); err != nil || string(found) != expected {
		t.Fatalf("%v\n%s", err, found)
	}
}
