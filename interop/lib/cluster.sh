# The parts of check_cluster in ../run: mixed clusters. Sourced, not run.

# Other versions to form clusters with: the last 3.6 and the last 3.5.
read -ra cluster_versions <<<"${CLUSTER_VERSIONS:-$previous_version $earlier_version}"

# Runs every scenario briefly, for CI. CLUSTER_TIMES and CLUSTER_SEED ask for more and other runs.
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
    for version in "${cluster_versions[@]}"; do
        etcd_fetch "$version"
    done
}

cluster_build() {
    cc -Wall -Wextra -Werror -O2 -shared -fPIC -o bin/faulty.so lib/faulty.c -ldl
    ours_build_failing
}

# Builds a server of another version from its module, in a separate module.
fetch_module() {
    fetching build_module "$1" >"$work/module.log" 2>&1 || fail "cannot build etcd $1: $(cat "$work/module.log")"
    rm -r "$work/module"
}

build_module() {
    rm -rf "$work/module" && mkdir -p "$work/module" &&
        (cd "$work/module" && go mod init older && go get -tool "go.etcd.io/etcd/server/v3@v$1" &&
            go build -o etcd go.etcd.io/etcd/server/v3) &&
        mv "$work/module/etcd" "bin/old/etcd-$1"
}
