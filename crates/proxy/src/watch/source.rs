//! Watchers at members, one per broadcast, over one stream per token.
//!
//! ```text
//!   source of token t     watchers   4  [a, c)  next 12  created
//!                                    7  d       next 0   creating
//!                                    9  e       next 3   queued
//!        │ create 7 ─────────────────────────────►  member 1
//!        │ events of 4 ◄──────────────────────────
//!        ✕ lost
//!        │ create 4 from 12, then 7, then 9 ─────►  member 2
//! ```
//!
//! Watchers are created one at a time, because a member that refuses one does not name it. When the
//! stream is lost, all watchers are created again on the next member, from the revision after the
//! last one that was received, so that receivers neither miss nor repeat an event.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use tonic::Streaming;

use super::broadcasts::{BroadcastId, next_revision};
use super::{WatchRange, WatchesState};
use crate::context::token_alone;
use crate::upstream::{Upstream, is_unreachable};

/// The pause before a lost stream is opened again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Requests that may be queued in front of the connection.
const SENDING_MAX: usize = 16;

/// The sources of all tokens.
#[derive(Debug)]
pub(crate) struct Sources {
    upstream: Upstream,
    watches: Weak<WatchesState>,
    state: Mutex<SourcesState>,
}

#[derive(Debug, Default)]
struct SourcesState {
    by_token: HashMap<TokenKey, Arc<Source>>,
    by_broadcast: BTreeMap<BroadcastId, Arc<Source>>,
}

/// The headers that identify a user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TokenKey(Option<HeaderValue>, Option<HeaderValue>);

impl TokenKey {
    fn of(metadata: &HeaderMap) -> TokenKey {
        let header = |name: &str| metadata.get(name).cloned();
        TokenKey(header("token"), header("authorization"))
    }
}

/// The watchers of one token.
#[derive(Debug)]
struct Source {
    token: TokenKey,
    metadata: HeaderMap,
    state: Mutex<Watchers>,
    /// Tells the task that there is something to send.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Watchers {
    all: BTreeMap<BroadcastId, Watcher>,
    /// Watchers to create, in this order.
    queued: BTreeSet<BroadcastId>,
    /// The watcher whose creation was requested and not answered.
    creating: Option<BroadcastId>,
    /// Watchers to cancel.
    canceled: Vec<BroadcastId>,
}

#[derive(Clone, Debug)]
struct Watcher {
    range: WatchRange,
    next_revision: i64,
    /// Whether receivers know that it was created.
    announced: bool,
}

impl Sources {
    pub(super) fn new(upstream: Upstream, watches: Weak<WatchesState>) -> Sources {
        Sources { upstream, watches, state: Mutex::default() }
    }

    /// Creates a watcher for a broadcast, with the token of a client.
    pub(crate) fn create(
        &self,
        id: BroadcastId,
        range: WatchRange,
        next_revision: i64,
        metadata: &HeaderMap,
    ) {
        let mut state = self.state.lock();
        let source = self.source(&mut state, metadata);
        let mut watchers = source.state.lock();
        watchers.all.insert(id, Watcher { range, next_revision, announced: false });
        watchers.queued.insert(id);
        drop(watchers);
        source.changed.notify_one();
        state.by_broadcast.insert(id, source);
    }

    /// Returns the source of a token, which is started if there is none.
    fn source(&self, state: &mut SourcesState, metadata: &HeaderMap) -> Arc<Source> {
        let token = TokenKey::of(metadata);
        if let Some(known) = state.by_token.get(&token) {
            return Arc::clone(known);
        }
        let source = Arc::new(Source {
            token: token.clone(),
            metadata: token_alone(metadata),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        state.by_token.insert(token, Arc::clone(&source));
        let task = Task {
            source: Arc::clone(&source),
            upstream: self.upstream.clone(),
            watches: self.watches.clone(),
        };
        tokio::spawn(task.run());
        source
    }

    /// Ends the watcher of a broadcast.
    pub(crate) fn cancel(&self, id: BroadcastId) {
        let Some(source) = self.state.lock().by_broadcast.remove(&id) else { return };
        source.state.lock().cancel(id);
        source.changed.notify_one();
    }

    /// Forgets a watcher that a member has ended.
    fn forget(&self, id: BroadcastId) {
        self.state.lock().by_broadcast.remove(&id);
    }

    /// Removes a source without watchers. Returns whether it was removed.
    fn retire(&self, source: &Arc<Source>) -> bool {
        let mut state = self.state.lock();
        let is_idle = source.state.lock().is_idle();
        if is_idle {
            state.by_token.remove(&source.token);
        }
        is_idle
    }
}

impl Watchers {
    fn is_idle(&self) -> bool {
        self.all.is_empty() && self.creating.is_none() && self.canceled.is_empty()
    }

    fn cancel(&mut self, id: BroadcastId) {
        self.all.remove(&id);
        // A queued watcher is unknown to the member; one that is being created is canceled when the
        // answer arrives.
        if !self.queued.remove(&id) && self.creating != Some(id) {
            self.canceled.push(id);
        }
    }

    /// Returns the next request to send.
    fn next_request(&mut self) -> Option<WatchRequest> {
        if let Some(watch_id) = self.canceled.pop() {
            let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id });
            return Some(WatchRequest { request_union: Some(cancel) });
        }
        if self.creating.is_some() {
            return None;
        }
        let id = self.queued.pop_first()?;
        let watcher = self.all.get(&id)?;
        self.creating = Some(id);
        let create = WatchCreateRequest {
            key: watcher.range.key.clone(),
            range_end: watcher.range.end.clone(),
            start_revision: watcher.next_revision,
            progress_notify: true,
            prev_kv: true,
            watch_id: id,
            ..WatchCreateRequest::default()
        };
        Some(WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) })
    }

    /// Takes a response of the member. Returns the broadcast that it is for.
    fn receive(&mut self, response: &WatchResponse) -> Option<BroadcastId> {
        if response.created {
            return self.receive_created(response);
        }
        let id = response.watch_id;
        let watcher = self.all.get_mut(&id)?;
        if response.canceled {
            self.all.remove(&id);
            return Some(id);
        }
        watcher.next_revision = next_revision(response).max(watcher.next_revision);
        Some(id)
    }

    fn receive_created(&mut self, response: &WatchResponse) -> Option<BroadcastId> {
        let id = self.creating.take()?;
        if response.canceled {
            return self.all.remove(&id).map(|_| id);
        }
        let Some(watcher) = self.all.get_mut(&id) else {
            // It was canceled meanwhile.
            self.canceled.push(id);
            return None;
        };
        if watcher.next_revision == 0 {
            watcher.next_revision = next_revision(response);
        }
        let is_news = !std::mem::replace(&mut watcher.announced, true);
        is_news.then_some(id)
    }

    /// Prepares a new stream: all watchers have to be created again.
    fn restart(&mut self) {
        self.creating = None;
        self.canceled.clear();
        self.queued = self.all.keys().copied().collect();
    }
}

/// The task of a source.
struct Task {
    source: Arc<Source>,
    upstream: Upstream,
    watches: Weak<WatchesState>,
}

impl Task {
    /// Serves streams until there are no watchers left.
    async fn run(self) {
        loop {
            self.source.state.lock().restart();
            match self.serve().await {
                Ok(()) => {}
                Err(status) => {
                    tracing::debug!(%status, "the watch stream was lost");
                    if !is_unreachable(&status) {
                        self.fail(&status);
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
            match self.watches.upgrade() {
                Some(watches) if !watches.sources.retire(&self.source) => {}
                _ => return,
            }
        }
    }

    /// Serves one stream. Returns when it is lost, or when there are no watchers.
    async fn serve(&self) -> Result<(), tonic::Status> {
        let (sender, receiver) = mpsc::channel(SENDING_MAX);
        let requests = stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|request| (request, receiver))
        });
        let mut request = tonic::Request::new(requests);
        *request.metadata_mut() =
            tonic::metadata::MetadataMap::from_headers(self.source.metadata.clone());
        let mut client = self.upstream.watch();
        let mut opening = pin!(client.watch(request));
        // A member may wait for the first request before it answers with headers.
        let mut responses = loop {
            self.send_queued(&sender);
            tokio::select! {
                opened = opening.as_mut() => break opened?.into_inner(),
                () = self.source.changed.notified() => {}
            }
        };
        self.exchange(&sender, &mut responses).await
    }

    async fn exchange(
        &self,
        sender: &mpsc::Sender<WatchRequest>,
        responses: &mut Streaming<WatchResponse>,
    ) -> Result<(), tonic::Status> {
        loop {
            let is_full = !self.send_queued(sender);
            if self.source.state.lock().is_idle() {
                return Ok(());
            }
            tokio::select! {
                response = responses.message() => match response? {
                    Some(response) => self.receive(response),
                    None => return Err(tonic::Status::unavailable("the watch stream has ended")),
                },
                () = self.source.changed.notified(), if !is_full => {}
                room = sender.reserve(), if is_full => drop(room),
            }
        }
    }

    /// Sends requests as long as there is room. Returns whether all are sent.
    fn send_queued(&self, to: &mpsc::Sender<WatchRequest>) -> bool {
        loop {
            let Ok(permit) = to.try_reserve() else { return false };
            match self.source.state.lock().next_request() {
                Some(request) => permit.send(request),
                None => return true,
            }
        }
    }

    fn receive(&self, response: WatchResponse) {
        let Some(id) = self.source.state.lock().receive(&response) else { return };
        let Some(watches) = self.watches.upgrade() else { return };
        if response.canceled {
            watches.sources.forget(id);
        }
        watches.deliver(id, response);
    }

    /// Ends all watchers with an error that another attempt would not change.
    fn fail(&self, status: &tonic::Status) {
        let Some(watches) = self.watches.upgrade() else { return };
        let failed = std::mem::take(&mut *self.source.state.lock()).all;
        for (id, watcher) in failed {
            watches.sources.forget(id);
            let response = WatchResponse {
                header: Some(proto::etcdserverpb::ResponseHeader::default()),
                created: !watcher.announced,
                canceled: true,
                cancel_reason: status.message().to_owned(),
                ..WatchResponse::default()
            };
            watches.deliver(id, response);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::receiver::tests::{events, put};
    use super::*;

    fn watchers(ids: &[BroadcastId]) -> Watchers {
        let mut watchers = Watchers::default();
        for id in ids {
            let range = WatchRange { key: "a".into(), end: bytes::Bytes::new() };
            let watcher = Watcher { range, next_revision: 0, announced: false };
            watchers.all.insert(*id, watcher);
            watchers.queued.insert(*id);
        }
        watchers
    }

    fn created(revision: i64) -> WatchResponse {
        WatchResponse { created: true, ..events(revision, Vec::new()) }
    }

    /// Returns the id and start revision of the next create request, or the id of a cancel request
    /// as a negative number.
    fn sent(watchers: &mut Watchers) -> Option<(i64, i64)> {
        match watchers.next_request()?.request_union? {
            RequestUnion::CreateRequest(create) => Some((create.watch_id, create.start_revision)),
            RequestUnion::CancelRequest(cancel) => Some((-cancel.watch_id, 0)),
            RequestUnion::ProgressRequest(_) => None,
        }
    }

    #[test]
    fn watchers_are_created_one_at_a_time() {
        let mut all = watchers(&[1, 2]);
        assert_eq!(sent(&mut all), Some((1, 0)));
        assert_eq!(sent(&mut all), None);
        assert_eq!(all.receive(&created(7)), Some(1));
        assert_eq!(sent(&mut all), Some((2, 0)));
    }

    #[test]
    fn a_lost_stream_is_resumed_after_the_last_event() {
        let mut all = watchers(&[1, 2]);
        sent(&mut all);
        all.receive(&created(7));
        let event = WatchResponse { watch_id: 1, ..events(30, vec![put(9)]) };
        assert_eq!(all.receive(&event), Some(1));
        all.restart();
        assert_eq!(sent(&mut all), Some((1, 10)));
        assert_eq!(all.receive(&created(31)), None, "receivers know that it exists");
        assert_eq!(sent(&mut all), Some((2, 0)));
        assert_eq!(all.receive(&created(31)), Some(2));
    }

    #[test]
    fn a_refused_watcher_is_the_one_that_is_being_created() {
        let mut all = watchers(&[1, 2]);
        sent(&mut all);
        let refused = WatchResponse { canceled: true, watch_id: -1, ..created(0) };
        assert_eq!(all.receive(&refused), Some(1));
        assert_eq!(sent(&mut all), Some((2, 0)));
    }

    #[test]
    fn a_watcher_is_canceled_wherever_it_is() {
        let mut all = watchers(&[1, 2, 3]);
        sent(&mut all);
        all.receive(&created(7));
        sent(&mut all);
        all.cancel(1);
        all.cancel(2);
        all.cancel(3);
        assert_eq!(sent(&mut all), Some((-1, 0)), "created");
        assert_eq!(sent(&mut all), None, "being created, queued");
        assert_eq!(all.receive(&created(7)), None);
        assert_eq!(sent(&mut all), Some((-2, 0)));
        assert!(all.is_idle());
    }
}
