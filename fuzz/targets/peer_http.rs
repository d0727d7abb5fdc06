//! Reads arbitrary bytes as HTTP requests and answers of a peer. The first byte selects the
//! decoder:
//!
//! ```text
//!   0   the lines of request headers: sender, cluster, version and URLs
//!   1   bodies of requests: the revision of a hash, leases, the id of a promotion
//!   2   answers: members, hashes, leases, versions
//!   3   the answer to a probe
//! ```
//!
//! Invariants: no panic. A decoded value is encoded and decoded to an equal one, in the form that
//! this member sends. Headers are accepted exactly if a second implementation of the rules accepts
//! them, and those of a member of the cluster always are. The URLs of a sender are bounded. An
//! answer with an error status is never taken for a result.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/peer/src/rpc/decode.rs"]
mod decode;
#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/peer/src/headers.rs"]
mod headers;
#[path = "../../crates/peer/src/peers/health.rs"]
mod health;
#[path = "../../crates/peer/src/handler/json.rs"]
mod json;
#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/peer/src/peers/url_picker.rs"]
mod url_picker;

/// The part of the crate that `decode` uses.
mod client {
    pub(crate) struct PeerReply {
        pub(crate) status: http::StatusCode,
        pub(crate) headers: http::HeaderMap,
        pub(crate) body: bytes::Bytes,
    }

    impl PeerReply {
        pub(crate) fn text(&self) -> String {
            String::from_utf8_lossy(&self.body).into_owned()
        }
    }
}

use std::fmt::Debug;

use bytes::Bytes;
use client::PeerReply;
use headers::{CLUSTER_ID, Identity, Incompatible, MIN_CLUSTER_VERSION, PEER_URLS};
use headers::{RAFT_TO, Release, SERVER_FROM, SERVER_VERSION_NAME};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use libfuzzer_sys::fuzz_target;
use membership::{ClusterId, Member};
use prost::Message;
use proto::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use proto::leasepb::{LeaseInternalRequest, LeaseInternalResponse};
use server::SERVER_VERSION;
use types::MemberId;
use url_picker::{PeerUrl, URLS_MAX, urls};

const LOCAL: MemberId = MemberId(0x8e9e_05c5_2164_694d);
const CLUSTER: ClusterId = ClusterId(0xcdf8_1819_4e3a_8c32);
/// The statuses of answers, selected by the input.
const STATUSES: [StatusCode; 6] = [
    StatusCode::OK,
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::PRECONDITION_FAILED,
    StatusCode::INTERNAL_SERVER_ERROR,
];

/// The fields of `peer::rpc::RemoteCluster`, which the included `decode` module builds.
#[derive(Debug, PartialEq, Eq)]
struct RemoteCluster {
    id: ClusterId,
    members: Vec<Member>,
}

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, lines)) => check_headers(lines),
        Some((1, body)) => check_requests(body),
        Some((2, [status, answer @ ..])) => check_answers(*status, answer),
        Some((3, answer)) => check_probe(answer),
        _ => {}
    }
});

fn check_headers(lines: &[u8]) {
    let headers = parse_lines(lines);
    assert_eq!(headers::check(&headers, LOCAL, CLUSTER), expected(&headers), "{headers:?}");
    for name in [SERVER_FROM, RAFT_TO, CLUSTER_ID] {
        if let Some(id) = headers::member(&headers, &name) {
            assert_eq!(headers::id(&id.to_string()).map(MemberId), Some(id));
        }
    }
    for name in [SERVER_VERSION_NAME, MIN_CLUSTER_VERSION] {
        if let Some(release) = headers::release(&headers, &name) {
            assert_eq!(Release::parse(&release.to_string()), Some(release));
            let _ = release.has_streams();
        }
    }
    let named = headers::text(&headers, &PEER_URLS).unwrap_or_default();
    let named: Vec<String> = named.split(',').map(ToOwned::to_owned).collect();
    check_urls(&named);
    let from = headers::member(&headers, &SERVER_FROM).unwrap_or(MemberId(1));
    let own = Identity::new(from, CLUSTER, &named).headers();
    assert_eq!(headers::check(&own, LOCAL, CLUSTER), Ok(()));
    assert_eq!(headers::member(&own, &SERVER_FROM), Some(from));
}

fn check_urls(named: &[String]) {
    let urls = urls(named);
    assert!(urls.len() <= URLS_MAX && urls.is_sorted_by_key(PeerUrl::text));
    for url in urls {
        assert_eq!(PeerUrl::parse(url.text()), Ok(url));
    }
}

fn parse_lines(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii_start();
        let (name, value) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// The rules for senders, once more: a release from 3.0 on that supports ours, of this cluster.
fn expected(headers: &HeaderMap) -> Result<(), Incompatible> {
    let text = |name: HeaderName| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.filter(|value| !value.is_empty())
    };
    let release = |name| numbers(text(name).unwrap_or("2.0.0"));
    let local = numbers(SERVER_VERSION).expect("a version");
    match (release(SERVER_VERSION_NAME), release(MIN_CLUSTER_VERSION)) {
        (Some(theirs), Some(least)) if theirs >= (3, 0) && least <= local => {}
        _ => return Err(Incompatible::Version),
    }
    match text(CLUSTER_ID) == Some(&format!("{:x}", CLUSTER.0)) {
        true => Ok(()),
        false => Err(Incompatible::ClusterId),
    }
}

/// Returns major and minor version of `3.7.0-rc.1`.
fn numbers(version: &str) -> Option<(u64, u64)> {
    let parts: Vec<&str> = version.split(['-', '+']).next()?.split('.').collect();
    let [major, minor, patch] = parts[..] else { return None };
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    number(patch)?;
    Some((number(major)?, number(minor)?))
}

fn check_requests(body: &[u8]) {
    if let Ok(revision) = json::hash_revision(body) {
        let request = format!(r#"{{"revision":{revision}}}"#);
        assert_eq!(json::hash_revision(request.as_bytes()).ok(), Some(revision));
    }
    check_message::<LeaseKeepAliveRequest>(body);
    check_message::<LeaseInternalRequest>(body);
    if let Ok(text) = std::str::from_utf8(body)
        && let Some(id) = headers::decimal_id(text)
    {
        assert_eq!(headers::decimal_id(&id.to_string()), Some(id));
        assert_eq!(text.trim_start_matches('0'), id.to_string().trim_start_matches('0'));
    }
}

fn check_message<M: Message + Default + PartialEq + Debug>(body: &[u8]) {
    if let Ok(message) = M::decode(body) {
        assert_eq!(M::decode(&message.encode_to_vec()[..]), Ok(message));
    }
}

/// The body of an answer, behind the id of its cluster.
fn check_answers(status: u8, input: &[u8]) {
    let status = STATUSES[usize::from(status) % STATUSES.len()];
    let line = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (id, body) = input.split_at(line);
    let mut headers = HeaderMap::new();
    headers.extend(HeaderValue::from_bytes(id).ok().map(|id| (CLUSTER_ID, id)));
    let body = Bytes::copy_from_slice(body.strip_prefix(b"\n").unwrap_or(body));
    let reply = PeerReply { status, headers, body };
    check_cluster(&reply);
    let encode = |members: &Vec<Member>| json::members(members).into();
    check_answer(&reply, decode::promoted, encode);
    check_answer(&reply, decode::hash, |hash| json::hash(hash).into());
    check_answer(&reply, decode::lease_response::<LeaseKeepAliveResponse>, encode_message);
    check_answer(&reply, decode::lease_response::<LeaseInternalResponse>, encode_message);
    let _ = decode::json::<decode::VersionsJson>(&reply);
}

fn encode_message(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// An answer with status 200 is decoded to a value that the local member would send so that its
/// peer decodes an equal one. Any other status is an error.
fn check_answer<T: Debug + PartialEq, E: Debug>(
    reply: &PeerReply,
    decode: impl Fn(&PeerReply) -> Result<T, E>,
    encode: impl Fn(&T) -> Bytes,
) {
    let Ok(value) = decode(reply) else { return };
    assert_eq!(reply.status, StatusCode::OK);
    let again = PeerReply { status: StatusCode::OK, headers: HeaderMap::new(), body: encode(&value) };
    assert_eq!(decode(&again).expect("just encoded"), value);
}

fn check_cluster(reply: &PeerReply) {
    let Ok(cluster) = decode::cluster(reply) else { return };
    let headers = HeaderMap::from_iter([(CLUSTER_ID, headers::value(&cluster.id))]);
    let body = json::members(&cluster.members).into();
    let again = PeerReply { status: StatusCode::OK, headers, body };
    assert_eq!(decode::cluster(&again).as_ref(), Ok(&cluster));
}

fn check_probe(answer: &[u8]) {
    if let Ok(now) = health::peer_time(answer) {
        let again = health::peer_time(json::health(now).as_bytes());
        assert_eq!(again.expect("just encoded"), now);
    }
}
