//! The cluster as a running member knows it: the [`Membership`] of this moment, and how entries of the log change it.
//!
//! ```text
//!   ConfChange ──► check ──► Change ──► apply ─┐
//!                    └► Refused                ├──► database, through the entry's transaction
//!   ClusterMemberAttrSet ─► update_attributes ─┤
//!   ClusterVersionSet ─────► set_version ──────┤
//!   DowngradeInfoSet ──────► set_downgrade ────┴──► what `now` shows from here on
//! ```
//!
//! What is always true:
//!
//! - [`Cluster::now`] is what the database says, the open transaction included, from [`Cluster::restore`] on; only before a new cluster has
//!   applied its first entries it shows those that will be added by them.
//! - An entry that the database already has must not be applied again: there is no second copy of this state that would need it.
//! - A change that fails with [`StopError`] has changed nothing in memory. The transaction is to be dropped, and the member stops.
//!
//! Compat: when etcd 3.7 replays entries that its database has, it changes what is in memory once more, unchecked. That comes to
//! the same, except with an update that was refused in its time: after a restart etcd shows its peer URLs, and we do not.
//!
//! Who proposes what, and when, is left to `server`; so is telling peers and raft.

use std::sync::{Arc, PoisonError, RwLock};

use backend::schema::cluster::{self, Downgrade};
use backend::schema::version::Version;
use backend::{Read, Tx};
use proto::raftpb::{ConfChange, ConfChangeType};
use types::MemberId;

use crate::change::{self, Change};
use crate::error::{DecodeError, Refused, StopError};
use crate::id::ClusterId;
use crate::member::{Attributes, Member};
use crate::membership::Membership;
use crate::{store, version};

/// How many learners there may be unless somebody wants more.
pub const LEARNERS_MAX_DEFAULT: usize = 1;

/// The cluster, shared by all who ask and changed by the one who applies the log.
#[derive(Debug)]
pub struct Cluster {
    id: ClusterId,
    local: MemberId,
    learners_max: usize,
    now: RwLock<Arc<Membership>>,
}

impl Cluster {
    /// A cluster as this member first knows it: the members it was told to begin with, or none if the database has them.
    #[must_use]
    pub fn new(id: ClusterId, local: MemberId, learners_max: usize, now: Membership) -> Cluster {
        Cluster { id, local, learners_max, now: RwLock::new(Arc::new(now)) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// This member's id.
    #[must_use]
    pub fn local(&self) -> MemberId {
        self.local
    }

    /// Who is in it at this moment.
    #[must_use]
    pub fn now(&self) -> Arc<Membership> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes what the database says in place of all that was known: at a start, and after a snapshot. A database that knows of no member, now
    /// or ever, is new: then it stays with the members that this one was told to begin with.
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
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        Ok(())
    }

    /// Whether a change of members, now that it is its turn, may be made. What is asked is the database, in which the log
    /// has got exactly as far.
    ///
    /// The outer error stops this member. The inner one is the outcome of the entry: raft must then be told of a change of member
    /// zero, which changes nothing.
    pub fn check(
        &self,
        from: &impl Read,
        change: &ConfChange,
    ) -> Result<Result<Change, Refused>, StopError> {
        let database = store::read(from)?;
        // In etcd's order, in which an id that is refused may come with anything.
        match refuse_by_id(&database, change)? {
            Some(refused) => Ok(Err(refused)),
            None => {
                let decoded = Change::decode(change)?;
                Ok(self.refuse(&database, change, &decoded)?.map(|()| decoded))
            }
        }
    }

    /// Makes a change that was checked.
    pub fn apply(&self, tx: &mut Tx<'_>, change: Change) -> Result<(), StopError> {
        match change {
            Change::Add(member) => self.add_member(tx, member),
            Change::Promote(id) => self.promote_member(tx, id),
            Change::Remove(id) => self.remove_member(tx, id),
            Change::Update(member) => self.update_peer_urls(tx, member.id, member.raft.peer_urls),
        }
    }

    /// A member joins.
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

    /// A member leaves for good.
    pub fn remove_member(&self, tx: &mut Tx<'_>, id: MemberId) -> Result<(), StopError> {
        store::remove_member(tx, id)?;
        tracing::info!(cluster = %self.id, member = %id, "removed member");
        self.change(|now| {
            now.members.remove(&id);
            now.removed.insert(id);
        });
        Ok(())
    }

    /// A learner becomes a voter. Whoever is no member stays none.
    pub fn promote_member(&self, tx: &mut Tx<'_>, id: MemberId) -> Result<(), StopError> {
        let promoted = self.change_member(tx, id, |member| member.raft.is_learner = false)?;
        tracing::info!(cluster = %self.id, member = %id, promoted, "promoted member");
        Ok(())
    }

    /// A member has other peer URLs. Whoever is no member stays none.
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

    /// A member publishes what it is. One that was removed meanwhile is not heard.
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

    /// The members speak another version from now on. Returns the one before: if that was newer, whoever goes on with the
    /// older program needs a snapshot without what only the newer one understands.
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

    /// The cluster is to go to an older version, or no more.
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

    /// What speaks against a change whose member's id does not.
    fn refuse(
        &self,
        database: &Membership,
        change: &ConfChange,
        decoded: &Change,
    ) -> Result<Result<(), Refused>, DecodeError> {
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

    /// Changes a member in database and memory. Returns whether there is such a member.
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

    /// Changes what is in memory. Whoever looks at it keeps what he saw.
    fn change<T>(&self, change: impl FnOnce(&mut Membership) -> T) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut now));
    }
}

/// What speaks against a change because of the member's id alone, before anybody reads what comes with it.
fn refuse_by_id(
    database: &Membership,
    change: &ConfChange,
) -> Result<Option<Refused>, DecodeError> {
    let id = MemberId(change.node_id());
    if database.is_removed(id) {
        return Ok(Some(Refused::IdRemoved));
    }
    let needs_member = matches!(
        change::kind(change)?,
        ConfChangeType::ConfChangeRemoveNode | ConfChangeType::ConfChangeUpdateNode
    );
    Ok((needs_member && database.member(id).is_none()).then_some(Refused::IdNotFound))
}

fn check_promote(database: &Membership, id: MemberId) -> Result<(), Refused> {
    match database.member(id) {
        None => Err(Refused::IdNotFound),
        Some(member) if member.is_voter() => Err(Refused::MemberNotLearner),
        Some(_) => Ok(()),
    }
}

fn check_add(database: &Membership, member: &Member) -> Result<(), Refused> {
    match database.member(member.id) {
        Some(_) => Err(Refused::IdExists),
        None => database.check_peer_urls(member),
    }
}

fn parse(text: &str) -> Result<Version, DecodeError> {
    Version::parse(text.as_bytes()).ok_or_else(|| DecodeError::NotAVersion(text.to_owned()))
}
