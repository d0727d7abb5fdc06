//! A file that is said to be a database, looked at before it becomes one.

use std::path::Path;
use std::sync::Arc;

use env::{Clock, Disk};
use types::{Index, Term};

use crate::config::Config;
use crate::error::{OpenError, ReadError};
use crate::layers::View;
use crate::schema::meta;

/// Whether a file is a whole database, that [`Backend::open`](crate::Backend::open) will take. Returns the last entry of the log that it has
/// applied. The file stays as it is; every page that leads somewhere is looked at, and a bit is kept for each.
pub fn check_image(
    disk: Arc<dyn Disk>,
    clock: &dyn Clock,
    path: &Path,
    config: &Config,
) -> Result<(Index, Term), OpenError> {
    let options = bolt::Options { read_only: true, checksums: false, ..config.bolt.clone() };
    let snapshot = bolt::Db::open(disk, clock, path, options)?.snapshot();
    snapshot.check_reachable().map_err(ReadError::from)?;
    Ok(meta::applied(&View::of_file(snapshot))?)
}
