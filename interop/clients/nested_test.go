package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nestedTxn returns transactions nested to a depth, the innermost with a put of a key, or empty
// without a key.
func nestedTxn(depth int, key string) *pb.TxnRequest {
	txn := &pb.TxnRequest{}
	if key != "" {
		put := &pb.PutRequest{Key: []byte(key), Value: fmt.Append(nil, depth)}
		txn.Success = []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}
	}
	for range depth - 1 {
		txn = &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}}}
	}
	return txn
}

// depthOf returns the number of nested transactions in a response.
func depthOf(response *pb.TxnResponse) int {
	depth := 1
	for len(response.Responses) == 1 && response.Responses[0].GetResponseTxn() != nil {
		response = response.Responses[0].GetResponseTxn()
		depth++
	}
	return depth
}

func sendTxn(ctx context.Context, client *clientv3.Client, txn *pb.TxnRequest) (*pb.TxnResponse, error) {
	return pb.NewKVClient(client.ActiveConnection()).Txn(ctx, txn)
}

// TestNestedTransactions checks that the number of operations, 128 by default, bounds the depth.
func TestNestedTransactions(t *testing.T) {
	ctx, client, key := within(t), shared.client(t), prefixOf(t)+"key"
	for _, depth := range []int{1, 49, 50, 99, 100, 101, 128} {
		response := got(sendTxn(ctx, client, nestedTxn(depth, key)))(t)
		equal(t, "depth of the response", depthOf(response), depth)
		equal(t, "value", string(got(client.Get(ctx, key))(t).Kvs[0].Value), fmt.Sprint(depth))
	}
	equal(t, "depth of an empty one", depthOf(got(sendTxn(ctx, client, nestedTxn(129, "")))(t)), 129)
	for _, wrong := range []*pb.TxnRequest{nestedTxn(129, key), nestedTxn(130, ""), nestedTxn(1000, key), nestedTxn(4999, key)} {
		_, err := sendTxn(ctx, client, wrong)
		fails(t, "more operations", err, rpctypes.ErrGRPCTooManyOps)
	}
}

// TestDeeplyNestedTransactions checks the depth that the decoder bounds.
func TestDeeplyNestedTransactions(t *testing.T) {
	s := alone(t, "--max-txn-ops=100000")
	ctx, client := within(t), s.client(t)
	taken := []int{1000, 3000, 4998, 4999}
	for _, depth := range taken {
		response := got(sendTxn(ctx, client, nestedTxn(depth, fmt.Sprint("key", depth))))(t)
		equal(t, "depth of the response", depthOf(response), depth)
	}
	equal(t, "depth of an empty one", depthOf(got(sendTxn(ctx, client, nestedTxn(5000, "")))(t)), 5000)
	for _, wrong := range []*pb.TxnRequest{nestedTxn(5000, "key"), nestedTxn(5001, ""), nestedTxn(10000, "key")} {
		_, err := sendTxn(ctx, client, wrong)
		equal(t, "code of a deeper one", status.Code(err), codes.Internal)
		if !strings.Contains(status.Convert(err).Message(), "grpc: error unmarshalling request: ") {
			t.Error(err)
		}
	}
	checkNestedRange(ctx, t, client)
	// The log is decoded and executed again.
	s.kill(t)
	s.startAgain(t)
	for _, depth := range taken {
		found := got(s.client(t).Get(ctx, fmt.Sprint("key", depth)))(t)
		equal(t, "keys after a restart", len(found.Kvs), 1)
	}
}

// checkNestedRange reads more keys than are read inline, in the innermost transaction.
func checkNestedRange(ctx context.Context, t *testing.T, client *clientv3.Client) {
	const count, depth = 3000, 4999
	for from := 0; from < count; from += 100 {
		var puts []clientv3.Op
		for n := range 100 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("many%05d", from+n), ""))
		}
		got(client.Txn(ctx).Then(puts...).Commit())(t)
	}
	txn := nestedTxn(depth, "")
	innermost := txn
	for len(innermost.Success) == 1 {
		innermost = innermost.Success[0].GetRequestTxn()
	}
	all := &pb.RangeRequest{Key: []byte("many"), RangeEnd: []byte("manz")}
	innermost.Success = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: all}}}
	response := got(sendTxn(ctx, client, txn))(t)
	for response.Responses[0].GetResponseTxn() != nil {
		response = response.Responses[0].GetResponseTxn()
	}
	equal(t, "keys of a nested range", len(response.Responses[0].GetResponseRange().Kvs), count)
}

// TestNestedTransactionsInJSON checks the depth that the JSON decoder bounds: three brackets each.
func TestNestedTransactionsInJSON(t *testing.T) {
	s := alone(t, "--max-txn-ops=100000")
	post := func(depth int) (int, string) {
		const before, after = `{"success":[{"request_txn":`, `}]}`
		body := strings.Repeat(before, depth-1) + `{"success":[{"request_put":{"key":"a2V5"}}]}` + strings.Repeat(after, depth-1)
		response, err := http.Post("http://"+s.endpoint()+"/v3/kv/txn", "application/json", strings.NewReader(body))
		must(t, err)
		defer response.Body.Close()
		text := got(io.ReadAll(response.Body))(t)
		if response.StatusCode == http.StatusOK {
			return response.StatusCode, fmt.Sprint(bytes.Count(text, []byte(`"response_txn"`)))
		}
		return response.StatusCode, string(text)
	}
	for _, depth := range []int{1, 50, 100, 1000, 3332, 3333} {
		code, text := post(depth)
		equal(t, "status", code, http.StatusOK)
		equal(t, "nested responses", text, fmt.Sprint(depth-1))
	}
	for _, depth := range []int{3334, 5000, 10_000} {
		code, text := post(depth)
		equal(t, "status of a deeper one", code, http.StatusBadRequest)
		if !strings.Contains(text, "exceeded max depth") {
			t.Error(text)
		}
	}
}
