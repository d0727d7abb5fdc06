//! The bucket `meta`: applied index and term, conf state, compaction.
//!
//! The storage version, also in this bucket, is in [`version`](super::version).

use bytes::Bytes;
use proto::raftpb::ConfState;
use serde_json::Value as Json;
use types::{Index, Revision, Term};

use crate::error::ReadError;
use crate::read::Read;
use crate::schema::revision::{self, RevisionKey};
use crate::schema::{Bucket, decode_u64};
use crate::tx::Tx;

/// Index of the last applied log entry.
pub const CONSISTENT_INDEX: &[u8] = b"consistent_index";
/// Term of the last applied log entry.
pub const TERM: &[u8] = b"term";
/// Voters and learners.
pub const CONF_STATE: &[u8] = b"confState";
/// Revision of the last scheduled compaction.
pub const SCHEDULED_COMPACT: &[u8] = b"scheduledCompactRev";
/// Revision of the last finished compaction.
pub const FINISHED_COMPACT: &[u8] = b"finishedCompactRev";
/// The storage version: see [`version`](super::version).
pub const STORAGE_VERSION: &[u8] = b"storageVersion";

/// Maximum size of the JSON that is parsed: some thousands of members.
const JSON_BYTES_MAX: usize = 1 << 20;

/// Returns index and term of the last applied entry; zeros if there is none. A file of 3.4 has no
/// term.
pub fn applied(from: &impl Read) -> Result<(Index, Term), ReadError> {
    let Some(index) = number(from, CONSISTENT_INDEX)? else {
        return Ok((Index::ZERO, Term::ZERO));
    };
    Ok((Index(index), Term(number(from, TERM)?.unwrap_or(0))))
}

/// Sets the applied index. Compat: as in etcd, 0 is not written and means none.
pub(crate) fn set_applied_index(tx: &mut Tx<'_>, index: Index) {
    set_number(tx, CONSISTENT_INDEX, index.0);
}

/// Sets the applied term. Compat: as in etcd, 0 is not written and means unknown.
pub(crate) fn set_applied_term(tx: &mut Tx<'_>, term: Term) {
    set_number(tx, TERM, term.0);
}

fn set_number(tx: &mut Tx<'_>, key: &'static [u8], number: u64) {
    let value = (number > 0).then(|| Bytes::copy_from_slice(&number.to_be_bytes()));
    tx.set_uncounted(Bucket::Meta, key, value);
}

/// Revision of the last scheduled compaction, if any.
pub fn scheduled_compaction(from: &impl Read) -> Result<Option<i64>, ReadError> {
    compaction(from, SCHEDULED_COMPACT)
}

/// Revision of the last finished compaction, if any.
pub fn finished_compaction(from: &impl Read) -> Result<Option<i64>, ReadError> {
    compaction(from, FINISHED_COMPACT)
}

/// Sets the revision of the scheduled compaction.
pub fn set_scheduled_compaction(tx: &mut Tx<'_>, main: i64) {
    tx.set(Bucket::Meta, SCHEDULED_COMPACT, main_revision(main));
}

/// Sets the revision of the finished compaction.
pub fn set_finished_compaction(tx: &mut Tx<'_>, main: i64) {
    tx.set(Bucket::Meta, FINISHED_COMPACT, main_revision(main));
}

/// Returns the saved conf state, if any.
pub fn conf_state(from: &impl Read) -> Result<Option<ConfState>, ReadError> {
    match from.get(Bucket::Meta, CONF_STATE)? {
        None => Ok(None),
        Some(text) => decode_conf_state(&text).map(Some).ok_or_else(|| {
            ReadError::malformed(Bucket::Meta, CONF_STATE, "invalid JSON of a conf state")
        }),
    }
}

/// Saves the conf state.
pub fn set_conf_state(tx: &mut Tx<'_>, conf: &ConfState) {
    tx.set(Bucket::Meta, CONF_STATE, Bytes::from(encode_conf_state(conf)));
}

fn number(from: &impl Read, key: &'static [u8]) -> Result<Option<u64>, ReadError> {
    match from.get(Bucket::Meta, key)? {
        None => Ok(None),
        Some(value) => decode_u64(&value)
            .map(Some)
            .ok_or_else(|| ReadError::malformed(Bucket::Meta, key, "not 8 bytes long")),
    }
}

fn compaction(from: &impl Read, key: &'static [u8]) -> Result<Option<i64>, ReadError> {
    match from.get(Bucket::Meta, key)? {
        None => Ok(None),
        Some(value) => RevisionKey::decode(&value)
            .map(|decoded| Some(decoded.revision.main))
            .map_err(|error| ReadError::malformed(Bucket::Meta, key, error.to_string())),
    }
}

fn main_revision(main: i64) -> Bytes {
    Bytes::copy_from_slice(&revision::encode(Revision::new(main, 0)))
}

/// Encodes the message as Go's JSON encoder does: fields in order, omitting empty and unset ones.
fn encode_conf_state(conf: &ConfState) -> String {
    let lists = [
        ("voters", &conf.voters),
        ("learners", &conf.learners),
        ("voters_outgoing", &conf.voters_outgoing),
        ("learners_next", &conf.learners_next),
    ];
    let mut fields: Vec<String> = lists
        .into_iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(name, ids)| format!("\"{name}\":{}", Json::from(ids.as_slice())))
        .collect();
    fields.extend(conf.auto_leave.map(|leave| format!("\"auto_leave\":{leave}")));
    format!("{{{}}}", fields.join(","))
}

/// Decodes the message as Go's JSON decoder does: lists may be missing or null, unknown fields are
/// skipped.
fn decode_conf_state(text: &[u8]) -> Option<ConfState> {
    if text.len() > JSON_BYTES_MAX {
        return None;
    }
    let json: Json = serde_json::from_slice(text).ok()?;
    let fields = json.as_object()?;
    let ids = |name: &str| match fields.get(name) {
        None | Some(Json::Null) => Some(Vec::new()),
        Some(list) => list.as_array()?.iter().map(Json::as_u64).collect(),
    };
    let auto_leave = match fields.get("auto_leave") {
        None | Some(Json::Null) => None,
        Some(leave) => Some(leave.as_bool()?),
    };
    Some(ConfState {
        voters: ids("voters")?,
        learners: ids("learners")?,
        voters_outgoing: ids("voters_outgoing")?,
        learners_next: ids("learners_next")?,
        auto_leave,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conf_state_is_encoded_as_in_go() {
        let mut conf = ConfState { auto_leave: Some(false), ..ConfState::default() };
        assert_eq!(encode_conf_state(&conf), r#"{"auto_leave":false}"#);
        conf.voters = vec![10_276_657_743_932_975_437, 2];
        conf.learners_next = vec![3];
        let text = r#"{"voters":[10276657743932975437,2],"learners_next":[3],"auto_leave":false}"#;
        assert_eq!(encode_conf_state(&conf), text);
        assert_eq!(decode_conf_state(text.as_bytes()), Some(conf));
        assert_eq!(encode_conf_state(&ConfState::default()), "{}");
    }

    #[test]
    fn an_invalid_conf_state_is_refused() {
        for text in ["", "[]", r#"{"voters":7}"#, r#"{"voters":[-1]}"#, r#"{"auto_leave":1}"#] {
            assert_eq!(decode_conf_state(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decode_conf_state(br#"{"voters":null,"new":1}"#), Some(ConfState::default()));
    }
}
