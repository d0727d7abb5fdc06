//! A peer: its streams, pipeline and snapshots, and the choice between them.
//!
//! ```text
//!   MsgApp          the msgapp stream if it is attached, otherwise like other messages
//!   other messages  the message stream if it is attached, otherwise the pipeline
//!   snapshots       a request of their own
//! ```

use std::sync::Arc;
use std::task::Waker;

use net::Background;
use raft::{Message, MessageType};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::peers::context::PeerContext;
use crate::peers::prober::{self, Probes};
use crate::send::pipeline::{self, Pipeline};
use crate::send::snapshot::{self, SnapshotDatabase};
use crate::stream::queue::{Pushed, StreamQueue};
use crate::stream::writer::log_lost;
use crate::stream::{StreamKind, reader};

/// A peer. Dropping it ends all of its tasks.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) context: Arc<PeerContext>,
    msgapp: Arc<StreamQueue>,
    message: Arc<StreamQueue>,
    pipeline: Pipeline,
    tasks: Vec<AbortHandle>,
    /// Dropped with the peer, which cancels snapshots in flight.
    cancel_snapshots: watch::Sender<()>,
    background: Background,
}

impl Peer {
    pub(crate) fn start(context: PeerContext, background: &Background) -> Peer {
        tracing::info!(remote_peer_id = %context.id, "starting remote peer");
        let context = Arc::new(context);
        let pipeline = Pipeline::start(&context, background);
        let readers =
            StreamKind::ALL.map(|kind| background.spawn(reader::run(Arc::clone(&context), kind)));
        let probers =
            Probes::ALL.map(|probes| background.spawn(prober::run(Arc::clone(&context), probes)));
        let tasks = readers.iter().chain(&probers).map(JoinHandle::abort_handle).collect();
        tracing::info!(remote_peer_id = %context.id, "started remote peer");
        let queue = |kind| Arc::new(StreamQueue::new(kind));
        Peer {
            context,
            msgapp: queue(StreamKind::MsgApp),
            message: queue(StreamKind::Message),
            pipeline,
            tasks,
            cancel_snapshots: watch::Sender::default(),
            background: background.clone(),
        }
    }

    /// Sends a message. Returns the waker of the stream writer if it must be woken.
    pub(crate) fn send(&self, message: Message) -> Option<Waker> {
        let kind = message.kind;
        let message = match kind {
            MessageType::MsgApp => match self.msgapp.push(message) {
                Pushed::NoStream(message) => message,
                pushed => return self.queued(pushed, kind, "streamMsgAppV2"),
            },
            _ => message,
        };
        match self.message.push(message) {
            Pushed::NoStream(message) => {
                if !self.pipeline.push(message) {
                    self.context.on_overflow(kind, pipeline::NAME);
                }
                None
            }
            pushed => self.queued(pushed, kind, "streamMsg"),
        }
    }

    fn queued(&self, pushed: Pushed, kind: MessageType, channel: &'static str) -> Option<Waker> {
        match pushed {
            Pushed::Queued(waker) => waker,
            Pushed::Full | Pushed::NoStream(_) => {
                self.context.on_overflow(kind, channel);
                None
            }
        }
    }

    /// Sends a snapshot: a message and its database.
    pub(crate) fn send_snapshot(&self, message: Message, database: impl SnapshotDatabase) {
        // Canceled with the peer, but the outcome is reported in any case.
        let mut canceled = self.cancel_snapshots.subscribe();
        let ended = async move {
            // Fails when the sender is dropped, which is the signal.
            let _ = canceled.changed().await;
        };
        self.background.spawn(snapshot::send(Arc::clone(&self.context), message, database, ended));
    }

    pub(crate) fn stream_queue(&self, kind: StreamKind) -> &Arc<StreamQueue> {
        match kind {
            StreamKind::Message => &self.message,
            StreamKind::MsgApp => &self.msgapp,
        }
    }

    /// Cuts streams that accept nothing.
    pub(crate) fn cut_stalled_streams(&self) {
        for queue in [&self.msgapp, &self.message] {
            let cut = queue.cut_if_stalled(self.context.timing.write);
            if cut.is_none() {
                continue;
            }
            self.context.on_failure(queue.kind.name(), "write", &"i/o timeout");
            self.context.metrics.sent_failures.inc();
            self.context.local.report_unreachable(self.context.id);
            log_lost(&self.context, queue.kind);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        tracing::info!(remote_peer_id = %self.context.id, "stopping remote peer");
        self.tasks.iter().for_each(AbortHandle::abort);
        self.msgapp.close();
        self.message.close();
        self.context.status.end();
        tracing::info!(remote_peer_id = %self.context.id, "stopped remote peer");
    }
}
