//! What everything about one other member shares: how to reach it, how that went, and for whom.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use raft::MessageType;
use types::MemberId;

use crate::addresses::{Picker, Url};
use crate::client::Client;
use crate::headers::Identity;
use crate::local::Local;
use crate::metrics::Counts;
use crate::sparingly::Sparingly;
use crate::status::{Failure, Status};

/// Another member, and this one.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) id: MemberId,
    pub(crate) identity: Identity,
    pub(crate) local: Arc<dyn Local>,
    pub(crate) client: Client,
    pub(crate) picker: Picker,
    pub(crate) status: Status,
    pub(crate) counts: Counts,
    pub(crate) timing: Timing,
    dropped: Sparingly,
    pub(crate) unheard: Sparingly,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Without anything to read. `--raft-read-timeout`
    pub(crate) read: Duration,
    /// Without being able to write. `--raft-write-timeout`
    pub(crate) write: Duration,
}

impl Timing {
    /// How often a stream says that it is there.
    pub(crate) fn link_heartbeat(self) -> Duration {
        self.read / 3
    }

    /// How often a member is asked whether it is there.
    pub(crate) fn probe(self) -> Duration {
        self.read.saturating_sub(Duration::from_secs(1)).max(Duration::from_millis(100))
    }
}

impl Contact {
    pub(crate) fn new(
        id: MemberId,
        identity: Identity,
        local: Arc<dyn Local>,
        client: Client,
        urls: Vec<Url>,
        counts: Counts,
        timing: Timing,
    ) -> Contact {
        let status = Status::new(id, &counts);
        let (dropped, unheard) = Default::default();
        let picker = Picker::new(urls);
        Contact { id, identity, local, client, picker, status, counts, timing, dropped, unheard }
    }

    /// Something has worked.
    pub(crate) fn worked(&self) {
        self.status.activate(self.local.now());
    }

    /// Something has failed.
    pub(crate) fn failed(
        &self,
        source: &'static str,
        action: &'static str,
        reason: &dyn std::fmt::Display,
    ) {
        self.status.deactivate(Failure { source, action }, reason);
    }

    /// The head of a request to it.
    pub(crate) fn request<B>(
        &self,
        method: Method,
        path: &str,
        kind: Option<&'static str>,
        body: B,
    ) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path of ours is one");
        *request.headers_mut() = self.identity.headers();
        if let Some(kind) = kind {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        request
    }

    /// A message cannot be sent, since too many wait.
    pub(crate) fn overflowed(&self, kind: MessageType, way: &'static str) {
        self.local.report_unreachable(self.id);
        self.counts.sent_failures.inc();
        if let Some(more) = self.dropped.tell() {
            tracing::warn!(
                message_type = kind.as_str(), local_member_id = %self.identity.member,
                remote_peer_id = %self.id, remote_peer_name = way,
                remote_peer_active = self.status.is_active(), more,
                "dropped internal Raft message since sending buffer is full"
            );
        }
    }
}
