//! `etcdserverpb.Watch`: a stream of watchers, which share those of other clients.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use grpc::{Code, RequestBody, Status};
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    RangeRequest, ResponseHeader, WatchCreateRequest, WatchRequest, WatchResponse,
};

use crate::context::{Context, Replies, Requests};
use crate::errors::COMPACTED;
use crate::watch::WatchRange;
use crate::watch::broadcasts::ReceiverId;
use crate::watch::outbox::Outbox;
use crate::watch::receiver::{Options, Receiver};

/// The most watchers of a stream.
const WATCHERS_MAX: usize = 1 << 16;
/// The id of a watcher that was not created.
const INVALID_ID: i64 = -1;
/// etcd's text for an id that is in use.
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

type Check = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

pub(super) async fn watch<B: RequestBody>(
    cx: Context,
    requests: Requests<B, WatchRequest>,
    replies: Replies,
) -> Result<(), Status> {
    let handler = WatchHandler {
        cx: Arc::new(cx),
        watchers: BTreeMap::new(),
        next_id: 0,
        outbox: Arc::default(),
        checking: None,
    };
    handler.run(requests, replies).await
}

/// The handler of one stream. Dropping it removes its watchers.
struct WatchHandler {
    cx: Arc<Context>,
    watchers: BTreeMap<i64, ReceiverId>,
    next_id: i64,
    outbox: Arc<Outbox>,
    /// A watcher whose permission is being checked. Requests wait meanwhile.
    checking: Option<(WatchCreateRequest, Check)>,
}

impl WatchHandler {
    async fn run<B: RequestBody>(
        mut self,
        mut requests: Requests<B, WatchRequest>,
        replies: Replies,
    ) -> Result<(), Status> {
        let mut open = true;
        loop {
            while let Some(response) = self.outbox.pop() {
                self.forget_ended(&response);
                replies.send(&response).await?;
            }
            if self.outbox.is_overflown() {
                return Err(Status::CANCELED);
            }
            let reads = open && self.checking.is_none();
            tokio::select! {
                biased;
                checked = check(&mut self.checking), if self.checking.is_some() => {
                    if let Some((create, _)) = self.checking.take() {
                        self.create(&create, checked);
                    }
                }
                () = self.outbox.pushed() => {}
                request = requests.next(), if reads => match request? {
                    Some(request) => self.handle(request),
                    None => open = false,
                },
            }
        }
    }

    fn handle(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) if create.start_revision < 0 => {
                self.refuse(COMPACTED);
            }
            Some(RequestUnion::CreateRequest(create)) => {
                let check = permission(Arc::clone(&self.cx), &create);
                self.checking = Some((create, Box::pin(check)));
            }
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id),
            // Compat: as in etcd.
            request => {
                tracing::error!(?request, "not supported request type by gRPC proxy");
            }
        }
    }

    fn create(&mut self, request: &WatchCreateRequest, checked: Result<(), Status>) {
        if let Err(status) = checked {
            return self.refuse(&refusal(&status));
        }
        let range = WatchRange { key: request.key.clone(), end: request.range_end.clone() };
        if !range.is_valid() {
            return self.refuse("");
        }
        if self.watchers.len() >= WATCHERS_MAX {
            return self.refuse("etcdserver: too many requests");
        }
        let Some(watch_id) = self.choose_id(request.watch_id) else {
            return self.refuse(DUPLICATE_ID);
        };
        let receiver = Receiver {
            range,
            watch_id,
            next_revision: request.start_revision,
            options: options(request),
            last_header: None,
            outbox: Arc::clone(&self.outbox),
        };
        let added = self.cx.shared().watches.add(receiver, self.cx.metadata());
        self.watchers.insert(watch_id, added);
    }

    /// Returns the id that a client requests, or the next free one; none if it is in use.
    ///
    /// A refusal carries the invalid id, so no watcher has it. (etcd's proxy chooses all ids
    /// itself; a member creates a watcher with the invalid id.)
    fn choose_id(&mut self, wanted: i64) -> Option<i64> {
        if wanted != 0 && wanted != INVALID_ID {
            return (!self.watchers.contains_key(&wanted)).then_some(wanted);
        }
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Some(self.next_id - 1)
    }

    fn cancel(&mut self, watch_id: i64) {
        let Some(id) = self.watchers.remove(&watch_id) else { return };
        // A watcher that a member has ended has been reported.
        let Some(receiver) = self.cx.shared().watches.remove(id) else { return };
        let header = receiver.last_header;
        self.outbox.push(WatchResponse {
            header,
            watch_id,
            canceled: true,
            ..WatchResponse::default()
        });
    }

    /// Reports a watcher that was not created.
    fn refuse(&self, reason: &str) {
        self.outbox.push(WatchResponse {
            header: Some(ResponseHeader::default()),
            watch_id: INVALID_ID,
            created: true,
            canceled: true,
            cancel_reason: reason.to_owned(),
            ..WatchResponse::default()
        });
    }

    /// Forgets a watcher that a member has ended.
    fn forget_ended(&mut self, response: &WatchResponse) {
        if response.canceled
            && let Some(id) = self.watchers.remove(&response.watch_id)
        {
            self.cx.shared().watches.remove(id);
        }
    }
}

impl Drop for WatchHandler {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.watchers).into_values() {
            self.cx.shared().watches.remove(id);
        }
    }
}

/// Polls the check of a permission.
async fn check(checking: &mut Option<(WatchCreateRequest, Check)>) -> Result<(), Status> {
    match checking {
        Some((_, check)) => check.as_mut().await,
        None => Ok(()),
    }
}

/// Checks whether the client may read the range: a watcher of another client may serve it, which
/// the member then does not learn of.
fn permission(
    cx: Arc<Context>,
    create: &WatchCreateRequest,
) -> impl Future<Output = Result<(), Status>> + use<> {
    let all = bytes::Bytes::from_static(b"\0");
    let (key, range_end) = match create.key.is_empty() {
        true => (all.clone(), all),
        false => (create.key.clone(), create.range_end.clone()),
    };
    let request = RangeRequest {
        key,
        range_end,
        serializable: true,
        count_only: true,
        limit: 1,
        ..RangeRequest::default()
    };
    async move { cx.shared().kv.read(cx.metadata(), request).await.map(|_| ()) }
}

/// Returns the reason of a refused watcher, as etcd prints an error.
fn refusal(status: &Status) -> String {
    match status.code {
        Code::Unknown => status.message.to_string(),
        code => format!("rpc error: code = {} desc = {}", code.name(), status.message),
    }
}

fn options(request: &WatchCreateRequest) -> Options {
    Options {
        progress_notify: request.progress_notify,
        prev_kv: request.prev_kv,
        no_put: request.filters().any(|filter| filter == FilterType::Noput),
        no_delete: request.filters().any(|filter| filter == FilterType::Nodelete),
    }
}
