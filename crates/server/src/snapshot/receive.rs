//! Installs a database that the leader sent in place of the local one.
//!
//! ```text
//!   member/snap/000000000000a0b5.snap.db   durable before its message reaches consensus
//!   a snapshot record in the log           from here on, a start uses that file if it exists
//!   member/snap/db                         replaced by rename; open readers keep the old file
//! ```

use std::fmt::Display;
use std::sync::Arc;

use backend::Backend;
use types::Index;

use crate::apply::Fault;
use crate::context::MemberContext;
use crate::snapshot::files::SnapshotFiles;
use crate::state::StateMachine;

/// The fault of a snapshot that cannot be installed.
pub(crate) fn fault(index: Index, reason: &dyn Display) -> Fault {
    Fault::Snapshot { index, reason: reason.to_string() }
}

/// Renames the received database to the name of the local one, and opens it.
pub(crate) fn open(
    context: &MemberContext,
    files: &SnapshotFiles,
    index: Index,
) -> Result<Backend, Fault> {
    let (disk, dir) = (&context.disk, context.config.snap_path());
    let received = files.snapshotter.find_db(index.0).map_err(|error| fault(index, &error))?;
    let path = dir.join("db");
    disk.rename(&received, &path)
        .and_then(|()| disk.sync_dir(&dir))
        .map_err(|error| fault(index, &error))?;
    let (disk, clock) = (Arc::clone(disk), Arc::clone(&context.clock));
    Backend::open(disk, clock, &path, context.config.backend.clone())
        .map_err(|error| fault(index, &error))
}

/// Checks that the consistent index of the database is the index of the snapshot message.
pub(crate) fn check_applied(state: &StateMachine, index: Index) -> Result<(), Fault> {
    match state.applied()?.0 {
        applied if applied == index => Ok(()),
        applied => Err(fault(index, &format!("its applied index is {applied}"))),
    }
}
