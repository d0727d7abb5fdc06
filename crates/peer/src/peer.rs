//! Another member: the ways to it, and which of them a message takes.
//!
//! ```text
//!   MsgApp        msgapp stream, if it is up ─► else as all others
//!   all others    message stream, if it is up ─► else the pipeline
//!   snapshots     a request of their own
//! ```

use std::sync::Arc;
use std::task::Waker;

use net::Background;
use raft::{Message, MessageType};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::contact::Contact;
use crate::pipeline::{self, Pipeline};
use crate::prober::{self, Probes};
use crate::snapshots::{self, Database};
use crate::stream::outlet::{Outlet, Pushed};
use crate::stream::writer::tell_lost;
use crate::stream::{StreamKind, inlet};

/// Another member. Dropping it ends everything there is about it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) contact: Arc<Contact>,
    msgapp: Arc<Outlet>,
    message: Arc<Outlet>,
    pipeline: Pipeline,
    tasks: Vec<AbortHandle>,
    /// Goes with the member, and so tells what outlasts it for a moment.
    ends: watch::Sender<()>,
    on: Background,
}

impl Peer {
    pub(crate) fn start(contact: Contact, on: &Background) -> Peer {
        tracing::info!(remote_peer_id = %contact.id, "starting remote peer");
        let contact = Arc::new(contact);
        let pipeline = Pipeline::start(&contact, on);
        let inlets = StreamKind::ALL.map(|kind| on.spawn(inlet::run(Arc::clone(&contact), kind)));
        let probers = Probes::ALL.map(|probes| on.spawn(prober::run(Arc::clone(&contact), probes)));
        let tasks = inlets.iter().chain(&probers).map(JoinHandle::abort_handle).collect();
        tracing::info!(remote_peer_id = %contact.id, "started remote peer");
        let outlet = |kind| Arc::new(Outlet::new(kind));
        Peer {
            contact,
            msgapp: outlet(StreamKind::MsgApp),
            message: outlet(StreamKind::Message),
            pipeline,
            tasks,
            ends: watch::Sender::default(),
            on: on.clone(),
        }
    }

    /// Sends a message, if anything is to be woken for that by handing it back.
    pub(crate) fn send(&self, message: Message) -> Option<Waker> {
        let kind = message.kind;
        let message = match kind {
            MessageType::MsgApp => match self.msgapp.push(message) {
                Pushed::Detached(message) => message,
                pushed => return self.pushed(pushed, kind, "streamMsgAppV2"),
            },
            _ => message,
        };
        match self.message.push(message) {
            Pushed::Detached(message) => {
                if !self.pipeline.push(message) {
                    self.contact.overflowed(kind, pipeline::NAME);
                }
                None
            }
            pushed => self.pushed(pushed, kind, "streamMsg"),
        }
    }

    fn pushed(&self, pushed: Pushed, kind: MessageType, way: &'static str) -> Option<Waker> {
        match pushed {
            Pushed::Queued(waker) => waker,
            Pushed::Full | Pushed::Detached(_) => {
                self.contact.overflowed(kind, way);
                None
            }
        }
    }

    /// Sends a snapshot: a message, and its database.
    pub(crate) fn send_snapshot(&self, message: Message, database: impl Database) {
        // It ends with the member: but whether it has arrived is reported in any case.
        let mut ends = self.ends.subscribe();
        let ended = async move {
            // An error says that the sender is gone, which is how it tells.
            let _ = ends.changed().await;
        };
        self.on.spawn(snapshots::send(Arc::clone(&self.contact), message, database, ended));
    }

    pub(crate) fn outlet(&self, kind: StreamKind) -> &Arc<Outlet> {
        match kind {
            StreamKind::Message => &self.message,
            StreamKind::MsgApp => &self.msgapp,
        }
    }

    /// Cuts streams that take nothing.
    pub(crate) fn mind(&self) {
        for outlet in [&self.msgapp, &self.message] {
            let cut = outlet.cut_if_stalled(self.contact.timing.write);
            if cut.is_none() {
                continue;
            }
            self.contact.failed(outlet.kind.name(), "write", &"i/o timeout");
            self.contact.counts.sent_failures.inc();
            self.contact.local.report_unreachable(self.contact.id);
            tell_lost(&self.contact, outlet.kind);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        tracing::info!(remote_peer_id = %self.contact.id, "stopping remote peer");
        self.tasks.iter().for_each(AbortHandle::abort);
        self.msgapp.close();
        self.message.close();
        self.contact.status.end();
        tracing::info!(remote_peer_id = %self.contact.id, "stopped remote peer");
    }
}
