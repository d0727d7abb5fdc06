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
//! | [`join`] | who is who, to a member that joins |
//! | [`reconfig`], [`version`] | rules: whether a change of members is safe; what version the members may speak |
//! | [`v2`] | the same state in the form that older members read and wrote |
//! | [`AlarmStore`] | alarms |
//!
//! ```
//! # use std::sync::Arc;
//! # let (disk, clock) = (Arc::new(env::SimDisk::new(0)), Arc::new(env::SimClock::default()));
//! # let backend = backend::Backend::open(disk, clock, "db".as_ref(), backend::Config::default())?;
//! use membership::{Change, Cluster, LEARNERS_MAX_DEFAULT, Membership, Refused};
//!
//! // A member begins a cluster of its own: it knows its id and who will be in it, and proposes to add them.
//! let names = [("default".to_owned(), vec!["http://localhost:2380".to_owned()])];
//! let (id, first) = Membership::bootstrap("etcd-cluster", &names.into())?;
//! assert_eq!(id.to_string(), "cdf818194e3a8c32");
//! let member = first.members().next().expect("there is one").clone();
//! let entry = Change::Add(member.clone()).to_conf_change(None);
//!
//! // Once the entry is committed, it is applied: in one transaction with the index of the entry.
//! let cluster = Cluster::new(id, member.id, LEARNERS_MAX_DEFAULT, first);
//! let mut tx = backend.begin();
//! let change = cluster.check(&tx, &entry)??;
//! cluster.apply(&mut tx, change)?;
//! assert_eq!(cluster.check(&tx, &entry)?, Err(Refused::IdExists), "once is enough");
//! tx.commit()?;
//!
//! // And after a restart it is all there.
//! let again = Cluster::new(id, member.id, LEARNERS_MAX_DEFAULT, Membership::default());
//! again.restore(&backend.view())?;
//! assert_eq!(again.now().member(member.id), Some(&member));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! What is always true: the same entries give the same state and the same bytes in the database, here and in etcd. What is
//! wrong with a request is a [`Refused`] and leaves all members as they were; what is wrong with this member is a [`StopError`].
//!
//! Not here: raft's own view of who votes (`raft`), how members are reached (`peer`), when something is proposed (`server`).

mod alarm;
mod change;
mod cluster;
mod error;
mod id;
pub mod join;
mod json;
mod member;
mod membership;
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
