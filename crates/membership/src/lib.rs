//! The members of the cluster, its version and its alarms.
//!
//! Every member knows all others, as voters or learners, and the ids of all removed members. This
//! is replicated state like keys and leases: log entries change it, in the same order on every
//! member, and the database stores it.
//!
//! ```text
//!              reads, on any thread                        changes, in log order
//!   api, peer ──► Cluster::now() ─► Membership   server ──► Cluster::check, Cluster::apply, …
//!                                   members                 AlarmStore::apply
//!                                   removed ids                └─► backend::Tx
//!                                   version, downgrade
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`Member`], [`Membership`], [`ClusterId`], [`Change`] | values, with etcd's ids and JSON |
//! | [`store`] | the buckets of the database |
//! | [`Cluster`] | the shared state and its changes |
//! | [`join`] | matching the ids of a running cluster when a member joins it |
//! | [`reconfig`], [`version`] | rules for safe conf changes and for the cluster version |
//! | [`v2`] | the same state in the form of the v2 store, for older members |
//! | [`AlarmStore`] | alarms |
//!
//! ```
//! # use std::sync::Arc;
//! # let (disk, clock) = (Arc::new(env::SimDisk::new(0)), Arc::new(env::SimClock::default()));
//! # let backend = backend::Backend::open(disk, clock, "db".as_ref(), backend::Config::default())?;
//! use membership::{Change, Cluster, ConfChangeRefusal, LEARNERS_MAX_DEFAULT, Membership};
//!
//! // A member bootstraps a cluster: it computes the ids and proposes to add the members.
//! let names = [("default".to_owned(), vec!["http://localhost:2380".to_owned()])];
//! let (id, first) = Membership::bootstrap("etcd-cluster", &names.into())?;
//! assert_eq!(id.to_string(), "cdf818194e3a8c32");
//! let member = first.members().next().expect("one member was given").clone();
//! let entry = Change::Add(member.clone()).to_conf_change(None);
//!
//! // Once the entry is committed, it is applied, in one transaction with its index.
//! let cluster = Cluster::new(id, member.id, LEARNERS_MAX_DEFAULT, first);
//! let mut tx = backend.begin();
//! let change = cluster.check(&tx, &entry)??;
//! cluster.apply(&mut tx, change)?;
//! assert_eq!(cluster.check(&tx, &entry)?, Err(ConfChangeRefusal::IdExists));
//! tx.commit()?;
//!
//! // After a restart, the database restores it.
//! let again = Cluster::new(id, member.id, LEARNERS_MAX_DEFAULT, Membership::default());
//! again.restore(&backend.view())?;
//! assert_eq!(again.now().member(member.id), Some(&member));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Invariant: the same entries give the same state and the same bytes in the database, here and in
//! etcd. An invalid conf change is a [`ConfChangeRefusal`] and changes no member; a fault of this
//! member is a [`StopError`].
//!
//! Not here: Raft's own configuration (`raft`), connections between members (`peer`), and when a
//! change is proposed (`server`).

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
pub use error::{ConfChangeRefusal, DecodeError, IncompatibleVersion, StopError};
pub use id::{ClusterId, member_id};
pub use member::{Attributes, Member, RaftAttributes};
pub use membership::{BootstrapError, Membership};
