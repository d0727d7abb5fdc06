//! Who is in the cluster, its version, and its alarms.
//!
//! A member knows all others, as voters or learners, and everyone who ever left. That is part of the replicated state like keys
//! and leases are: entries of the log change it, in the same order on every member, and the database keeps it.
//!
//! ```text
//!                 asks, on any thread                          changes, in log order
//!   api, peer ──► Cluster::now() ──► Membership      server ──► Cluster::check, Cluster::apply, ... ──► backend::Tx
//!                                    members                    AlarmStore::apply
//!                                    removed ids
//!                                    version, downgrade
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`Member`], [`Membership`], [`ClusterId`], [`Change`] | the values, with etcd's ids and etcd's JSON |
//! | [`store`] | the buckets |
//! | [`Cluster`] | what all threads share, and how it changes |
//! | [`reconfig`], [`version`] | rules: whether a change of members is safe; what version the members may speak |
//! | [`v2`] | the same state in the form that older members read and wrote |
//! | [`AlarmStore`], [`quota`] | alarms; what requests cost |
//!
//! What is always true: the same entries give the same state and the same bytes in the database, here and in etcd. What is
//! wrong with a request is a [`Refused`] and leaves all members as they were; what is wrong with this member is a [`StopError`].
//!
//! Not here: raft's own view of who votes (`raft`), how members are reached (`peer`), when something is proposed (`server`).

mod json;

mod alarm;
mod change;
mod cluster;
mod error;
mod id;
mod member;
mod membership;
pub mod quota;
pub mod reconfig;
pub mod store;
pub mod v2;
pub mod version;

pub use alarm::AlarmStore;
pub use change::Change;
pub use cluster::{Cluster, LEARNERS_MAX_DEFAULT};
pub use error::{DecodeError, IncompatibleVersion, Refused, StopError};
pub use id::{ClusterId, member_id};
pub use member::{Attributes, Member, RaftAttributes};
pub use membership::{BootstrapError, Membership};
