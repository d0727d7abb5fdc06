//! Results and responses as the traces show them.

use std::fmt::Write as _;

use mvcc::kv::KeyValueRef;
use mvcc::watch::{Response, WatchedEvent};
use mvcc::{CompactionTurn, DeleteRangeResult, EventKind, Kvs, OpResult, PutResult, RangeResult};
use mvcc::{KeyValueHash, TxnResult};

/// `a=1 (create 2, mod 3, version 2, lease 7)`.
pub(crate) fn kv(encoded: &[u8]) -> String {
    let kv = KeyValueRef::parse(encoded).unwrap();
    let KeyValueRef { create_revision, mod_revision, version, lease, .. } = kv;
    let lease = if lease == 0 { String::new() } else { format!(", lease {lease}") };
    let (key, value) = (kv.key.escape_ascii(), kv.value.escape_ascii());
    format!(
        "{key}={value} (create {create_revision}, mod {mod_revision}, version {version}{lease})"
    )
}

fn kvs(kvs: &Kvs, label: &str) -> String {
    kvs.iter().fold(String::new(), |mut out, encoded| {
        let _ = write!(out, "\n{label}{}", kv(encoded));
        out
    })
}

pub(crate) fn range(result: &RangeResult) -> String {
    let more = if result.more { ", more" } else { "" };
    format!("revision {}, count {}{more}{}", result.revision, result.count, kvs(&result.kvs, ""))
}

pub(crate) fn put(result: &PutResult) -> String {
    let prev = result.prev_kv.as_ref().map(|prev| format!("\nprev {}", kv(prev)));
    format!("revision {}{}", result.revision, prev.unwrap_or_default())
}

pub(crate) fn delete(result: &DeleteRangeResult) -> String {
    let prev = kvs(&result.prev_kvs, "prev ");
    format!("revision {}, deleted {}{prev}", result.revision, result.deleted)
}

pub(crate) fn txn(result: &TxnResult) -> String {
    let responses = result.responses.iter().map(|response| match response {
        OpResult::Range(result) => format!("range: {}", range(result)),
        OpResult::Put(result) => format!("put: {}", put(result)),
        OpResult::DeleteRange(result) => format!("delete: {}", delete(result)),
        OpResult::Txn(result) => format!("txn: {}", txn(result)),
        OpResult::Nothing => "nothing".to_owned(),
    });
    let mut out = format!("revision {}, succeeded {}", result.revision, result.succeeded);
    for response in responses {
        let _ = write!(out, "\n{}", response.replace('\n', "\n  "));
    }
    out
}

pub(crate) fn hash(hash: &KeyValueHash) -> String {
    let KeyValueHash { hash, compact_revision, revision } = hash;
    format!("{hash:08x} (revision {revision}, compacted {compact_revision})")
}

pub(crate) fn turn(turn: CompactionTurn) -> String {
    match turn {
        CompactionTurn::Idle => "idle".to_owned(),
        CompactionTurn::Index => "index".to_owned(),
        CompactionTurn::File { dropped } => format!("database: {dropped} deleted"),
        CompactionTurn::Finished { dropped, .. } => {
            format!("database: {dropped} deleted, finished")
        }
    }
}

/// Prints a line for the response, and one for each event.
pub(crate) fn response(response: &Response) -> String {
    let mut out = format!("watch {} revision {}", response.watch_id, response.revision);
    let flags = [
        (response.created, " created"),
        (response.canceled, " canceled"),
        (response.fragment, " fragment"),
    ];
    flags.iter().filter(|(set, _)| *set).for_each(|(_, name)| out.push_str(name));
    if response.compact_revision != 0 {
        let _ = write!(out, " compact-revision {}", response.compact_revision);
    }
    if !response.cancel_reason.is_empty() {
        let _ = write!(out, " reason {:?}", response.cancel_reason);
    }
    for WatchedEvent { event, prev_kv } in &response.events {
        let _ = match event.kind {
            EventKind::Put => write!(out, "\n  PUT {}", kv(&event.kv)),
            EventKind::Delete => {
                let kv = KeyValueRef::parse(&event.kv).unwrap();
                write!(out, "\n  DELETE {} (mod {})", kv.key.escape_ascii(), kv.mod_revision)
            }
        };
        if let Some(prev) = prev_kv {
            let _ = write!(out, "\n    prev {}", kv(prev));
        }
    }
    out
}
