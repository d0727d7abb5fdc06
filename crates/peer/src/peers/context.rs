//! The context of one peer: its URLs, status and metrics, and the local member's identity.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use raft::MessageType;
use types::MemberId;

use crate::client::Client;
use crate::headers::Identity;
use crate::local_member::LocalMember;
use crate::log_rate_limiter::LogRateLimiter;
use crate::metrics::PeerMetrics;
use crate::peers::status::{Failure, PeerStatus};
use crate::peers::url_picker::{PeerUrl, UrlPicker};

/// The context of one peer, shared by its streams, pipeline, prober and snapshots.
#[derive(Debug)]
pub(crate) struct PeerContext {
    pub(crate) id: MemberId,
    pub(crate) identity: Identity,
    pub(crate) local: Arc<dyn LocalMember>,
    pub(crate) client: Client,
    pub(crate) picker: UrlPicker,
    pub(crate) status: PeerStatus,
    pub(crate) metrics: PeerMetrics,
    pub(crate) timing: Timing,
    dropped_log: LogRateLimiter,
    pub(crate) overload_log: LogRateLimiter,
}

/// The timeouts of peer traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The longest time without anything to read: `--raft-read-timeout`.
    pub(crate) read: Duration,
    /// The longest time without a successful write: `--raft-write-timeout`.
    pub(crate) write: Duration,
}

impl Timing {
    /// Returns the interval of a stream's heartbeats.
    pub(crate) fn link_heartbeat(self) -> Duration {
        self.read / 3
    }

    /// Returns the interval of the prober.
    pub(crate) fn probe(self) -> Duration {
        self.read.saturating_sub(Duration::from_secs(1)).max(Duration::from_millis(100))
    }
}

impl PeerContext {
    pub(crate) fn new(
        id: MemberId,
        identity: Identity,
        local: Arc<dyn LocalMember>,
        client: Client,
        urls: Vec<PeerUrl>,
        metrics: PeerMetrics,
        timing: Timing,
    ) -> PeerContext {
        let status = PeerStatus::new(id, &metrics);
        let (dropped_log, overload_log) = Default::default();
        let picker = UrlPicker::new(urls);
        PeerContext {
            id,
            identity,
            local,
            client,
            picker,
            status,
            metrics,
            timing,
            dropped_log,
            overload_log,
        }
    }

    /// Records a successful exchange.
    pub(crate) fn on_success(&self) {
        self.status.activate(self.local.now());
    }

    /// Records a failed exchange.
    pub(crate) fn on_failure(
        &self,
        source: &'static str,
        action: &'static str,
        reason: &dyn std::fmt::Display,
    ) {
        self.status.deactivate(Failure { source, action }, reason);
    }

    /// Builds a request to the peer.
    pub(crate) fn request<B>(
        &self,
        method: Method,
        path: &str,
        kind: Option<&'static str>,
        body: B,
    ) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("paths of this crate are valid URIs");
        *request.headers_mut() = self.identity.headers();
        if let Some(kind) = kind {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        request
    }

    /// Reports a message that was dropped because a queue is full.
    pub(crate) fn on_overflow(&self, kind: MessageType, channel: &'static str) {
        self.local.report_unreachable(self.id);
        self.metrics.sent_failures.inc();
        if let Some(more) = self.dropped_log.record() {
            tracing::warn!(
                message_type = kind.as_str(), local_member_id = %self.identity.member,
                remote_peer_id = %self.id, remote_peer_name = channel,
                remote_peer_active = self.status.is_active(), more,
                "dropped internal Raft message since sending buffer is full"
            );
        }
    }
}
