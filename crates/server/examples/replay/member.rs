//! Creates a data directory from a replayed database, as after a snapshot at the last entry.
//!
//! ```text
//!   OUT_DIR/member/snap/db                                      the new database
//!                       0000000000000003-00000000000003a7.snap  the members in the v2 format
//!                 /wal/0000000000000000-0000000000000000.wal    metadata, hard state, snapshot;
//!                                                               no entries
//! ```

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use backend::schema::version::Version;
use backend::schema::{Bucket, cluster, meta, version};
use backend::{Backend, Tx};
use bytes::Bytes;
use env::{Disk, OsClock, OsDisk};
use membership::v2;
use prost::Message as _;
use proto::raftpb::{self, ConfState, HardState, SnapshotMetadata};
use proto::walpb;
use server::StateMachine;
use types::{Index, Term};
use wal::Wal;
use wal::snap::Snapshotter;

use crate::log::Log;

/// The first version whose database has the term of the applied index and the conf state.
const WITH_TERM: Version = Version::new(3, 5);
/// The first version whose database has a storage version.
const WITH_STORAGE_VERSION: Version = Version::new(3, 6);

/// The parts of a snapshot besides the database file.
pub(crate) struct DatabaseImage {
    index: Index,
    term: Term,
    conf_state: ConfState,
    members: Vec<u8>,
}

impl DatabaseImage {
    /// Reads them from the state machine.
    pub(crate) fn of(
        state_machine: &StateMachine,
        conf_state: ConfState,
    ) -> anyhow::Result<DatabaseImage> {
        let (index, term) = state_machine.applied()?;
        Ok(DatabaseImage {
            index,
            term,
            conf_state,
            members: v2::encode(&state_machine.cluster().now()),
        })
    }
}

/// Creates the data directory, which must not exist.
pub(crate) fn assemble(
    dir: &Path,
    db: &Path,
    log: &Log,
    image: &DatabaseImage,
) -> anyhow::Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    ensure!(disk.kind(dir)?.is_none(), "{} exists", dir.display());
    let member = dir.join("member");
    let snap = member.join("snap");
    disk.create_dir_all(&snap).context("create directory")?;
    let to = snap.join("db");
    std::fs::copy(db, &to).context("copy database")?;
    finish_database(&disk, &to).context("finish database")?;
    // The snapshot file must exist before the log refers to it.
    save_snapshot_file(&disk, &snap, image)?;
    save_log(&disk, &member.join("wal"), log, image)
}

/// Adapts the fields of the database that no entry sets to the cluster version.
fn finish_database(disk: &Arc<dyn Disk>, path: &Path) -> anyhow::Result<()> {
    let clock = Arc::new(OsClock::default());
    let backend = Backend::open(Arc::clone(disk), clock, path, backend::Config::default())?;
    let mut tx = backend.begin();
    let version = cluster::version(&tx)?.context("the database has no cluster version")?;
    as_of(version, &mut tx)?;
    tx.commit()?;
    Ok(backend.close()?)
}

/// Adapts the database to the format of a version.
fn as_of(version: Version, tx: &mut Tx<'_>) -> anyhow::Result<()> {
    if version >= WITH_STORAGE_VERSION {
        version::migrate(tx, version, None)?;
    }
    if version < WITH_TERM {
        // An older member would not update them, and a later version would read stale values.
        tx.delete(Bucket::Meta, Bytes::from_static(meta::TERM));
        tx.delete(Bucket::Meta, Bytes::from_static(meta::CONF_STATE));
    }
    Ok(())
}

fn save_snapshot_file(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    image: &DatabaseImage,
) -> anyhow::Result<()> {
    let metadata = SnapshotMetadata {
        conf_state: Some(image.conf_state.clone()),
        index: Some(image.index.0),
        term: Some(image.term.0),
    };
    let data = Some(image.members.clone().into());
    let snapshot = raftpb::Snapshot { data, metadata: Some(metadata) };
    Snapshotter::new(Arc::clone(disk), dir).save(&snapshot).context("save snapshot file")
}

/// Creates a log that begins at the snapshot and keeps the member's term and vote.
fn save_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    log: &Log,
    image: &DatabaseImage,
) -> anyhow::Result<()> {
    let metadata = log.metadata.encode_to_vec();
    let mut new = Wal::create(Arc::clone(disk), dir, metadata, wal::Config::default())
        .context("create log")?;
    let state = HardState { commit: Some(image.index.0), ..log.state };
    new.save(&state, &[], true).context("save state")?;
    let snapshot = walpb::Snapshot {
        index: Some(image.index.0),
        term: Some(image.term.0),
        conf_state: Some(image.conf_state.clone()),
    };
    new.save_snapshot(&snapshot).context("save snapshot")?;
    new.close().context("close log")
}
