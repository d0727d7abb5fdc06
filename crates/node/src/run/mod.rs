//! The life of a process after its configuration is parsed: start, serve, stop.
//!
//! ```text
//!   start   load TLS files ─► bind ports ─► bootstrap ─► member ─► API ─► serve peers and metrics
//!   serve   published ─► serve clients ─► notify systemd
//!   stop    a signal or a stopped member ─► drain clients ─► resign ─► stop peers, member, threads
//! ```

mod serve;
mod start;
mod start_line;
mod stop;

use std::process::ExitCode;
use std::sync::{Arc, mpsc};

use api::http::Surface;
use api::{Api, Grpc, Http};
use config::Config;
use logging::LogGuard;
use net::{ListenerHandle, Runtimes};
use peer::PeerTransport;
use server::{Member, Server, StopReason};

use crate::listeners::Port;
use crate::signals::Signal;
use crate::tls_setup::{ClientTlsSetup, PeerTlsSetup};
use start::StartError;

/// Runs a member until a signal arrives or the member stops.
pub(crate) fn run(config: &Config, args: Vec<String>, logs: &LogGuard) -> ExitCode {
    let end = Node::start(config, args).and_then(Node::serve_until_end);
    let end = end.unwrap_or_else(|error| ProcessEnd::Code(report(&error)));
    match end {
        ProcessEnd::Code(code) => code,
        ProcessEnd::Signal(signal) => {
            // Ending by a signal drops nothing, so the guard does not flush.
            logs.flush(logging::SHUTDOWN_FLUSH_MAX);
            signal.end_process()
        }
    }
}

/// Logs why the process does not start, and returns its exit code.
fn report(error: &StartError) -> ExitCode {
    use server::StartError::SnapshotDatabaseMissing;
    if let StartError::Member(SnapshotDatabaseMissing) = error {
        // Compat: as in etcd, whose exit code is that of a panic.
        tracing::error!(
            target: logging::PANIC_TARGET,
            %error,
            "failed to recover v3 backend from snapshot"
        );
        return ExitCode::from(PANIC_CODE);
    }
    tracing::error!(target: logging::FATAL_TARGET, %error, "failed to start");
    ExitCode::FAILURE
}

/// The exit code of a Go program that panics.
const PANIC_CODE: u8 = 2;

/// The way in which the process ends.
enum ProcessEnd {
    Code(ExitCode),
    Signal(Signal),
}

/// The events that a running process reacts to.
enum Event {
    /// The member has published its URLs, so clients may be served.
    Published,
    Signal(Signal),
    Stopped(StopReason),
}

/// A running member with its ports and threads.
struct Node<'a> {
    config: &'a Config,
    member: Member,
    transport: Arc<PeerTransport>,
    runtimes: Runtimes,
    client_api: ClientApi,
    /// Sends spans to the collector.
    span_export: Option<trace::Export>,
    connections: net::Config,
    client_tls: ClientTlsSetup,
    peer_tls: PeerTlsSetup,
    /// Client ports that are bound and not served yet.
    client_ports: Vec<Port>,
    serving: Vec<ListenerHandle>,
    events: mpsc::Receiver<Event>,
}

impl Node<'_> {
    /// Serves until an event ends the process, and shuts down.
    fn serve_until_end(mut self) -> Result<ProcessEnd, StartError> {
        loop {
            match self.events.recv() {
                Ok(Event::Published) => self.serve_clients()?,
                Ok(Event::Signal(signal)) => {
                    tracing::info!(signal = signal.name(), "received signal; shutting down");
                    return Ok(self.stop(Some(signal)));
                }
                Ok(Event::Stopped(reason)) => {
                    tracing::warn!(%reason, "the member has stopped; shutting down");
                    return Ok(self.stop(None));
                }
                Err(mpsc::RecvError) => return Ok(self.stop(None)),
            }
        }
    }
}

/// The handlers of all APIs, shared by the ports.
struct ClientApi {
    grpc: Grpc,
    http: Arc<Http<Server>>,
}

impl ClientApi {
    /// Returns the handler of a port.
    fn port(&self, surface: Surface) -> Api<Server> {
        Api::new(surface, self.grpc.clone(), Arc::clone(&self.http))
    }
}
