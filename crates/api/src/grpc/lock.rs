//! `v3lockpb.Lock`: whoever has the oldest key below a name holds it.
//!
//! ```text
//!   Lock "jobs"   ─► put jobs/<lease> unless it is there; who is first?
//!                      me           ─► mine: the answer to that
//!                      somebody     ─► wait until all before me are gone ─► is my key still there? ─► mine
//!   Unlock key    ─► delete it
//! ```
//!
//! A lock ends with its lease. Whoever gives up waiting leaves no key behind: it is deleted, with the rights of whoever asked.

use bytes::Bytes;
use http::Response;
use proto::etcdserverpb as pb;
use proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};

use super::call::{Call, Context};
use super::message::RequestBody;
use super::recipe::{self, Client};
use super::rpc::Lock;
use super::status::{Code, Status};
use crate::body::Body;

pub(super) async fn serve<B: RequestBody>(rpc: Lock, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Lock::Lock => call.unary(lock).await,
        Lock::Unlock => call.unary(unlock).await,
    }
}

/// Waits until the lock is held.
async fn lock(cx: Context, request: LockRequest) -> Result<LockResponse, Status> {
    let client = Client::new(&cx);
    let lease = client.lease(request.lease).await?;
    let prefix = recipe::prefix(&request.name);
    let key = recipe::key_of(&prefix, lease);
    // A lease that was given may hold the lock already, so its key is given up only by whoever was seen to wait. The key of a lease that was made here
    // is nobody else's: it must not stay if the answer never comes.
    let mut place = Place { client: client.clone(), key: None };
    if request.lease == 0 {
        place.give_up(&key);
    }
    let joined = client.txn(join(&prefix, &key, lease)).await?;
    let created = match joined.succeeded {
        true => joined.revision,
        false => recipe::found(&joined, 0).map_or(joined.revision, |kv| kv.create_revision),
    };
    let first = recipe::found(&joined, 1);
    if first.is_none_or(|first| first.create_revision == created) {
        place.keep();
        return Ok(LockResponse { header: client.header(joined.revision), key });
    }
    place.give_up(&key);
    client.wait_deletes(&prefix, created - 1).await?;
    let mine = pb::RangeRequest { key: key.clone(), ..pb::RangeRequest::default() };
    let mine = client.range(&mine).await?;
    place.keep();
    if mine.kvs.is_empty() {
        return Err(Status::new(Code::Unknown, "mutex: session is expired"));
    }
    Ok(LockResponse { header: client.header(mine.revision), key })
}

/// Lets go of a lock. It need not be held.
async fn unlock(cx: Context, request: UnlockRequest) -> Result<UnlockResponse, Status> {
    let client = Client::new(&cx);
    let revision = client.delete(request.key).await?;
    Ok(UnlockResponse { header: client.header(revision) })
}

/// Takes a place in the queue, unless this lease has one; and looks who is first.
fn join(prefix: &Bytes, key: &Bytes, lease: i64) -> pb::TxnRequest {
    let first = || recipe::get(recipe::first_by_creation(prefix));
    pb::TxnRequest {
        compare: vec![recipe::created_at(key, 0)],
        success: vec![recipe::put(key, Bytes::new(), lease), first()],
        failure: vec![recipe::get_key(key), first()],
    }
}

/// A place in the queue, whose key is deleted when this is dropped: because waiting failed, or nobody waits any more.
struct Place {
    client: Client,
    key: Option<Bytes>,
}

impl Place {
    fn give_up(&mut self, key: &Bytes) {
        self.key = Some(key.clone());
    }

    fn keep(&mut self) {
        self.key = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let client = self.client.clone();
        self.client.afterwards(async move {
            if let Err(error) = client.delete(key).await {
                tracing::warn!(%error, "failed to delete the key of a lock that nobody waits for");
            }
        });
    }
}
