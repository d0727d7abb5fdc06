package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// compared are the headers that say something about an answer.
var compared = []string{"Content-Type", "Allow", "Grpc-Metadata-Content-Type", "Access-Control-Allow-Origin", "X-Etcd-Cluster-Id"}

// request makes an HTTP request: method, path and perhaps a body.
func request(ctx context.Context, endpoint string, words []string) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if len(words) < 2 {
		return answer{failed: fmt.Errorf("http METHOD PATH, and not %q", words)}
	}
	r, err := http.NewRequestWithContext(ctx, words[0], "http://"+endpoint+words[1], strings.NewReader(strings.Join(words[2:], " ")))
	if err != nil {
		return answer{failed: err}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{failed: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{failed: err}
	}
	text := ""
	for _, name := range compared {
		if value := response.Header.Get(name); value != "" {
			text += name + ": " + value + "\n"
		}
	}
	return answer{code: response.StatusCode, out: text + compact(body)}
}

// compact takes the blanks out of JSON, of which Go's protobuf library has some or none, as each build decides by chance.
func compact(body []byte) string {
	var without bytes.Buffer
	if json.Compact(&without, body) != nil {
		return string(body)
	}
	return without.String()
}
