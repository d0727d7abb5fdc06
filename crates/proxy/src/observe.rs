//! Observation of calls: metrics, and a log line per call on request.

use std::sync::Arc;

use bytes::Bytes;
use grpc::{Code, Kind, MessageCounter as _, Method, Observer, Status, Summary};
use net::{Connection, RemoteAddr};

use crate::metrics::MethodMetrics;

/// Observes one call.
#[derive(Debug)]
pub(crate) struct CallObserver {
    method: &'static Method,
    metrics: Arc<MethodMetrics>,
    /// The address of the client, if calls are logged.
    logged: Option<RemoteAddr>,
    state: CallState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    New,
    Started,
    Ended,
}

impl CallObserver {
    pub(crate) fn new(
        method: &'static Method,
        metrics: Arc<MethodMetrics>,
        logged: Option<RemoteAddr>,
    ) -> CallObserver {
        CallObserver { method, metrics, logged, state: CallState::New }
    }

    /// Counts the end of a call that has started, once.
    fn end(&mut self, code: Code) {
        if std::mem::replace(&mut self.state, CallState::Ended) == CallState::Started {
            self.metrics.handled(code);
            self.log("finished call", Some(code));
        }
    }

    /// Logs a step of the call, for `--experimental-enable-grpc-logging`.
    fn log(&self, step: &str, code: Option<Code>) {
        if let Some(peer) = self.logged {
            tracing::info!(
                service = self.method.service,
                method = self.method.name,
                peer_address = %peer,
                code = code.map(Code::name),
                "{step}"
            );
        }
    }
}

impl Observer for CallObserver {
    type Counter = MethodMetrics;

    fn counter(&self) -> Arc<MethodMetrics> {
        Arc::clone(&self.metrics)
    }

    fn received_bytes(&self, _: usize) {}

    fn start(&mut self) {
        // Compat: as in etcd, a unary call always counts one message in each direction.
        if self.method.kind == Kind::Unary {
            self.metrics.received();
        }
        self.metrics.started();
        self.state = CallState::Started;
        self.log("started call", None);
    }

    fn handled(&mut self, code: Code) {
        self.end(code);
    }

    fn replied(&mut self, _: &Connection, _: &Bytes, _: Option<(Summary, usize)>) {
        self.metrics.sent(0);
    }

    fn finish(mut self, status: &Status) {
        self.end(status.code);
    }
}

impl Drop for CallObserver {
    fn drop(&mut self) {
        self.end(Code::Canceled);
    }
}
