//! Splits and translates arbitrary bytes as the JSON of gateway requests.
//!
//! Invariants: no panic. A translated request decodes as a message of its type.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/api/src/gateway/json/mod.rs"]
mod json;

use json::read::read;
use json::split::Values;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use proto::etcdserverpb::{LeaseGrantRequest, PutRequest, RangeRequest, TxnRequest, WatchRequest};

fuzz_target!(|input: &[u8]| {
    let mut values = Values::new(1 << 16);
    values.add(input);
    while let Ok(Some(value)) = values.next() {
        translate(&value);
    }
    if let Ok(Some(value)) = values.last() {
        translate(&value);
    }
});

fn translate(value: &[u8]) {
    check::<PutRequest>(value, "/etcdserverpb.KV/Put");
    check::<RangeRequest>(value, "/etcdserverpb.KV/Range");
    check::<TxnRequest>(value, "/etcdserverpb.KV/Txn");
    check::<WatchRequest>(value, "/etcdserverpb.Watch/Watch");
    check::<LeaseGrantRequest>(value, "/etcdserverpb.Lease/LeaseGrant");
}

fn check<M: Message + Default>(value: &[u8], method: &str) {
    let shape = proto::shape::request(method).expect("a method of etcd");
    if let Ok(bytes) = read(value, shape) {
        M::decode(&bytes[..]).expect("a translated request decodes");
    }
}
