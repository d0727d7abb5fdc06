//! Helpers shared by the tests.

pub(crate) mod contents;
pub(crate) mod image;
pub(crate) mod ops;
pub(crate) mod verify;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bolt::{Db, OpenError, Options, Snapshot};
use env::{Create, Disk, Open, SimClock, SimDisk};

/// Path of the database in every test.
pub(crate) const FILE: &str = "db";

/// Options with small growth steps, to keep files small, and no wait for a lock that a test failed
/// to release.
pub(crate) fn options() -> Options {
    Options { grow_bytes: 4096, lock_timeout: Some(Duration::from_secs(1)), ..Options::default() }
}

/// Opens the file, or creates it.
pub(crate) fn open(disk: &SimDisk, options: &Options) -> Result<Db, OpenError> {
    Db::open(Arc::new(disk.clone()), &SimClock::default(), Path::new(FILE), options.clone())
}

/// Creates a disk with just this file.
pub(crate) fn disk_with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    let file = disk.open(Path::new(FILE), Open::create(Create::New)).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

/// Asserts that a state is consistent.
pub(crate) fn assert_consistent(snapshot: &Snapshot) {
    let errors = snapshot.check();
    assert!(errors.is_empty(), "transaction {}: {errors:?}", snapshot.txid());
}
