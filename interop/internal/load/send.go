package load

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/history"
)

// send executes a request.
func send(ctx context.Context, client *clientv3.Client, request history.Request) (history.Response, error) {
	if request.Txn != nil {
		return sendTxn(ctx, client, request.Txn)
	}
	got, err := client.Do(ctx, op(request))
	if err != nil {
		return history.Response{}, err
	}
	switch {
	case got.Put() != nil:
		return history.Response{Revision: got.Put().Header.Revision, Body: history.Body{Put: &struct{}{}}}, nil
	case got.Del() != nil:
		return history.Response{Revision: got.Del().Header.Revision, Body: deleted((*pb.DeleteRangeResponse)(got.Del()))}, nil
	default:
		return history.Response{Revision: got.Get().Header.Revision, Body: found((*pb.RangeResponse)(got.Get()))}, nil
	}
}

func sendTxn(ctx context.Context, client *clientv3.Client, txn *history.Txn) (history.Response, error) {
	var compares []clientv3.Cmp
	for _, compare := range txn.Compares {
		compares = append(compares, cmp(compare))
	}
	done, err := client.Txn(ctx).If(compares...).Then(ops(txn.Then)...).Else(ops(txn.Else)...).Commit()
	if err != nil {
		return history.Response{}, err
	}
	body := &history.TxnBody{Succeeded: done.Succeeded, Results: []history.Body{}}
	for _, response := range done.Responses {
		body.Results = append(body.Results, result(response))
	}
	return history.Response{Revision: done.Header.Revision, Body: history.Body{Txn: body}}, nil
}

func ops(requests []history.Request) (made []clientv3.Op) {
	for _, request := range requests {
		made = append(made, op(request))
	}
	return made
}

// op converts a request other than a transaction.
func op(request history.Request) clientv3.Op {
	switch {
	case request.Put != nil:
		return clientv3.OpPut(request.Put.Key, request.Put.Value)
	case request.Delete != nil:
		return clientv3.OpDelete(request.Delete.Key, until(request.Delete.End)...)
	default:
		return clientv3.OpGet(request.Range.Key, until(request.Range.End)...)
	}
}

func until(end string) []clientv3.OpOption {
	if end == "" {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithRange(end)}
}

// relations maps the relations of a history to those of clientv3.
var relations = map[string]string{"equal": "=", "not_equal": "!=", "greater": ">", "less": "<"}

func cmp(compare history.Compare) clientv3.Cmp {
	is := relations[compare.Is]
	switch to := compare.To; {
	case to.Value != nil:
		return clientv3.Compare(clientv3.Value(compare.Key), is, *to.Value)
	case to.Version != nil:
		return clientv3.Compare(clientv3.Version(compare.Key), is, *to.Version)
	case to.Create != nil:
		return clientv3.Compare(clientv3.CreateRevision(compare.Key), is, *to.Create)
	case to.Mod != nil:
		return clientv3.Compare(clientv3.ModRevision(compare.Key), is, *to.Mod)
	}
	panic(fmt.Sprintf("compare of %s without a target", compare.Key))
}

func result(response *pb.ResponseOp) history.Body {
	switch {
	case response.GetResponsePut() != nil:
		return history.Body{Put: &struct{}{}}
	case response.GetResponseDeleteRange() != nil:
		return deleted(response.GetResponseDeleteRange())
	default:
		return found(response.GetResponseRange())
	}
}

func deleted(got *pb.DeleteRangeResponse) history.Body {
	return history.Body{Delete: &history.DeleteBody{Deleted: got.Deleted}}
}

func found(got *pb.RangeResponse) history.Body {
	return history.Body{Range: &history.RangeBody{KVs: history.KVs(got.Kvs), Count: got.Count}}
}
