//! The database that a leader sent, on its way to be ours.
//!
//! ```text
//!   member/snap/000000000000a0b5.snap.db   durable before the message reaches consensus
//!   a record in the log                    from here on a start takes that file, if it finds one
//!   member/snap/db                         renamed in place of the old one, whose readers keep it
//! ```

use std::fmt::Display;
use std::sync::Arc;

use backend::Backend;
use types::Index;

use crate::apply::Fault;
use crate::server::Shared;
use crate::state::StateMachine;

/// Why it cannot be taken up.
pub(crate) fn fault(index: Index, reason: &dyn Display) -> Fault {
    Fault::Snapshot { index, reason: reason.to_string() }
}

/// Puts the file in the place of the database, and opens it.
pub(crate) fn open(shared: &Shared, index: Index) -> Result<Backend, Fault> {
    let (disk, folder) = (&shared.disk, shared.config.snap_path());
    let sent = shared.files.find_db(index.0).map_err(|error| fault(index, &error))?;
    let path = folder.join("db");
    disk.rename(&sent, &path)
        .and_then(|()| disk.sync_dir(&folder))
        .map_err(|error| fault(index, &error))?;
    let (disk, clock) = (Arc::clone(disk), Arc::clone(&shared.clock));
    Backend::open(disk, clock, &path, shared.config.backend.clone())
        .map_err(|error| fault(index, &error))
}

/// Lets go of databases that were sent and nobody came for: consensus had no use for them, and ours has all that they have. One that cannot be removed takes room and does no
/// harm: where etcd would end the process, this one tells, and tries again with the next snapshot.
pub(crate) fn release(shared: &Shared, index: Index) {
    if let Err(error) = shared.files.release_dbs(index.0) {
        tracing::error!(%error, "failed to remove database snapshots that nobody needs");
    }
}

/// The database says itself how far it is: that must be as far as the message said.
pub(crate) fn check_applied(state: &StateMachine, index: Index) -> Result<(), Fault> {
    match state.applied()?.0 {
        applied if applied == index => Ok(()),
        applied => Err(fault(index, &format!("it has entry {applied} applied"))),
    }
}
