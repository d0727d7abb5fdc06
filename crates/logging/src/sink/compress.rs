//! The thread that compresses backups, so that writing log lines never waits for it.
//!
//! ```text
//!   rotation ─► wake ─► thread `log-compress`: remove expired backups, then
//!                         etcd-….log ─► etcd-….log.gz, synced ─► etcd-….log removed
//! ```
//!
//! The work is also done once at the start, for backups that an earlier process left. A compressed
//! file beside its original is incomplete, and is written again.
//!
//! Invariants: a backup is removed after its compressed form is on disk; memory does not grow with
//! the size of a file; dropping the handle stops the thread within one chunk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::backups::{Backups, COMPRESSED};
use crate::timestamp;

/// The bytes that are compressed at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The handle of the thread.
#[derive(Debug)]
pub(super) struct Compressor {
    /// None while the handle is dropped.
    wake: Option<SyncSender<()>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Compressor {
    /// Starts the thread, which begins with the backups that exist.
    pub(super) fn start(backups: Backups) -> io::Result<Compressor> {
        // One pending wake-up is enough: the thread looks at all backups each time.
        let (wake, wakes) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker { backups, stop: Arc::clone(&stop) };
        let thread = thread::Builder::new().name("log-compress".to_owned());
        let thread = thread.spawn(move || worker.run(&wakes))?;
        let compressor = Compressor { wake: Some(wake), stop, thread: Some(thread) };
        compressor.wake();
        Ok(compressor)
    }

    /// Lets the thread look for new backups.
    pub(super) fn wake(&self) {
        // A full channel means that the thread has not begun with an earlier request.
        let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
    }
}

impl Compressor {
    /// Waits for the thread, which ends after the wake-ups that it has received.
    fn join(&mut self) {
        drop(self.wake.take());
        // A panic of the thread was logged.
        let _ = self.thread.take().map(JoinHandle::join);
    }

    /// Waits until everything is compressed.
    #[cfg(test)]
    pub(super) fn finish(mut self) {
        self.join();
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

struct Worker {
    backups: Backups,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(&self, wakes: &Receiver<()>) {
        while wakes.recv().is_ok() {
            self.backups.clean(timestamp::now());
            for path in self.backups.uncompressed() {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                match compress(&path, &self.stop) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
                    Err(error) => tracing::warn!(
                        path = %path.display(),
                        %error,
                        "failed to compress a log file; retried after the next rotation"
                    ),
                }
            }
        }
    }
}

/// Replaces a file by its compressed form. If that fails, the file stays as it is.
fn compress(path: &Path, stop: &AtomicBool) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(COMPRESSED);
    let compressed = PathBuf::from(name);
    let written = write_compressed(path, &compressed, stop);
    if written.is_err() {
        let _ = fs::remove_file(&compressed);
    }
    written?;
    fs::remove_file(path)
}

/// Writes the compressed form of a file, with its mode and, if the process may, its owner.
fn write_compressed(from: &Path, to: &Path, stop: &AtomicBool) -> io::Result<()> {
    let mut from = File::open(from)?;
    let old = from.metadata()?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(old.permissions().mode());
    let to = options.open(to)?;
    let _ = std::os::unix::fs::fchown(&to, Some(old.uid()), Some(old.gid()));
    let mut gzip = GzEncoder::new(to, Compression::default());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => gzip.write_all(&chunk[..len])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    gzip.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;

    use super::*;
    use crate::Rotation;

    fn unzip(path: &Path) -> String {
        let mut text = String::new();
        GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_file_is_replaced_by_its_compressed_form() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd-2026-11-15T17-59-00.194.log");
        let text = "a line\n".repeat(50_000);
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        compress(&path, &AtomicBool::new(false)).unwrap();
        let compressed = dir.path().join("etcd-2026-11-15T17-59-00.194.log.gz");
        assert_eq!(unzip(&compressed), text);
        assert!(!path.exists());
        assert_eq!(fs::metadata(&compressed).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_stop_leaves_the_original() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd-2026-11-15T17-59-00.194.log");
        fs::write(&path, "text").unwrap();
        compress(&path, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn backups_of_an_earlier_process_are_compressed_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd-2026-11-15T17-59-00.194.log");
        let compressed = dir.path().join("etcd-2026-11-15T17-59-00.194.log.gz");
        fs::write(&path, "text").unwrap();
        fs::write(&compressed, "incomplete").unwrap();
        let backups = Backups::new(&dir.path().join("etcd.log"), &Rotation::default());
        Compressor::start(backups).unwrap().finish();
        assert_eq!(unzip(&compressed), "text");
        assert!(!path.exists());
    }
}
