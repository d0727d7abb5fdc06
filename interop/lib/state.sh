# The state machine, ours and theirs: what check_state in ../run is made of. Sourced, not run, after storage.sh.
#
# On their side stands etcd itself, on ours the server, and the example replay, which makes a database from a log.

# How many requests, from which seed on. STATE_OPS and STATE_SEED ask for other ones than CI does.
state_ops=${STATE_OPS:-12000}
state_seed=${STATE_SEED:-1}

# Etcd does not differ from itself, or else the comparison finds what is none.
state_control() {
    bin/statediff -both-etcd -seed "$state_seed" -ops 4000
}

# The same requests to etcd and to us.
state_requests() {
    bin/statediff -ours "$(bowline)" -seed "$state_seed" -ops "$state_ops"
    # And as JSON.
    bin/statediff -ours "$(bowline)" -seed "$state_seed" -ops "$((state_ops / 10))" -gateway
}

# The comparison sees what it ought to see.
state_planted() {
    bin/statediff -ours "$(bowline)" -ops 5000 -plant all
}

# The logs of every version, applied by us, give the databases that its members have. They are made side by side, since
# clusters mostly wait.
state_logs() {
    local version member maker makers=() count=0 dirs=$work/logged
    for version in "$etcd_version" "${old_versions[@]}"; do
        bin/datadirs -etcd "$(etcd_of "$version")" -out "$dirs/$version" -only logged &
        makers+=($!)
    done
    for maker in "${makers[@]}"; do
        wait "$maker" || fail "datadirs"
    done
    for version in "$etcd_version" "${old_versions[@]}"; do
        for member in "$dirs/$version"/logged/m[123]; do
            same_state "$member" "$(cut -d . -f 1,2 <<<"$version")" "$version ${member#"$dirs/$version/"}"
            count=$((count + 1))
        done
    done
    echo "logs applied: $count, of etcd $etcd_version ${old_versions[*]}"
}

same_state() {
    local theirs=$1/member/snap/db minor=$2 what=$3 ours=$work/applied.db
    rm -f "$ours"
    # A lease is granted for one and a half election timeouts at least, which with these clusters is a second.
    ours replay "$1" "$ours" --ttl-min 1 || fail "replay: $what"
    bin/dbdiff -version "$minor" "$theirs" "$ours" || fail "databases differ: $what"
    same "hash of keys, $what" bin/etcdutl hashkv "$theirs" = bin/etcdutl hashkv "$ours"
}

# Etcd of every version goes on with a data directory that we have made of a member's log, as it does with that member's
# own. Two of the three members are missing, so it goes on alone.
state_goes_on() {
    local version one going=()
    for version in "$etcd_version" "${old_versions[@]}"; do
        goes_on "$version" &
        going+=($!)
    done
    for one in "${going[@]}"; do
        wait "$one" || fail "etcd does not go on as with its own files"
    done
    echo "data directories made of a log: served by etcd $etcd_version ${old_versions[*]}"
}

goes_on() {
    local version=$1 from=$work/logged/$1/logged/m1 dir=$work/goes_on/$1
    # What `same` keeps must not meet that of another version at the same time.
    local work=$dir
    mkdir -p "$dir"
    cp -r "$from" "$dir/theirs"
    ours replay "$from" "$dir/applied.db" --ttl-min 1 --member "$dir/ours" >/dev/null || fail "replay: $version"
    [[ $version == "$etcd_version" ]] || image_is_read
    same "answers of etcd $version, going on" alone theirs lib/goes_on = alone ours lib/goes_on
    # By then it has taken snapshots of its own. What they say of the members comes from ours, or from its log.
    same "image of the members by etcd $version" members_of theirs = members_of ours
}

# Until 3.5 a server knows its members from the image in a snapshot file alone: what that says, it says.
image_is_read() {
    cp -r "$dir/ours" "$dir/planted"
    bin/snapimage -replace http://127.0.0.1:=http://127.0.0.2: "$dir/planted/member/snap"
    [[ $(alone planted bin/etcdctl member list) == *" http://127.0.0.2:"* ]] || fail "etcd $version does not read our image"
}

# A command beside an etcd that goes on without the other members, and takes a snapshot every other entry.
alone() {
    ETCD_FORCE_NEW_CLUSTER=true ETCD_SNAPSHOT_COUNT=1 ETCD_HEARTBEAT_INTERVAL=50 ETCD_ELECTION_TIMEOUT=500 \
        bin/serve -etcd "$(etcd_of "$version")" "$dir/$1" "${@:2}"
}

# Clients reach it elsewhere each time.
members_of() {
    bin/snapimage "$dir/$1/member/snap" | sed 's/"clientURLs":.*//'
}

# ---- measurements ----

# Etcd's state machine and ours at the same work, and then each figure of theirs above ours.
bench_state() {
    sync
    bin/statebench -dir "$1" | tee "$work/state.theirs"
    (cd "$root" && cargo bench --no-run -p mvcc -p lease)
    sync
    (cd "$root" && TMPDIR=$1 cargo bench -p mvcc -p lease) | tee "$work/state.ours"
    echo
    bench_pairs "$work/state.theirs" "$work/state.ours"
}

# Lines that differ in nothing but numbers are the same figure, the second of them the second. Those that begin with a
# number are headings.
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
