//! The accept loop.
//!
//! Runs on the first runtime and only accepts: each connection goes at once to the runtime with the
//! fewest connections, where a task opens and serves it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{debug, warn};

use super::listener::Acceptor;
use super::server_stream::AcceptedSocket;
use crate::handler::Handler;
use crate::limits::ConnectionPermit;
use crate::open::PendingPermit;
use crate::serve::Server;

/// The first and the longest pause after a failed accept, for example for lack of file descriptors.
/// The pause doubles from one to the other.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A connection that was accepted and whose protocol is unknown.
pub(crate) struct AcceptedConnection {
    pub(crate) socket: AcceptedSocket,
    pub(crate) permit: ConnectionPermit,
    pub(crate) pending: PendingPermit,
}

/// Accepts connections until the listener drains.
pub(crate) async fn accept_loop<H: Handler>(acceptor: &Acceptor, server: Arc<Server<H>>) {
    let mut phase = server.phase.clone();
    let mut pause = PAUSE_MIN;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = phase.changed() => return,
            accepted = server.accept(acceptor) => accepted,
        };
        match accepted {
            Ok(accepted) => {
                pause = PAUSE_MIN;
                Arc::clone(&server).spawn(accepted);
            }
            // The client disconnected before the accept: no reason to pause.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!(%error, ?pause, "failed to accept a connection");
                tokio::select! {
                    _ = phase.changed() => return,
                    () = sleep(pause) => pause = PAUSE_MAX.min(2 * pause),
                }
            }
        }
    }
}

impl<H: Handler> Server<H> {
    /// Accepts the next connection once a permit is free.
    async fn accept(&self, acceptor: &Acceptor) -> io::Result<AcceptedConnection> {
        let mut permit = self.permits.acquire().await;
        let socket = acceptor.accept().await?;
        self.permits.mark_open(&mut permit);
        // Acquired here and not in the connection's task: only the accept loop knows the order.
        let pending = PendingPermit::acquire(&self.pending);
        Ok(AcceptedConnection { socket, permit, pending })
    }

    /// Hands a connection to a runtime, and logs why it ended.
    fn spawn(self: Arc<Self>, accepted: AcceptedConnection) {
        let runtime = self.runtimes.assign();
        runtime.handle().spawn(async move {
            let (remote, log_protocol_errors) =
                (accepted.socket.remote(), self.config.log_protocol_errors);
            match self.serve_connection(accepted, &runtime).await {
                Err(error) if log_protocol_errors && error.is_protocol_error() => {
                    warn!(remote_addr = %remote, %error, "rejected connection");
                }
                Err(error) => debug!(%remote, %error, "connection ended"),
                Ok(()) => {}
            }
            drop(runtime);
        });
    }
}
