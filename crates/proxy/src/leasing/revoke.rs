//! Asking other owners for their keys.
//!
//! ```text
//!   read    l/k = ""        created at 7     ─► put l/k "REVOKE" if it was created at 7, at 30
//!   read    l/k = "REVOKE"  at 30            ─► another writer has revoked it already
//!   watch   l/k from 31                      ─► deleted at 33: released, or its lease has ended
//! ```
//!
//! The wait ends when the owner releases the key, at the latest when the lease of an owner that is
//! gone expires, or when the client of the write cancels it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use grpc::Status;
use http::HeaderMap;
use proto::etcdserverpb::RangeRequest;
use proto::mvccpb::KeyValue;
use proto::mvccpb::event::EventType;
use tokio::time::sleep;

use super::requests::{self, REVOKE};
use super::watching::Watching;
use super::{KeyRange, LeasingState};

/// The most leasing keys that a write revokes at a time.
const BATCH_MAX: i64 = 64;
/// The pause before a leasing key is read again whose watcher has ended.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl LeasingState {
    /// Has all keys of a range released, also by this proxy.
    pub(super) async fn revoke_range(
        &self,
        metadata: &HeaderMap,
        range: &KeyRange,
    ) -> Result<(), Status> {
        let leasing_keys = self.leasing_keys.of_range(range);
        loop {
            let request = RangeRequest {
                key: leasing_keys.key.clone(),
                range_end: leasing_keys.end.clone(),
                limit: BATCH_MAX,
                ..RangeRequest::default()
            };
            let found = self.members.range(metadata, request).await?;
            if found.kvs.is_empty() {
                return Ok(());
            }
            let revision = found.header.unwrap_or_default().revision;
            self.revoke_all(metadata, &found.kvs, revision).await?;
        }
    }

    /// Has keys released whose leasing keys were read at `revision`.
    pub(super) async fn revoke_all(
        &self,
        metadata: &HeaderMap,
        leasing_keys: &[KeyValue],
        revision: i64,
    ) -> Result<(), Status> {
        let revoked = leasing_keys.iter().map(|kv| self.revoke(metadata, kv, revision));
        try_join_all(revoked).await.map(|_| ())
    }

    async fn revoke(
        &self,
        metadata: &HeaderMap,
        leasing_key: &KeyValue,
        mut revision: i64,
    ) -> Result<(), Status> {
        if leasing_key.value != REVOKE {
            let txn = requests::revoke(&leasing_key.key, leasing_key.create_revision);
            let revoked = self.members.txn(metadata, txn).await?;
            if !revoked.succeeded {
                return Ok(());
            }
            revision = revoked.header.unwrap_or_default().revision;
        }
        self.wait_until_deleted(metadata, &leasing_key.key, revision + 1).await;
        Ok(())
    }

    /// Waits until a leasing key was deleted at a revision or later. May end early: the caller
    /// reads the leasing key again.
    async fn wait_until_deleted(&self, metadata: &HeaderMap, leasing_key: &Bytes, from: i64) {
        let range = KeyRange { key: leasing_key.clone(), end: Bytes::new() };
        let watching = Watching::start(&self.watches, range, from, metadata);
        loop {
            match watching.next().await {
                Ok(response) => {
                    let deleted = i32::from(EventType::Delete);
                    if response.events.iter().any(|event| event.r#type == deleted) {
                        return;
                    }
                }
                Err(reason) => {
                    tracing::debug!(reason, "the watcher of a leasing key has ended");
                    return sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}
