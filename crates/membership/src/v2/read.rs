//! Reading the tree out of a snapshot, as far as it is about members.
//!
//! What is kept is never more than was in the text, and how deep it is nested is bounded by `serde_json` (128 levels): an image
//! that nobody should have written costs no more than one of its length.

use std::collections::{BTreeMap, BTreeSet};

use backend::schema::version::Version;
use serde::Deserialize;
use types::MemberId;

use super::{ATTRIBUTES, MEMBERS, RAFT_ATTRIBUTES, REMOVED_MEMBERS, VERSION};
use crate::json;
use crate::member::Member;
use crate::membership::Membership;

/// Why the data of a snapshot does not tell who the members are.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It is no JSON, or none of a v2 store.
    #[error("v2 store: {0}")]
    Json(#[from] serde_json::Error),
    /// A file or directory whose name is no id.
    #[error("v2 store: {0:?} is not a member's id")]
    NotAnId(String),
    /// A file that a member does not have.
    #[error("v2 store: member {id}: unknown key {key:?}")]
    UnknownKey {
        /// The member.
        id: MemberId,
        /// The file.
        key: String,
    },
    /// The file that every member has is missing.
    #[error("v2 store: member {0}: raftAttributes key doesn't exist")]
    NoRaftAttributes(MemberId),
    /// A file that does not say what it should.
    #[error("v2 store: member {id}: unmarshal {key}: {source}")]
    Attributes {
        /// The member.
        id: MemberId,
        /// The file.
        key: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The version is none.
    #[error("v2 store: {0:?} is not a version")]
    NotAVersion(String),
}

/// The members in the data of a raft snapshot. It does not know of downgrades.
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

/// What is left out is skipped without being kept: above all what users stored, which may be large.
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

    /// The data of a snapshot that a version of etcd wrote.
    pub(in crate::v2) fn captured(version: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/testdata/captured");
        let text = fs::read_to_string(folder.join(version).join("raftpb.Snapshot.hex")).unwrap();
        let hex = text.lines().find_map(|line| line.strip_prefix("raftpb.Snapshot ")).unwrap();
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        Snapshot::decode(&bytes[..]).unwrap().data().to_vec()
    }

    #[test]
    fn every_version_of_etcd_is_understood() {
        for (version, expected) in
            [("3.4.23", "3.4.0"), ("3.5.1", "3.5.0"), ("3.6.14", "3.6.0"), ("3.7.1", "3.7.0")]
        {
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
    fn what_is_no_member_is_refused() {
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
    fn a_store_without_members_has_none() {
        let user = br#"{"Root":{"Children":{"1":{"Children":{"k":{"Value":"v"}}}}}}"#;
        assert_eq!(decode(user).unwrap(), Membership::default());
        assert_eq!(decode(br#"{"Root":{"Children":null}}"#).unwrap(), Membership::default());
        assert!(decode(b"{}").is_err(), "but a store has a root");
    }
}
