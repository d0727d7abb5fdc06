# The parts of check_languages in ../run: client libraries. Sourced, not run.
#
# Libraries come from their public registries, at the versions pinned beside the programs. They are
# kept in bin/programs, and fetched again when a pin changes.

# Runs every program against both servers: plaintext, TLS, users, both, and JWT. LANGUAGES and MODES
# select some.
languages_programs() {
    bin/languages -ours "$(bowline)" -languages "${LANGUAGES:-}" -modes "${MODES:-}"
}

# The programs detect falsified responses.
languages_planted() {
    bin/languages -only-etcd -plant all -languages "${LANGUAGES:-}"
}

# ---- builds ----

languages_build() {
    languages_tools
    mkdir -p bin/programs
    local part pid parts=()
    for part in go python node java rust; do
        "languages_$part" &
        parts+=("$!")
    done
    for pid in "${parts[@]}"; do
        wait "$pid" || fail "setting up a language failed"
    done
}

# Installs missing system programs, by their Debian package.
languages_tools() {
    local tool missing=()
    declare -A packages=([curl]=curl [node]=nodejs [npm]=npm [java]=default-jdk-headless [javac]=default-jdk-headless [mvn]=maven)
    for tool in "${!packages[@]}"; do
        command -v "$tool" >/dev/null || missing+=("${packages[$tool]}")
    done
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    [[ ${#missing[@]} -gt 0 ]] || return 0
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || fail "missing packages: ${missing[*]}"
    fetching apt_install "${missing[@]}" || fail "apt-get cannot install ${missing[*]}"
}

apt_install() {
    apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# once NAME FILE... -- COMMAND...: runs a command unless it has run with the same file contents.
once() {
    local stamp=bin/programs/$1.stamp files=() now
    shift
    while [[ $1 != -- ]]; do
        files+=("$1")
        shift
    done
    now=$(cat "${files[@]}" | sha256sum)
    [[ -e $stamp && $(<"$stamp") == "$now" ]] && return
    "${@:2}" && echo "$now" >"$stamp"
}

languages_go() {
    fetching go build -o bin/programs/ ./languages/go ./languages/raw
}

languages_python() {
    local age
    for age in old new; do
        once "python-$age" "languages/python/requirements-$age.txt" -- \
            fetching python_packages "bin/programs/python-$age" "languages/python/requirements-$age.txt" || return
    done
}

# python_packages DIR REQUIREMENTS: a virtual environment with these packages.
python_packages() {
    rm -rf "$1"
    python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$2"
}

languages_node() {
    once node languages/node/package-lock.json -- fetching node_packages
}

node_packages() {
    mkdir -p bin/programs/node &&
        cp languages/node/{package.json,package-lock.json,.npmrc} bin/programs/node/ || return
    (cd bin/programs/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

languages_java() {
    once java languages/java/pom.xml -- fetching java_packages &&
        once java-classes languages/java/{pom.xml,*.java} -- \
            javac -nowarn -d bin/programs/java/classes -cp 'bin/programs/java/jars/*' languages/java/*.java
}

java_packages() {
    rm -rf bin/programs/java
    mvn --quiet --batch-mode --file languages/java/pom.xml -Dmaven.repo.local="$interop/bin/programs/m2" \
        dependency:copy-dependencies -DoutputDirectory="$interop/bin/programs/java/jars"
}

languages_rust() {
    once protoc languages/rust/protoc.txt -- fetching protoc_packages &&
        fetching cargo fetch --quiet --locked --manifest-path languages/rust/Cargo.toml &&
        PROTOC=$interop/bin/programs/protoc/protoc CARGO_TARGET_DIR=$interop/bin/programs/rust \
            cargo build --quiet --release --locked --manifest-path languages/rust/Cargo.toml
}

protoc_packages() {
    python_packages bin/programs/protoc languages/rust/protoc.txt || return
    # shellcheck disable=SC2016 # expanded by the generated script
    printf '%s\n' '#!/bin/sh' 'exec "$(dirname "$0")/bin/python" -m grpc_tools.protoc "$@"' >bin/programs/protoc/protoc
    chmod +x bin/programs/protoc/protoc
}
