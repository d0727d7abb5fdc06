# Our side: the programs that the checks in ../run start. Sourced, not run.
#
# They are those that `cargo test --workspace` makes, with its profile and its choice of features, so that nothing is built twice; and they keep their assertions.
# BOWLINE_PROFILE=release asks for other ones.
profile=${BOWLINE_PROFILE:-dev}

ours_build() {
    # Not with one command: examples may use what is made for tests, the server must not.
    (cd "$root" && cargo build --workspace --examples --profile "$profile" && cargo build --workspace --bins --profile "$profile")
}

# Our server with failpoints, as bin/bowline-failpoints.
ours_build_failing() {
    (cd "$root" && cargo build --workspace --bin bowline --features node/failpoints --profile "$profile")
    cp "$(bowline)" bin/bowline-failpoints
    ours_build
}

ours_target() {
    local folder=$profile
    [[ $profile != dev ]] || folder=debug
    echo "${CARGO_TARGET_DIR:-$root/target}/$folder"
}

# Our server.
bowline() {
    echo "$(ours_target)/bowline"
}

# A program that is an example of one of our crates.
example() {
    echo "$(ours_target)/examples/$1"
}

# Some of our tests, named as cargo names them; they are built already, as cargo test does.
ours_test() {
    (cd "$root" && cargo test --workspace "$@")
}
