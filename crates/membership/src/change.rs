//! Conf changes, as the log holds them.
//!
//! ```text
//!   raftpb.ConfChange  type             node_id  context
//!   add                AddNode          c580…    {"id":14231…,"peerURLs":["http://10.0.0.4:2380"]}
//!   add a learner      AddLearnerNode   c580…    {"id":14231…,"peerURLs":[…],"isLearner":true}
//!   promote            AddNode          c580…    {"id":14231…,"peerURLs":null,"isPromote":true}
//!   update             UpdateNode       c580…    {"id":14231…,"peerURLs":["http://10.0.0.9:2380"]}
//!   remove             RemoveNode       c580…    none
//! ```
//!
//! Raft uses type and id only, and does not distinguish adding a voter from promoting a learner.

use bytes::Bytes;
use proto::raftpb::{ConfChange, ConfChangeType};
use serde::{Deserialize, Serialize};
use types::MemberId;

use crate::error::DecodeError;
use crate::json;
use crate::member::Member;

/// A conf change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a member, as a voter or a learner.
    Add(Member),
    /// Makes a learner a voter.
    Promote(MemberId),
    /// Removes a member for good.
    Remove(MemberId),
    /// Changes the peer URLs of a member, and nothing else.
    Update(Member),
}

impl Change {
    /// Returns the id of the changed member.
    #[must_use]
    pub fn member(&self) -> MemberId {
        match self {
            Change::Add(member) | Change::Update(member) => member.id,
            Change::Promote(id) | Change::Remove(id) => *id,
        }
    }

    /// Converts to the data of a log entry. `request` is the request id of the waiter; the changes
    /// that bootstrap a cluster have none.
    #[must_use]
    pub fn to_conf_change(&self, request: Option<u64>) -> ConfChange {
        ConfChange {
            id: request,
            r#type: Some(self.kind().into()),
            node_id: Some(self.member().0),
            context: self.context().map(Bytes::from),
        }
    }

    /// Decodes the data of a log entry.
    pub fn decode(change: &ConfChange) -> Result<Change, DecodeError> {
        let id = MemberId(change.node_id());
        let decoded = match kind(change)? {
            ConfChangeType::ConfChangeAddNode | ConfChangeType::ConfChangeAddLearnerNode => {
                let context: AddContext = parse(change)?;
                context.into_change()
            }
            ConfChangeType::ConfChangeRemoveNode => Change::Remove(id),
            ConfChangeType::ConfChangeUpdateNode => Change::Update(parse(change)?),
        };
        match decoded.member() {
            same if same == id => Ok(decoded),
            context => Err(DecodeError::DifferentId { change: id, context }),
        }
    }

    fn kind(&self) -> ConfChangeType {
        match self {
            Change::Add(member) if member.raft.is_learner => {
                ConfChangeType::ConfChangeAddLearnerNode
            }
            Change::Add(_) | Change::Promote(_) => ConfChangeType::ConfChangeAddNode,
            Change::Remove(_) => ConfChangeType::ConfChangeRemoveNode,
            Change::Update(_) => ConfChangeType::ConfChangeUpdateNode,
        }
    }

    fn context(&self) -> Option<String> {
        match self {
            Change::Add(member) | Change::Update(member) => Some(member.to_json()),
            Change::Promote(id) => Some(json::encode(&AddContext::promote(*id))),
            Change::Remove(_) => None,
        }
    }
}

/// The JSON context of a member that is added or promoted.
#[derive(Default, Serialize, Deserialize)]
struct AddContext {
    #[serde(flatten)]
    member: Member,
    #[serde(rename = "isPromote", default, deserialize_with = "json::or_default")]
    is_promote: bool,
}

impl AddContext {
    fn promote(id: MemberId) -> AddContext {
        AddContext { member: Member { id, ..Member::default() }, is_promote: true }
    }

    fn into_change(self) -> Change {
        if self.is_promote { Change::Promote(self.member.id) } else { Change::Add(self.member) }
    }
}

/// Decodes the type of a change.
pub(crate) fn kind(change: &ConfChange) -> Result<ConfChangeType, DecodeError> {
    let kind = change.r#type.unwrap_or_default();
    ConfChangeType::try_from(kind).map_err(|_| DecodeError::UnknownKind(kind))
}

fn parse<'a, T: Deserialize<'a>>(change: &'a ConfChange) -> Result<T, DecodeError> {
    serde_json::from_slice(change.context()).map_err(DecodeError::Context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::RaftAttributes;

    const ID: MemberId = MemberId(14_231_632_423_127_433_332);

    fn member(peer_url: &str, is_learner: bool) -> Member {
        let raft = RaftAttributes { peer_urls: vec![peer_url.to_owned()], is_learner };
        Member { id: ID, raft, ..Member::default() }
    }

    fn context(change: &Change) -> String {
        let bytes = change.to_conf_change(None).context.unwrap_or_default();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn contexts_are_as_documented() {
        let add = Change::Add(member("http://10.0.0.4:2380", true));
        let text =
            r#"{"id":14231632423127433332,"peerURLs":["http://10.0.0.4:2380"],"isLearner":true}"#;
        assert_eq!(context(&add), text);
        let promote = Change::Promote(ID);
        let text = r#"{"id":14231632423127433332,"peerURLs":null,"isPromote":true}"#;
        assert_eq!(context(&promote), text);
        assert_eq!(Change::Remove(ID).to_conf_change(Some(1)).context, None);
    }

    #[test]
    fn changes_round_trip() {
        let (voter, learner) = (member("http://a:1", false), member("http://a:1", true));
        let changes = [
            Change::Add(voter.clone()),
            Change::Add(learner),
            Change::Promote(ID),
            Change::Remove(ID),
            Change::Update(voter),
        ];
        for change in changes {
            let entry = change.to_conf_change(Some(9));
            assert_eq!(entry.id, Some(9));
            assert_eq!(Change::decode(&entry).unwrap(), change);
        }
    }

    #[test]
    fn malformed_changes_are_refused() {
        let refused = |change: &ConfChange| Change::decode(change).unwrap_err();
        let mut entry = Change::Promote(ID).to_conf_change(None);
        entry.node_id = Some(7);
        assert!(matches!(refused(&entry), DecodeError::DifferentId { context: ID, .. }));
        entry.context = None;
        assert!(matches!(refused(&entry), DecodeError::Context(_)));
        entry.r#type = Some(4);
        assert!(matches!(refused(&entry), DecodeError::UnknownKind(4)));
    }
}
