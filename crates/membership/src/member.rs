//! A member, and its JSON.
//!
//! ```text
//!   {"id":14231632423127433332,                          decimal
//!    "peerURLs":["http://10.0.0.4:2380"],                raft attributes, set by conf changes;
//!    "isLearner":true,                                     null if empty, left out if false
//!    "name":"m4",                                        attributes, published by the member;
//!    "clientURLs":["http://10.0.0.4:2379"]}                left out if empty
//! ```
//!
//! This JSON is the value in the bucket `members`, the context of a conf change, and the format
//! between members over HTTP. The [v2 image](crate::v2) stores the two halves separately.

use proto::etcdserverpb;
use serde::{Deserialize, Serialize};
use types::MemberId;

use crate::id::member_id;
use crate::json;

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The id of the member.
    #[serde(with = "decimal", default)]
    pub id: MemberId,
    /// The attributes that conf changes set.
    #[serde(flatten)]
    pub raft: RaftAttributes,
    /// The attributes that the member publishes.
    #[serde(flatten)]
    pub attributes: Attributes,
}

/// The attributes of a member that conf changes set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftAttributes {
    /// The URLs for other members.
    #[serde(
        rename = "peerURLs",
        default,
        serialize_with = "json::null_if_empty",
        deserialize_with = "json::or_default"
    )]
    pub peer_urls: Vec<String>,
    /// Whether the member has no vote.
    #[serde(
        rename = "isLearner",
        default,
        skip_serializing_if = "json::is_false",
        deserialize_with = "json::or_default"
    )]
    pub is_learner: bool,
}

/// The attributes that a member publishes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The name. Empty until an added member has started for the first time.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "json::or_default"
    )]
    pub name: String,
    /// The URLs for clients.
    #[serde(
        rename = "clientURLs",
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::or_default"
    )]
    pub client_urls: Vec<String>,
}

impl Member {
    /// Creates an initial member of a new cluster.
    #[must_use]
    pub fn at_bootstrap(name: &str, peer_urls: Vec<String>, token: &str) -> Member {
        let id = member_id(&peer_urls, token, None);
        let attributes = Attributes { name: name.to_owned(), ..Attributes::default() };
        Member { id, raft: RaftAttributes { peer_urls, is_learner: false }, attributes }
    }

    /// Creates a member to add to a running cluster. It gets its name when it starts.
    #[must_use]
    pub fn to_add(peer_urls: Vec<String>, is_learner: bool, unix_seconds: i64) -> Member {
        let id = member_id(&peer_urls, "", Some(unix_seconds));
        let raft = RaftAttributes { peer_urls, is_learner };
        Member { id, raft, attributes: Attributes::default() }
    }

    /// Returns whether the member is a voter.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        !self.raft.is_learner
    }

    /// Returns whether the member has ever started, that is, published its name.
    #[must_use]
    pub fn is_started(&self) -> bool {
        !self.attributes.name.is_empty()
    }

    /// Encodes the member as etcd does.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::encode(self)
    }

    /// Decodes a member as etcd does: missing and null fields are empty, unknown fields are
    /// skipped.
    pub fn from_json(text: &[u8]) -> Result<Member, serde_json::Error> {
        serde_json::from_slice(text)
    }
}

impl From<Member> for etcdserverpb::Member {
    fn from(member: Member) -> etcdserverpb::Member {
        etcdserverpb::Member {
            id: member.id.0,
            name: member.attributes.name,
            peer_urls: member.raft.peer_urls,
            client_urls: member.attributes.client_urls,
            is_learner: member.raft.is_learner,
        }
    }
}

/// Encodes an id as a number instead of hexadecimal text.
mod decimal {
    use serde::{Deserializer, Serializer};
    use types::MemberId;

    use crate::json;

    pub(super) fn serialize<S: Serializer>(id: &MemberId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(id.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MemberId, D::Error> {
        json::or_default(from).map(MemberId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_member() -> Member {
        Member {
            id: MemberId(14_231_632_423_127_433_332),
            raft: RaftAttributes {
                peer_urls: vec!["http://10.0.0.4:2380".to_owned()],
                is_learner: true,
            },
            attributes: Attributes {
                name: "m4".to_owned(),
                client_urls: vec!["http://10.0.0.4:2379".to_owned()],
            },
        }
    }

    #[test]
    fn json_is_as_documented() {
        let text = r#"{"id":14231632423127433332,"peerURLs":["http://10.0.0.4:2380"],"isLearner":true,"name":"m4","clientURLs":["http://10.0.0.4:2379"]}"#;
        assert_eq!(full_member().to_json(), text);
        assert_eq!(Member::from_json(text.as_bytes()).unwrap(), full_member());
    }

    #[test]
    fn empty_fields_are_left_out_except_peer_urls() {
        let member = Member { id: MemberId(7), ..Member::default() };
        assert_eq!(member.to_json(), r#"{"id":7,"peerURLs":null}"#);
        assert_eq!(Member::from_json(br#"{"id":7,"peerURLs":null}"#).unwrap(), member);
    }

    #[test]
    fn decoding_is_as_lenient_as_in_go() {
        let text = br#" {"peerURLs":[],"name":null,"new":[{}],"clientURLs":null,"isLearner":null,"id":7} "#;
        let member = Member { id: MemberId(7), ..Member::default() };
        assert_eq!(Member::from_json(text).unwrap(), member);
        assert_eq!(Member::from_json(b"{}").unwrap(), Member::default());
    }

    #[test]
    fn malformed_members_are_refused() {
        for text in
            ["", "null", "[]", "7", r#"{"id":-1}"#, r#"{"id":"7"}"#, r#"{"peerURLs":"x"}"#, "{} x"]
        {
            assert!(Member::from_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_escaped_as_in_go() {
        let mut member = Member { id: MemberId(7), ..Member::default() };
        member.attributes.name = "<a&b>".to_owned();
        assert_eq!(member.to_json(), r#"{"id":7,"peerURLs":null,"name":"\u003ca\u0026b\u003e"}"#);
    }

    #[test]
    fn an_initial_member_has_a_name_and_an_added_one_has_none() {
        let urls = vec!["http://localhost:2380".to_owned()];
        let first = Member::at_bootstrap("default", urls.clone(), "etcd-cluster");
        assert_eq!(first.id.to_string(), "8e9e05c52164694d");
        assert!(first.is_started() && first.is_voter());
        let added = Member::to_add(urls, true, 1_700_000_000);
        assert_ne!(added.id, first.id);
        assert!(!added.is_started() && !added.is_voter());
    }
}
