//! Verification of a received snapshot database before it is used.

use std::path::Path;
use std::sync::Arc;

use env::{Clock, Disk};
use types::{Index, Term};

use crate::config::Config;
use crate::error::{OpenError, ReadError};
use crate::layers::BackendView;
use crate::schema::meta;

/// Verifies that a file is a complete database that [`Backend::open`](crate::Backend::open)
/// accepts. Returns index and term of the last entry that it has applied. The file stays unchanged;
/// all reachable pages are read, with one bit of memory for each.
pub fn check_snapshot_database(
    disk: Arc<dyn Disk>,
    clock: &dyn Clock,
    path: &Path,
    config: &Config,
) -> Result<(Index, Term), OpenError> {
    let bolt = config.bolt.clone();
    let options = bolt::Options { read_only: true, checksums: false, mlock: false, ..bolt };
    let snapshot = bolt::Db::open(disk, clock, path, options)?.snapshot();
    snapshot.check_reachable().map_err(ReadError::from)?;
    Ok(meta::applied(&BackendView::of_file(snapshot))?)
}
