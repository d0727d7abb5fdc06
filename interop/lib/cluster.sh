# Members of one cluster, theirs and ours: what check_cluster in ../run is made of. Sourced, not run.

# Other versions that members of ours work with: the last of 3.6, and one of 3.5 that is there already. CLUSTER_VERSIONS="3.6.14 3.5.35" has the last of both.
read -ra cluster_versions <<<"${CLUSTER_VERSIONS:-3.6.14 3.5}"

# Everything, briefly: in CI it must not take long. CLUSTER_TIMES and CLUSTER_SEED ask for more, and for other chances.
cluster_brief() {
    local version older=()
    for version in "${cluster_versions[@]}"; do
        older+=("bin/old/etcd-$version")
    done
    bin/cluster -ours "$(bowline)" -failing bin/bowline-failpoints -faulty bin/faulty.so -checker "$(example check)" -older "$(IFS=,; echo "${older[*]}")" \
        -times "${CLUSTER_TIMES:-1}" -seed "${CLUSTER_SEED:-1}" -only "${CLUSTER_ONLY:-}" -parallel "${CLUSTER_PARALLEL:-3}"
}

cluster_fetch() {
    local version
    storage_fetch
    for version in "${cluster_versions[@]}"; do
        [[ -x bin/old/etcd-$version ]] || fetch_module "$version"
    done
}

cluster_build() {
    cc -Wall -Wextra -Werror -O2 -shared -fPIC -o bin/faulty.so lib/faulty.c -ldl
    ours_build_failing
}

# A server of another version is built from its module, in a module of its own.
fetch_module() {
    fetching build_module "$1" >"$work/module.log" 2>&1 || fail "cannot build etcd $1: $(cat "$work/module.log")"
    rm -r "$work/module"
}

build_module() {
    rm -rf "$work/module" && mkdir -p "$work/module" &&
        (cd "$work/module" && go mod init older && go get -tool "go.etcd.io/etcd/server/v3@v$1" &&
            go build -o "$interop/bin/old/etcd-$1" go.etcd.io/etcd/server/v3)
}
