# Our server beside etcd's: what check_ctl, check_clientv3 and check_alternate in ../run are made of. Sourced, not run.

# ---- etcd's command lines ----

# What etcdctl and etcdutl print is the same, whomever they ask.
ctl_scripts() {
    bin/ctldiff -ours "$(bowline)" ctl/*.txt
}

# The comparison sees what it ought to see.
ctl_planted() {
    bin/ctldiff -both-etcd -plant all ctl/planted.txt
}

# ---- etcd's Go client ----

# The client and all that comes with it find what they expect, at etcd and at us.
clients_test() {
    local server
    go test -c -o bin/clients ./clients
    for server in bin/etcd "$(bowline)"; do
        echo "$server"
        # Tests mostly wait, for elections and for leases to run out.
        bin/clients -test.parallel 8 -server "$server"
    done
}

# ---- one directory, two servers ----

# Etcd and we take turns on a directory that is new.
alternate_new() {
    bin/alternate -ours "$(bowline)"
    bin/alternate -ours "$(bowline)" -ours-first -seed 2
}

# And on those of older versions, from which etcd of today may also go on, unless it is stopped by an entry of the v2 API
# that came after the last snapshot: what etcd writes at its start is one.
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

# Whoever comes after notices what is not as it was.
alternate_planted() {
    bin/alternate -both-etcd -plant all
}
