package main

import (
	"encoding/json"
	"math"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/authpb"
	"google.golang.org/protobuf/proto"
)

// difference is an expected difference in a record or a whole bucket, with etcd versions in a
// range.
type difference struct {
	since, before semver.Version
	bucket, key   string
	// same maps a value to the part that must be equal. If nil, the record is omitted.
	same func([]byte) []byte
}

// always is a version bound that no release reaches.
var always = minor(math.MaxInt64)

// mayDiffer lists all expected differences.
var mayDiffer = []difference{
	// The storage version is not in the log: since 3.6 each member detects and writes it a few
	// seconds after a change of the cluster version.
	{before: always, bucket: "meta", key: "storageVersion"},
	// From 3.5.1 to 3.5.19, a server takes the client URLs that a member publishes for those of
	// another member with the same id, and does not store them.
	{since: patch(5, 1), before: patch(5, 20), bucket: "members", same: withoutClientURLs},
	// Before 3.5, the index of an entry without effect, such as the first of a new leader, was
	// stored with the next change.
	{before: minor(5), bucket: "meta", key: "consistent_index"},
	// The database holds the term of the applied index and the configuration since 3.5.
	{before: minor(5), bucket: "meta", key: "term"},
	{before: minor(5), bucket: "meta", key: "confState"},
	// Before 3.5 the log contained plain passwords, and every member salted and hashed them
	// separately.
	{before: minor(5), bucket: "authUsers", same: withoutPassword},
}

func minor(n int64) semver.Version { return patch(n, 0) }

func patch(minor, n int64) semver.Version { return semver.Version{Major: 3, Minor: minor, Patch: n} }

// normal normalizes a record and reports whether it is to be compared.
func normal(version semver.Version, r *record) bool {
	for _, d := range mayDiffer {
		if version.LessThan(d.since) || !version.LessThan(d.before) || d.bucket != r.bucket || d.key != "" && d.key != r.key {
			continue
		}
		if d.same == nil {
			return false
		}
		r.value = d.same(r.value)
	}
	return true
}

// withoutPassword reduces the password to whether it is set. It returns undecodable values
// unchanged.
func withoutPassword(value []byte) []byte {
	var user authpb.User
	if proto.Unmarshal(value, &user) != nil {
		return value
	}
	if len(user.Password) > 0 {
		user.Password = []byte("hashed")
	}
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(&user)
	if err != nil {
		return value
	}
	return plain
}

// withoutClientURLs removes the client URLs of a member.
func withoutClientURLs(value []byte) []byte {
	var member map[string]json.RawMessage
	if json.Unmarshal(value, &member) != nil {
		return value
	}
	delete(member, "clientURLs")
	plain, err := json.Marshal(member)
	if err != nil {
		return value
	}
	return plain
}
