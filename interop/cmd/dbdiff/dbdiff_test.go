package main

import (
	"strings"
	"testing"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/authpb"
	"google.golang.org/protobuf/proto"
)

func TestDifferences(t *testing.T) {
	theirs := []record{{bucket: "a"}, {"a", "1", []byte{1}}, {"a", "2", []byte{2}}, {bucket: "b"}, {"b", "4", nil}}
	ours := []record{{bucket: "a"}, {"a", "1", []byte{9}}, {"a", "3", []byte{3}}, {bucket: "b"}, {"b", "4", nil}, {bucket: "c"}}
	var out strings.Builder
	if n := compare(&out, theirs, ours); n != 4 {
		t.Errorf("%d differences", n)
	}
	want := "theirs:      a \"1\" 01\nours:        a \"1\" 09\nonly theirs: a \"2\" 02\nonly ours:   a \"3\" 03\nonly ours:   c \"\" -\n"
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	if n := compare(&out, theirs, theirs); n != 0 {
		t.Errorf("%d differences between equal records", n)
	}
}

func TestAnOlderEtcdMayDiffer(t *testing.T) {
	term := record{"meta", "term", []byte{1}}
	if normal(minor(4), &term) || !normal(minor(5), &term) || !normal(minor(7), &term) {
		t.Error("the term may differ before 3.5, and only then")
	}
	index := record{"meta", "consistent_index", []byte{1}}
	if !normal(minor(5), &index) {
		t.Error("the applied index may not differ")
	}
}

func TestPasswordsOfOldUsersAreNotCompared(t *testing.T) {
	value := func(password string) record {
		encoded, err := proto.Marshal(&authpb.User{Name: []byte("ann"), Password: []byte(password), Roles: []string{"r"}})
		if err != nil {
			t.Fatal(err)
		}
		return record{"authUsers", "ann", encoded}
	}
	for _, c := range []struct {
		minor      int64
		one, other record
		differ     int
	}{
		{4, value("salt 1"), value("salt 2"), 0},
		{4, value("salt 1"), value(""), 1},
		{5, value("salt 1"), value("salt 2"), 1},
	} {
		normal(minor(c.minor), &c.one)
		normal(minor(c.minor), &c.other)
		if n := compare(&strings.Builder{}, []record{c.one}, []record{c.other}); n != c.differ {
			t.Errorf("3.%d: %d differences", c.minor, n)
		}
	}
}

func TestClientURLsMayBeMissingInEarly35(t *testing.T) {
	for version, want := range map[string]int{"3.4.0": 1, "3.5.0": 1, "3.5.1": 0, "3.5.19": 0, "3.5.20": 1, "3.6.0": 1} {
		one := record{"members", "1", []byte(`{"id":1,"name":"m","clientURLs":["http://a"]}`)}
		other := record{"members", "1", []byte(`{"id":1,"name":"m"}`)}
		writer := semver.New(version)
		normal(*writer, &one)
		normal(*writer, &other)
		if got := compare(&strings.Builder{}, []record{one}, []record{other}); got != want {
			t.Errorf("%s: %d differences", version, got)
		}
	}
}
