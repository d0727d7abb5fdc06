//! The membership in the database: buckets `members`, `members_removed` and `cluster`.
//!
//! ```text
//!   members           8e9e05c52164694d   {"id":10276657743932975437,"peerURLs":[…],"name":"m1"}
//!   members_removed   c580ea4952713c8c   removed
//!   cluster           clusterVersion     3.7.0
//!                     downgrade          {"target-version":"","enabled":false}
//! ```

use backend::schema::{Bucket, cluster, keys};
use backend::{PutError, Read, ReadError, Tx};
use bytes::Bytes;
use types::MemberId;

use crate::member::Member;
use crate::membership::Membership;

/// Reads the membership.
pub fn read(from: &impl Read) -> Result<Membership, ReadError> {
    let mut membership = Membership {
        version: cluster::version(from)?,
        downgrade: cluster::downgrade(from)?.unwrap_or_default(),
        ..Membership::default()
    };
    for item in from.all(Bucket::Members)? {
        let item = item?;
        let member = decode(&item.key, &item.value)?;
        membership.members.insert(member.id, member);
    }
    for item in from.all(Bucket::MembersRemoved)? {
        let id = decode_id(Bucket::MembersRemoved, &item?.key)?;
        membership.removed.insert(id);
    }
    Ok(membership)
}

/// Adds or replaces a member.
pub fn put_member(tx: &mut Tx<'_>, member: &Member) -> Result<(), PutError> {
    tx.put(Bucket::Members, keys::member(member.id), member.to_json())
}

/// Moves a member to the removed ones.
pub fn remove_member(tx: &mut Tx<'_>, id: MemberId) -> Result<(), PutError> {
    tx.delete(Bucket::Members, keys::member(id));
    tx.put(Bucket::MembersRemoved, keys::member(id), Bytes::from_static(keys::REMOVED))
}

/// Deletes all members and removed ids, for a database that becomes part of another cluster.
pub fn clear_members(tx: &mut Tx<'_>) -> Result<(), ReadError> {
    for bucket in [Bucket::Members, Bucket::MembersRemoved] {
        let keys = tx.all(bucket)?.map(|item| Ok(item?.key.into_bytes()));
        let keys: Vec<Bytes> = keys.collect::<Result<_, ReadError>>()?;
        for key in keys {
            tx.delete(bucket, key);
        }
    }
    Ok(())
}

fn decode(key: &[u8], value: &[u8]) -> Result<Member, ReadError> {
    let malformed = |reason: String| ReadError::malformed(Bucket::Members, key, reason);
    let id = decode_id(Bucket::Members, key)?;
    let member = Member::from_json(value).map_err(|error| malformed(error.to_string()))?;
    if member.id != id {
        return Err(malformed(format!("the value is of member {}", member.id)));
    }
    Ok(member)
}

fn decode_id(bucket: Bucket, key: &[u8]) -> Result<MemberId, ReadError> {
    keys::decode_member(key).ok_or_else(|| ReadError::malformed(bucket, key, "not a member's id"))
}
