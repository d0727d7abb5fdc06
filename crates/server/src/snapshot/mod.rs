//! The snapshot stage: takes snapshots, so that the log need not be replayed from its beginning,
//! and sends them to peers that are too far behind for the log.
//!
//! The database is the state, so a snapshot is little more than a record that the database contains
//! everything up to an entry:
//!
//! ```text
//!   take   commit the database ─► <term>-<index>.snap      ─► snapshot record in the log
//!                                                          ─► earlier segments may be purged
//!   send   commit the database ─► a message with its index ─► both to the peer
//! ```
//!
//! Each step refers only to what the previous one made durable. The database itself contains its
//! applied index and the membership at that index.

pub(crate) mod files;
pub(crate) mod receive;
pub(crate) mod send;

use std::sync::Arc;

use backend::schema::meta;
use backend::{BackendView, CommitError, ReadError};
use proto::raftpb::{ConfState, SnapshotMetadata};
use proto::{raftpb, walpb};
use raft::Message;
use sync::Queue;
use types::{Index, Term};
use wal::snap::{EncodedSnapshot, SnapError};

use crate::context::MemberContext;
use crate::metrics::seconds;
use crate::pipeline::Inboxes;
use crate::pipeline::log_writer::LogWork;
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;
use crate::pipeline::voters::raft_conf_state;
use crate::server::ServerInner;
use crate::state::StateHandle;
use crate::transport::{DatabaseImage, OutgoingSnapshot, Transport};
use files::SnapshotFiles;

/// The metadata of a snapshot to take: the index and term of the last applied entry, and the
/// configuration and membership then.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) index: Index,
    pub(crate) term: Term,
    pub(crate) conf_state: ConfState,
    /// The members in the v2 store format that etcd keeps in the file.
    pub(crate) members: Vec<u8>,
}

/// The work of the snapshot stage.
#[derive(Debug)]
pub(crate) enum SnapshotWork {
    /// Take a snapshot.
    Take(Snapshot),
    /// Send a snapshot to a peer. The database that is sent is newer than the index in the raft
    /// message.
    Send(Box<Message>),
}

/// The reason why a snapshot could not be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotFault {
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    File(#[from] SnapError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The snapshot stage.
pub(crate) struct SnapshotStage {
    context: Arc<MemberContext>,
    raft: Arc<RaftHandle>,
    state: Arc<StateHandle>,
    files: Arc<SnapshotFiles>,
    transport: Arc<dyn Transport>,
    inbox: Arc<Queue<SnapshotWork>>,
    log: Arc<Queue<LogWork>>,
    work: Vec<SnapshotWork>,
}

impl SnapshotStage {
    pub(crate) fn new(server: &ServerInner, inboxes: &Inboxes) -> SnapshotStage {
        SnapshotStage {
            context: Arc::clone(&server.context),
            raft: Arc::clone(&server.raft),
            state: Arc::clone(&server.state),
            files: Arc::clone(&server.snapshot_files),
            transport: Arc::clone(&server.transport),
            inbox: Arc::clone(&inboxes.snapshots),
            log: Arc::clone(&inboxes.log),
            work: Vec::new(),
        }
    }

    /// Sends all queued snapshots. Of the queued snapshots to take, takes only the newest.
    ///
    /// # Errors
    /// The disk cannot be written: the member has to stop.
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

    /// Sends the current database. It is not sent if it is older than consensus assumes, because a
    /// received snapshot is about to replace it: consensus retries.
    fn send(&self, message: Message) -> Result<(), SnapshotFault> {
        let image = self.state.get().backend.snapshot()?;
        let view = BackendView::of_file(image.clone());
        let (index, term) = meta::applied(&view)?;
        let requested = message.snapshot.as_ref().map_or(Index::ZERO, |it| it.metadata.index);
        if index < requested {
            tracing::info!(to = %message.to, applied_index = index.0, requested_index = requested.0, "not sending a snapshot: the database is older than requested");
            self.raft.push(Event::SnapshotSent { to: message.to, arrived: false });
            return Ok(());
        }
        let members = membership::store::read(&view)?;
        let conf_state = raft_conf_state(members.conf_state());
        let metadata = raft::SnapshotMetadata { conf_state, index, term };
        let data = membership::v2::encode(&members).into();
        let snapshot = Some(Box::new(raft::Snapshot { data, metadata }));
        tracing::info!(to = %message.to, snapshot_index = index.0, bytes = image.size(), "sending a snapshot of the database");
        let message = Message { snapshot, ..message };
        let image = DatabaseImage::new(image);
        self.transport.send_snapshot(OutgoingSnapshot { message, image });
        Ok(())
    }

    fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotFault> {
        let Snapshot { index, term, conf_state, members } = snapshot;
        // Afterwards the file has the applied index of the snapshot, or a later one.
        self.state.get().backend.force_commit()?;
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
        self.files.remove_received_up_to(index);
        tracing::info!(snapshot_index = index.0, "saved snapshot to disk");
        Ok(())
    }

    /// Writes the snapshot file and records the duration of each step.
    fn write(&self, snapshot: &raftpb::Snapshot) -> Result<(), SnapError> {
        let metrics = &self.context.metrics;
        let began = self.context.now();
        let Some(encoded) = EncodedSnapshot::new(snapshot) else { return Ok(()) };
        let encoded_at = self.context.now();
        metrics.snap_save_marshalling_duration.observe(seconds(began, encoded_at));
        let written = self.files.snapshotter.write(&encoded);
        let now = self.context.now();
        metrics.snap_fsync_duration.observe(seconds(encoded_at, now));
        written?;
        metrics.snap_save_total_duration.observe(seconds(began, now));
        Ok(())
    }
}
