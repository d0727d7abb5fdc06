//! Decodes arbitrary bytes as keys and values of the database, alone and as a database from which
//! all stores of a member are restored.
//!
//! ```text
//!   input    05 12 00 00 00 00 00 00 00 02 5f ...   08   0a 01 61 10 02 18 02 20 01
//!            │  │  └ the key                        │    └ the value
//!            │  └ its length                        └ its length
//!            └ the bucket: number five is `key`
//! ```
//!
//! Invariants: no panic. A decoded key or value encodes to an equal one; values of keys decode as
//! prost decodes them. What is restored once is restored again, and the restored stores work.

#![no_main]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::{AuthStore, Cost, Tokens};
use backend::schema::revision::RevisionKey;
use backend::schema::version::Version;
use backend::schema::{Bucket, cluster, keys, meta};
use backend::{Backend, BackendView};
use bytes::Bytes;
use env::{SimClock, SimDisk};
use lease::Lessor;
use libfuzzer_sys::fuzz_target;
use membership::{AlarmStore, Membership};
use mvcc::kv::KeyValueRef;
use mvcc::{Config, NoLeases, Store};
use prost::Message as _;
use proto::etcdserverpb::RangeRequest;
use proto::mvccpb::KeyValue;

/// The most pairs of a database, to bound the time of a run.
const PAIRS_MAX: usize = 64;
/// The clock at a restart.
const NOW: Duration = Duration::from_secs(1000);

fuzz_target!(|input: &[u8]| {
    let pairs = pairs(input);
    for (_, key, value) in &pairs {
        check_key(key);
        check_value(value);
    }
    let clock = Arc::new(SimClock::default());
    let disk = Arc::new(SimDisk::new(0));
    let config = backend::Config::default();
    let backend = Backend::open(disk, clock.clone(), Path::new("db"), config).expect("a new file");
    backend.create_buckets(&Bucket::ALL).expect("a disk without faults");
    let mut tx = backend.begin();
    for (bucket, key, value) in pairs {
        // An empty key is refused.
        let _ = tx.put(bucket, key, value);
    }
    tx.commit().expect("a disk without faults");
    let view = backend.view();
    check_meta(&backend, &view);
    check_membership(&backend, &view);
    check_leases(&view);
    check_auth(&view, clock);
    drop(view);
    check_keys(backend);
});

fn pairs(mut input: &[u8]) -> Vec<(Bucket, Bytes, Bytes)> {
    let mut pairs = Vec::new();
    while pairs.len() < PAIRS_MAX
        && let Some((&bucket, rest)) = input.split_first()
    {
        input = rest;
        let (key, value) = (take(&mut input), take(&mut input));
        pairs.push((Bucket::ALL[usize::from(bucket) % Bucket::COUNT], key, value));
    }
    pairs
}

fn take(input: &mut &[u8]) -> Bytes {
    let Some((&length, rest)) = input.split_first() else { return Bytes::new() };
    let (bytes, rest) = rest.split_at(usize::from(length).min(rest.len()));
    *input = rest;
    Bytes::copy_from_slice(bytes)
}

fn check_key(key: &[u8]) {
    if let Ok(key) = RevisionKey::decode(key) {
        assert_eq!(RevisionKey::decode(&key.encode()), Ok(key));
    }
    if let Some(id) = keys::decode_lease(key) {
        assert_eq!(&keys::lease(id)[..], key);
    }
    if let Some(id) = keys::decode_member(key) {
        assert_eq!(keys::decode_member(&keys::member(id)), Some(id));
    }
    if let Some(alarm) = keys::decode_alarm(key) {
        assert_eq!(keys::decode_alarm(&keys::alarm(&alarm)), Some(alarm));
    }
}

fn check_value(value: &[u8]) {
    if let Some(version) = Version::parse(value) {
        assert_eq!(Version::parse(version.to_string().as_bytes()), Some(version));
    }
    if let (Some(parsed), Ok(decoded)) = (KeyValueRef::parse(value), KeyValue::decode(value)) {
        assert_eq!(parsed.encode(), decoded.encode_to_vec(), "{parsed:?}");
    }
}

fn check_meta(backend: &Backend, view: &BackendView) {
    let _ = meta::applied(view);
    let _ = meta::scheduled_compaction(view);
    let _ = meta::finished_compaction(view);
    let _ = backend::schema::version::detect(view);
    if let Ok(Some(conf)) = meta::conf_state(view) {
        let mut tx = backend.begin();
        meta::set_conf_state(&mut tx, &conf);
        assert_eq!(meta::conf_state(&tx).expect("just written"), Some(conf));
    }
    if let Ok(Some(downgrade)) = cluster::downgrade(view) {
        let mut tx = backend.begin();
        cluster::set_downgrade(&mut tx, &downgrade);
        assert_eq!(cluster::downgrade(&tx).expect("just written"), Some(downgrade));
    }
}

fn check_membership(backend: &Backend, view: &BackendView) {
    let _ = AlarmStore::restore(view);
    let Ok(membership) = membership::store::read(view) else { return };
    let mut tx = backend.begin();
    for member in membership.members() {
        membership::store::put_member(&mut tx, member).expect("it was in the database");
    }
    assert_eq!(membership::store::read(&tx).expect("just written"), membership);
    // The v2 store has neither the downgrade nor a version without a patch number.
    let _: Membership = membership::v2::decode(&membership::v2::encode(&membership))
        .expect("decode what was encoded");
}

fn check_leases(view: &BackendView) {
    let lessor = Lessor::new(lease::Config::default());
    if lessor.restore(view).is_ok() {
        lessor.promote(Duration::from_secs(1), NOW);
        let _ = lessor.turn(NOW);
        let _ = lessor.turn(Duration::from_secs(u64::MAX / 2));
    }
}

fn check_auth(view: &BackendView, clock: Arc<SimClock>) {
    let store = AuthStore::new(Tokens::simple(Duration::ZERO), clock, Cost::new(4));
    if store.restore(view).is_ok() {
        let caller = store.info_from_common_name("alice");
        let range = RangeRequest { key: "a".into(), range_end: "z".into(), ..Default::default() };
        let allowed = store.check_range(&caller, &range).is_ok();
        store.restore(view).expect("it was restored before");
        assert_eq!(store.check_range(&caller, &range).is_ok(), allowed);
    }
}

fn check_keys(backend: Backend) {
    let Ok(store) = Store::open(backend, &NoLeases, Config::default()) else { return };
    let all = RangeRequest { key: vec![0].into(), range_end: vec![0].into(), ..Default::default() };
    if let Ok(result) = store.range(&all) {
        // Deleted keys count until they are compacted.
        assert!(u64::try_from(result.count).expect("a count") <= store.keys());
    }
}
