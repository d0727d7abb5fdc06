# The parts of check_suites, check_suites_brief and check_robustness in ../run: etcd's own tests,
# built from the module go.etcd.io/etcd/tests/v3 at the version in go.mod. Sourced, not run.

# Builds etcd's test packages, and the server of the previous minor version for mixed clusters. A
# name with "proxy-" stands for a package in which each member has a gRPC proxy, as the target
# test-grpcproxy-e2e of etcd's Makefile builds it.
suites_build() {
    local suite tags
    etcd_fetch "$previous_version"
    go build -o bin/test2json cmd/test2json
    for suite in "$@"; do
        tags=e2e
        [[ $suite != proxy-* ]] || tags=e2e,cluster_proxy
        fetching go test -c -tags "$tags" -o "bin/suites-$suite" "go.etcd.io/etcd/tests/v3/${suite#proxy-}"
    done
}

# Builds our server with failpoints, as etcd's own CI does for these tests, as bin/bowline-suites.
# Optimized: their timeouts are made for release builds.
suites_server() {
    local profile=${BOWLINE_PROFILE:-release}
    (cd "$root" && cargo build --workspace --bin bowline --features node/failpoints --profile "$profile")
    cp "$(bowline)" bin/bowline-suites
}

previous_etcd() {
    echo "bin/old/etcd-$previous_version"
}

# Runs suites against a server, given first:
#
#     suites_run SERVER FLAG...
suites_run() {
    bin/suites -etcd "$1" -last-release "$(previous_etcd)" -tests "$(go list -m -f '{{.Dir}}' go.etcd.io/etcd/tests/v3)" "${@:2}"
}

# ---- etcd's robustness tests ----

# Packages of etcd's server with failpoints, as its Makefile lists them.
failing_packages=(etcdserver lease lease/leasehttp storage/backend storage/mvcc storage/wal etcdserver/api/v3rpc
    etcdserver/api/membership etcdserver/api/rafthttp etcdserver/api/snap)

previous_failing_etcd() {
    echo "bin/old/etcd-$previous_version-failpoints"
}

# Builds the server of the previous minor version with failpoints, from a copy of its module in
# which gofail has enabled them, as etcd's own Makefile does.
robustness_fetch() {
    [[ -x $(previous_failing_etcd) ]] ||
        fetching build_failing_module >"$work/module.log" 2>&1 || fail "cannot build etcd $previous_version: $(cat "$work/module.log")"
}

build_failing_module() {
    local module=$work/module
    rm -rf "$module" && mkdir -p "$module" "$interop/bin/old" && go build -o bin/gofail go.etcd.io/gofail &&
        (cd "$module" && go mod init older && go get -tool "go.etcd.io/etcd/server/v3@v$previous_version" &&
            cp -r "$(go list -m -f '{{.Dir}}' go.etcd.io/etcd/server/v3)" server && chmod -R u+w server &&
            (cd server && "$interop/bin/gofail" enable "${failing_packages[@]}") &&
            go mod edit -replace go.etcd.io/etcd/server/v3=./server && go get go.etcd.io/gofail/runtime &&
            go build -o "$interop/$(previous_failing_etcd)" go.etcd.io/etcd/server/v3) &&
        rm -rf "$module"
}

robustness_run() {
    bin/robustness -etcd bin/bowline-suites -last-release "$(previous_failing_etcd)" \
        -tests "$(go list -m -f '{{.Dir}}' go.etcd.io/etcd/tests/v3)" -checker "$(example check)" "$@"
}
