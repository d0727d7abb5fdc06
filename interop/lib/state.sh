# The parts of check_state in ../run: both state machines. Sourced, not run, after storage.sh.
#
# etcd itself is compared with our server, and with the example replay, which applies a log to a
# database.

# Number of requests, and the first seed. STATE_OPS and STATE_SEED change them.
state_ops=${STATE_OPS:-12000}
state_seed=${STATE_SEED:-1}

# etcd compared with itself shows no difference.
state_control() {
    bin/statediff -both-etcd -seed "$state_seed" -ops 4000
}

# Sends the same requests to both servers.
state_requests() {
    bin/statediff -ours "$(bowline)" -seed "$state_seed" -ops "$state_ops"
    # The same through the JSON gateway.
    bin/statediff -ours "$(bowline)" -seed "$state_seed" -ops "$((state_ops / 10))" -gateway
}

# The comparison detects falsified responses.
state_planted() {
    bin/statediff -ours "$(bowline)" -ops 5000 -plant all
}

# Applying the logs of every version gives the databases of its members. The clusters run
# concurrently, since they mostly wait.
state_logs() {
    local version member maker makers=() count=0 dirs=$work/logged
    for version in "$etcd_version" "${old_versions[@]}" "$early_version"; do
        bin/datadirs -etcd "$(etcd_of "$version")" -out "$dirs/$version" -only logged &
        makers+=($!)
    done
    for maker in "${makers[@]}"; do
        wait "$maker" || fail "datadirs"
    done
    for version in "$etcd_version" "${old_versions[@]}" "$early_version"; do
        for member in "$dirs/$version"/logged/m[123]; do
            same_state "$member" "$version" "$version ${member#"$dirs/$version/"}"
            count=$((count + 1))
        done
    done
    echo "logs applied: $count, of etcd $etcd_version ${old_versions[*]} $early_version"
}

same_state() {
    local theirs=$1/member/snap/db version=$2 what=$3 ours=$work/applied.db
    rm -f "$ours"
    # The minimum TTL is one and a half election timeouts, which is three seconds in these
    # clusters.
    ours replay "$1" "$ours" --ttl-min 3 || fail "replay: $what"
    bin/dbdiff -version "$version" "$theirs" "$ours" || fail "databases differ: $what"
    same "hash of keys, $what" bin/etcdutl hashkv "$theirs" = bin/etcdutl hashkv "$ours"
}

# etcd of every version continues a data directory that we built from a member's log, as it
# continues that member's own. The other two members are missing, so it is forced into a new
# cluster.
state_continue() {
    local version one jobs=()
    for version in "$etcd_version" "${old_versions[@]}"; do
        continue_directory "$version" &
        jobs+=($!)
    done
    for one in "${jobs[@]}"; do
        wait "$one" || fail "etcd does not continue our directory as it does its own"
    done
    echo "data directories made of a log: served by etcd $etcd_version ${old_versions[*]}"
}

continue_directory() {
    local version=$1 from=$work/logged/$1/logged/m1 dir=$work/continue_directory/$1
    # `same` needs a directory per version, since versions run concurrently.
    local work=$dir
    mkdir -p "$dir"
    cp -r "$from" "$dir/theirs"
    ours replay "$from" "$dir/applied.db" --ttl-min 3 --member "$dir/ours" >/dev/null || fail "replay: $version"
    (($(cut -d . -f 2 <<<"$version") > 5)) || image_is_read
    same "answers of etcd $version, continuing our directory" alone theirs lib/continue_requests = alone ours lib/continue_requests
    # By now etcd has taken its own snapshots, whose members come from ours or from its log.
    same "image of the members by etcd $version" members_of theirs = members_of ours
}

# Up to 3.5 a server knows its members only from the image in a snapshot file.
image_is_read() {
    cp -r "$dir/ours" "$dir/planted"
    bin/snapimage -replace http://127.0.0.1:=http://127.0.0.2: "$dir/planted/member/snap"
    [[ $(alone planted bin/etcdctl member list) == *" http://127.0.0.2:"* ]] || fail "etcd $version does not read our image"
}

# Runs a command beside an etcd in a forced new cluster that takes a snapshot every other entry.
alone() {
    ETCD_FORCE_NEW_CLUSTER=true ETCD_SNAPSHOT_COUNT=1 ETCD_HEARTBEAT_INTERVAL=50 ETCD_ELECTION_TIMEOUT=500 \
        bin/serve -etcd "$(etcd_of "$version")" "$dir/$1" "${@:2}"
}

# Client URLs differ in each run.
members_of() {
    bin/snapimage "$dir/$1/member/snap" | sed 's/"clientURLs":.*//'
}

# ---- benchmarks ----

# Benchmarks both state machines, then prints each figure of etcd's above ours.
bench_state() {
    sync
    bin/statebench -dir "$1" | tee "$work/state.theirs"
    (cd "$root" && cargo bench --no-run -p mvcc -p lease)
    sync
    (cd "$root" && TMPDIR=$1 cargo bench -p mvcc -p lease) | tee "$work/state.ours"
    echo
    bench_pairs "$work/state.theirs" "$work/state.ours"
}

# Pairs lines that differ only in numbers, in order. Lines that begin with a number are headings.
bench_pairs() {
    awk 'function figure(line) {
            gsub(/[0-9.]+(ns|µs|ms|s)?/, "", line)
            gsub(/ +/, " ", line)
            return line " " ++seen[FILENAME, line]
        }
        /^[0-9]/ || !/[0-9]/ { next }
        NR == FNR { theirs[figure($0)] = $0; next }
        { name = figure($0) }
        name in theirs { print "etcd      " theirs[name] "\nbowline   " $0 "\n" }
    ' "$1" "$2"
}
