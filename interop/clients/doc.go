// Package clients tests etcd's Go client, and the packages that come with it, against a server:
// against etcd, which validates the tests, and against ours.
//
//	go test ./clients -server PROGRAM
//
// Most tests share a server, each below its own prefix; tests that stop it or need other flags
// start their own.
package clients
