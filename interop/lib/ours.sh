# Our programs for the checks in ../run. Sourced, not run.
#
# They have the profile and features of `cargo test --workspace`, so that nothing is built twice and
# debug assertions are on. BOWLINE_PROFILE=release builds optimized ones.
profile=${BOWLINE_PROFILE:-dev}

ours_build() {
    # Two commands, since examples may enable test features that the server must not have.
    (cd "$root" && cargo build --workspace --examples --profile "$profile" && cargo build --workspace --bins --profile "$profile")
}

# Builds our server with failpoints as bin/bowline-failpoints.
ours_build_failing() {
    (cd "$root" && cargo build --workspace --bin bowline --features node/failpoints --profile "$profile")
    cp "$(bowline)" bin/bowline-failpoints
    ours_build
}

ours_target() {
    local dir=$profile
    [[ $profile != dev ]] || dir=debug
    echo "${CARGO_TARGET_DIR:-$root/target}/$dir"
}

# Path of our server.
bowline() {
    echo "$(ours_target)/bowline"
}

# Path of an example of one of our crates.
example() {
    echo "$(ours_target)/examples/$1"
}

# Runs some of our tests, which are already built. Cargo succeeds if a filter matches no test, so
# that a renamed one would not be run, unnoticed.
ours_test() {
    local output=$work/ours_test.$BASHPID
    (cd "$root" && cargo test --workspace "$@") | tee "$output" || return 1
    grep -q '^running [1-9]' "$output" && ! grep -q '^running 0 tests' "$output" || {
        echo "no test matches: $*" >&2
        return 1
    }
}
