//! The schema of the database file: buckets, and the encoding of their keys and values.
//!
//! | bucket | key | value |
//! | --- | --- | --- |
//! | `meta` | `consistent_index` | last applied index, 8 bytes big-endian ([`meta`]) |
//! | | `term` | term of that entry, 8 bytes big-endian; since 3.5 |
//! | | `confState` | voters and learners, as JSON; since 3.5 |
//! | | `scheduledCompactRev`, `finishedCompactRev` | a revision, 17 bytes |
//! | | `storageVersion` | `3.7.0`; since 3.6 ([`version`]) |
//! | `members`, `members_removed` | id in hexadecimal text ([`keys`]) | a member as JSON; `removed` |
//! | `cluster` | `clusterVersion`, `downgrade` | `3.7.0`; JSON; since 3.5 ([`cluster`]) |
//! | `lease` | id, 8 bytes | `leasepb.Lease` |
//! | `key` | [`revision`], 17 bytes, or 18 for a tombstone | `mvccpb.KeyValue` |
//! | `auth` | `authEnabled`, `authRevision` | one byte; 8 bytes ([`auth`]) |
//! | `authUsers`, `authRoles` | the name | `authpb.User`, `authpb.Role` |
//! | `alarm` | `etcdserverpb.AlarmMember` | nothing |
//!
//! Only this module knows these encodings. The meaning of the messages belongs to `mvcc`, `lease`,
//! `auth` and `membership`.

pub mod auth;
pub mod cluster;
pub mod keys;
pub mod meta;
pub mod revision;
pub mod version;

use std::fmt;

/// Fill fraction of pages for sequential keys, as in etcd: no keys are inserted between them later.
const FILL_PERCENT_ORDERED: f64 = 0.9;

/// A top-level bucket. The file has no others, and no nested ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Metadata of the file: applied index, storage version, compaction.
    Meta,
    /// The members of the cluster.
    Members,
    /// Ids of removed members, which must not be reused.
    MembersRemoved,
    /// The cluster version.
    Cluster,
    /// Leases.
    Lease,
    /// Every change of every key, by revision.
    Key,
    /// Auth settings: enabled flag and revision.
    Auth,
    /// Users.
    AuthUsers,
    /// Roles.
    AuthRoles,
    /// Raised alarms.
    Alarm,
}

impl Bucket {
    /// Number of buckets.
    pub const COUNT: usize = Bucket::ALL.len();

    /// All buckets, in the order in which etcd creates them for a new member.
    pub const ALL: [Bucket; 10] = [
        Bucket::Meta,
        Bucket::Members,
        Bucket::MembersRemoved,
        Bucket::Cluster,
        Bucket::Lease,
        Bucket::Key,
        Bucket::Auth,
        Bucket::AuthUsers,
        Bucket::AuthRoles,
        Bucket::Alarm,
    ];

    /// Name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Bucket::Meta => "meta",
            Bucket::Members => "members",
            Bucket::MembersRemoved => "members_removed",
            Bucket::Cluster => "cluster",
            Bucket::Lease => "lease",
            Bucket::Key => "key",
            Bucket::Auth => "auth",
            Bucket::AuthUsers => "authUsers",
            Bucket::AuthRoles => "authRoles",
            Bucket::Alarm => "alarm",
        }
    }

    /// Returns the bucket with a name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Bucket> {
        Bucket::ALL.into_iter().find(|bucket| bucket.name().as_bytes() == name)
    }

    /// Fill fraction of pages. Revisions only grow, so no keys are inserted between existing ones.
    #[must_use]
    pub fn fill_percent(self) -> f64 {
        match self {
            Bucket::Key => FILL_PERCENT_ORDERED,
            _ => bolt::FILL_PERCENT_DEFAULT,
        }
    }

    /// Index into arrays with one element per bucket.
    pub(crate) const fn slot(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reports whether etcd skips a key when it hashes the whole file, because members with equal data
/// may differ in it.
#[must_use]
pub fn ignored_by_hash(bucket: &[u8], key: &[u8]) -> bool {
    bucket == Bucket::Meta.name().as_bytes()
        && [meta::CONSISTENT_INDEX, meta::TERM, meta::STORAGE_VERSION].contains(&key)
}

/// Decodes a big-endian number of 8 bytes.
fn decode_u64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_its_slot_and_name() {
        for (slot, bucket) in Bucket::ALL.into_iter().enumerate() {
            assert_eq!(bucket.slot(), slot);
            assert_eq!(Bucket::from_name(bucket.name().as_bytes()), Some(bucket));
        }
        assert_eq!(Bucket::from_name(b"test"), None);
    }

    #[test]
    fn the_hash_skips_keys_in_which_members_may_differ() {
        assert!(ignored_by_hash(b"meta", b"term"));
        assert!(ignored_by_hash(b"meta", b"consistent_index"));
        assert!(ignored_by_hash(b"meta", b"storageVersion"));
        assert!(!ignored_by_hash(b"meta", b"confState"));
        assert!(!ignored_by_hash(b"key", b"term"));
    }
}
