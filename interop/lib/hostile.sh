# Clients that mean ill: what check_hostile in ../run is made of. Sourced, not run.

# A little of every attack: those who behave see no error, and memory and descriptors stay within bounds and come back.
hostile_brief() {
    bin/hostile -check -bowline "$(bowline)"
}

# The check notices what it ought to notice: nobody keeps what is received without taking memory for it.
hostile_planted() {
    if bin/hostile -check -bowline "$(bowline)" -only slow-messages -share 0.01 >"$work/planted" 2>&1; then
        fail "memory is not looked at"
    fi
    grep -q "memory grew" "$work/planted" || fail "$(cat "$work/planted")"
}
