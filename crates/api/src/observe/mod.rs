//! Observation of calls: metrics, etcd's log lines and spans, all in one type.
//!
//! ```text
//!   CallObserver     one per call, driven by the grpc crate
//!     metrics        grpc_server_started_total, …_handled_total, bytes         start, finish
//!     slow           "request stats": unary calls above the warning threshold  replied
//!     spans          the span of the call                                      finish
//!   Operation        one per request that etcd traces, opened by a handler
//!     spans          a child span, with the stage timings of the server        drop
//!     steps          "trace": requests above 100 ms, step by step              log
//! ```
//!
//! Names, labels, texts and fields are etcd's. An observer or operation that is dropped before its
//! end reports a canceled call.

pub(crate) mod attributes;
mod metrics;
mod slow;
mod spans;
mod steps;
mod versions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use grpc::{Code, Kind, MessageCounter, Method, Observer, Status, Summary};
use net::Connection;

use crate::methods::Rpc;

pub(crate) use metrics::{MethodMetrics, Metrics};
pub(crate) use spans::{Attributes, SpanGuard, TracedCall};
pub(crate) use steps::{AGREEMENT, ASSEMBLY, Operation, RAFT, StepDetail};

/// Observes one call: counts it, and reports it when it is slow or traced.
#[derive(Debug)]
pub(crate) struct CallObserver {
    rpc: Rpc,
    method: &'static Method,
    metrics: Arc<MethodMetrics>,
    /// The threshold of a slow unary call.
    slow: Duration,
    traced: Option<Arc<TracedCall>>,
    started: Option<Instant>,
    is_counted: bool,
}

impl CallObserver {
    pub(crate) fn new(
        rpc: Rpc,
        method: &'static Method,
        metrics: Arc<MethodMetrics>,
        slow: Duration,
        traced: Option<Arc<TracedCall>>,
    ) -> CallObserver {
        CallObserver { rpc, method, metrics, slow, traced, started: None, is_counted: false }
    }

    /// Counts the end of a call that has started, once.
    fn count(&mut self, code: Code) {
        if let Some(started) = self.started.filter(|_| !self.is_counted) {
            self.is_counted = true;
            self.metrics.handled(code, started);
        }
    }

    fn end(&mut self, status: &Status) {
        self.count(status.code);
        if let Some(traced) = self.traced.take() {
            traced.end(self.method, status);
        }
    }
}

impl Observer for CallObserver {
    type Counter = MethodMetrics;

    fn counter(&self) -> Arc<MethodMetrics> {
        Arc::clone(&self.metrics)
    }

    fn received_bytes(&self, bytes: usize) {
        self.metrics.received_bytes(bytes);
    }

    fn start(&mut self) {
        // Compat: as in etcd, a unary call always counts one message in each direction, even if it
        // fails.
        if self.method.kind == Kind::Unary {
            self.metrics.received();
        }
        self.metrics.started();
        self.started = Some(Instant::now());
    }

    fn handled(&mut self, code: Code) {
        self.count(code);
    }

    fn replied(
        &mut self,
        connection: &Connection,
        request: &Bytes,
        reply: Option<(Summary, usize)>,
    ) {
        self.metrics.sent(reply.map_or(0, |(_, length)| length));
        if let Some(started) = self.started {
            let unary = slow::Unary { rpc: self.rpc, method: self.method, connection, request };
            unary.report(started.elapsed(), self.slow, reply);
        }
    }

    fn finish(mut self, status: &Status) {
        self.end(status);
    }
}

impl Drop for CallObserver {
    fn drop(&mut self) {
        self.end(&Status::CANCELED);
    }
}
