package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// noRedirects follows no redirects, since a redirect is part of the response.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// request sends an HTTP request: method, path, optional headers such as @Accept:text/plain, and an
// optional body.
func request(ctx context.Context, endpoint string, words []string) answer {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if len(words) < 2 {
		return answer{failed: fmt.Errorf("expected http METHOD PATH, got %q", words)}
	}
	method, path, words := words[0], words[1], words[2:]
	headers := http.Header{}
	for len(words) > 0 && strings.HasPrefix(words[0], "@") {
		name, value, _ := strings.Cut(words[0][1:], ":")
		headers.Add(name, value)
		words = words[1:]
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+endpoint+path, strings.NewReader(strings.Join(words, " ")))
	if err != nil {
		return answer{failed: err}
	}
	r.Header = headers
	response, err := noRedirects.Do(r)
	if err != nil {
		return answer{failed: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{failed: err}
	}
	return answer{code: response.StatusCode, out: headersOf(response) + compact(body)}
}

// headersOf lists the headers and trailers of a response, without the date and without the length
// of JSON, whose white space varies.
func headersOf(response *http.Response) string {
	var lines []string
	isJSON := response.Header.Get("Content-Type") == "application/json"
	for name, values := range response.Header {
		switch {
		case name == "Date":
		case name == "Content-Length" && isJSON:
			lines = append(lines, name+": <length>")
		default:
			lines = append(lines, name+": "+strings.Join(values, ", "))
		}
	}
	for name, values := range response.Trailer {
		lines = append(lines, "trailer "+name+": "+strings.Join(values, ", "))
	}
	if len(response.TransferEncoding) > 0 {
		lines = append(lines, "Transfer-Encoding: "+strings.Join(response.TransferEncoding, ", "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// compact removes white space from JSON: Go's protobuf library inserts it at random, per build.
func compact(body []byte) string {
	var without bytes.Buffer
	if json.Compact(&without, body) != nil {
		return string(body)
	}
	return without.String()
}
