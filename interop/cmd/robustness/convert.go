package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.uber.org/zap"
)

// leaseSeconds stands for the TTL of every lease, which reports leave out: none expires during a
// test.
const leaseSeconds = 7200

// object is a JSON object. Histories have the format of crates/history; see its module record.
type object map[string]any

// checkReport converts a report to a history and checks it with our checker.
func (o options) checkReport(dir string) error {
	if o.checker == "" {
		return fmt.Errorf("-checker is required")
	}
	path := filepath.Join(dir, "history.jsonl")
	if err := convert(dir, path); err != nil {
		return fmt.Errorf("convert %s: %w", dir, err)
	}
	output, err := exec.Command(o.checker, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.2000s", o.checker, err, output)
	}
	fmt.Printf("  our checker: %s", output)
	return nil
}

// convert writes the history of a report.
func convert(dir, path string) error {
	clients, err := report.LoadClientReports(dir)
	if err != nil {
		return err
	}
	requests, err := report.LoadClusterPersistedRequests(zap.NewNop(), dir)
	if err != nil {
		return err
	}
	known := replay(requests)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewWriter(file)
	encoder := json.NewEncoder(lines)
	for _, client := range clients {
		for _, operation := range client.KeyValue {
			if record := known.operation(operation); record != nil {
				if err := encoder.Encode(object{"operation": record}); err != nil {
					return err
				}
			}
		}
		for _, watch := range client.Watch {
			if record := known.watch(client.ClientID, watch); record != nil {
				if err := encoder.Encode(object{"watch": record}); err != nil {
					return err
				}
			}
		}
	}
	return lines.Flush()
}

// history has every version of every key, from the members' logs: reports leave out create
// revisions, leases, and the values of reads that return keys only.
type history map[change]object

// change is a put of a key.
type change struct {
	key      string
	revision int64
}

func replay(requests []model.EtcdRequest) history {
	known, created := history{}, map[string]int64{}
	states := model.NewReplay(requests)
	for revision := int64(2); ; revision++ {
		state, err := states.StateForRevision(revision)
		if err != nil {
			return known
		}
		keys, values, leases := state.KeysValueLeases()
		for i, key := range keys {
			if values[i].ModRevision != revision {
				continue
			}
			if values[i].Version == 1 {
				created[key] = revision
			}
			known[change{key, revision}] = object{"key": key, "value": text(values[i].Value), "create": created[key],
				"mod": revision, "version": values[i].Version, "lease": leases[i]}
		}
	}
}

// text returns a value, of which reports keep only the hash if it is long.
func text(value model.ValueOrHash) string {
	if value.Hash != 0 {
		return fmt.Sprintf("hash %d", value.Hash)
	}
	return value.Value
}

// kv returns a key as a client saw it, completed from the log.
func (h history) kv(key string, seen model.ValueRevision, keysOnly bool) object {
	kv := object{"key": key, "value": text(seen.Value), "create": 0, "mod": seen.ModRevision, "version": seen.Version}
	if logged, ok := h[change{key, seen.ModRevision}]; ok {
		kv["create"], kv["lease"] = logged["create"], logged["lease"]
		if keysOnly {
			kv["value"] = logged["value"]
		}
	}
	return kv
}

// operation converts a request with its response. It returns nil for a request without effect or
// without a response to check.
func (h history) operation(op porcupine.Operation) object {
	request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
	converted := convertRequest(request)
	if converted == nil || response.Error != "" && request.IsRead() {
		return nil
	}
	record := object{"client": op.ClientId, "invoked_ns": op.Call, "request": converted}
	switch {
	// The response to a compaction is recorded without its revision.
	case response.Error != "" || response.Compact != nil:
		record["outcome"] = object{"unknown": object{"error": response.Error}}
	case response.ClientError != "":
		record["outcome"] = object{"refused": object{"at_ns": op.Return, "refusal": refusal(response.ClientError)}}
	default:
		body := h.body(request, response.EtcdResponse)
		record["outcome"] = object{"answered": object{"at_ns": op.Return,
			"response": object{"revision": response.Revision, "body": body}}}
	}
	return record
}

func refusal(text string) any {
	switch text {
	case "mvcc: required revision has been compacted":
		return "compacted"
	case "mvcc: required revision is a future revision":
		return "future_revision"
	}
	return object{"other": text}
}

func convertRequest(r model.EtcdRequest) object {
	switch r.Type {
	case model.Range:
		read := convertRange(r.Range.RangeOptions)
		read["revision"] = r.Range.Revision
		return object{"range": read}
	case model.Txn:
		compares := []object{}
		for _, condition := range r.Txn.Conditions {
			target := object{"mod": condition.ExpectedRevision}
			if condition.ExpectedVersion > 0 {
				target = object{"version": condition.ExpectedVersion}
			}
			compares = append(compares, object{"key": condition.Key, "is": "equal", "to": target})
		}
		return object{"txn": object{"compares": compares, "then": convertOps(r.Txn.OperationsOnSuccess),
			"else": convertOps(r.Txn.OperationsOnFailure)}}
	case model.LeaseGrant:
		return object{"grant": object{"lease": r.LeaseGrant.LeaseID, "ttl_s": leaseSeconds}}
	case model.LeaseRevoke:
		return object{"revoke": object{"lease": r.LeaseRevoke.LeaseID}}
	case model.Compact:
		return object{"compact": object{"revision": r.Compact.Revision}}
	}
	return nil
}

func convertRange(r model.RangeOptions) object {
	read := object{"key": r.Start, "limit": r.Limit}
	if r.End != "" {
		read["end"] = r.End
	}
	return read
}

func convertOps(operations []model.EtcdOperation) []object {
	converted := []object{}
	for _, op := range operations {
		switch op.Type {
		case model.RangeOperation:
			converted = append(converted, object{"range": convertRange(op.Range)})
		case model.PutOperation:
			converted = append(converted, object{"put": object{"key": op.Put.Key, "value": text(op.Put.Value), "lease": op.Put.LeaseID}})
		case model.DeleteOperation:
			converted = append(converted, object{"delete": object{"key": op.Delete.Key}})
		}
	}
	return converted
}

func (h history) body(request model.EtcdRequest, response model.EtcdResponse) any {
	switch {
	case response.Range != nil:
		return object{"range": h.read(request.Range.RangeOptions, *response.Range)}
	case response.Txn != nil:
		operations := request.Txn.OperationsOnSuccess
		if response.Txn.Failure {
			operations = request.Txn.OperationsOnFailure
		}
		results := []object{}
		for i, result := range response.Txn.Results {
			switch operations[i].Type {
			case model.RangeOperation:
				results = append(results, object{"range": h.read(operations[i].Range, result.RangeResponse)})
			case model.PutOperation:
				results = append(results, object{"put": object{}})
			case model.DeleteOperation:
				results = append(results, object{"delete": object{"deleted": result.Deleted}})
			}
		}
		return object{"txn": object{"succeeded": !response.Txn.Failure, "results": results}}
	case response.LeaseGrant != nil:
		return object{"grant": object{"lease": request.LeaseGrant.LeaseID, "ttl_s": leaseSeconds}}
	}
	return "revoke"
}

func (h history) read(request model.RangeOptions, response model.RangeResponse) object {
	kvs := []object{}
	for _, kv := range response.KVs {
		kvs = append(kvs, h.kv(kv.Key, kv.ValueRevision, request.KeysOnly))
	}
	// Reports leave out whether the limit left keys out.
	return object{"kvs": kvs, "count": response.Count, "more": int64(len(kvs)) < response.Count}
}

// watch converts a watch. It returns nil for one that began at an unrecorded revision.
func (h history) watch(client int, watch model.WatchOperation) object {
	if watch.Request.Revision == 0 {
		return nil
	}
	request := object{"key": watch.Request.Key, "start": watch.Request.Revision, "prev_kv": watch.Request.WithPrevKV}
	if watch.Request.WithPrefix {
		request["end"] = clientv3.GetPrefixRangeEnd(watch.Request.Key)
		if watch.Request.Key == "" {
			request["key"], request["end"] = "\x00", "\x00"
		}
	}
	responses := []object{}
	for _, response := range watch.Responses {
		if response.Error != "" {
			break
		}
		record := object{"at_ns": int64(response.Time), "revision": response.Revision}
		switch {
		case len(response.Events) > 0:
			record["news"] = object{"events": h.events(response.Events)}
		case response.IsProgressNotify:
			record["news"] = "progress"
		default:
			continue
		}
		responses = append(responses, record)
	}
	return object{"client": client, "request": request, "responses": responses}
}

func (h history) events(events []model.WatchEvent) []object {
	converted := []object{}
	for _, event := range events {
		record := object{"kv": object{"key": event.Key, "value": "", "create": 0, "mod": event.Revision, "version": 0}, "delete": true}
		if event.Type == model.PutOperation {
			record = object{"kv": h.put(event)}
		}
		if event.PrevValue != nil {
			record["prev"] = h.kv(event.Key, *event.PrevValue, false)
		}
		converted = append(converted, record)
	}
	return converted
}

// put returns the key of a put event. Reports leave out its version.
func (h history) put(event model.WatchEvent) object {
	kv := h.kv(event.Key, model.ValueRevision{Value: event.Value, ModRevision: event.Revision}, false)
	if logged, ok := h[change{event.Key, event.Revision}]; ok {
		kv["version"] = logged["version"]
	}
	return kv
}
