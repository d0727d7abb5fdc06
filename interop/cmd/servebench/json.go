package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/workload"
)

// jsonPutLoad, jsonGetLoad and jsonRangeLoad send the same requests as their namesakes through the
// JSON gateway. Each client has its own HTTP/1 connection.
func jsonPutLoad(_ context.Context, s *server, effort effort) (load, error) {
	return posting(s, "put, as JSON", "kv/put", clients, 1, func(random uint64) proto.Message {
		return putRequest(chosen(random, effort))
	})
}

func jsonGetLoad(ctx context.Context, s *server, effort effort) (load, error) {
	if err := fill(ctx, s.endpoint, effort.keys); err != nil {
		return load{}, err
	}
	return posting(s, "get, linearizable, as JSON", "kv/range", clients, valueBytes, func(random uint64) proto.Message {
		return &pb.RangeRequest{Key: key(chosen(random, effort))}
	})
}

func jsonRangeLoad(ctx context.Context, s *server, effort effort) (load, error) {
	if err := fill(ctx, s.endpoint, effort.keys); err != nil {
		return load{}, err
	}
	return posting(s, "range of 500 keys, as JSON", "kv/range", rangeClients, listed*valueBytes, func(random uint64) proto.Message {
		from := int(random % uint64(effort.keys-listed))
		return &pb.RangeRequest{Key: key(from), RangeEnd: key(from + listed)}
	})
}

func posting(s *server, name, path string, count int, atLeast int64, request func(random uint64) proto.Message) (load, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: count, TLSClientConfig: connSecurity.config}
	client := &http.Client{Transport: transport}
	url := connSecurity.scheme() + "://" + s.endpoint + "/v3/" + path
	var steps []step
	for n := range count {
		random := workload.Seeded(3, uint64(n))
		requests := make([][]byte, prepared)
		for i := range requests {
			text, err := protojson.Marshal(request(random.Next()))
			if err != nil {
				return load{}, err
			}
			requests[i] = text
		}
		var turn int
		steps = append(steps, func(ctx context.Context) (int, error) {
			turn++
			return 1, post(ctx, client, url, requests[turn%len(requests)], atLeast)
		})
	}
	return load{name: name, unit: "request", steps: steps, end: transport.CloseIdleConnections}, nil
}

// connectLoad opens a connection for each request: it measures the cost of a connection, with its
// TLS handshake if any.
func connectLoad(_ context.Context, s *server, _ effort) (load, error) {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: connSecurity.config}
	client := &http.Client{Transport: transport}
	url := connSecurity.scheme() + "://" + s.endpoint + "/v3/maintenance/alarm"
	var steps []step
	for range rangeClients {
		steps = append(steps, func(ctx context.Context) (int, error) { return 1, post(ctx, client, url, []byte("{}"), 1) })
	}
	return load{name: "a connection and a request", unit: "connection", steps: steps, end: func() {}}, nil
}

func post(ctx context.Context, client *http.Client, url string, body []byte, atLeast int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || got < atLeast) {
		err = fmt.Errorf("status %s, %d bytes", response.Status, got)
	}
	return err
}
