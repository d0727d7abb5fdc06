//! The log on a disk, as a member finds it when it starts.

use std::sync::Arc;

use env::{Disk, SimDisk};
use wal::{LogContents, Wal};

use crate::SEGMENT_BYTES;
use crate::scenario::small;

/// The configuration of the log of these members.
pub(crate) const CONFIG: wal::Config =
    wal::Config { segment_bytes: SEGMENT_BYTES, unsafe_no_fsync: false };

/// Returns the contents of the log on this disk.
pub(crate) fn contents(disk: SimDisk) -> LogContents {
    let (disk, dir): (Arc<dyn Disk>, _) = (Arc::new(disk), small().wal_path());
    let start = wal::valid_snapshots(&*disk, &dir).unwrap().pop().unwrap();
    Wal::open(disk, &dir, &start, CONFIG).unwrap().read_all().unwrap().1
}
