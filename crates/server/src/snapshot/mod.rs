//! Snapshots: what the log need not be replayed from the beginning for; and what members get that are too far behind for the log.
//!
//! The database is the state, so a snapshot is little more than a note that it has everything up to some entry:
//!
//! ```text
//!   take   commit the database ─► member/snap/<term>-<index>.snap ─► a record in the log ─► earlier segments may go
//!   send   commit the database ─► a message that says how far it is ─► both to the other member
//! ```
//!
//! in this order: each step speaks of what the one before has made durable. How far a database is, and who votes as of then, it says itself.

pub(crate) mod receive;
pub(crate) mod send;

use std::sync::Arc;

use backend::schema::meta;
use backend::{CommitError, ReadError, View};
use proto::raftpb::{ConfState, SnapshotMetadata};
use proto::{raftpb, walpb};
use raft::Message;
use types::{Index, Term};
use wal::snap::{EncodedSnapshot, SnapError};

use crate::metrics::seconds;
use crate::pipeline::log_writer::LogWork;
use crate::pipeline::raft_loop::Event;
use crate::pipeline::voters::raft_conf_state;
use crate::server::Shared;
use crate::sync::queue::Inbox;
use crate::transport::{Image, OutgoingSnapshot};

/// A moment at which everything up to an entry was applied.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) index: Index,
    pub(crate) term: Term,
    pub(crate) conf_state: ConfState,
    /// The members, as older releases keep them in the file.
    pub(crate) members: Vec<u8>,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum SnapshotWork {
    /// A snapshot is to be taken.
    Take(Snapshot),
    /// Another member needs one. What it gets is newer than what the message of consensus says.
    Send(Box<Message>),
}

/// Why no snapshot could be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotFault {
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    File(#[from] SnapError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Who takes snapshots.
pub(crate) struct Snapshots {
    shared: Arc<Shared>,
    inbox: Arc<Inbox<SnapshotWork>>,
    log: Arc<Inbox<LogWork>>,
    work: Vec<SnapshotWork>,
}

impl Snapshots {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox<SnapshotWork>>,
        log: Arc<Inbox<LogWork>>,
    ) -> Snapshots {
        Snapshots { shared, inbox, log, work: Vec::new() }
    }

    /// Sends what waits, and takes the newest of those that are to be taken.
    ///
    /// # Errors
    /// This member has to stop: it cannot write to its disk.
    pub(crate) fn turn(&mut self) -> Result<(), SnapshotFault> {
        self.inbox.take(&mut self.work);
        let mut newest = None;
        for work in std::mem::take(&mut self.work) {
            match work {
                SnapshotWork::Take(snapshot) => newest = Some(snapshot),
                SnapshotWork::Send(message) => self.send(*message)?,
            }
        }
        newest.map_or(Ok(()), |snapshot| self.save(snapshot))
    }

    /// Sends the database as it is now. If that has less than consensus thinks, because a snapshot of another is about to take its place, it is not sent: consensus asks again.
    fn send(&self, message: Message) -> Result<(), SnapshotFault> {
        let image = self.shared.state().backend.snapshot()?;
        let view = View::of_file(image.clone());
        let (index, term) = meta::applied(&view)?;
        let wanted = message.snapshot.as_ref().map_or(Index::ZERO, |it| it.metadata.index);
        if index < wanted {
            tracing::info!(to = %message.to, applied_index = index.0, wanted_index = wanted.0, "the database is not there yet that is to be sent");
            self.shared.raft.push(Event::SnapshotSent { to: message.to, arrived: false });
            return Ok(());
        }
        let members = membership::store::read(&view)?;
        let conf_state = raft_conf_state(members.conf_state());
        let metadata = raft::SnapshotMetadata { conf_state, index, term };
        let data = membership::v2::encode(&members).into();
        let snapshot = Some(Box::new(raft::Snapshot { data, metadata }));
        tracing::info!(to = %message.to, snapshot_index = index.0, bytes = image.size(), "sending a snapshot of the database");
        let message = Message { snapshot, ..message };
        let image = Image::new(image);
        self.shared.transport.send_snapshot(OutgoingSnapshot { message, image });
        Ok(())
    }

    fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotFault> {
        let Snapshot { index, term, conf_state, members } = snapshot;
        // The database then has the applied index of the snapshot, or a later one.
        self.shared.state().backend.force_commit()?;
        let metadata = SnapshotMetadata {
            conf_state: Some(conf_state.clone()),
            index: Some(index.0),
            term: Some(term.0),
        };
        let data = Some(members.into());
        self.write(&raftpb::Snapshot { data, metadata: Some(metadata) })?;
        let snapshot = walpb::Snapshot {
            index: Some(index.0),
            term: Some(term.0),
            conf_state: Some(conf_state),
        };
        self.log.push(LogWork::Snapshot(snapshot));
        // The database has all that they could bring.
        receive::release(&self.shared, index);
        tracing::info!(snapshot_index = index.0, "saved snapshot to disk");
        Ok(())
    }

    /// Writes the file, and says how long each step took.
    fn write(&self, snapshot: &raftpb::Snapshot) -> Result<(), SnapError> {
        let Shared { metrics, .. } = &*self.shared;
        let began = self.shared.now();
        let Some(encoded) = EncodedSnapshot::new(snapshot) else { return Ok(()) };
        let encoded_at = self.shared.now();
        metrics.snap_save_marshalling_duration.observe(seconds(began, encoded_at));
        let written = self.shared.files.write(&encoded);
        let now = self.shared.now();
        metrics.snap_fsync_duration.observe(seconds(encoded_at, now));
        written?;
        metrics.snap_save_total_duration.observe(seconds(began, now));
        Ok(())
    }
}
