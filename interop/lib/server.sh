# The parts of check_ctl, check_clientv3 and check_alternate in ../run. Sourced, not run.

# ---- etcd's command lines ----

# etcdctl and etcdutl print the same against both servers.
ctl_scripts() {
    bin/ctldiff -ours "$(bowline)" ctl/*.txt
}

# The comparison detects falsified output.
ctl_planted() {
    bin/ctldiff -both-etcd -plant all ctl/planted.txt
}

# ---- etcd's Go client ----

# The client and its packages pass their tests against both servers.
clients_test() {
    local server
    fetching go test -c -o bin/clients ./clients
    for server in bin/etcd "$(bowline)"; do
        echo "$server"
        # Tests mostly wait for elections and expiring leases.
        bin/clients -test.parallel 8 -server "$server"
    done
}

# ---- one directory, two servers ----

# Both servers take turns on a new directory.
alternate_new() {
    bin/alternate -ours "$(bowline)"
    bin/alternate -ours "$(bowline)" -ours-first -seed 2
}

# Both take turns on directories of older versions. The current etcd can continue them too, unless
# an entry of the v2 API follows the last snapshot; etcd writes such an entry at its start.
alternate_old() {
    local version life dirs=$work/older
    for version in "${old_versions[@]}"; do
        bin/datadirs -etcd "$(etcd_of "$version")" -out "$dirs/$version" -only busy,killed,quota
        for life in busy killed quota; do
            bin/alternate -ours "$(bowline)" -ours-first -turns 3 -before "$(etcd_of "$version")" -from "$dirs/$version/$life/m1"
        done
        bin/alternate -ours "$(bowline)" -turns 3 -from "$dirs/$version/busy/m1"
        rm -r "$dirs"
    done
}

# The next server detects a removed record.
alternate_planted() {
    bin/alternate -both-etcd -plant all
}
