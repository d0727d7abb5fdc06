//! A log is read while it is in use, and old segments vanish meanwhile.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::{Disk, File, Kind, Open, SimDisk};

use crate::common::*;

const SMALL: u64 = 2048;
const SEGMENTS: usize = 6;

/// A disk on which a purge follows each of the first listings: the oldest listed segment has been
/// removed when it is opened.
#[derive(Debug)]
struct PurgedMeanwhile {
    disk: SimDisk,
    purges_left: AtomicUsize,
}

impl PurgedMeanwhile {
    /// Fills a log of six segments, of which only the last two are needed.
    fn new(purges: usize) -> PurgedMeanwhile {
        let disk = disk(1);
        let mut wal = create(&disk, SMALL);
        for index in 1..=20 {
            wal.save(&state(1, index), &[entry(1, index, 500)], true).unwrap();
        }
        wal.save_snapshot(&snapshot(18, 1)).unwrap();
        wal.close().unwrap();
        let disk = PurgedMeanwhile { disk, purges_left: AtomicUsize::new(purges) };
        assert_eq!(disk.segments().len(), SEGMENTS);
        disk
    }

    fn segments(&self) -> Vec<String> {
        let mut names = names(&self.disk);
        names.retain(|name| name.ends_with(".wal"));
        names
    }
}

impl Disk for PurgedMeanwhile {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, how)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.disk.read_dir(path)?;
        let decrement = |left: usize| left.checked_sub(1);
        if self.purges_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok() {
            self.disk.remove_file(&path.join(&self.segments()[0]))?;
        }
        Ok(names)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.disk.kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
}

#[test]
fn segments_that_vanish_while_a_log_is_read_are_not_missed() {
    for purges in 0..=2 {
        let disk = PurgedMeanwhile::new(purges);
        let contents = wal::read_live(&disk, dir()).unwrap();
        assert_eq!(contents.entries, entries(1, 19..=20, 500), "{purges} purges");
        assert_eq!(disk.segments().len(), SEGMENTS - purges);
    }
}

#[test]
fn the_third_vanished_segment_is_an_error() {
    let disk = PurgedMeanwhile::new(3);
    let error = wal::read_live(&disk, dir()).unwrap_err();
    assert!(error.to_string().starts_with("open "), "{error}");
    assert_eq!(disk.segments().len(), SEGMENTS - 3, "the log was read three times");
}
