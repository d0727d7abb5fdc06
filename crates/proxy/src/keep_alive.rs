//! Keep-alives of leases: all clients share one stream to a member.
//!
//! ```text
//!   client 1  renew 7 ─┐                         ┌─► client 1
//!   client 2  renew 7 ─┼─► waiting  7: 1, 2  ────┤─► client 2       one request for both
//!   client 3  renew 9 ─┘            9: 3     ────┴─► client 3
//!                              │  ▲
//!                              ▼  │ a lost stream is opened again, and requests repeated
//!                            member
//! ```
//!
//! A request is sent at most once at a time per lease: further ones wait for the same answer. Each
//! request of a client renews its lease, and nothing else does, so a lease ends with its client.
//! (etcd's proxy renews on its own for up to a TTL longer.)
//!
//! A member answers requests in order, and an error ends its stream. The error is the answer to the
//! oldest request without one; the others are sent again on a new stream.
//!
//! A client with credentials has a stream of its own, since a member checks those of a stream.
//! (etcd's proxy sends none, and reports the remaining time of a lease that it could not renew.)

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use grpc::Status;
use http::HeaderMap;
use parking_lot::Mutex;
use proto::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use crate::context::own_metadata;
use crate::upstream::{Upstream, from_tonic, is_unreachable};

/// The most unanswered requests of a client stream; it is not read further before some are
/// answered.
const UNANSWERED_MAX: usize = 1024;
/// The pause before a lost stream is opened again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The time for which an open stream without requests is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Requests that may be queued in front of the connection.
const SENDING_MAX: usize = 64;

/// etcd's text for a member that has just become, or ceased to be, the leader. A follower may have
/// added to it.
const NOT_PRIMARY: &str = "not a primary lessor";

/// The answer to a request.
type Answer = Result<LeaseKeepAliveResponse, Status>;

/// The keep-alives of all clients.
#[derive(Clone, Debug)]
pub(crate) struct KeepAlives {
    shared: Arc<KeepAliveShared>,
}

#[derive(Debug)]
struct KeepAliveShared {
    /// The metadata of the stream to a member.
    metadata: HeaderMap,
    state: Mutex<KeepAliveState>,
    /// Tells the task that there are requests to send.
    queued: Notify,
}

#[derive(Debug, Default)]
struct KeepAliveState {
    /// The clients that wait for an answer about a lease.
    waiting: BTreeMap<i64, Vec<mpsc::Sender<Answer>>>,
    /// Leases whose request is not sent yet.
    unsent: VecDeque<i64>,
    /// Leases whose request was sent on the current stream and not answered, oldest first.
    sent: VecDeque<i64>,
}

/// The requests of one client stream, and the answers to them.
#[derive(Debug)]
pub(crate) struct Renewals {
    shared: Arc<KeepAliveShared>,
    /// Cloned for each request.
    sender: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
    /// Requests whose answer was not taken. Senders and queued answers are no measure of it: the
    /// task drops a sender after it has queued the answer.
    unanswered: usize,
}

impl KeepAlives {
    /// Starts the task that talks to members for all clients without credentials.
    pub(crate) fn start(upstream: Upstream) -> KeepAlives {
        let (keep_alives, run) = KeepAlives::new(upstream, own_metadata());
        tokio::spawn(run);
        keep_alives
    }

    /// Creates keep-alives over a stream with this metadata, and the future that talks to members.
    pub(crate) fn new(
        upstream: Upstream,
        metadata: HeaderMap,
    ) -> (KeepAlives, impl Future<Output = ()> + Send + 'static) {
        let (state, queued) = (Mutex::default(), Notify::new());
        let shared = Arc::new(KeepAliveShared { metadata, state, queued });
        let keep_alives = KeepAlives { shared: Arc::clone(&shared) };
        (keep_alives, async move { shared.run(&upstream).await })
    }

    /// Registers a client stream.
    pub(crate) fn client(&self) -> Renewals {
        let (sender, answers) = mpsc::channel(UNANSWERED_MAX);
        Renewals { shared: Arc::clone(&self.shared), sender, answers, unanswered: 0 }
    }
}

impl Renewals {
    /// Renews a lease. The caller has checked that there is room.
    pub(crate) fn renew(&mut self, lease: i64) {
        self.unanswered += 1;
        let mut state = self.shared.state.lock();
        let waiting = state.waiting.entry(lease).or_default();
        let is_new = waiting.is_empty();
        waiting.push(self.sender.clone());
        if is_new {
            state.unsent.push_back(lease);
            self.shared.queued.notify_one();
        }
    }

    /// Takes the next answer. Waits forever without a request. Cancel safe.
    pub(crate) async fn next(&mut self) -> Answer {
        let answer = self.answers.recv().await.expect("the sender is kept");
        self.unanswered -= 1;
        answer
    }

    /// Returns whether another request is accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.unanswered < UNANSWERED_MAX
    }

    /// Returns whether the answers to all requests were taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered == 0
    }
}

impl Drop for Renewals {
    /// Forgets requests without an answer, so that they are not sent again and again while no
    /// member is reachable.
    fn drop(&mut self) {
        if !self.is_idle() {
            self.shared.state.lock().retain(|client| !client.same_channel(&self.sender));
        }
    }
}

impl KeepAliveShared {
    /// Opens a stream when there are requests, and serves it until it is lost.
    async fn run(&self, upstream: &Upstream) {
        loop {
            if self.state.lock().waiting.is_empty() {
                self.queued.notified().await;
                continue;
            }
            if let Err(status) = self.serve(upstream).await {
                tracing::debug!(%status, "the keep-alive stream was lost");
                // Without a pause after an answer: each such attempt answers a request.
                if is_renewal_retryable(&status) || !self.fail_oldest(&from_tonic(status)) {
                    sleep(RETRY_PAUSE).await;
                }
            }
            self.state.lock().requeue();
        }
    }

    async fn serve(&self, upstream: &Upstream) -> Result<(), tonic::Status> {
        let (sender, receiver) = mpsc::channel(SENDING_MAX);
        let requests = stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|request| (request, receiver))
        });
        let mut request = tonic::Request::new(requests);
        let metadata = self.metadata.clone();
        *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(metadata);
        let mut client = upstream.lease();
        let mut opening = pin!(client.lease_keep_alive(request));
        // A member may wait for the first request before it answers with headers.
        let mut answers = loop {
            self.send_queued(&sender);
            tokio::select! {
                opened = opening.as_mut() => break opened?.into_inner(),
                () = self.queued.notified() => {}
            }
        };
        loop {
            let has_unsent = !self.send_queued(&sender);
            tokio::select! {
                answer = answers.message() => match answer? {
                    Some(answer) => self.answer(&answer),
                    None => return Ok(()),
                },
                () = self.queued.notified(), if !has_unsent => {}
                room = sender.reserve(), if has_unsent => drop(room),
                idle = self.idle() => if idle { return Ok(()) },
            }
        }
    }

    /// Sends queued requests as long as there is room. Returns whether all are sent.
    fn send_queued(&self, to: &mpsc::Sender<LeaseKeepAliveRequest>) -> bool {
        let mut state = self.state.lock();
        while let Ok(permit) = to.try_reserve()
            && let Some(id) = state.unsent.pop_front()
        {
            permit.send(LeaseKeepAliveRequest { id });
            state.sent.push_back(id);
        }
        state.unsent.is_empty()
    }

    /// Waits for the time after which a stream is idle. Returns whether it is.
    async fn idle(&self) -> bool {
        sleep(IDLE_MAX).await;
        self.state.lock().waiting.is_empty()
    }

    fn answer(&self, answer: &LeaseKeepAliveResponse) {
        self.state.lock().answer(answer.id, &Ok(*answer));
    }

    /// Answers the request that was sent first with an error. Returns whether there was one.
    fn fail_oldest(&self, status: &Status) -> bool {
        let mut state = self.state.lock();
        let Some(oldest) = state.sent.front().copied() else { return false };
        state.answer(oldest, &Err(status.clone()));
        true
    }
}

impl KeepAliveState {
    fn answer(&mut self, lease: i64, answer: &Answer) {
        if let Some(at) = self.sent.iter().position(|sent| *sent == lease) {
            self.sent.remove(at);
        }
        for client in self.waiting.remove(&lease).unwrap_or_default() {
            // Its queue has room for all of its requests, unless the client has disconnected.
            let _ = client.try_send(answer.clone());
        }
    }

    /// Queues the requests again that have no answer, except for those of disconnected clients.
    fn requeue(&mut self) {
        self.retain(|client| !client.is_closed());
        self.unsent = self.waiting.keys().copied().collect();
        self.sent.clear();
    }

    /// Forgets the requests of all other clients. The answers to those that were sent are dropped.
    fn retain(&mut self, is_kept: impl Fn(&mpsc::Sender<Answer>) -> bool) {
        self.waiting.retain(|_, clients| {
            clients.retain(&is_kept);
            !clients.is_empty()
        });
        self.unsent.retain(|lease| self.waiting.contains_key(lease));
    }
}

/// Returns whether a renewal that has failed may succeed in another attempt.
pub(crate) fn is_renewal_retryable(status: &tonic::Status) -> bool {
    is_unreachable(status) || status.message().contains(NOT_PRIMARY)
}

#[cfg(test)]
mod tests;
