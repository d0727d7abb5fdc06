//! Conf changes in scripts.

use raft::{ConfChangeSingle, ConfChangeType};
use types::MemberId;

/// Parses `v1 l2 r3 u4`: make 1 a voter and 2 a learner, remove 3, update 4.
pub(crate) fn parse(input: &str) -> Result<Vec<ConfChangeSingle>, String> {
    let one = |token: &str| {
        let (letter, id) = token.split_at_checked(1).filter(|(_, id)| !id.is_empty()).ok_or(())?;
        let kind = match letter {
            "v" => ConfChangeType::AddNode,
            "l" => ConfChangeType::AddLearnerNode,
            "r" => ConfChangeType::RemoveNode,
            "u" => ConfChangeType::UpdateNode,
            _ => return Err(()),
        };
        let node_id = MemberId(id.parse().map_err(drop)?);
        Ok(ConfChangeSingle { kind, node_id })
    };
    let parse = |token: &str| one(token).map_err(|()| format!("unknown input: {token}"));
    input.split_whitespace().map(parse).collect()
}
