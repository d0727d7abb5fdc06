//! Random sequences of entries: memory equals the database, a second member, and a model without a
//! database.

use std::collections::BTreeMap;

use backend::schema::Bucket;
use membership::{
    Attributes, Change, Cluster, ConfChangeRefusal, Member, Membership, RaftAttributes, v2,
};
use proptest::prelude::*;
use types::MemberId;

use crate::hostile::cases;
use crate::{apply, cluster, database, dump, restored};

#[derive(Clone, Debug)]
enum Entry {
    Change(Change),
    Attributes(u64, Attributes),
    Version(u32),
    Downgrade(bool),
}

/// Generates entries with few ids and URLs, so that they collide.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = prop_oneof![
        9 => change().prop_map(Entry::Change),
        2 => (1..8u64, attributes()).prop_map(|(id, attributes)| Entry::Attributes(id, attributes)),
        1 => (0..=7u32).prop_map(Entry::Version),
        1 => any::<bool>().prop_map(Entry::Downgrade),
    ];
    prop::collection::vec(entry, 0..40)
}

fn change() -> impl Strategy<Value = Change> {
    let any_member = (1..8u64, 0..8u8, any::<bool>());
    let any_member = any_member.prop_map(|(id, url, is_learner)| member(id, url, is_learner));
    let any_id = (1..8u64).prop_map(MemberId);
    prop_oneof![
        4 => any_member.clone().prop_map(Change::Add),
        2 => any_id.clone().prop_map(Change::Promote),
        1 => any_id.prop_map(Change::Remove),
        2 => any_member.prop_map(Change::Update),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let urls = prop::collection::vec("http://[a-c&]:1", 0..3);
    ("[a-c<&>]{0,3}", urls).prop_map(|(name, client_urls)| Attributes { name, client_urls })
}

fn member(id: u64, url: u8, is_learner: bool) -> Member {
    let raft = RaftAttributes { peer_urls: vec![format!("http://10.0.0.{url}:2380")], is_learner };
    Member { id: MemberId(id), raft, attributes: Attributes::default() }
}

/// The model: the rules for refusals and changes, written as plainly as possible.
#[derive(Default)]
struct Model {
    members: BTreeMap<u64, Member>,
    removed: Vec<u64>,
}

impl Model {
    fn change(&mut self, change: &Change) -> Result<(), ConfChangeRefusal> {
        let id = change.member().0;
        if self.removed.contains(&id) {
            return Err(ConfChangeRefusal::IdRemoved);
        }
        match change {
            Change::Add(member) => {
                self.check_add(member)?;
                self.members.insert(id, member.clone());
            }
            Change::Promote(_) => {
                let member = self.members.get_mut(&id).ok_or(ConfChangeRefusal::IdNotFound)?;
                if !member.raft.is_learner {
                    return Err(ConfChangeRefusal::MemberNotLearner);
                }
                member.raft.is_learner = false;
            }
            Change::Remove(_) => {
                self.members.remove(&id).ok_or(ConfChangeRefusal::IdNotFound)?;
                self.removed.push(id);
            }
            Change::Update(updated) => {
                if !self.members.contains_key(&id) {
                    return Err(ConfChangeRefusal::IdNotFound);
                }
                self.check_urls(updated)?;
                let member = self.members.get_mut(&id).unwrap();
                member.raft.peer_urls.clone_from(&updated.raft.peer_urls);
            }
        }
        Ok(())
    }

    fn check_add(&self, member: &Member) -> Result<(), ConfChangeRefusal> {
        if self.members.contains_key(&member.id.0) {
            return Err(ConfChangeRefusal::IdExists);
        }
        self.check_urls(member)?;
        let learners = self.members.values().filter(|member| member.raft.is_learner).count();
        if member.raft.is_learner && learners >= 1 {
            return Err(ConfChangeRefusal::TooManyLearners);
        }
        Ok(())
    }

    fn check_urls(&self, of: &Member) -> Result<(), ConfChangeRefusal> {
        let mut others = self.members.values().filter(|member| member.id != of.id);
        if others.any(|member| member.raft.peer_urls == of.raft.peer_urls) {
            return Err(ConfChangeRefusal::PeerUrlExists);
        }
        Ok(())
    }
}

/// Applies an entry as `server` does. Attributes of unknown members are not proposed.
fn apply_entry(
    cluster: &Cluster,
    tx: &mut backend::Tx<'_>,
    entry: &Entry,
) -> Result<(), ConfChangeRefusal> {
    match entry {
        Entry::Change(change) => return apply(cluster, tx, change),
        Entry::Attributes(id, attributes) => {
            let (id, now) = (MemberId(*id), cluster.now());
            if now.member(id).is_some() || now.is_removed(id) {
                cluster.update_attributes(tx, id, attributes.clone()).unwrap();
            }
        }
        Entry::Version(minor) => {
            cluster.set_version(tx, &format!("3.{minor}.0")).unwrap();
        }
        Entry::Downgrade(enabled) => {
            cluster.set_downgrade(tx, enabled.then_some("3.6.0")).unwrap();
        }
    }
    Ok(())
}

fn model_entry(model: &mut Model, entry: &Entry) -> Result<(), ConfChangeRefusal> {
    match entry {
        Entry::Change(change) => model.change(change),
        Entry::Attributes(id, attributes) => {
            if let Some(member) = model.members.get_mut(id) {
                member.attributes.clone_from(attributes);
            }
            Ok(())
        }
        Entry::Version(_) | Entry::Downgrade(_) => Ok(()),
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn memory_database_model_and_another_member_agree(entries in entries()) {
        let (backend, mut known, mut model) = (database(), cluster(), Model::default());
        for (at, entry) in entries.iter().enumerate() {
            // Restart from time to time.
            if at % 7 == 6 {
                known = cluster();
                known.restore(&backend.view()).unwrap();
            }
            let mut tx = backend.begin();
            let outcome = apply_entry(&known, &mut tx, entry);
            tx.commit().unwrap();
            prop_assert_eq!(outcome, model_entry(&mut model, entry), "{:?}", entry);
        }
        let now = known.now();
        prop_assert_eq!(&restored(&backend), &*now);
        prop_assert!(now.members().eq(model.members.values()));
        model.removed.sort_unstable();
        prop_assert!(now.removed().map(|id| id.0).eq(model.removed));

        let (other_backend, other) = (database(), cluster());
        let mut tx = other_backend.begin();
        for entry in &entries {
            let _ = apply_entry(&other, &mut tx, entry);
        }
        tx.commit().unwrap();
        for bucket in [Bucket::Members, Bucket::MembersRemoved, Bucket::Cluster] {
            prop_assert_eq!(dump(&backend, bucket), dump(&other_backend, bucket));
        }
        prop_assert_eq!(v2::decode(&v2::encode(&now)).unwrap(), as_in_image(&now));
    }
}

/// Removes what the v2 image does not store: the downgrade, and names without client URLs.
fn as_in_image(membership: &Membership) -> Membership {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    for member in membership.members() {
        let mut member = member.clone();
        if member.attributes.client_urls.is_empty() {
            member.attributes = Attributes::default();
        }
        cluster.add_member(&mut tx, member).unwrap();
    }
    for id in membership.removed() {
        cluster.remove_member(&mut tx, id).unwrap();
    }
    if let Some(version) = membership.version() {
        cluster.set_version(&mut tx, &version.to_string()).unwrap();
    }
    Membership::clone(&cluster.now())
}
