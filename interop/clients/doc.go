// Package clients has etcd's Go client, and the packages that come with it, work with a server:
// with etcd, which shows that the tests are right, and with ours.
//
//	go test ./clients -server PROGRAM
//
// Most tests share a server, each below a prefix of its own; tests that stop it or need other flags
// start their own.
package clients
