//! The real and the simulated disk behave the same without faults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod files;
mod locks;
mod maps;
mod names;
mod random;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Create, Disk, File, Open, OsDisk, SimDisk};

/// A disk, and the directory that a test may use.
struct TestDisk {
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

impl TestDisk {
    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.path(name), how)
    }

    /// Creates a file with some contents.
    fn file(&self, name: &str, contents: &[u8]) -> Arc<dyn File> {
        let file = self.open(name, Open::create(Create::New)).unwrap();
        file.write_at(contents, 0).unwrap();
        file
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.disk.read(&self.path(name), u64::MAX).unwrap()
    }
}

/// Runs a test on each disk, and prints which.
fn on_each(test: impl Fn(&TestDisk)) {
    println!("on the simulated disk");
    test(&simulated());
    println!("on the real disk");
    let dir = tempfile::tempdir().unwrap();
    test(&real(dir.path()));
}

fn simulated() -> TestDisk {
    let disk = SimDisk::new(1);
    let root = PathBuf::from("/some/where");
    disk.create_dir_all(&root).unwrap();
    TestDisk { disk: Arc::new(disk), root }
}

fn real(dir: &Path) -> TestDisk {
    TestDisk { disk: Arc::new(OsDisk), root: dir.to_owned() }
}

fn kind_of<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}
