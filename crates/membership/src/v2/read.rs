//! Decodes the members from the tree in a snapshot.
//!
//! Memory is bounded by the length of the text, and `serde_json` bounds the nesting to 128 levels,
//! so a malformed image costs no more than its length.

use std::collections::{BTreeMap, BTreeSet};

use backend::schema::version::Version;
use serde::Deserialize;
use types::MemberId;

use super::{ATTRIBUTES, MEMBERS, RAFT_ATTRIBUTES, REMOVED_MEMBERS, VERSION};
use crate::json;
use crate::member::Member;
use crate::membership::Membership;

/// The reason why the data of a snapshot cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The data is not the JSON of a v2 store.
    #[error("v2 store: {0}")]
    Json(#[from] serde_json::Error),
    /// The name of a file or directory is not an id.
    #[error("v2 store: {0:?} is not a member's id")]
    NotAnId(String),
    /// A member has an unknown file.
    #[error("v2 store: member {id}: unknown key {key:?}")]
    UnknownKey {
        /// The id of the member.
        id: MemberId,
        /// The name of the file.
        key: String,
    },
    /// A member lacks the file `raftAttributes`.
    #[error("v2 store: member {0}: raftAttributes key doesn't exist")]
    NoRaftAttributes(MemberId),
    /// A file of a member cannot be parsed.
    #[error("v2 store: member {id}: unmarshal {key}: {source}")]
    Attributes {
        /// The id of the member.
        id: MemberId,
        /// The name of the file.
        key: &'static str,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// The version cannot be parsed.
    #[error("v2 store: {0:?} is not a version")]
    NotAVersion(String),
}

/// Decodes the membership from the data of a raft snapshot, which has no downgrade.
pub fn decode(image: &[u8]) -> Result<Membership, ImageError> {
    let image: Image = serde_json::from_slice(image)?;
    let Some(mut files) = image.root.children.membership.map(|node| node.children) else {
        return Ok(Membership::default());
    };
    let mut below = |name: &str| files.remove(name).map(|node| node.children).unwrap_or_default();
    let members = decode_members(below(MEMBERS))?;
    let removed = decode_removed(&below(REMOVED_MEMBERS))?;
    let version = files.get(VERSION).map(|node| decode_version(&node.value)).transpose()?;
    Ok(Membership { members, removed, version, ..Membership::default() })
}

/// Other fields are skipped without being stored, above all the keys of users, which may be large.
#[derive(Deserialize)]
struct Image {
    #[serde(rename = "Root")]
    root: Root,
}

#[derive(Deserialize)]
struct Root {
    #[serde(rename = "Children", default, deserialize_with = "json::or_default")]
    children: Namespaces,
}

#[derive(Default, Deserialize)]
struct Namespaces {
    #[serde(rename = "0")]
    membership: Option<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "Value", default, deserialize_with = "json::or_default")]
    value: String,
    #[serde(rename = "Children", default, deserialize_with = "json::or_default")]
    children: BTreeMap<String, Node>,
}

fn decode_members(nodes: BTreeMap<String, Node>) -> Result<BTreeMap<MemberId, Member>, ImageError> {
    let mut members = BTreeMap::new();
    for (name, node) in nodes {
        let id = decode_id(&name)?;
        members.insert(id, decode_member(id, &node.children)?);
    }
    Ok(members)
}

fn decode_member(id: MemberId, files: &BTreeMap<String, Node>) -> Result<Member, ImageError> {
    if let Some(key) = files.keys().find(|key| *key != RAFT_ATTRIBUTES && *key != ATTRIBUTES) {
        return Err(ImageError::UnknownKey { id, key: key.clone() });
    }
    let unreadable = |key| move |source| ImageError::Attributes { id, key, source };
    let raft = files.get(RAFT_ATTRIBUTES).ok_or(ImageError::NoRaftAttributes(id))?;
    let raft = serde_json::from_str(&raft.value).map_err(unreadable(RAFT_ATTRIBUTES))?;
    let attributes = match files.get(ATTRIBUTES) {
        Some(file) => serde_json::from_str(&file.value).map_err(unreadable(ATTRIBUTES))?,
        None => Default::default(),
    };
    Ok(Member { id, raft, attributes })
}

fn decode_removed(nodes: &BTreeMap<String, Node>) -> Result<BTreeSet<MemberId>, ImageError> {
    nodes.keys().map(|name| decode_id(name)).collect()
}

fn decode_version(text: &str) -> Result<Version, ImageError> {
    Version::parse(text.as_bytes()).ok_or_else(|| ImageError::NotAVersion(text.to_owned()))
}

fn decode_id(name: &str) -> Result<MemberId, ImageError> {
    backend::schema::keys::decode_member(name.as_bytes())
        .ok_or_else(|| ImageError::NotAnId(name.to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::Path;

    use prost::Message as _;
    use proto::raftpb::Snapshot;

    use super::*;

    /// Returns the data of a snapshot written by a release of etcd.
    pub(in crate::v2) fn captured(version: &str) -> Vec<u8> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/testdata/captured");
        let text = fs::read_to_string(dir.join(version).join("raftpb.Snapshot.hex")).unwrap();
        let hex = text.lines().find_map(|line| line.strip_prefix("raftpb.Snapshot ")).unwrap();
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        Snapshot::decode(&bytes[..]).unwrap().data().to_vec()
    }

    #[test]
    fn snapshots_of_all_releases_decode() {
        for (version, expected) in [
            ("3.4.23", "3.4.0"),
            ("3.5.35", "3.5.0"),
            ("3.6.16", "3.6.0"),
            (types::ETCD_VERSION, "3.7.0"),
        ] {
            let membership = decode(&captured(version)).unwrap();
            assert_eq!(membership.members().count(), 3, "{version}");
            assert!(membership.members().all(|member| member.is_started() && member.is_voter()));
            assert_eq!(membership.removed().count(), 1, "{version}");
            assert_eq!(membership.version().unwrap().to_string(), expected);
        }
    }

    fn with_members(members: &str) -> Result<Membership, ImageError> {
        let node = r#""Path":"","Value":"""#;
        let members = format!(r#"{{{node},"Children":{{{members}}}}}"#);
        let zero = format!(r#"{{{node},"Children":{{"members":{members}}}}}"#);
        decode(format!(r#"{{"Root":{{"Children":{{"0":{zero}}}}}}}"#).as_bytes())
    }

    #[test]
    fn malformed_members_are_refused() {
        let refused = |members| with_members(members).unwrap_err().to_string();
        assert_eq!(refused(r#""x":{}"#), "v2 store: \"x\" is not a member's id");
        assert_eq!(
            refused(r#""a":{"Children":{}}"#),
            "v2 store: member a: raftAttributes key doesn't exist"
        );
        assert_eq!(
            refused(r#""a":{"Children":{"new":{}}}"#),
            "v2 store: member a: unknown key \"new\""
        );
        let unreadable = refused(r#""a":{"Children":{"raftAttributes":{"Value":"x"}}}"#);
        assert!(unreadable.starts_with("v2 store: member a: unmarshal raftAttributes: "));
    }

    #[test]
    fn a_store_without_members_decodes_to_an_empty_membership() {
        let user = br#"{"Root":{"Children":{"1":{"Children":{"k":{"Value":"v"}}}}}}"#;
        assert_eq!(decode(user).unwrap(), Membership::default());
        assert_eq!(decode(br#"{"Root":{"Children":null}}"#).unwrap(), Membership::default());
        assert!(decode(b"{}").is_err(), "a store has a root");
    }
}
