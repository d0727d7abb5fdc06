//! Typed values in transactions, and migration between storage versions.

use backend::schema::version::{self, CURRENT, MigrateError, Version};
use backend::schema::{Bucket, auth, cluster, meta};
use backend::{Read as _, ReadError};
use proto::raftpb::ConfState;
use types::{Index, Term};

use crate::{Fixture, config, get};

const V3_4: Version = Version::new(3, 4);
const V3_5: Version = Version::new(3, 5);
const V3_6: Version = Version::new(3, 6);
const V3_7: Version = Version::new(3, 7);
const V3_8: Version = Version::new(3, 8);

#[test]
fn typed_values_are_read_back() {
    let db = Fixture::new(config());
    let conf =
        ConfState { voters: vec![1, u64::MAX], auto_leave: Some(true), ..ConfState::default() };
    let downgrade = cluster::Downgrade { enabled: true, target_version: "3.6.0".to_owned() };
    let mut tx = db.backend.begin();
    meta::set_conf_state(&mut tx, &conf);
    meta::set_scheduled_compaction(&mut tx, 9);
    meta::set_finished_compaction(&mut tx, 7);
    cluster::set_version(&mut tx, V3_7);
    cluster::set_downgrade(&mut tx, &downgrade);
    auth::set_enabled(&mut tx, true);
    auth::set_revision(&mut tx, 5);
    tx.commit().unwrap();
    db.backend.force_commit().unwrap();
    let db = db.reopen();
    let view = db.backend.view();
    assert_eq!(meta::conf_state(&view).unwrap(), Some(conf));
    assert_eq!(meta::scheduled_compaction(&view).unwrap(), Some(9));
    assert_eq!(meta::finished_compaction(&view).unwrap(), Some(7));
    assert_eq!(cluster::version(&view).unwrap(), Some(V3_7));
    assert_eq!(cluster::downgrade(&view).unwrap(), Some(downgrade));
    assert!(auth::enabled(&view).unwrap());
    assert_eq!(auth::revision(&view).unwrap(), 5);
}

#[test]
fn unset_values_are_none_or_zero() {
    let db = Fixture::new(config());
    let view = db.backend.view();
    assert_eq!(meta::applied(&view).unwrap(), (Index(0), Term(0)));
    assert_eq!(meta::conf_state(&view).unwrap(), None);
    assert_eq!(meta::scheduled_compaction(&view).unwrap(), None);
    assert_eq!(cluster::version(&view).unwrap(), None);
    assert_eq!(cluster::downgrade(&view).unwrap(), None);
    assert!(!auth::enabled(&view).unwrap());
    assert_eq!(auth::revision(&view).unwrap(), 0);
}

#[test]
fn errors_of_malformed_values_name_bucket_and_key() {
    let db = Fixture::new(config());
    let bad = "no";
    for (bucket, key) in [
        (Bucket::Meta, "confState"),
        (Bucket::Meta, "scheduledCompactRev"),
        (Bucket::Meta, "term"),
        (Bucket::Meta, "consistent_index"),
        (Bucket::Cluster, "clusterVersion"),
        (Bucket::Cluster, "downgrade"),
        (Bucket::Auth, "authRevision"),
    ] {
        db.put(bucket, key, bad);
    }
    let view = db.backend.view();
    let text = |error: ReadError| error.to_string();
    assert_eq!(
        text(meta::conf_state(&view).unwrap_err()),
        "bucket meta, key confState: invalid JSON of a conf state"
    );
    assert_eq!(
        text(meta::scheduled_compaction(&view).unwrap_err()),
        "bucket meta, key scheduledCompactRev: invalid revision length: 2"
    );
    assert!(meta::applied(&view).is_err());
    assert!(cluster::version(&view).is_err());
    assert!(cluster::downgrade(&view).is_err());
    assert!(auth::revision(&view).is_err());
    assert!(!auth::enabled(&view).unwrap());
}

#[test]
fn the_applied_index_is_encoded_as_in_etcd() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    tx.set_applied(Index(0), Term(3));
    tx.set_applied(Index(258), Term(3));
    assert_eq!(
        &*tx.get(Bucket::Meta, b"consistent_index").unwrap().unwrap(),
        b"\0\0\0\0\0\0\x01\x02"
    );
    assert_eq!(&*tx.get(Bucket::Meta, b"term").unwrap().unwrap(), b"\0\0\0\0\0\0\0\x03");
    drop(tx);
    let mut tx = db.backend.begin();
    tx.set_applied(Index(0), Term(0));
    assert!(tx.get(Bucket::Meta, b"consistent_index").unwrap().is_none());
    assert!(tx.get(Bucket::Meta, b"term").unwrap().is_none());
}

/// Creates a file as a version would leave it.
fn file_of(version: Version) -> Fixture {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    if version >= V3_5 {
        meta::set_conf_state(
            &mut tx,
            &ConfState { auto_leave: Some(false), ..ConfState::default() },
        );
        tx.set_applied(Index(1), Term(1));
    }
    if version >= V3_6 {
        tx.put(Bucket::Meta, "storageVersion", version.to_string()).unwrap();
    }
    tx.commit().unwrap();
    db
}

fn migrate(db: &Fixture, to: Version, log: Option<Version>) -> Result<(), MigrateError> {
    let mut tx = db.backend.begin();
    version::migrate(&mut tx, to, log)?;
    tx.commit().unwrap();
    Ok(())
}

#[test]
fn files_of_3_4_to_3_7_are_valid_and_newer_ones_are_not() {
    for version in [V3_4, V3_5, V3_6, V3_7] {
        assert!(version::validate(&file_of(version).backend.view()).is_ok(), "{version}");
    }
    let newer = version::validate(&file_of(V3_8).backend.view()).unwrap_err();
    assert!(newer.to_string().ends_with("version \"3.8.0\" is not supported"), "{newer}");
}

#[test]
fn a_file_migrates_up_and_down() {
    for version in [V3_5, V3_6, V3_7] {
        let db = file_of(version);
        let before = db.backend.hash(&|_, _| false).unwrap();
        migrate(&db, CURRENT, None).unwrap();
        assert_eq!(version::storage(&db.backend.view()).unwrap(), Some(CURRENT));
        migrate(&db, version, None).unwrap();
        assert_eq!(db.backend.hash(&|_, _| false).unwrap(), before, "{version}");
        assert_eq!(version::detect(&db.backend.view()).unwrap(), version);
    }
}

#[test]
fn a_refused_migration_changes_nothing_and_has_etcds_text() {
    let cases = [
        (V3_4, V3_6, None, "cannot detect storage schema version: missing term information"),
        (V3_7, V3_8, None, "cannot create migration plan: version \"3.8.0\" is not supported"),
        (V3_8, V3_7, None, "cannot create migration plan: version \"3.8.0\" is not supported"),
        (V3_5, V3_4, None, "cannot create migration plan: version \"3.5.0\" is not supported"),
        (
            V3_6,
            V3_5,
            Some(V3_6),
            "cannot downgrade storage, WAL contains newer entries, as the target version (3.5.0) is lower than the version (3.6.0) detected from WAL logs",
        ),
    ];
    for (from, to, log, text) in cases {
        let db = file_of(from);
        let before = get(&db.backend.view(), Bucket::Meta, "storageVersion");
        assert_eq!(migrate(&db, to, log).unwrap_err().to_string(), text);
        assert_eq!(get(&db.backend.view(), Bucket::Meta, "storageVersion"), before);
    }
    assert!(migrate(&file_of(V3_6), V3_5, Some(V3_5)).is_ok(), "an older log does not prevent it");
}
