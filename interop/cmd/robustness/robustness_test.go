package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"bowline/interop/internal/suite"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
)

func put(key, value string, lease int64) model.EtcdRequest {
	return txn(model.EtcdOperation{Type: model.PutOperation, Put: model.PutOptions{Key: key, Value: model.ToValueOrHash(value), LeaseID: lease}})
}

func txn(operations ...model.EtcdOperation) model.EtcdRequest {
	return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: operations}}
}

// logged is the log of revisions 2 to 5: a is put twice, deleted, and put again with a lease.
func logged() history {
	remove := txn(model.EtcdOperation{Type: model.DeleteOperation, Delete: model.DeleteOptions{Key: "a"}})
	grant := model.EtcdRequest{Type: model.LeaseGrant, LeaseGrant: &model.LeaseGrantRequest{LeaseID: 7}}
	return replay([]model.EtcdRequest{put("a", "1", 0), put("a", "a value that is not kept", 0), remove, grant, put("a", "3", 7)})
}

func expectJSON(t *testing.T, what string, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil || string(text) != want {
		t.Errorf("%s:\n got %s %v\nwant %s", what, text, err, want)
	}
}

func TestReplay(t *testing.T) {
	known := logged()
	expectJSON(t, "first", known[change{"a", 2}], `{"create":2,"key":"a","lease":0,"mod":2,"value":"1","version":1}`)
	expectJSON(t, "second", known[change{"a", 3}], `{"create":2,"key":"a","lease":0,"mod":3,"value":"hash 3237414545","version":2}`)
	expectJSON(t, "last", known[change{"a", 5}], `{"create":5,"key":"a","lease":7,"mod":5,"value":"3","version":1}`)
	if len(known) != 3 {
		t.Errorf("%v", known)
	}
}

func TestOperations(t *testing.T) {
	read := model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{RangeOptions: model.RangeOptions{Start: "a", End: "b", Limit: 1, KeysOnly: true}}}
	found := &model.RangeResponse{Count: 2, KVs: []model.KeyValue{{Key: "a", ValueRevision: model.ValueRevision{ModRevision: 5, Version: 1}}}}
	compact := model.EtcdRequest{Type: model.Compact, Compact: &model.CompactRequest{Revision: 3}}
	for _, c := range []struct {
		what     string
		request  model.EtcdRequest
		response model.MaybeEtcdResponse
		want     string
	}{
		{"a put", put("a", "3", 7),
			model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{Revision: 5, Txn: &model.TxnResponse{Results: []model.EtcdOperationResult{{}}}}},
			`{"client":4,"invoked_ns":10,"outcome":{"answered":{"at_ns":20,"response":{"body":{"txn":{"results":[{"put":{}}],"succeeded":true}},"revision":5}}},` +
				`"request":{"txn":{"compares":[],"else":[],"then":[{"put":{"key":"a","lease":7,"value":"3"}}]}}}`},
		{"a put that may have failed", put("a", "3", 0), model.MaybeEtcdResponse{Error: "timeout"},
			`{"client":4,"invoked_ns":10,"outcome":{"unknown":{"error":"timeout"}},` +
				`"request":{"txn":{"compares":[],"else":[],"then":[{"put":{"key":"a","lease":0,"value":"3"}}]}}}`},
		{"a read of keys", read, model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{Revision: 5, Range: found}},
			`{"client":4,"invoked_ns":10,"outcome":{"answered":{"at_ns":20,"response":{"body":{"range":{"count":2,` +
				`"kvs":[{"create":5,"key":"a","lease":7,"mod":5,"value":"3","version":1}],"more":true}},"revision":5}}},` +
				`"request":{"range":{"end":"b","key":"a","limit":1,"revision":0}}}`},
		{"a read that failed", read, model.MaybeEtcdResponse{Error: "timeout"}, `null`},
		{"a compaction", compact, model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{Compact: &model.CompactResponse{}, Revision: -1}},
			`{"client":4,"invoked_ns":10,"outcome":{"unknown":{"error":""}},"request":{"compact":{"revision":3}}}`},
		{"a refused compaction", compact,
			model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{ClientError: "mvcc: required revision has been compacted"}},
			`{"client":4,"invoked_ns":10,"outcome":{"refused":{"at_ns":20,"refusal":"compacted"}},"request":{"compact":{"revision":3}}}`},
	} {
		expectJSON(t, c.what, logged().operation(porcupine.Operation{ClientId: 4, Input: c.request, Call: 10, Output: c.response, Return: 20}), c.want)
	}
}

func TestWatches(t *testing.T) {
	event := func(kind model.OperationType, value string, revision int64) model.WatchEvent {
		return model.WatchEvent{PersistedEvent: model.PersistedEvent{
			Event: model.Event{Type: kind, Key: "a", Value: model.ToValueOrHash(value)}, Revision: revision}}
	}
	watch := model.WatchOperation{
		Request: model.WatchRequest{Key: "", WithPrefix: true, Revision: 4},
		Responses: []model.WatchResponse{
			{Revision: 5, Time: 30, Events: []model.WatchEvent{event(model.DeleteOperation, "", 4), event(model.PutOperation, "3", 5)}},
			{Revision: 5, Time: 40, IsProgressNotify: true},
			{Error: "lost", Time: 50},
		},
	}
	expectJSON(t, "a watch", logged().watch(9, watch), `{"client":9,"request":{"end":"\u0000","key":"\u0000","prev_kv":false,"start":4},"responses":[`+
		`{"at_ns":30,"news":{"events":[{"delete":true,"kv":{"create":0,"key":"a","mod":4,"value":"","version":0}},`+
		`{"kv":{"create":5,"key":"a","lease":7,"mod":5,"value":"3","version":1}}]},"revision":5},{"at_ns":40,"news":"progress","revision":5}]}`)
	watch.Request.Revision = 0
	expectJSON(t, "a watch from an unrecorded revision", logged().watch(9, watch), `null`)
}

func TestJudge(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "test", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	const timeout = "    main_test.go:129: linearization: Timeout\n"
	for _, c := range []struct{ outcome, output, want, why string }{
		{"pass", "", passed, ""},
		{"skip", "", skipped, ""},
		{"fail", "panic", failed, "no reason given"},
		{"fail", "    traffic.go:179: Requiring minimal 100 qps\n", skipped, "Requiring minimal 100 qps"},
		{"fail", "    traffic.go:179: Requiring minimal 100 qps\n    main_test.go:99: broken\n", failed, "broken"},
		{"fail", "    main_test.go:129: linearization: Failure: illegal\n", failed, "linearization: Failure: illegal"},
		{"fail", "    main_test.go:99: broken\n" + timeout, failed, "broken"},
		// The report is empty, which our checker never gets to see.
		{"fail", timeout, failed, "linearization: Timeout; our checker: -checker is required"},
	} {
		r := &suite.Result{Test: suite.Test{Name: "T"}, Outcomes: map[string]string{"T": c.outcome}, Output: []byte(c.output)}
		if outcome, why := (options{}).verdict(r, dir, true); outcome != c.want || why != c.why {
			t.Errorf("%+v: %s, %s", c, outcome, why)
		}
	}
}

func TestAMemberThatKeepsUp(t *testing.T) {
	const (
		near    = "    network.go:139: clusterRevision: 700, blackholedMemberRevision: 690, minEntriesToGuarantee: 200\n"
		far     = "    network.go:139: clusterRevision: 700, blackholedMemberRevision: 400, minEntriesToGuarantee: 200\n"
		late    = "    main_test.go:155: failed triggering failpoint, err: context deadline exceeded\n"
		ended   = "    main_test.go:199: context canceled\n"
		illegal = "    main_test.go:129: linearization: Failure: illegal\n"
	)
	for _, c := range []struct {
		what, failpoint, output string
		isolate                 bool
		want                    string
	}{
		{"kept up", "blackholePeerNetwork", far + near + late + ended, false, notIsolated},
		{"kept up, with a panic to follow", "raftAfterSaveSnap=panic", near + late, false, notIsolated},
		{"kept up although isolated", "blackholePeerNetwork", near + late + ended, true, failed},
		{"fell behind and was not triggered", "raftAfterSaveSnap=panic", near + far + late, false, failed},
		{"another failpoint", "raftAfterSave=panic", near + late, false, failed},
		{"a wrong history", "blackholePeerNetwork", near + late + ended + illegal, false, failed},
		{"no measurement", "blackholePeerNetwork", late, false, failed},
		{"another error", "blackholePeerNetwork", near + ended, false, failed},
	} {
		name := "TestRobustnessExploratory/EtcdHighTraffic/ClusterOfSize3"
		r := &suite.Result{Test: suite.Test{Name: name}, Output: []byte(c.output),
			Outcomes: map[string]string{name: "fail", name + "/" + c.failpoint: "fail"}}
		if outcome, why := (options{}).verdict(r, "", c.isolate); outcome != c.want {
			t.Errorf("%s: %s, %s", c.what, outcome, why)
		}
	}
}

func TestEachScenarioRunsIsolatedAndNot(t *testing.T) {
	for number := range exploratory {
		if isolates(number) == isolates(number+len(exploratory)) {
			t.Errorf("%s", exploratory[number])
		}
	}
}

func TestSkippedScenariosAreBounded(t *testing.T) {
	for _, c := range []struct {
		passed, skipped int
		want            bool
	}{{0, 2, false}, {11, 3, true}, {12, 3, false}, {80, 20, false}, {80, 21, true}} {
		if got := tooManySkipped(map[string]int{passed: c.passed, skipped: c.skipped}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
