#!/usr/bin/env bash
# curl, over the JSON gateway: every path, invalid requests, streams, tokens. Keys and values are in
# base64: r/a is ci9h and planted-true is cGxhbnRlZC10cnVl. ctl/gateway.txt compares the JSON byte
# by byte.
set -euo pipefail

common=(--silent --show-error --no-buffer --max-time 60 --noproxy '*')
scheme=http
if [[ $MODE == tls ]]; then
    scheme=https
    common+=(--cacert "$CACERT" --cert "$CERT" --key "$KEY")
fi
token=

step() {
    printf '%s: %s\n' "$1" "${2//$'\n'/\\n}"
}

# ask REQUEST: sends a request to cmd/languages; the response is in $answer.
ask() {
    echo "@$1"
    read -r answer
}

# to PATH [ARGUMENT...]: runs curl, with the token if one is set.
to() {
    local path=$1 with=()
    [[ -z $token ]] || with=(--header "Authorization: $token")
    curl "${common[@]}" "${with[@]}" "${@:2}" "$scheme://$ENDPOINT$path"
}

# normal replaces values that differ in every run: tokens, file hashes, remaining TTLs, raft's term
# and indexes. It removes spaces after commas, which Go's protobuf library inserts at random per
# build.
normal() {
    sed -E -e 's/, ("|\{)/,\1/g' -e 's/("token":")[^"]+/\1<token>/' -e 's/("hash":)[0-9]+\}/\1<hash>}/' \
        -e 's/("TTL":)"[0-9]+"(,"grantedTTL")/\1<left>\2/' \
        -e 's/("(raft_index|raftIndex|raftAppliedIndex|raft_term|dbSize|dbSizeInUse|dbSizeQuota)":)"?[0-9]+"?/\1<number>/g'
}

# call NAME PATH BODY [ARGUMENT...]: a POST; prints the response, or curl's exit code if it fails.
call() {
    local said code=0
    said=$(to "$2" --data "$3" --write-out '\n%{http_code} %{content_type}' "${@:4}" 2>/dev/null | normal) || code=$?
    if [[ $code != 0 ]]; then
        step "$1" "curl gave up with $code"
        return
    fi
    step "$1" "${said##*$'\n'} ${said%$'\n'*}"
}

# field NAME TEXT: the value of a JSON string field.
field() {
    sed -E -n "s/.*\"$1\":\"([^\"]*)\".*/\1/p" <<<"$2" | head -n 1
}

# ---- steps ----

keys() {
    call put /v3/kv/put '{"key":"ci9h","value":"cGxhbnRlZC10cnVl"}'
    call 'put again' /v3/kv/put '{"key":"ci9h","value":"Yg==","prev_kv":true}'
    call range /v3/kv/range '{"key":"ci9h"}'
    call 'in the past' /v3/kv/range '{"key":"ci9h","revision":"2"}'
    call 'put, as json' /v3/kv/put '{"key":"ci9i","value":"Yg=="}' --header 'Content-Type: application/json'
    call 'put, as text' /v3/kv/put '{"key":"ci9j","value":"Yw=="}' --header 'Content-Type: text/plain'
    call 'last first, two' /v3/kv/range '{"key":"ci8=","range_end":"cjA=","limit":2,"sort_order":"DESCEND"}'
    call 'older prefix' /v3beta/kv/range '{"key":"ci9i"}'
    call 'no such prefix' /v3alpha/kv/range '{"key":"ci9i"}'
    call delete /v3/kv/deleterange '{"key":"ci9i","prev_kv":true}'
    call 'txn then' /v3/kv/txn "$(txn Yg==)"
    call 'txn else' /v3/kv/txn "$(txn YQ==)"
    call compact /v3/kv/compaction '{"revision":"3"}'
    call compacted /v3/kv/range '{"key":"ci9h","revision":"2"}'
}

txn() {
    echo '{"compare":[{"target":"VALUE","key":"ci9h","value":"'"$1"'"}],
        "success":[{"request_put":{"key":"ci90","value":"dGhlbg=="}}],
        "failure":[{"request_range":{"key":"ci9h"}},{"request_delete_range":{"key":"ci90"}}]}'
}

mistakes() {
    call 'not json' /v3/kv/put '{'
    call 'not base64' /v3/kv/put '{"key":"?"}'
    call 'no key' /v3/kv/put '{}'
    call 'unknown field' /v3/kv/range '{"key":"ci9h","more":[1]}'
    call 'no such path' /v3/kv/none '{}'
    call future /v3/kv/range '{"key":"ci9h","revision":1000}'
    call 'no lease' /v3/kv/put '{"key":"ci9h","lease":"1234"}'
    head -c $((1600 << 10)) /dev/zero | base64 --wrap=0 | sed 's/.*/{"key":"ci94","value":"&"}/' >"$WORKDIR/large"
    call 'too large' /v3/kv/put "@$WORKDIR/large"
    local method
    for method in GET PUT DELETE PATCH; do
        call "$method" /v3/kv/range '{"key":"ci9h"}' --request "$method"
    done
    step preflight "$(to /v3/kv/range --request OPTIONS --dump-header - --header 'Origin: http://elsewhere' \
        --header 'Access-Control-Request-Method: POST' | tr -d '\r' | grep -i -E '^(http|access)' | sort)"
    call 'from elsewhere' /v3/kv/range '{"key":"ci9h"}' --header 'Origin: http://elsewhere'
    # Over TLS a version is agreed upon first, and this is none that a server offers.
    call 'HTTP/1.0' /v3/kv/range '{"key":"ci9h"}' --http1.0
    call 'HTTP/1.1' /v3/kv/range '{"key":"ci9h"}' --http1.1
}

# ---- streams: a curl in the background, whose output is inspected ----

# follow NAME PATH BODY [ARGUMENT...]: starts a stream.
follow() {
    : >"$WORKDIR/$1"
    to "$2" --data "$3" "${@:4}" >"$WORKDIR/$1" 2>/dev/null &
    followed=$!
}

# arrived NAME COUNT: waits for this many messages.
arrived() {
    local begun=$SECONDS
    while [[ $(grep -c . "$WORKDIR/$1") -lt $2 ]]; do
        ((SECONDS - begun < 60)) || { echo "$1: nothing came" >&2; exit 1; }
        sleep 0.02
    done
}

# over: ends the stream, if it is still open.
over() {
    kill "$followed" 2>/dev/null || true
    wait "$followed" 2>/dev/null || true
}

messages() {
    step "$1" "$(normal <"$WORKDIR/$1")"
}

watches() {
    follow watch /v3/watch '{"create_request":{"key":"ci8=","range_end":"cjA=","start_revision":"4","prev_kv":true}}'
    arrived watch 2
    call 'put, watched' /v3/kv/put '{"key":"ci93","value":"Yg=="}'
    arrived watch 3
    ask restart
    wait "$followed" || true
    messages watch
    [[ $MODE != auth ]] || login 'forgotten token'
    call 'put, after a restart' /v3/kv/put '{"key":"ci93","value":"YQ=="}'
    follow resumed /v3/watch '{"create_request":{"key":"ci93","start_revision":"10"}}'
    arrived resumed 2
    over
    messages resumed
    follow compacted /v3/watch '{"create_request":{"key":"ci93","start_revision":"2"}}'
    arrived compacted 2
    over
    messages compacted
}

leases() {
    call grant /v3/lease/grant '{"ID":"76","TTL":"100"}'
    call 'grant twice' /v3/lease/grant '{"ID":"76","TTL":"100"}'
    call 'revoke the first' /v3/lease/revoke '{"ID":"76"}'
    # A curl takes its time to start, so this lease is longer than those of other programs.
    call 'grant another' /v3/lease/grant '{"ID":"77","TTL":"8"}'
    call 'put with a lease' /v3/kv/put '{"key":"ci9s","value":"bA==","lease":"77"}'
    local begun=$SECONDS
    while ((SECONDS - begun < 10)); do
        to /v3/lease/keepalive --data '{"ID":"77"}' | grep --quiet '"TTL":"8"'
        sleep 0.3
    done
    call 'kept alive' /v3/lease/keepalive '{"ID":"77"}'
    call 'its keys' /v3/lease/timetolive '{"ID":"77","keys":true}'
    follow expired /v3/watch '{"create_request":{"key":"ci9s","start_revision":"11","filters":["NOPUT"]}}'
    arrived expired 2
    over
    messages expired
    call 'not kept alive' /v3/lease/keepalive '{"ID":"77"}'
    call 'several kept alive' /v3/lease/keepalive '{"ID":"77"}{"ID":"78"}'
    call 'after that' /v3/lease/timetolive '{"ID":"77"}'
    call 'grant again' /v3/lease/grant '{"ID":"78","TTL":"100"}'
    call leases /v3/lease/leases '{}'
    call 'leases, older path' /v3/kv/lease/leases '{}'
    call 'keys, older path' /v3/kv/lease/timetolive '{"ID":"79"}'
    call revoke /v3/lease/revoke '{"ID":"78"}'
    call 'revoke, older path' /v3/kv/lease/revoke '{"ID":"78"}'
}

locks() {
    call 'a lease for locks' /v3/lease/grant '{"ID":"80","TTL":"100"}'
    call lock /v3/lock/lock '{"name":"bG9jaw==","lease":"80"}'
    call unlock /v3/lock/unlock '{"key":"bG9jay81MA=="}'
    call campaign /v3/election/campaign '{"name":"ZQ==","lease":"80","value":"bWU="}'
    call leader /v3/election/leader '{"name":"ZQ=="}'
    follow observe /v3/election/observe '{"name":"ZQ=="}'
    arrived observe 1
    local revision
    revision=$(field create_revision "$(to /v3/election/leader --data '{"name":"ZQ=="}')")
    local leader='{"name":"ZQ==","key":"ZS81MA==","rev":"'$revision'","lease":"80"}'
    call proclaim /v3/election/proclaim '{"leader":'"$leader"',"value":"bWUgdG9v"}'
    arrived observe 2
    over
    messages observe
    call resign /v3/election/resign '{"leader":'"$leader"'}'
    call 'no leader' /v3/election/leader '{"name":"ZQ=="}'
    call 'proclaim without a leader' /v3/election/proclaim '{"value":"bWU="}'
}

administration() {
    call members /v3/cluster/member/list '{}'
    call 'add a member' /v3/cluster/member/add '{"peerURLs":["no url"]}'
    call 'remove a member' /v3/cluster/member/remove '{"ID":"5"}'
    call 'update a member' /v3/cluster/member/update '{"ID":"5","peerURLs":["http://127.0.0.1:1"]}'
    call 'promote a member' /v3/cluster/member/promote '{"ID":"5"}'
    call status /v3/maintenance/status '{}'
    call alarms /v3/maintenance/alarm '{}'
    call defragment /v3/maintenance/defragment '{}'
    call hash /v3/maintenance/hash '{}'
    call 'hash of keys' /v3/maintenance/hashkv '{"revision":"0"}'
    call 'move the leader' /v3/maintenance/transfer-leadership '{"targetID":"5"}'
    call downgrade /v3/maintenance/downgrade '{"action":"VALIDATE","version":"3.6"}'
    call 'is auth on' /v3/auth/status '{}'
}

# Each chunk of a snapshot is base64 in an object of its own.
snapshot() {
    to /v3/maintenance/snapshot --data '{}' | sed -E -n 's/.*"blob":"([^"]*)".*/\1/p' |
        while read -r blob; do base64 --decode <<<"$blob"; done >"$WORKDIR/snapshot.db"
    ask "status $WORKDIR/snapshot.db"
    step snapshot "$answer"
}

users() {
    call 'role add' /v3/auth/role/add '{"name":"worker"}'
    call 'role grant' /v3/auth/role/grant '{"name":"worker","perm":{"permType":"READWRITE","key":"dy8=","range_end":"dzA="}}'
    call 'user add' /v3/auth/user/add '{"name":"ann","password":"first"}'
    call 'user add twice' /v3/auth/user/add '{"name":"ann","password":"first"}'
    call 'user grant' /v3/auth/user/grant '{"user":"ann","role":"worker"}'
    call 'user get' /v3/auth/user/get '{"name":"ann"}'
    call 'role get' /v3/auth/role/get '{"role":"worker"}'
    call users /v3/auth/user/list '{}'
    call roles /v3/auth/role/list '{}'
    call 'user change password' /v3/auth/user/changepw '{"name":"ann","password":"second"}'
    call 'user revoke' /v3/auth/user/revoke '{"user":"ann","role":"worker"}'
    call 'role revoke' /v3/auth/role/revoke '{"role":"worker","key":"dy8=","range_end":"dzA="}'
    call 'user delete' /v3/auth/user/delete '{"name":"ann"}'
    call 'role delete' /v3/auth/role/delete '{"role":"worker"}'
}

# login [NAME]: gets a new token; with a name, first tests the old one.
login() {
    [[ $# == 0 ]] || call "$1" /v3/kv/range '{"key":"ci9h"}'
    token=
    token=$(field token "$(to /v3/auth/authenticate --data "{\"name\":\"$USERNAME\",\"password\":\"$PASSWORD\"}")")
}

strangers() {
    local root=$token
    token=
    call nobody /v3/kv/range '{"key":"ci9h"}'
    call 'wrong password' /v3/auth/authenticate '{"name":"root","password":"wrong"}'
    call authenticate /v3/auth/authenticate "{\"name\":\"$READER\",\"password\":\"$READER_PASSWORD\"}"
    token=$(field token "$(to /v3/auth/authenticate --data "{\"name\":\"$READER\",\"password\":\"$READER_PASSWORD\"}")")
    call reader /v3/kv/range '{"key":"ci9h"}'
    call 'reader puts' /v3/kv/put '{"key":"ci9h"}'
    call 'reader lists users' /v3/auth/user/list '{}'
    call 'a bearer' /v3/kv/range '{"key":"ci9h"}' --header "Authorization: Bearer $token"
    token=nonsense
    call 'a token of nobody' /v3/kv/range '{"key":"ci9h"}'
    token=$root
    ask expire
    login 'token run out'
    call 'a new one' /v3/kv/range '{"key":"ci9h"}'
    call 'auth off' /v3/auth/disable '{}'
    token=
    call 'without a token' /v3/kv/range '{"key":"ci9h"}'
    call 'auth on' /v3/auth/enable '{}'
    login
}

# A client without a certificate is refused.
certificates() {
    local refused=0
    curl --silent --max-time 10 --noproxy '*' --cacert "$CACERT" --output /dev/null "https://$ENDPOINT/version" || refused=$?
    step 'without a certificate' "$([[ $refused != 0 ]] && echo refused)"
}

if [[ $MODE == auth ]]; then
    login
fi
keys
mistakes
watches
leases
locks
administration
if [[ $MODE == auth ]]; then
    users
    strangers
elif [[ $MODE == tls ]]; then
    certificates
fi
snapshot
