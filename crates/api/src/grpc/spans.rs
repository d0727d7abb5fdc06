//! What is told of a call that is traced.
//!
//! ```text
//!   etcdserverpb.KV/Put              rpc.method, rpc.system.name, server.address, server.port, rpc.response.status_code
//!   └ put                            key; events: Send raft proposal, Receive raft result
//!     ├ propose                      until a quorum has it
//!     │ └ sync                       until the log of this member has it
//!     └ apply
//!   etcdserverpb.KV/Range
//!   └ range                          range_begin, range_end, rev, limit, count_only, keys_only
//!     └ read_index                   until it may be read; event: read index received
//! ```
//!
//! Names and attributes of the first two levels, and the events of writes, are etcd's; the stages below are our own. [`Open`] is a call, [`Part`] a part of it: both tell
//! when they are dropped, at the latest, so that whatever is given up is told of too. The stages have noted by then when they were at it ([`Marks`]).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use net::Connection;
use server::{Marks, Moment, Server};
use trace::{Span, Value};

use super::Shared;
use super::call::Context;
use super::rpc::Method;
use super::status::{Code, Status};

/// What is said of a part of a call.
pub(crate) type Attributes = Vec<(&'static str, Value)>;

/// A call that is traced.
#[derive(Debug)]
pub(crate) struct Traced {
    call: trace::Call,
    server: Server,
    /// The date when the clock of the member, which never goes back, was at zero.
    zero: SystemTime,
    began: Duration,
    /// What is noted of all that belongs to no part.
    marks: Arc<Marks>,
    local: Option<std::net::SocketAddr>,
}

impl Traced {
    /// Whether a call is traced is decided by its headers.
    pub(crate) fn begin(
        shared: &Shared,
        connection: &Connection,
        headers: &HeaderMap,
    ) -> Option<Arc<Traced>> {
        let call = shared.config.tracer.as_ref()?.begin(headers)?;
        let server = shared.server.clone();
        let (wall, began) = (server.clock().wall(), server.now());
        let zero = wall.checked_sub(began).unwrap_or(SystemTime::UNIX_EPOCH);
        let (marks, local) = (Arc::default(), connection.local);
        Some(Arc::new(Traced { call, server, zero, began, marks, local }))
    }

    pub(crate) fn marks(&self) -> Arc<Marks> {
        Arc::clone(&self.marks)
    }

    fn date(&self, at: Duration) -> SystemTime {
        self.zero + at
    }

    fn end(&self, method: &Method, status: &Status) {
        let (began, ended) = (self.date(self.began), self.date(self.server.now()));
        let name = method.path.trim_start_matches('/');
        let mut attributes = vec![("rpc.method", name.into()), ("rpc.system.name", "grpc".into())];
        if let Some(local) = self.local {
            let address = local.ip().to_canonical().to_string();
            attributes.push(("server.address", Value::Text(address.into())));
            attributes.push(("server.port", Value::Number(local.port().into())));
        }
        attributes.push(("rpc.response.status_code", code_name(status.code).into()));
        let stages = Stages { traced: self, marks: &self.marks, ended };
        let (events, children) = (stages.events(), stages.spans());
        let span = Span { attributes, events, children, ..Span::new(name, began, ended) };
        self.call.end(span, is_failure(status.code).then(|| status.message.to_string()));
    }
}

/// A call, until it ends; if it is dropped before, its client has given up.
#[derive(Debug)]
pub(crate) struct Open {
    traced: Option<Arc<Traced>>,
    method: &'static Method,
}

impl Open {
    pub(crate) fn new(traced: Option<&Arc<Traced>>, method: &'static Method) -> Open {
        Open { traced: traced.cloned(), method }
    }

    /// It has ended.
    pub(crate) fn end(mut self, status: &Status) {
        self.tell(status);
    }

    fn tell(&mut self, status: &Status) {
        if let Some(traced) = self.traced.take() {
            traced.end(self.method, status);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tell(&Status::CANCELED);
    }
}

/// A part of a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    traced: Arc<Traced>,
    name: &'static str,
    attributes: Attributes,
    marks: Arc<Marks>,
    began: Duration,
}

impl Part {
    /// Adds what was not known before.
    pub(crate) fn say(&mut self, name: &'static str, value: Value) {
        self.attributes.push((name, value));
    }
}

impl Context {
    /// Begins a part of a call, if that is traced. What the stages note from now on belongs to it.
    pub(crate) fn part(
        &mut self,
        name: &'static str,
        attributes: impl FnOnce() -> Attributes,
    ) -> Option<Part> {
        let traced = Arc::clone(self.traced.as_ref()?);
        let (marks, began) = (Arc::<Marks>::default(), self.server().now());
        self.who.marks = Some(Arc::clone(&marks));
        Some(Part { traced, name, attributes: attributes(), marks, began })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let traced = &self.traced;
        let (began, ended) = (traced.date(self.began), traced.date(traced.server.now()));
        let attributes = std::mem::take(&mut self.attributes);
        let stages = Stages { traced, marks: &self.marks, ended };
        let (events, children) = (stages.events(), stages.spans());
        let span = Span { attributes, events, children, ..Span::new(self.name, began, ended) };
        traced.call.child(span);
    }
}

/// What the stages have noted, by the end of what belongs to it.
struct Stages<'a> {
    traced: &'a Traced,
    marks: &'a Marks,
    ended: SystemTime,
}

impl Stages<'_> {
    fn at(&self, moment: Moment) -> Option<SystemTime> {
        self.marks.at(moment).map(|at| self.traced.date(at))
    }

    fn events(&self) -> Vec<(&'static str, SystemTime)> {
        let event = |name, moment| Some((name, self.at(moment)?));
        let sent = event("Send raft proposal", Moment::Proposed);
        sent.into_iter().chain(event("Receive raft result", Moment::Answered)).collect()
    }

    fn spans(&self) -> Vec<Span> {
        [self.read_index(), self.propose(), self.apply()].into_iter().flatten().collect()
    }

    fn read_index(&self) -> Option<Span> {
        let asked = self.at(Moment::ReadAsked)?;
        let span = Span::new("read_index", asked, self.or_end(Moment::ReadBegan));
        let confirmed = self.at(Moment::ReadConfirmed);
        let events = confirmed.map(|at| ("read index received", at)).into_iter().collect();
        Some(Span { events, ..span })
    }

    fn propose(&self) -> Option<Span> {
        let proposed = self.at(Moment::Proposed)?;
        let span = Span::new("propose", proposed, self.or_end(Moment::Committed));
        Some(Span { children: self.sync().into_iter().collect(), ..span })
    }

    fn sync(&self) -> Option<Span> {
        Some(Span::new("sync", self.at(Moment::Logged)?, self.at(Moment::Synced)?))
    }

    fn apply(&self) -> Option<Span> {
        Some(Span::new("apply", self.at(Moment::Applying)?, self.at(Moment::Applied)?))
    }

    /// When it came there, or when it was given up.
    fn or_end(&self, moment: Moment) -> SystemTime {
        self.at(moment).or(self.at(Moment::Answered)).unwrap_or(self.ended)
    }
}

/// What is a failure of the member rather than of whoever asked, as OpenTelemetry tells them apart.
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

/// Its name, as OpenTelemetry has it.
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
