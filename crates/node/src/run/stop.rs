//! Shutting down in order.

use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use net::{ListenerHandle, Runtimes};
use server::{Member, StopReason};

use super::{Node, ProcessEnd};
use crate::signals::Signal;

/// The time to wait for the collector to take the last spans.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(5);
/// The time to wait for peers to take their responses.
const PEERS_TIMEOUT: Duration = Duration::from_secs(1);

impl Node<'_> {
    /// Drains the clients, hands over leadership, and stops peers, member and threads.
    pub(super) fn stop(self, signal: Option<Signal>) -> ProcessEnd {
        let Node { config, member, transport, runtimes, serving, client_api, span_export, .. } =
            self;
        tracing::info!(name = config.name, data_dir = %config.data_dir.display(), "closing etcd server");
        // Streams have no end of their own: closing them makes their clients reconnect elsewhere.
        client_api.grpc.close();
        runtimes.block_on(drain(&serving, config.raft.request_timeout()));
        drop(client_api);
        resign(&member, &runtimes);
        // The transport holds a handle of the member, so it stops first.
        transport.stop(PEERS_TIMEOUT);
        let reason = member.stop();
        drop(serving);
        runtimes.stop();
        // No call can end after this, so all spans are complete.
        span_export.into_iter().for_each(|export| export.close(LAST_SPANS_TIMEOUT));
        tracing::info!(name = config.name, %reason, "closed etcd server");
        match (signal, reason) {
            (Some(signal), _) => ProcessEnd::Signal(signal),
            (None, StopReason::Fault(_)) => ProcessEnd::Code(ExitCode::FAILURE),
            (None, StopReason::Requested | StopReason::Removed) => {
                ProcessEnd::Code(ExitCode::SUCCESS)
            }
        }
    }
}

/// Lets clients finish their requests, on all ports at once.
async fn drain(serving: &[ListenerHandle], timeout: Duration) {
    let mut drains: Vec<_> = serving.iter().map(|port| Box::pin(port.drain(timeout))).collect();
    std::future::poll_fn(|cx| {
        drains.retain_mut(|drain| drain.as_mut().poll(cx).is_pending());
        if drains.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Transfers leadership to another member, if this one leads and there is one.
fn resign(member: &Member, runtimes: &Runtimes) {
    let server = member.server();
    if server.is_stopping() {
        return;
    }
    if let Err(error) = runtimes.block_on(server.resign()) {
        tracing::warn!(local_member_id = %server.local(), %error, "leadership transfer failed");
    }
}
