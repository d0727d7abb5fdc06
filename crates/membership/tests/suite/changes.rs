//! Effects and refusals of log entries about members.

use backend::schema::version::Version;
use backend::schema::{Bucket, cluster as schema, keys};
use membership::{
    Attributes, Change, Cluster, ClusterId, ConfChangeRefusal, Member, Membership, StopError, store,
};
use proto::raftpb::ConfChangeType;
use types::MemberId;

use crate::{apply, cluster, database, dump, member, restored};

const ONE: MemberId = MemberId(1);
const TWO: MemberId = MemberId(2);
const THREE: MemberId = MemberId(3);

#[test]
fn members_are_added_promoted_and_removed() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    for change in [
        Change::Add(member(1, false)),
        Change::Add(member(2, true)),
        Change::Promote(TWO),
        Change::Add(member(3, true)),
        Change::Remove(THREE),
    ] {
        assert_eq!(apply(&cluster, &mut tx, &change), Ok(()), "{change:?}");
    }
    tx.commit().unwrap();
    let now = cluster.now();
    assert_eq!(now.ids().collect::<Vec<_>>(), [ONE, TWO]);
    assert_eq!(now.voters().count(), 2);
    assert!(now.is_removed(THREE));
    assert_eq!(restored(&backend), *now);
}

#[test]
fn the_database_has_the_bytes_of_etcd() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    apply(&cluster, &mut tx, &Change::Add(member(1, false))).unwrap();
    apply(&cluster, &mut tx, &Change::Add(member(0xab, true))).unwrap();
    apply(&cluster, &mut tx, &Change::Add(member(3, false))).unwrap();
    apply(&cluster, &mut tx, &Change::Remove(THREE)).unwrap();
    cluster.set_version(&mut tx, "3.6.0").unwrap();
    cluster.set_downgrade(&mut tx, None).unwrap();
    tx.commit().unwrap();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let members = [
        pair("1", r#"{"id":1,"peerURLs":["http://10.0.0.1:2380"]}"#),
        pair("ab", r#"{"id":171,"peerURLs":["http://10.0.0.171:2380"],"isLearner":true}"#),
    ];
    assert_eq!(dump(&backend, Bucket::Members), members);
    assert_eq!(dump(&backend, Bucket::MembersRemoved), [pair("3", "removed")]);
    let cluster = [
        pair("clusterVersion", "3.6.0"),
        pair("downgrade", r#"{"target-version":"","enabled":false}"#),
    ];
    assert_eq!(dump(&backend, Bucket::Cluster), cluster);
}

#[test]
fn invalid_changes_are_refused_as_in_etcd() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    for change in [
        Change::Add(member(1, false)),
        Change::Add(member(2, true)),
        Change::Add(member(3, false)),
        Change::Remove(THREE),
    ] {
        apply(&cluster, &mut tx, &change).unwrap();
    }
    let before = cluster.now();
    let same_url = Member { id: MemberId(7), ..member(1, false) };
    let update_to_same_url = Member { id: TWO, ..member(1, false) };
    for (change, refused) in [
        (Change::Add(member(3, false)), ConfChangeRefusal::IdRemoved),
        (Change::Remove(THREE), ConfChangeRefusal::IdRemoved),
        (Change::Add(member(1, false)), ConfChangeRefusal::IdExists),
        (Change::Add(same_url), ConfChangeRefusal::PeerUrlExists),
        (Change::Add(member(4, true)), ConfChangeRefusal::TooManyLearners),
        (Change::Promote(MemberId(7)), ConfChangeRefusal::IdNotFound),
        (Change::Promote(ONE), ConfChangeRefusal::MemberNotLearner),
        (Change::Remove(MemberId(7)), ConfChangeRefusal::IdNotFound),
        (Change::Update(member(7, false)), ConfChangeRefusal::IdNotFound),
        (Change::Update(update_to_same_url), ConfChangeRefusal::PeerUrlExists),
    ] {
        assert_eq!(apply(&cluster, &mut tx, &change), Err(refused), "{change:?}");
    }
    assert_eq!(cluster.now(), before);
    let texts = [ConfChangeRefusal::IdRemoved, ConfChangeRefusal::PeerUrlExists]
        .map(|refused| refused.to_string());
    assert_eq!(texts, ["membership: ID removed", "membership: peerURL exists"]);
}

/// Compat: as in etcd, the context of a change that is refused by its id is not decoded.
#[test]
fn a_change_refused_by_its_id_may_have_any_context() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    apply(&cluster, &mut tx, &Change::Add(member(3, false))).unwrap();
    apply(&cluster, &mut tx, &Change::Remove(THREE)).unwrap();
    let mut entry = Change::Promote(THREE).to_conf_change(None);
    entry.context = None;
    assert_eq!(cluster.check(&tx, &entry).unwrap(), Err(ConfChangeRefusal::IdRemoved));
    entry.node_id = Some(7);
    entry.set_type(ConfChangeType::ConfChangeUpdateNode);
    assert_eq!(cluster.check(&tx, &entry).unwrap(), Err(ConfChangeRefusal::IdNotFound));
    entry.set_type(ConfChangeType::ConfChangeAddNode);
    assert!(matches!(cluster.check(&tx, &entry), Err(StopError::Decode(_))));
}

#[test]
fn an_update_changes_only_the_peer_urls() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    apply(&cluster, &mut tx, &Change::Add(member(2, true))).unwrap();
    let attributes = Attributes { name: "m2".to_owned(), client_urls: Vec::new() };
    cluster.update_attributes(&mut tx, TWO, attributes.clone()).unwrap();
    let moved = Member { id: TWO, ..member(8, false) };
    apply(&cluster, &mut tx, &Change::Update(moved)).unwrap();
    tx.commit().unwrap();
    let now = cluster.now();
    let member = now.member(TWO).unwrap();
    assert_eq!(member.raft.peer_urls, ["http://10.0.0.8:2380"]);
    assert!(member.raft.is_learner);
    assert_eq!(member.attributes, attributes);
    assert_eq!(restored(&backend), *now);
}

#[test]
fn a_member_may_keep_a_peer_url_in_an_update() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    apply(&cluster, &mut tx, &Change::Add(member(2, false))).unwrap();
    assert_eq!(apply(&cluster, &mut tx, &Change::Update(member(2, false))), Ok(()));
}

#[test]
fn attributes_of_a_removed_member_are_ignored_and_of_an_unknown_one_stop() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    apply(&cluster, &mut tx, &Change::Add(member(3, false))).unwrap();
    apply(&cluster, &mut tx, &Change::Remove(THREE)).unwrap();
    let before = cluster.now();
    cluster.update_attributes(&mut tx, THREE, Attributes::default()).unwrap();
    assert_eq!(cluster.now(), before);
    let stranger = cluster.update_attributes(&mut tx, MemberId(7), Attributes::default());
    assert!(matches!(stranger, Err(StopError::UnknownMember(MemberId(7)))));
}

/// A new cluster shows its initial members before it applies the entries that add them.
#[test]
fn a_new_cluster_applies_the_entries_of_its_initial_members() {
    let backend = database();
    let first = Membership::of([member(1, false), member(2, false)]);
    let cluster = membership::Cluster::new(membership::ClusterId(9), ONE, 1, first.clone());
    assert_eq!(*cluster.now(), first);
    let mut tx = backend.begin();
    for member in first.members() {
        assert_eq!(apply(&cluster, &mut tx, &Change::Add(member.clone())), Ok(()));
    }
    tx.commit().unwrap();
    assert_eq!(*cluster.now(), first);
    assert_eq!(restored(&backend), first);
}

#[test]
fn setting_the_version_returns_the_previous_one() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    assert_eq!(cluster.set_version(&mut tx, "3.7.0").unwrap(), None);
    assert_eq!(cluster.set_version(&mut tx, "3.6.0").unwrap(), Some(Version::new(3, 7)));
    cluster.set_downgrade(&mut tx, Some("3.6.0")).unwrap();
    tx.commit().unwrap();
    let now = restored(&backend);
    assert_eq!(now, *cluster.now());
    assert_eq!(now.version(), Some(Version::new(3, 6)));
    assert!(now.downgrade().enabled);
}

#[test]
fn an_invalid_or_newer_version_stops_the_member_and_changes_nothing() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    assert!(matches!(cluster.set_version(&mut tx, "x"), Err(StopError::Decode(_))));
    assert!(matches!(cluster.set_version(&mut tx, "3.8.0"), Err(StopError::Incompatible(_))));
    assert!(matches!(cluster.set_downgrade(&mut tx, Some("x")), Err(StopError::Decode(_))));
    assert_eq!(*cluster.now(), Membership::default());
    tx.commit().unwrap();
    assert!(dump(&backend, Bucket::Cluster).is_empty());
}

#[test]
fn restore_refuses_a_database_with_a_newer_cluster_version() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    schema::set_version(&mut tx, Version::new(3, 8));
    tx.commit().unwrap();
    assert!(matches!(cluster.restore(&backend.view()), Err(StopError::Incompatible(_))));
}

#[test]
fn a_damaged_member_is_an_error_with_its_key() {
    for (key, value) in [("1", "x"), ("1", r#"{"id":2}"#), ("z", r#"{"id":1}"#), ("1", "null")] {
        let (backend, cluster) = (database(), cluster());
        let mut tx = backend.begin();
        tx.put(Bucket::Members, key, value).unwrap();
        tx.commit().unwrap();
        let error = cluster.restore(&backend.view()).unwrap_err();
        assert!(error.to_string().starts_with("bucket members, key "), "{error}");
    }
}

#[test]
fn clear_members_deletes_all_members_and_removed_ids() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    apply(&cluster, &mut tx, &Change::Add(member(1, false))).unwrap();
    apply(&cluster, &mut tx, &Change::Add(member(3, false))).unwrap();
    apply(&cluster, &mut tx, &Change::Remove(THREE)).unwrap();
    cluster.set_version(&mut tx, "3.7.0").unwrap();
    tx.commit().unwrap();
    let mut tx = backend.begin();
    store::clear_members(&mut tx).unwrap();
    tx.put(Bucket::Members, keys::member(TWO), member(2, false).to_json()).unwrap();
    tx.commit().unwrap();
    let now = restored(&backend);
    assert_eq!(now.ids().collect::<Vec<_>>(), [TWO]);
    assert_eq!(now.removed().count(), 0);
    assert_eq!(now.version(), Some(Version::new(3, 7)), "the cluster's version stays");
}

#[test]
fn a_reader_keeps_its_version_of_the_membership() {
    let (backend, cluster) = (database(), cluster());
    let mut tx = backend.begin();
    let before = cluster.now();
    apply(&cluster, &mut tx, &Change::Add(member(1, false))).unwrap();
    assert_eq!(before.members().count(), 0);
    assert_eq!(cluster.now().members().count(), 1);
}

/// A new member has to reach the others before it applies the entries that add them.
#[test]
fn restoring_an_empty_database_keeps_the_initial_members() {
    let backend = database();
    let reported = Membership::of([member(1, false), member(2, false)]);
    let cluster = Cluster::new(ClusterId(7), ONE, 1, reported.clone());
    cluster.restore(&backend.view()).unwrap();
    assert_eq!(*cluster.now(), reported);

    let mut tx = backend.begin();
    cluster.remove_member(&mut tx, ONE).unwrap();
    tx.commit().unwrap();
    cluster.restore(&backend.view()).unwrap();
    assert!(cluster.now().members().next().is_none(), "now the database knows better");
}
