//! A value made from files, which is made again when they change.
//!
//! ```text
//!   handshake   files                               in use         logged
//!   1           as at the start                     generation 1
//!   2           new certificate, still the old key  generation 1   error, once: key does not match
//!   3           new key as well                     generation 2   reloaded
//!   4           CA bundle missing                   generation 2   error, once: no such file
//! ```
//!
//! Every handshake examines the files, which costs a system call each, so no change is missed. It
//! reads them only if they have changed or were changed recently (`FileStamps::is_recent`).

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::error::LoadError;
use crate::files::file_stamps::FileStamps;
use crate::files::tls_files::{FileContents, TlsFiles};

/// A value made from files, which is made again when they change.
#[derive(Debug)]
pub(crate) struct ReloadingFiles<G> {
    files: TlsFiles,
    state: Mutex<LoadedState<G>>,
}

#[derive(Debug)]
struct LoadedState<G> {
    current: Arc<G>,
    /// The contents that `current` was made from.
    contents: FileContents,
    /// The stamps when the files were last read.
    stamps: FileStamps,
    /// Whether the stamps reflect every later change.
    is_settled: bool,
    /// The reason the last contents were invalid.
    last_error: Option<String>,
}

/// The outcome of a reload.
pub(crate) enum ReloadOutcome<'a, G> {
    /// The new value is in use.
    Reloaded(&'a G),
    /// The files are invalid. The previous value stays in use.
    Failed(&'a LoadError),
}

impl<G> ReloadingFiles<G> {
    /// Reads all files for the first time.
    pub(crate) fn load(
        files: TlsFiles,
        make: impl FnOnce(&TlsFiles, &FileContents) -> Result<G, LoadError>,
    ) -> Result<ReloadingFiles<G>, LoadError> {
        let (stamps, is_settled) = stamp(&files);
        let contents = FileContents::read(&files)?;
        let current = Arc::new(make(&files, &contents)?);
        let state =
            Mutex::new(LoadedState { current, contents, stamps, is_settled, last_error: None });
        Ok(ReloadingFiles { files, state })
    }

    pub(crate) fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Returns the value in use without examining the files.
    pub(crate) fn last(&self) -> Arc<G> {
        Arc::clone(&self.state.lock().current)
    }

    /// Returns the current value. Reloads the files if they have changed, and reports the outcome.
    pub(crate) fn current(
        &self,
        make: impl FnOnce(&TlsFiles, &FileContents) -> Result<G, LoadError>,
        on_change: impl FnOnce(ReloadOutcome<'_, G>),
    ) -> Arc<G> {
        let mut state = self.state.lock();
        let (stamps, is_settled) = stamp(&self.files);
        if stamps != state.stamps || !state.is_settled {
            let has_changed = stamps != state.stamps;
            state.stamps = stamps;
            let read = self.read(&state.contents, make);
            state.apply(read, has_changed, on_change);
            state.is_settled = is_settled;
        }
        Arc::clone(&state.current)
    }

    /// Reads the files and makes a value, unless the contents are unchanged.
    fn read(
        &self,
        known: &FileContents,
        make: impl FnOnce(&TlsFiles, &FileContents) -> Result<G, LoadError>,
    ) -> Result<Option<(FileContents, G)>, LoadError> {
        let contents = FileContents::read(&self.files)?;
        if contents == *known {
            return Ok(None);
        }
        let current = make(&self.files, &contents)?;
        Ok(Some((contents, current)))
    }
}

impl<G> LoadedState<G> {
    fn apply(
        &mut self,
        read: Result<Option<(FileContents, G)>, LoadError>,
        has_changed: bool,
        on_change: impl FnOnce(ReloadOutcome<'_, G>),
    ) {
        match read {
            Ok(None) => self.last_error = None,
            Ok(Some((contents, current))) => {
                on_change(ReloadOutcome::Reloaded(&current));
                (self.contents, self.current, self.last_error) =
                    (contents, Arc::new(current), None);
            }
            Err(error) => {
                let last_error = Some(error.to_string());
                if has_changed || last_error != self.last_error {
                    on_change(ReloadOutcome::Failed(&error));
                }
                self.last_error = last_error;
            }
        }
    }
}

/// Reads the stamps, and whether they reflect every later change.
fn stamp(files: &TlsFiles) -> (FileStamps, bool) {
    // The clock is read first: a file written in between counts as recent.
    let now = SystemTime::now();
    let stamps = FileStamps::of(&files.files());
    let is_settled = !stamps.is_recent(now);
    (stamps, is_settled)
}
