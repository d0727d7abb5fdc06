//! What is in the database file: the buckets, and the bytes of their keys and values.
//!
//! | bucket | key | value |
//! | --- | --- | --- |
//! | `meta` | `consistent_index` | index of the last entry applied, 8 bytes big-endian ([`meta`]) |
//! | | `term` | its term, likewise; since 3.5 |
//! | | `confState` | who votes, as JSON; since 3.5 |
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
//! This is the one place that knows these bytes. What the messages mean is left to `mvcc`, `lease`, `auth` and `membership`.

pub mod auth;
pub mod cluster;
pub mod keys;
pub mod meta;
pub mod revision;
pub mod version;

use std::fmt;

/// How much of a page is filled where keys come in order, as in etcd: nothing is put between them later.
const FILL_PERCENT_ORDERED: f64 = 0.9;

/// A top-level bucket. There are no others, and none inside these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// What the file itself is: how far it has applied the log, its version, its compaction.
    Meta,
    /// The members of the cluster.
    Members,
    /// Those that were, so that their ids are not used again.
    MembersRemoved,
    /// The cluster's version.
    Cluster,
    /// Leases.
    Lease,
    /// Every change of every key, by revision.
    Key,
    /// Whether users are asked for.
    Auth,
    /// Users.
    AuthUsers,
    /// Roles.
    AuthRoles,
    /// Alarms that are raised.
    Alarm,
}

impl Bucket {
    /// How many there are.
    pub const COUNT: usize = Bucket::ALL.len();

    /// All of them, in the order in which etcd makes them when a member starts on an empty directory.
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

    /// The name in the file.
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

    /// The bucket with a name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Bucket> {
        Bucket::ALL.into_iter().find(|bucket| bucket.name().as_bytes() == name)
    }

    /// The share of a page that is filled before the next is begun. Revisions only grow, so nothing comes between them.
    #[must_use]
    pub fn fill_percent(self) -> f64 {
        match self {
            Bucket::Key => FILL_PERCENT_ORDERED,
            _ => bolt::FILL_PERCENT_DEFAULT,
        }
    }

    /// Its place in arrays that have one item for each.
    pub(crate) const fn slot(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What etcd leaves out when it hashes the whole file: members may differ in it while they hold the same data.
#[must_use]
pub fn ignored_by_hash(bucket: &[u8], key: &[u8]) -> bool {
    bucket == Bucket::Meta.name().as_bytes()
        && [meta::CONSISTENT_INDEX, meta::TERM, meta::STORAGE_VERSION].contains(&key)
}

/// Reads a number of 8 bytes.
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
    fn the_hash_leaves_out_what_members_may_differ_in() {
        assert!(ignored_by_hash(b"meta", b"term"));
        assert!(ignored_by_hash(b"meta", b"consistent_index"));
        assert!(ignored_by_hash(b"meta", b"storageVersion"));
        assert!(!ignored_by_hash(b"meta", b"confState"));
        assert!(!ignored_by_hash(b"key", b"term"));
    }
}
