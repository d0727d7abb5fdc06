package main

import (
	"encoding/json"
	"math"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/authpb"
	"google.golang.org/protobuf/proto"
)

// difference is one that is to be expected, from etcd of some versions, in a record or in a whole
// bucket.
type difference struct {
	since, before semver.Version
	bucket, key   string
	// same makes a value the same on both sides. Without it the record is left out.
	same func([]byte) []byte
}

// always is before a version that will never be.
var always = minor(math.MaxInt64)

// mayDiffer is all that may differ.
var mayDiffer = []difference{
	// No entry says which version of what is stored this is: since 3.6 each member finds out and
	// writes it down by itself, a few seconds after the cluster's version has changed.
	{before: always, bucket: "meta", key: "storageVersion"},
	// 3.5.1 takes the addresses that a member publishes for another member of the same id, and does
	// not save them.
	{since: minor(5), before: minor(6), bucket: "members", same: withoutClientURLs},
	// Until 3.5 the index of an entry that changes nothing, such as a new leader's first, was saved
	// with the next change.
	{before: minor(5), bucket: "meta", key: "consistent_index"},
	// The term of the applied index, and the configuration, have been in the database since 3.5.
	{before: minor(5), bucket: "meta", key: "term"},
	{before: minor(5), bucket: "meta", key: "confState"},
	// Until 3.5 the log had passwords as they were typed, and every member salted and hashed them for
	// itself.
	{before: minor(5), bucket: "authUsers", same: withoutPassword},
}

func minor(n int64) semver.Version { return semver.Version{Major: 3, Minor: n} }

// normal makes a record comparable, or says that it is none to compare.
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

// withoutPassword keeps whether there is a password. What cannot be read stays as it is.
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

// withoutClientURLs leaves out where clients reach a member.
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
