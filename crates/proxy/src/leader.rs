//! Detects the loss of the leader.
//!
//! Clients that need a leader (`hasleader: true`) require that their streams end when it is lost.
//! The streams to members are shared, so the proxy has to find out by itself: it watches a key that
//! never changes, on a stream that needs a leader. A member without a leader refuses that stream or
//! ends it.
//!
//! ```text
//!   unknown ── created ──► present ── "no leader" of each endpoint ──► lost ── created ──► present
//!                             │                                         ▲
//!                             └── no endpoint reachable for 5 s ────────┘
//! ```
//!
//! An endpoint that is down is not waited for. A stream that ends with its member or its connection
//! shows nothing about the leader: the next member is queried, and so is it when a single member
//! reports no leader, because that member may be isolated.
//!
//! Compat: etcd's proxy reads `hasleader` from the wrong metadata, so it ends no stream.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grpc::StreamRegistry;
use http::HeaderValue;
use proto::etcdserverpb::WatchCreateRequest;
use tokio::time::{Instant, sleep};

use crate::context::{HAS_LEADER, own_metadata};
use crate::errors::{NO_LEADER, no_leader};
use crate::upstream::{SentTo, Upstream};

/// The key that is watched. As in etcd.
const KEY: &str = "__lostleader";
/// The revision to watch from: none that a key will have. As in etcd.
const REVISION: i64 = i64::MAX - 2;
/// The pause between two attempts. As in etcd.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The time without a reachable endpoint after which the leader is taken for lost.
const UNREACHABLE_MAX: Duration = Duration::from_secs(5);

/// The presence of a leader. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leader {
    lost: Arc<AtomicBool>,
}

impl Leader {
    /// Returns whether the leader is lost. False until a member has answered.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Watches for the loss of the leader, and ends the streams that need one, forever.
    pub(crate) async fn watch(&self, upstream: &Upstream, streams: &StreamRegistry) {
        let mut detector = LossDetector::new();
        loop {
            let ended = self.watch_once(upstream).await;
            let endpoints = upstream.endpoints();
            let up = endpoints.iter().filter(|endpoint| !endpoint.is_down());
            if detector.detects(ended, up.map(|endpoint| endpoint.url())) {
                // The state stays until a member has a leader.
                self.lost.store(true, Ordering::Relaxed);
                streams.end_conditional(&no_leader());
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Watches on one stream until it ends.
    async fn watch_once(&self, upstream: &Upstream) -> EndedStream {
        let (sent_to, mut answered) = (SentTo::default(), false);
        let status = self.watch_until_end(upstream, &sent_to, &mut answered).await;
        EndedStream { status, endpoint: sent_to.url(), answered }
    }

    async fn watch_until_end(
        &self,
        upstream: &Upstream,
        sent_to: &SentTo,
        answered: &mut bool,
    ) -> tonic::Status {
        let create = WatchCreateRequest {
            key: KEY.into(),
            start_revision: REVISION,
            ..WatchCreateRequest::default()
        };
        let mut metadata = own_metadata();
        metadata.insert(HAS_LEADER, HeaderValue::from_static("true"));
        let mut request = match upstream.request(create, &metadata) {
            Ok(request) => request,
            Err(status) => return status,
        };
        request.extensions_mut().insert(sent_to.clone());
        let mut responses = match upstream.open_watch(request).await {
            Ok(responses) => responses,
            Err(status) => return status,
        };
        loop {
            match responses.message().await {
                // Refused without a permission, too: then a member with a leader has answered.
                Ok(Some(_)) => {
                    self.lost.store(false, Ordering::Relaxed);
                    *answered = true;
                }
                Ok(None) => return tonic::Status::cancelled("the stream has ended"),
                Err(status) => return status,
            }
        }
    }
}

/// A stream that has ended.
#[derive(Debug)]
struct EndedStream {
    status: tonic::Status,
    /// The URL of the endpoint that it was sent to.
    endpoint: Option<String>,
    /// Whether a member with a leader has answered on it.
    answered: bool,
}

/// Decides by the ends of streams whether the leader is lost. Does no I/O.
#[derive(Debug)]
struct LossDetector {
    /// The time until which a member with a leader is known to have served.
    reached: Instant,
    /// The URLs of endpoints that have reported no leader since.
    without_leader: BTreeSet<String>,
}

impl LossDetector {
    fn new() -> LossDetector {
        LossDetector { reached: Instant::now(), without_leader: BTreeSet::new() }
    }

    /// Returns whether the leader is lost. `up`: the URLs of all endpoints that may answer.
    fn detects<'a>(&mut self, ended: EndedStream, mut up: impl Iterator<Item = &'a str>) -> bool {
        let is_unavailable = ended.status.code() == tonic::Code::Unavailable;
        // A stream with an answer had a leader until it ended.
        if ended.answered || !is_unavailable {
            *self = LossDetector::new();
        }
        if !is_unavailable {
            return false;
        }
        if ended.status.message() != NO_LEADER {
            return self.reached.elapsed() >= UNREACHABLE_MAX;
        }
        self.without_leader.extend(ended.endpoint);
        let is_lost = up.all(|url| self.without_leader.contains(url));
        if is_lost {
            // Asked anew.
            self.without_leader.clear();
        }
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINTS: [&str; 3] = ["a:1", "b:1", "c:1"];

    fn refused(by: &str) -> EndedStream {
        let status = tonic::Status::unavailable(NO_LEADER);
        EndedStream { status, endpoint: Some(by.to_owned()), answered: false }
    }

    fn broken(answered: bool) -> EndedStream {
        let status = tonic::Status::unavailable("error reading from server: EOF");
        EndedStream { status, endpoint: None, answered }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_lost_after_hours_is_no_lost_leader() {
        let mut detector = LossDetector::new();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(!detector.detects(broken(true), ENDPOINTS.into_iter()));
        tokio::time::advance(UNREACHABLE_MAX - RETRY_PAUSE).await;
        assert!(!detector.detects(broken(false), ENDPOINTS.into_iter()));
        tokio::time::advance(RETRY_PAUSE).await;
        assert!(detector.detects(broken(false), ENDPOINTS.into_iter()));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_one_isolated_member_count_once() {
        let mut detector = LossDetector::new();
        for by in ["a:1", "a:1", "a:1", "b:1"] {
            assert!(!detector.detects(refused(by), ENDPOINTS.into_iter()));
        }
        let isolated = EndedStream { answered: true, ..refused("a:1") };
        assert!(!detector.detects(isolated, ENDPOINTS.into_iter()), "a has answered meanwhile");
        for (by, is_lost) in [("b:1", false), ("c:1", true), ("c:1", false)] {
            assert_eq!(detector.detects(refused(by), ENDPOINTS.into_iter()), is_lost);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn members_that_are_down_are_not_waited_for() {
        let mut detector = LossDetector::new();
        assert!(!detector.detects(refused("a:1"), ENDPOINTS.into_iter()));
        assert!(!detector.detects(broken(false), ENDPOINTS[..2].iter().copied()));
        assert!(detector.detects(refused("a:1"), ENDPOINTS[..1].iter().copied()));
    }
}
