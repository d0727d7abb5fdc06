# The parts of check_hostile in ../run: attacks. Sourced, not run.

# Runs every attack briefly: well-behaved clients see no error, and memory and file descriptors stay
# within bounds and are returned.
hostile_brief() {
    bin/hostile -check -bowline "$(bowline)"
}

# The check detects growing memory: with a bound of almost nothing it must fail.
hostile_planted() {
    if bin/hostile -check -bowline "$(bowline)" -only slow-messages -share 0.01 >"$work/planted" 2>&1; then
        fail "the memory bound is not checked"
    fi
    grep -q "memory grew" "$work/planted" || fail "$(cat "$work/planted")"
}
