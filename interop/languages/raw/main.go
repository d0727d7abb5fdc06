// Raw sends hand-built requests that no client sends: with unknown fields, invalid bytes, and
// missing or wrong headers. A server must respond as etcd does.
//
// It omits leases, locks, watches over a restart and snapshots, which the other programs cover.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/program"
)

var (
	put   = marshaled(&pb.PutRequest{Key: []byte("r/a"), Value: []byte("planted-true")})
	get   = marshaled(&pb.RangeRequest{Key: []byte("r/a")})
	token string

	// Compressed in advance: compression takes time, in which tokens expire.
	longest, tooLong, muchTooLong = gzipped(make([]byte, 2<<20)), gzipped(make([]byte, 2<<20+1)), gzipped(make([]byte, 4<<20))
)

func main() {
	if program.Mode() == "auth" {
		token = login(os.Getenv("USERNAME"), os.Getenv("PASSWORD"))
	}
	unknownFields()
	unknownMethods()
	malformed()
	sizes()
	encodings()
	framing()
	contentTypes()
	timeouts()
	pseudoHeaders()
	streams()
	if program.Mode() == "auth" {
		tokens()
	}
}

func marshaled(message proto.Message) []byte { return program.Got(proto.Marshal(message)) }

// headers returns the headers of a call with some changed; one that is changed to "-" is left out.
func headers(path string, changes ...string) []hpack.HeaderField {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: program.Endpoint()},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "token", Value: token})
	}
	for i := 0; i+1 < len(changes); i += 2 {
		name, value := changes[i], changes[i+1]
		at := slices.IndexFunc(fields, func(field hpack.HeaderField) bool { return field.Name == name })
		switch {
		case value == "-":
			fields = slices.DeleteFunc(fields, func(field hpack.HeaderField) bool { return field.Name == name })
		case at >= 0:
			fields[at].Value = value
		default:
			fields = append(fields, hpack.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// call sends one message, as a client does, with changed headers.
func call(path string, message []byte, changes ...string) answer {
	return send(request{headers: headers(path, changes...), data: framed(0, message)})
}

func step(name string, a answer) { program.Step(name, "%s", a) }

func login(name, password string) string {
	reply := &pb.AuthenticateResponse{}
	got := call("/etcdserverpb.Auth/Authenticate", marshaled(&pb.AuthenticateRequest{Name: name, Password: password}))
	program.Must(proto.Unmarshal(messages(got.body)[0], reply))
	return reply.Token
}

// unknownFields sends fields that the server does not know, as a newer client would. The server
// ignores them.
func unknownFields() {
	unknown := protowire.AppendTag(nil, 99, protowire.VarintType)
	unknown = protowire.AppendVarint(unknown, 1<<40)
	unknown = protowire.AppendTag(unknown, 100, protowire.BytesType)
	unknown = protowire.AppendBytes(unknown, []byte("more"))
	unknown = protowire.AppendTag(unknown, 101, protowire.Fixed64Type)
	unknown = protowire.AppendFixed64(unknown, 7)
	unknown = protowire.AppendTag(unknown, 102, protowire.Fixed32Type)
	unknown = protowire.AppendFixed32(unknown, 7)
	step("put, unknown fields", call("/etcdserverpb.KV/Put", slices.Concat(unknown, put, unknown)))
	group := protowire.AppendTag(nil, 103, protowire.StartGroupType)
	group = protowire.AppendTag(append(group, put...), 103, protowire.EndGroupType)
	got := call("/etcdserverpb.KV/Range", slices.Concat(group, get))
	step("get, a group", got)
	reply := &pb.RangeResponse{}
	program.Must(proto.Unmarshal(messages(got.body)[0], reply))
	program.Step("value", "%s, version %d, revision %d", reply.Kvs[0].Value, reply.Kvs[0].Version, reply.Header.Revision)
	// The last of several values of a field counts.
	step("get, two keys", call("/etcdserverpb.KV/Range", slices.Concat(marshaled(&pb.RangeRequest{Key: []byte("r/b")}), get)))
	step("unknown order", call("/etcdserverpb.KV/Range", slices.Concat(get, []byte{5 << 3, 99})))
	step("unknown compare", call("/etcdserverpb.KV/Txn", marshaled(&pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("r/a"), Target: 99, Result: 98}}})))
}

func unknownMethods() {
	for _, path := range []string{
		"/etcdserverpb.KV/None", "/etcdserverpb.None/Put", "/etcdserverpb.KV/", "/etcdserverpb.KV", "/none", "/", "*",
		"/etcdserverpb.KV/Put/", "/etcdserverpb.KV/Put?a=b", "/etcdserverpb.KV/put", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		step("method "+path, call(path, put))
	}
}

func malformed() {
	for _, sample := range []struct {
		name    string
		message []byte
	}{
		{"a tag too many", append(slices.Clone(put), 0x0a)},
		{"a length too large", []byte{0x0a, 0x05, 'r'}},
		{"a field numbered 0", []byte{0x00, 0x00}},
		{"an endless number", bytes.Repeat([]byte{0xff}, 12)},
		{"an end without a start", []byte{0x0c}},
		// A field with a wrong wire type is an unknown field.
		{"another type", []byte{0x08, 0x01}},
	} {
		step("malformed, "+sample.name, call("/etcdserverpb.KV/Put", sample.message))
	}
	step("no text", call("/etcdserverpb.Auth/UserGet", []byte{0x0a, 0x01, 0xff}))
	step("nothing in it", call("/etcdserverpb.KV/Put", nil))
}

func sizes() {
	// The server need not wait for the complete message.
	large := framed(0, nil)
	large[1] = 0x01
	step("too large for gRPC", send(request{headers: headers("/etcdserverpb.KV/Put"), data: large, open: true}))
	large[1], large[2], large[4] = 0, 0x20, 1
	step("a byte too large", send(request{headers: headers("/etcdserverpb.KV/Put"), data: large, open: true}))
	step("cut short", send(request{headers: headers("/etcdserverpb.KV/Put"), data: framed(0, put)[:8]}))
	step("cut in its length", send(request{headers: headers("/etcdserverpb.KV/Put"), data: framed(0, put)[:3]}))
}

func encodings() {
	path := "/etcdserverpb.KV/Range"
	zipped := gzipped(get)
	step("compressed, by nothing", send(request{headers: headers(path), data: framed(1, get)}))
	step("compressed, by identity", send(request{headers: headers(path, "grpc-encoding", "identity"), data: framed(1, get)}))
	step("compressed, by gzip", send(request{headers: headers(path, "grpc-encoding", "gzip"), data: framed(1, zipped)}))
	step("compressed, by snappy", send(request{headers: headers(path, "grpc-encoding", "snappy"), data: framed(1, get)}))
	step("not compressed, by gzip", send(request{headers: headers(path, "grpc-encoding", "gzip"), data: framed(0, get)}))
	step("not compressed, by snappy", send(request{headers: headers(path, "grpc-encoding", "snappy"), data: framed(0, get)}))
	step("compressed, by GZIP", send(request{headers: headers(path, "grpc-encoding", "GZIP"), data: framed(1, zipped)}))
	for _, sample := range []struct {
		name    string
		message []byte
	}{
		{"nothing", nil},
		{"not at all", get},
		{"cut", zipped[:len(zipped)-9]},
		{"cut in its header", zipped[:9]},
		{"cut in its checksum", zipped[:len(zipped)-1]},
		{"with another checksum", slices.Concat(zipped[:len(zipped)-8], make([]byte, 8))},
		{"with more after it", slices.Concat(zipped, []byte("more than ten"))},
		{"twice", slices.Concat(zipped, zipped)},
		{"empty", gzipped(nil)},
		{"to the last byte", longest},
		{"too large", tooLong},
		{"much too large", muchTooLong},
	} {
		step("by gzip, "+sample.name, send(request{headers: headers(path, "grpc-encoding", "gzip"), data: framed(1, sample.message)}))
	}
	step("refused, by gzip", send(request{headers: headers(path, "grpc-encoding", "gzip"), data: framed(1, gzipped([]byte{0x28, 99}))}))
	step("stream, by gzip", send(request{headers: headers("/etcdserverpb.Lease/LeaseKeepAlive", "grpc-encoding", "gzip"),
		data: slices.Concat(framed(1, gzipped([]byte{0x08, 0x07})), framed(0, []byte{0x08, 0x08}), framed(1, gzipped([]byte{0x08, 0x09})))}))
	step("streamed range, by gzip", send(request{headers: headers("/etcdserverpb.KV/RangeStream", "grpc-encoding", "gzip"), data: framed(1, zipped)}))
	step("stream, badly by gzip", send(request{headers: headers("/etcdserverpb.Lease/LeaseKeepAlive", "grpc-encoding", "gzip"), data: framed(1, get)}))
	step("flag 2, by gzip", send(request{headers: headers(path, "grpc-encoding", "gzip"), data: framed(2, zipped)}))
	step("flag 2", send(request{headers: headers(path), data: framed(2, get)}))
}

func gzipped(message []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	program.Got(writer.Write(message))
	program.Must(writer.Close())
	return out.Bytes()
}

func framing() {
	path := "/etcdserverpb.KV/Range"
	step("byte by byte", send(request{headers: headers(path), data: framed(0, get), piece: 1}))
	step("no message", send(request{headers: headers(path)}))
	step("two messages", send(request{headers: headers(path), data: append(framed(0, get), framed(0, get)...)}))
}

func contentTypes() {
	for _, kind := range []string{
		"", "application/grpc+proto", "application/grpc;charset=utf-8", "application/grpc+json", "application/grpc-web", "Application/GRPC", "application/json",
	} {
		step(fmt.Sprintf("content-type %q", kind), call("/etcdserverpb.KV/Range", get, "content-type", kind))
	}
	step("without content-type", call("/etcdserverpb.KV/Range", get, "content-type", "-"))
	step("without te", call("/etcdserverpb.KV/Range", get, "te", "-"))
	step("another client", call("/etcdserverpb.KV/Range", get, "user-agent", "none", "grpc-accept-encoding", "zstd", "x-more", "1", "x-more-bin", "AAEC"))
	step("bad binary", call("/etcdserverpb.KV/Range", get, "x-more-bin", "!!"))
}

func timeouts() {
	for _, timeout := range []string{"5S", "1H", "60000m", "99999999u", "100000001S", "1", "S", "1x", "-1S", "", "1.5S"} {
		step(fmt.Sprintf("grpc-timeout %q", timeout), call("/etcdserverpb.KV/Range", get, "grpc-timeout", timeout))
	}
	step(`grpc-timeout "0S"`, call("/etcdserverpb.KV/Put", put, "grpc-timeout", "0S"))
}

func pseudoHeaders() {
	for _, method := range []string{"GET", "PUT", "HEAD", "OPTIONS"} {
		step("method "+method, call("/etcdserverpb.KV/Range", get, ":method", method))
	}
	step("another authority", call("/etcdserverpb.KV/Range", get, ":authority", "elsewhere:1"))
	step("no authority", call("/etcdserverpb.KV/Range", get, ":authority", "-"))
	step("host besides", call("/etcdserverpb.KV/Range", get, "host", "elsewhere"))
	step("no path", call("/", get, ":path", "-"))
	step("no scheme", call("/etcdserverpb.KV/Range", get, ":scheme", "-"))
	step("a leader wanted", call("/etcdserverpb.KV/Range", get, "hasleader", "true"))
}

// streams checks the status at the end of a stream. A half-closed watch stream has none.
func streams() {
	step("watch, malformed", call("/etcdserverpb.Watch/Watch", []byte{0x0a}))
	step("keep-alive, malformed", call("/etcdserverpb.Lease/LeaseKeepAlive", []byte{0x0a}))
	step("keep-alive, several", send(request{headers: headers("/etcdserverpb.Lease/LeaseKeepAlive"),
		data: append(framed(0, []byte{0x08, 0x07}), framed(0, []byte{0x08, 0x08})...)}))
	step("streamed range, malformed", call("/etcdserverpb.KV/RangeStream", []byte{0x0a}))
	step("health", call("/grpc.health.v1.Health/Check", nil))
	step("health of none", call("/grpc.health.v1.Health/Check", []byte{0x0a, 0x01, 'x'}))
}

// tokens sends a token under each of its two header names, with and without the word Bearer.
func tokens() {
	good := token
	token = ""
	for _, fields := range [][]string{
		{}, {"token", good}, {"authorization", good}, {"authorization", "Bearer " + good}, {"authorization", "bearer " + good},
		{"token", "Bearer " + good}, {"token", "none"}, {"authorization", "none"}, {"token", ""},
		{"token", good, "authorization", "none"}, {"token", "none", "authorization", good},
	} {
		name := strings.ReplaceAll(strings.Join(fields, " "), good, "<token>")
		step("with "+name, call("/etcdserverpb.KV/Range", get, fields...))
	}
	token = login(os.Getenv("READER"), os.Getenv("READER_PASSWORD"))
	step("reader puts", call("/etcdserverpb.KV/Put", put))
	step("reader reads", call("/etcdserverpb.KV/Range", get))
	program.Ask("expire")
	step("token run out", call("/etcdserverpb.KV/Range", get))
}
