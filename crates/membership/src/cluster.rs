//! The current [`Membership`], and the changes that log entries make to it.
//!
//! ```text
//!   ConfChange ──► check ──► Change ──► apply ─┐
//!                    └► ConfChangeRefusal      ├──► database, in the entry's transaction
//!   ClusterMemberAttrSet ─► update_attributes ─┤
//!   ClusterVersionSet ─────► set_version ──────┤
//!   DowngradeInfoSet ──────► set_downgrade ────┴──► memory, shown by `now`
//! ```
//!
//! Invariants:
//!
//! - From [`Cluster::restore`] on, [`Cluster::now`] equals the database, the open transaction
//!   included. Only a new cluster shows its initial members before it has applied their entries.
//! - An entry that the database already contains must not be applied again.
//! - A change that fails with [`StopError`] has changed nothing in memory. The transaction has to
//!   be dropped, and the member stops.
//!
//! Compat: when etcd 3.7 replays entries that its database contains, it changes its memory again,
//! unchecked. The result is the same except for an update that was refused: after a restart etcd
//! shows its peer URLs, and Bowline does not.
//!
//! `server` decides what is proposed and when, and informs peers and Raft.

use std::sync::Arc;

use backend::schema::cluster::{self, Downgrade};
use backend::schema::version::Version;
use backend::{Read, Tx};
use parking_lot::RwLock;
use proto::raftpb::{ConfChange, ConfChangeType};
use types::MemberId;

use crate::change::{self, Change};
use crate::error::{ConfChangeRefusal, DecodeError, StopError};
use crate::id::ClusterId;
use crate::member::{Attributes, Member};
use crate::membership::Membership;
use crate::{store, version};

/// The default maximum of learners.
pub const LEARNERS_MAX_DEFAULT: usize = 1;

/// The membership, shared by all threads and changed by the applier.
#[derive(Debug)]
pub struct Cluster {
    id: ClusterId,
    local: MemberId,
    learners_max: usize,
    now: RwLock<Arc<Membership>>,
}

impl Cluster {
    /// Creates a cluster with its initial members, or with none if the database has them.
    #[must_use]
    pub fn new(id: ClusterId, local: MemberId, learners_max: usize, now: Membership) -> Cluster {
        Cluster { id, local, learners_max, now: RwLock::new(Arc::new(now)) }
    }

    /// Returns the cluster id.
    #[must_use]
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// Returns the id of the local member.
    #[must_use]
    pub fn local(&self) -> MemberId {
        self.local
    }

    /// Returns whether the local member is a learner.
    #[must_use]
    pub fn is_learner(&self) -> bool {
        self.now.read().is_learner(self.local)
    }

    /// Returns the current membership.
    #[must_use]
    pub fn now(&self) -> Arc<Membership> {
        Arc::clone(&self.now.read())
    }

    /// Reads the membership from the database, at a start and after a snapshot. A database without
    /// members and removed members is new: then the initial members stay.
    pub fn restore(&self, from: &impl Read) -> Result<(), StopError> {
        let mut read = store::read(from)?;
        version::check_server(read.version)?;
        if read.members.is_empty() && read.removed.is_empty() {
            read.members.clone_from(&self.now().members);
        }
        if read.downgrade.enabled {
            tracing::info!(target = read.downgrade.target_version, "cluster is downgrading");
        }
        for member in read.members() {
            tracing::info!(
                cluster = %self.id,
                member = %member.id,
                peer_urls = ?member.raft.peer_urls,
                learner = member.raft.is_learner,
                "recovered member"
            );
        }
        *self.now.write() = Arc::new(read);
        Ok(())
    }

    /// Checks a conf change when it is applied, against the database, which is exactly at the entry
    /// before it.
    ///
    /// The outer error stops this member. The inner one is the result of the entry: Raft then has
    /// to be given a change of member zero, which changes nothing.
    pub fn check(
        &self,
        from: &impl Read,
        change: &ConfChange,
    ) -> Result<Result<Change, ConfChangeRefusal>, StopError> {
        let database = store::read(from)?;
        // In etcd's order: the context of a change that is refused by its id is not decoded.
        match refusal_by_id(&database, change)? {
            Some(refused) => Ok(Err(refused)),
            None => {
                let decoded = Change::decode(change)?;
                Ok(self.check_change(&database, change, &decoded)?.map(|()| decoded))
            }
        }
    }

    /// Applies a checked change.
    pub fn apply(&self, tx: &mut Tx<'_>, change: Change) -> Result<(), StopError> {
        match change {
            Change::Add(member) => self.add_member(tx, member),
            Change::Promote(id) => self.promote_member(tx, id),
            Change::Remove(id) => self.remove_member(tx, id),
            Change::Update(member) => self.update_peer_urls(tx, member.id, member.raft.peer_urls),
        }
    }

    /// Adds a member.
    pub fn add_member(&self, tx: &mut Tx<'_>, member: Member) -> Result<(), StopError> {
        store::put_member(tx, &member)?;
        tracing::info!(
            cluster = %self.id,
            member = %member.id,
            peer_urls = ?member.raft.peer_urls,
            learner = member.raft.is_learner,
            "added member"
        );
        self.change(|now| now.members.insert(member.id, member));
        Ok(())
    }

    /// Removes a member for good.
    pub fn remove_member(&self, tx: &mut Tx<'_>, id: MemberId) -> Result<(), StopError> {
        store::remove_member(tx, id)?;
        tracing::info!(cluster = %self.id, member = %id, "removed member");
        self.change(|now| {
            now.members.remove(&id);
            now.removed.insert(id);
        });
        Ok(())
    }

    /// Makes a learner a voter. Does nothing for an unknown id.
    pub fn promote_member(&self, tx: &mut Tx<'_>, id: MemberId) -> Result<(), StopError> {
        let promoted = self.change_member(tx, id, |member| member.raft.is_learner = false)?;
        tracing::info!(cluster = %self.id, member = %id, promoted, "promoted member");
        Ok(())
    }

    /// Changes the peer URLs of a member. Does nothing for an unknown id.
    pub fn update_peer_urls(
        &self,
        tx: &mut Tx<'_>,
        id: MemberId,
        peer_urls: Vec<String>,
    ) -> Result<(), StopError> {
        tracing::info!(cluster = %self.id, member = %id, ?peer_urls, "updated member");
        self.change_member(tx, id, |member| member.raft.peer_urls = peer_urls)?;
        Ok(())
    }

    /// Stores the attributes that a member publishes. Ignores a removed member.
    pub fn update_attributes(
        &self,
        tx: &mut Tx<'_>,
        id: MemberId,
        attributes: Attributes,
    ) -> Result<(), StopError> {
        if self.change_member(tx, id, |member| member.attributes = attributes)? {
            return Ok(());
        }
        if !self.now().is_removed(id) {
            return Err(StopError::UnknownMember(id));
        }
        tracing::warn!(cluster = %self.id, member = %id, "skipped attributes of removed member");
        Ok(())
    }

    /// Sets the cluster version and returns the previous one. If that was newer, a snapshot is due
    /// that the older release can read.
    pub fn set_version(
        &self,
        tx: &mut Tx<'_>,
        version: &str,
    ) -> Result<Option<Version>, StopError> {
        let version = parse(version)?;
        version::check_server(Some(version))?;
        cluster::set_version(tx, version);
        let before = self.now().version;
        tracing::info!(cluster = %self.id, ?before, %version, "set cluster version");
        self.change(|now| now.version = Some(version));
        Ok(before)
    }

    /// Begins a downgrade to a target version, or ends it.
    pub fn set_downgrade(&self, tx: &mut Tx<'_>, target: Option<&str>) -> Result<(), StopError> {
        let downgrade = match target {
            Some(target) => {
                parse(target)?;
                Downgrade { enabled: true, target_version: target.to_owned() }
            }
            None => Downgrade::default(),
        };
        cluster::set_downgrade(tx, &downgrade);
        self.change(|now| now.downgrade = downgrade);
        Ok(())
    }

    /// Checks everything but the id of a change.
    fn check_change(
        &self,
        database: &Membership,
        change: &ConfChange,
        decoded: &Change,
    ) -> Result<Result<(), ConfChangeRefusal>, DecodeError> {
        let learner = change::kind(change)? == ConfChangeType::ConfChangeAddLearnerNode;
        Ok(match decoded {
            Change::Remove(_) => Ok(()),
            Change::Update(member) => database.check_peer_urls(member),
            Change::Promote(id) => check_promote(database, *id),
            Change::Add(member) if learner && member.raft.is_learner => check_add(database, member)
                .and_then(|()| database.check_learners(1, self.learners_max)),
            Change::Add(member) => check_add(database, member),
        })
    }

    /// Changes a member in database and memory. Returns whether the member exists.
    fn change_member(
        &self,
        tx: &mut Tx<'_>,
        id: MemberId,
        change: impl FnOnce(&mut Member),
    ) -> Result<bool, StopError> {
        let Some(mut member) = self.now().member(id).cloned() else { return Ok(false) };
        change(&mut member);
        store::put_member(tx, &member)?;
        self.change(|now| now.members.insert(id, member));
        Ok(true)
    }

    /// Changes the membership in memory. Readers keep the version that they hold.
    fn change<T>(&self, change: impl FnOnce(&mut Membership) -> T) {
        let mut now = self.now.write();
        change(Arc::make_mut(&mut now));
    }
}

/// Checks the id of a change, before its context is decoded.
fn refusal_by_id(
    database: &Membership,
    change: &ConfChange,
) -> Result<Option<ConfChangeRefusal>, DecodeError> {
    let id = MemberId(change.node_id());
    if database.is_removed(id) {
        return Ok(Some(ConfChangeRefusal::IdRemoved));
    }
    let needs_member = matches!(
        change::kind(change)?,
        ConfChangeType::ConfChangeRemoveNode | ConfChangeType::ConfChangeUpdateNode
    );
    Ok((needs_member && database.member(id).is_none()).then_some(ConfChangeRefusal::IdNotFound))
}

fn check_promote(database: &Membership, id: MemberId) -> Result<(), ConfChangeRefusal> {
    match database.member(id) {
        None => Err(ConfChangeRefusal::IdNotFound),
        Some(member) if member.is_voter() => Err(ConfChangeRefusal::MemberNotLearner),
        Some(_) => Ok(()),
    }
}

fn check_add(database: &Membership, member: &Member) -> Result<(), ConfChangeRefusal> {
    match database.member(member.id) {
        Some(_) => Err(ConfChangeRefusal::IdExists),
        None => database.check_peer_urls(member),
    }
}

fn parse(text: &str) -> Result<Version, DecodeError> {
    Version::parse(text.as_bytes()).ok_or_else(|| DecodeError::NotAVersion(text.to_owned()))
}
