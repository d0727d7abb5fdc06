//! The JSON of peer requests and responses, as Go's encoder writes it.
//!
//! ```text
//!   /raft/probing     {"OK":true,"Now":"2026-11-16T04:44:39Z"}
//!   /members          [{"id":…,"peerURLs":["http://10.0.0.1:2380"]}]
//!   /members/hashkv   {"revision":7}   {"header":{"revision":7},"hash":…}
//! ```

use jiff::Timestamp;
use membership::Member;
use serde::Deserialize;
use server::PeerHash;

/// Encodes the answer to a probe.
pub(super) fn health(now: Timestamp) -> String {
    format!("{{\"OK\":true,\"Now\":\"{now}\"}}\n")
}

/// Encodes a list of members.
pub(super) fn members(members: &[Member]) -> String {
    let members: Vec<String> = members.iter().map(Member::to_json).collect();
    format!("[{}]\n", members.join(","))
}

#[derive(Deserialize)]
struct HashRequest {
    #[serde(default)]
    revision: i64,
}

/// Decodes the revision up to which a peer requests the hash.
///
/// # Errors
/// The body is not such a request.
pub(super) fn hash_revision(body: &[u8]) -> Result<i64, serde_json::Error> {
    // JSON null is an empty request.
    let request: Option<HashRequest> = serde_json::from_slice(body)?;
    Ok(request.map_or(0, |request| request.revision))
}

/// Encodes a hash, omitting zeros.
pub(super) fn hash(answer: &PeerHash) -> String {
    let field = |name: &str, number: i64| match number {
        0 => None,
        number => Some(format!("\"{name}\":{number}")),
    };
    let header = field("revision", answer.revision).unwrap_or_default();
    let fields = [
        Some(format!("\"header\":{{{header}}}")),
        field("hash", answer.hash.hash.into()),
        field("compact_revision", answer.hash.compact_revision),
        field("hash_revision", answer.hash.revision),
    ];
    format!("{{{}}}", fields.into_iter().flatten().collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_request_means_the_newest_revision() {
        assert_eq!(hash_revision(br#"{"revision":7}"#).unwrap(), 7);
        assert_eq!(hash_revision(b"{}").unwrap(), 0);
        assert_eq!(hash_revision(b"null").unwrap(), 0);
        assert!(hash_revision(b"").is_err() && hash_revision(b"7").is_err());
    }
}
