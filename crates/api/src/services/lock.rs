//! `v3lockpb.Lock`: the lease with the oldest key of a prefix holds the lock.
//!
//! ```text
//!   Lock "jobs"   ─► put jobs/<lease> unless it exists; read the oldest key
//!                      our own  ─► held: reply
//!                      another  ─► wait until all older keys are deleted
//!                                  ─► does our key still exist? ─► held: reply
//!   Unlock key    ─► delete it
//! ```
//!
//! A lock ends with its lease. The key of a call that is canceled while it waits is deleted, with
//! the caller's credentials.

use bytes::Bytes;
use grpc::{Code, RequestBody};
use proto::etcdserverpb as pb;
use proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};

use super::recipes::{self, LocalClient};
use crate::body::GrpcResponse;
use crate::context::{Call, Context};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Lock;

pub(super) fn serve<B: RequestBody>(rpc: Lock, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Lock::Lock => call.unary(interceptor::unary, lock),
        Lock::Unlock => call.unary(interceptor::unary, unlock),
    }
}

/// Acquires a lock.
async fn lock(cx: Context, request: LockRequest) -> Result<LockResponse, CallError> {
    let client = LocalClient::new(&cx);
    let lease = client.lease(request.lease).await?;
    let prefix = recipes::prefix(&request.name);
    let key = recipes::key_of(&prefix, lease);
    // A lease of the client may already hold the lock, so its key is deleted on cancellation only
    // once the call waits. The key of a lease created here is of no use to any client but this one,
    // and must not stay if the reply is never sent.
    let mut queued = QueuedKey { client: client.clone(), key: None };
    if request.lease == 0 {
        queued.delete_on_drop(&key);
    }
    let joined = client.txn(join(&prefix, &key, lease)).await?;
    let created = match joined.succeeded {
        true => joined.revision,
        false => recipes::found(&joined, 0).map_or(joined.revision, |kv| kv.create_revision),
    };
    let first = recipes::found(&joined, 1);
    if first.is_none_or(|first| first.create_revision == created) {
        queued.keep();
        return Ok(LockResponse { header: client.header(joined.revision), key });
    }
    queued.delete_on_drop(&key);
    client.wait_deletes(&prefix, created - 1).await?;
    let owner_key = pb::RangeRequest { key: key.clone(), ..pb::RangeRequest::default() };
    let owner_key = client.range(&owner_key).await?;
    queued.keep();
    if owner_key.kvs.is_empty() {
        return Err(CallError::new(Code::Unknown, "mutex: session is expired"));
    }
    Ok(LockResponse { header: client.header(owner_key.revision), key })
}

/// Releases a lock, held or not.
async fn unlock(cx: Context, request: UnlockRequest) -> Result<UnlockResponse, CallError> {
    let client = LocalClient::new(&cx);
    let revision = client.delete(request.key).await?;
    Ok(UnlockResponse { header: client.header(revision) })
}

/// Creates a transaction that puts the key, unless it exists, and reads the oldest key.
fn join(prefix: &Bytes, key: &Bytes, lease: i64) -> pb::TxnRequest {
    let first = || recipes::get(recipes::first_by_creation(prefix));
    pb::TxnRequest {
        compare: vec![recipes::created_at(key, 0)],
        success: vec![recipes::put(key, Bytes::new(), lease), first()],
        failure: vec![recipes::get_key(key), first()],
    }
}

/// A key in the queue of a lock, deleted on drop: when waiting failed or the call was canceled.
struct QueuedKey {
    client: LocalClient,
    key: Option<Bytes>,
}

impl QueuedKey {
    fn delete_on_drop(&mut self, key: &Bytes) {
        self.key = Some(key.clone());
    }

    fn keep(&mut self) {
        self.key = None;
    }
}

impl Drop for QueuedKey {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let client = self.client.clone();
        self.client.spawn(async move {
            if let Err(CallError(error)) = client.delete(key).await {
                tracing::warn!(%error, "failed to delete the key of a canceled lock request");
            }
        });
    }
}
