package main

import (
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

// messages maps the first words of a command to the message that it prints with
// --write-out=protobuf.
var messages = map[string]proto.Message{
	"get": &pb.RangeResponse{},
	"put": &pb.PutResponse{},
	"del": &pb.DeleteRangeResponse{},
	"txn": &pb.TxnResponse{},
	// A grant prints only the header.
	"lease grant":   &pb.ResponseHeader{},
	"lease list":    &pb.LeaseLeasesResponse{},
	"lease revoke":  &pb.LeaseRevokeResponse{},
	"member list":   &pb.MemberListResponse{},
	"member add":    &pb.MemberAddResponse{},
	"member remove": &pb.MemberRemoveResponse{},
	"member update": &pb.MemberUpdateResponse{},
	"alarm":         &pb.AlarmResponse{},
	"user add":      &pb.AuthUserAddResponse{},
	"user get":      &pb.AuthUserGetResponse{},
	"user list":     &pb.AuthUserListResponse{},
	"role add":      &pb.AuthRoleAddResponse{},
	"role get":      &pb.AuthRoleGetResponse{},
	"role list":     &pb.AuthRoleListResponse{},
}

// readable converts protobuf output to text, in which numbers can be normalized.
func readable(words []string, out string) string {
	if !slices.Contains(words, "protobuf") && !slices.Contains(words, "--write-out=protobuf") {
		return out
	}
	for begin, message := range messages {
		if !strings.HasPrefix(strings.Join(words, " ")+" ", begin+" ") {
			continue
		}
		message = proto.Clone(message)
		if err := proto.Unmarshal([]byte(out), message); err != nil {
			return "no message: " + err.Error() + "\n" + out
		}
		return target.Text(message) + unknown(message)
	}
	return out
}

// unknown returns the unknown fields of a message as text.
func unknown(message proto.Message) string {
	rest := message.ProtoReflect().GetUnknown()
	if len(rest) == 0 {
		return ""
	}
	number, _, _ := protowire.ConsumeTag(rest)
	return "\nand an unknown field " + strconv.Itoa(int(number))
}
