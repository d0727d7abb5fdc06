// Package suites imports the packages of etcd's own tests, so that go.mod pins their module at the
// reference version. `interop/run suites` and `interop/run robustness` build and run them,
// unmodified; expected.txt lists the tests that fail, with reasons.
package suites

import (
	_ "go.etcd.io/etcd/tests/v3/common"
	_ "go.etcd.io/etcd/tests/v3/e2e"
	_ "go.etcd.io/etcd/tests/v3/robustness/client"
	_ "go.etcd.io/etcd/tests/v3/robustness/failpoint"
	_ "go.etcd.io/etcd/tests/v3/robustness/identity"
	_ "go.etcd.io/etcd/tests/v3/robustness/report"
	_ "go.etcd.io/etcd/tests/v3/robustness/scenarios"
	_ "go.etcd.io/etcd/tests/v3/robustness/traffic"
	_ "go.etcd.io/etcd/tests/v3/robustness/validate"
)
