//! Spans of traced calls.
//!
//! ```text
//!   etcdserverpb.KV/Put              rpc.method, rpc.system.name, server.address, server.port,
//!                                    rpc.response.status_code
//!   └ put                            key; events: Send raft proposal, Receive raft result
//!     ├ propose                      until it is committed
//!     │ └ sync                       until the local log is synced
//!     └ apply
//!   etcdserverpb.KV/Range
//!   └ range                          range_begin, range_end, rev, limit, count_only, keys_only
//!     └ read_index                   until the read may start; event: read index received
//! ```
//!
//! Names and attributes of the first two levels and the events of writes are etcd's. The stages
//! below are our own, made from the recorded stage timings ([`StageTimings`]). A [`TracedCall`] is
//! the span of a call, a [`SpanGuard`] a child of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use grpc::{Code, Method, Status};
use http::HeaderMap;
use net::{Connection, LocalAddr};
use server::{RequestStage, Server, StageTimings};
use trace::{Span, Tracer, Value};

/// The attributes of a span.
pub(crate) type Attributes = Vec<(&'static str, Value)>;

/// A call that is traced.
#[derive(Debug)]
pub(crate) struct TracedCall {
    call: trace::Call,
    server: Server,
    /// The date at the zero of the member's monotonic clock.
    clock_zero: SystemTime,
    started: Duration,
    /// The stage timings outside of any child span.
    timings: Arc<StageTimings>,
    /// The address that the client has connected to.
    local: Option<LocalAddr>,
}

impl TracedCall {
    /// Starts the trace of a call, if its headers ask for one.
    pub(crate) fn start(
        tracer: Option<&Tracer>,
        server: &Server,
        connection: &Connection,
        headers: &HeaderMap,
    ) -> Option<Arc<TracedCall>> {
        let call = tracer?.begin(headers)?;
        let server = server.clone();
        let (wall, started) = (server.clock().wall(), server.now());
        let clock_zero = wall.checked_sub(started).unwrap_or(SystemTime::UNIX_EPOCH);
        let (timings, local) = (Arc::default(), connection.local.clone());
        Some(Arc::new(TracedCall { call, server, clock_zero, started, timings, local }))
    }

    pub(crate) fn timings(&self) -> Arc<StageTimings> {
        Arc::clone(&self.timings)
    }

    fn date(&self, at: Duration) -> SystemTime {
        self.clock_zero + at
    }

    /// Ends the span of the call.
    pub(super) fn end(&self, method: &Method, status: &Status) {
        let (started, ended) = (self.date(self.started), self.date(self.server.now()));
        let name = method.path.trim_start_matches('/');
        let mut attributes = vec![("rpc.method", name.into()), ("rpc.system.name", "grpc".into())];
        attributes.extend(self.local.as_ref().map(server_address).unwrap_or_default());
        attributes.push(("rpc.response.status_code", code_name(status.code).into()));
        let stages = StageSpans { traced: self, timings: &self.timings, ended };
        let (events, children) = (stages.events(), stages.spans());
        let span = Span { attributes, events, children, ..Span::new(name, started, ended) };
        self.call.end(span, is_failure(status.code).then(|| status.message.to_string()));
    }
}

/// Returns the attributes `server.address` and, if there is a port, `server.port`.
///
/// Compat: as in etcd, the name of a unix socket is its path, and is split if it ends like a port.
fn server_address(local: &LocalAddr) -> Attributes {
    let text = |text: &str| ("server.address", Value::Text(text.to_owned().into()));
    let port = |port: i64| ("server.port", Value::Number(port));
    match local {
        LocalAddr::Tcp(address) => {
            let host = address.ip().to_canonical().to_string();
            vec![text(&host), port(address.port().into())]
        }
        LocalAddr::Unix(path) => {
            let path = path.to_string_lossy();
            match gocompat::split_host_port(&path) {
                Some((host, digits)) => {
                    [text(host)].into_iter().chain(digits.parse().ok().map(port)).collect()
                }
                None => vec![text(&path)],
            }
        }
    }
}

/// A child span of a call, open until it is dropped.
#[derive(Debug)]
pub(crate) struct SpanGuard {
    traced: Arc<TracedCall>,
    name: &'static str,
    attributes: Attributes,
    timings: Arc<StageTimings>,
    started: Duration,
}

impl SpanGuard {
    pub(crate) fn new(
        traced: Arc<TracedCall>,
        name: &'static str,
        attributes: Attributes,
    ) -> SpanGuard {
        let (timings, started) = (Arc::<StageTimings>::default(), traced.server.now());
        SpanGuard { traced, name, attributes, timings, started }
    }

    pub(crate) fn timings(&self) -> Arc<StageTimings> {
        Arc::clone(&self.timings)
    }

    /// Adds an attribute.
    pub(crate) fn add(&mut self, name: &'static str, value: Value) {
        self.attributes.push((name, value));
    }
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        let traced = &self.traced;
        let (started, ended) = (traced.date(self.started), traced.date(traced.server.now()));
        let attributes = std::mem::take(&mut self.attributes);
        let stages = StageSpans { traced, timings: &self.timings, ended };
        let (events, children) = (stages.events(), stages.spans());
        let span = Span { attributes, events, children, ..Span::new(self.name, started, ended) };
        traced.call.child(span);
    }
}

/// Makes spans of the stage timings that were recorded by the end of a span.
struct StageSpans<'a> {
    traced: &'a TracedCall,
    timings: &'a StageTimings,
    ended: SystemTime,
}

impl StageSpans<'_> {
    fn at(&self, stage: RequestStage) -> Option<SystemTime> {
        self.timings.at(stage).map(|at| self.traced.date(at))
    }

    fn events(&self) -> Vec<(&'static str, SystemTime)> {
        let event = |name, stage| Some((name, self.at(stage)?));
        let sent = event("Send raft proposal", RequestStage::Proposed);
        sent.into_iter().chain(event("Receive raft result", RequestStage::Answered)).collect()
    }

    fn spans(&self) -> Vec<Span> {
        [self.read_index(), self.propose(), self.apply()].into_iter().flatten().collect()
    }

    fn read_index(&self) -> Option<Span> {
        let requested = self.at(RequestStage::ReadRequested)?;
        let span = Span::new("read_index", requested, self.at_or_end(RequestStage::ReadBegan));
        let confirmed = self.at(RequestStage::ReadConfirmed);
        let events = confirmed.map(|at| ("read index received", at)).into_iter().collect();
        Some(Span { events, ..span })
    }

    fn propose(&self) -> Option<Span> {
        let proposed = self.at(RequestStage::Proposed)?;
        let span = Span::new("propose", proposed, self.at_or_end(RequestStage::Committed));
        Some(Span { children: self.sync().into_iter().collect(), ..span })
    }

    fn sync(&self) -> Option<Span> {
        Some(Span::new("sync", self.at(RequestStage::Logged)?, self.at(RequestStage::Synced)?))
    }

    fn apply(&self) -> Option<Span> {
        Some(Span::new("apply", self.at(RequestStage::Applying)?, self.at(RequestStage::Applied)?))
    }

    /// The time of a stage, or of the end for a request that did not reach it.
    fn at_or_end(&self, stage: RequestStage) -> SystemTime {
        self.at(stage).or(self.at(RequestStage::Answered)).unwrap_or(self.ended)
    }
}

/// Reports whether a code is a failure of the server rather than of the client, as OpenTelemetry
/// defines it.
fn is_failure(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// The name of a code in OpenTelemetry.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Canceled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of otelgrpc.
    #[test]
    fn the_address_of_the_server_is_a_host_or_a_socket() {
        let of = |local| {
            let values = server_address(&local).into_iter().map(|(name, value)| match value {
                Value::Text(text) => format!("{name} {text}"),
                Value::Number(number) => format!("{name} {number}"),
                Value::Flag(flag) => format!("{name} {flag}"),
            });
            values.collect::<Vec<_>>().join(", ")
        };
        let tcp = |text: &str| of(LocalAddr::Tcp(text.parse().unwrap()));
        assert_eq!(tcp("[::ffff:127.0.0.1]:2379"), "server.address 127.0.0.1, server.port 2379");
        assert_eq!(tcp("[::1]:2379"), "server.address ::1, server.port 2379");
        let unix = |path: &str| of(LocalAddr::Unix(path.into()));
        assert_eq!(unix("/run/etcd.sock"), "server.address /run/etcd.sock");
        assert_eq!(unix("localhost:2379"), "server.address localhost, server.port 2379");
        assert_eq!(unix("localhost:m1"), "server.address localhost");
    }
}
