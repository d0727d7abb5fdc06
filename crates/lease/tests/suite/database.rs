//! The records in the database, and leases after a restart.

use std::sync::Arc;

use backend::schema::Bucket;
use env::SimDisk;
use lease::{Config, Lessor};
use types::LeaseId;

use super::{Fixture, V3_5, open, seconds};

#[test]
fn records_equal_etcds_byte_for_byte() {
    let mut fixture = Fixture::new(Config::default());
    fixture.grant(77, 3600).unwrap();
    assert_eq!(fixture.bucket(), pairs(&[(b"\0\0\0\0\0\0\0\x4d", b"\x08\x4d\x10\x90\x1c")]));
    fixture.checkpoint(77, 3301);
    let value = b"\x08\x4d\x10\x90\x1c\x18\xe5\x19";
    assert_eq!(fixture.bucket(), pairs(&[(b"\0\0\0\0\0\0\0\x4d", value)]));
    fixture.checkpoint(77, 0);
    assert_eq!(fixture.bucket(), pairs(&[(b"\0\0\0\0\0\0\0\x4d", b"\x08\x4d\x10\x90\x1c")]));
    fixture.restart(Config::default());
    fixture.revoke(77).unwrap();
    assert_eq!(fixture.bucket(), []);
}

#[test]
fn a_negative_id_is_stored_in_two_s_complement_with_the_raised_ttl() {
    let fixture = Fixture::new(Config::default());
    fixture.grant(-2, -2).unwrap();
    let key = b"\xff\xff\xff\xff\xff\xff\xff\xfe";
    let value = b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x02";
    assert_eq!(fixture.bucket(), pairs(&[(key, value)]));
}

#[test]
fn before_3_6_checkpoints_are_persisted_only_if_configured() {
    for (cluster, persist, expected) in
        [(None, false, 1000), (V3_5, false, 1000), (V3_5, true, 700), (super::V3_7, false, 700)]
    {
        let config = Config { checkpoint_persist: persist, ..Config::default() };
        let mut fixture = Fixture::new(config);
        fixture.cluster = cluster;
        fixture.grant(1, 1000).unwrap();
        fixture.checkpoint(1, 700);
        fixture.restart(config);
        fixture.promote(seconds(0));
        assert_eq!(fixture.remaining(1), Some(expected), "{cluster:?} {persist}");
    }
}

#[test]
fn a_refused_operation_writes_nothing() {
    let fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    let before = fixture.bucket();
    assert!(fixture.grant(1, 90).is_err());
    assert!(fixture.grant(2, i64::MAX).is_err());
    assert!(fixture.revoke(2).is_err());
    fixture.checkpoint(2, 50);
    assert_eq!(fixture.bucket(), before);
}

#[test]
fn a_restart_restores_leases() {
    let disk = SimDisk::new(0);
    let config = Config::default();
    let fixture = Fixture { backend: open(&disk), ..Fixture::new(config) };
    fixture.grant(1, 60).unwrap();
    fixture.grant(2, 90).unwrap();
    fixture.grant(3, 90).unwrap();
    fixture.checkpoint(2, 40);
    fixture.revoke(3).unwrap();
    fixture.backend.force_commit().unwrap();
    drop(fixture);

    let mut fixture = Fixture { backend: open(&disk), ..Fixture::new(config) };
    fixture.restart(Config { ttl_min_seconds: 70, ..config });
    assert_eq!(fixture.leases(), [1, 2]);
    assert!(!fixture.lessor.is_primary());
    fixture.promote(seconds(0));
    assert_eq!(fixture.remaining(1), Some(70), "the minimum was raised at the restart");
    assert_eq!(fixture.remaining(2), Some(40));
}

/// The leader sends the whole database to a member that is behind.
#[test]
fn restoring_another_database_replaces_all_leases() {
    let other = Fixture::new(Config::default());
    other.grant(5, 60).unwrap();

    let mut fixture = Fixture::primary(Config::default());
    fixture.grant(1, 60).unwrap();
    assert!(fixture.lessor.attach(LeaseId(1), b"foo"));
    fixture.lessor.restore(&other.backend.view()).unwrap();
    assert_eq!(fixture.leases(), [5]);
    assert_eq!(fixture.lessor.lease_of(b"foo"), None);
    assert!(!fixture.lessor.is_primary());
    assert_eq!(fixture.expired_after(seconds(1000)), [0; 0]);
    assert!(fixture.lessor.attach(LeaseId(5), b"foo"));
}

#[test]
fn a_malformed_record_is_an_error_and_changes_nothing() {
    let damaged: [(&[u8], &[u8]); 3] = [
        (b"short", b""),
        (b"\0\0\0\0\0\0\0\x05", b"\x08"),
        (b"\0\0\0\0\0\0\0\x05", b"\x08\x06\x10\x3c"),
    ];
    for (key, value) in damaged {
        let fixture = Fixture::primary(Config::default());
        fixture.grant(1, 60).unwrap();
        fixture.apply(|tx| tx.put(Bucket::Lease, key.to_vec(), value.to_vec()).unwrap());
        assert!(fixture.lessor.restore(&fixture.backend.view()).is_err());
        assert_eq!(fixture.leases(), [1]);
        assert!(fixture.lessor.is_primary());
    }
}

#[test]
fn lessor_is_send_and_sync() {
    fn shared<T: Send + Sync + 'static>(_: &Arc<T>) {}
    let lessor = Arc::new(Lessor::new(Config::default()));
    shared(&lessor);
    assert!(lessor.is_empty());
}

fn pairs(pairs: &[(&[u8], &[u8])]) -> Vec<(bytes::Bytes, bytes::Bytes)> {
    pairs.iter().map(|(key, value)| (key.to_vec().into(), value.to_vec().into())).collect()
}
