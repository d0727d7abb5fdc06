//! What was made of files, and is made again when they change.
//!
//! ```text
//!   handshake   files                                   kept          told
//!   1           as they were read at the start          generation 1
//!   2           a new certificate, and still the old key generation 1  error, once: key does not match
//!   3           a new key, too                          generation 2  taken
//!   4           the CA bundle is gone                   generation 2  error, once: no such file
//! ```
//!
//! Looking at the files costs a system call each, so that is done at every handshake and nothing is missed; reading them, only when they have
//! changed or are [young](crate::files::Stamps::is_young).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::error::LoadError;
use crate::files::Stamps;
use crate::sources::{Contents, Sources};

/// What was made of files.
#[derive(Debug)]
pub(crate) struct Kept<G> {
    sources: Sources,
    state: Mutex<State<G>>,
}

#[derive(Debug)]
struct State<G> {
    made: Arc<G>,
    /// What `made` was made of.
    contents: Contents,
    /// The files when they were last read.
    stamps: Stamps,
    /// Whether those stamps tell every change.
    is_settled: bool,
    /// Why nothing was made of what was last read.
    failure: Option<String>,
}

/// What has become of files that changed.
pub(crate) enum News<'a, G> {
    /// This was made of them, and is kept from now on.
    Taken(&'a G),
    /// Nothing can be made of them. What was kept before still is.
    Failed(&'a LoadError),
}

impl<G> Kept<G> {
    /// Reads all files for the first time.
    pub(crate) fn load(
        sources: Sources,
        make: impl FnOnce(&Sources, &Contents) -> Result<G, LoadError>,
    ) -> Result<Kept<G>, LoadError> {
        let (stamps, is_settled) = look(&sources);
        let contents = Contents::read(&sources)?;
        let made = Arc::new(make(&sources, &contents)?);
        let state = Mutex::new(State { made, contents, stamps, is_settled, failure: None });
        Ok(Kept { sources, state })
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What there is, whatever has become of the files.
    pub(crate) fn made(&self) -> Arc<G> {
        Arc::clone(&self.lock().made)
    }

    /// What there is now. Looks whether the files have changed, and tells if so.
    pub(crate) fn current(
        &self,
        make: impl FnOnce(&Sources, &Contents) -> Result<G, LoadError>,
        tell: impl FnOnce(News<'_, G>),
    ) -> Arc<G> {
        let mut state = self.lock();
        let (stamps, is_settled) = look(&self.sources);
        if stamps != state.stamps || !state.is_settled {
            let has_changed = stamps != state.stamps;
            state.stamps = stamps;
            let read = self.read(&state.contents, make);
            state.take(read, has_changed, tell);
            state.is_settled = is_settled;
        }
        Arc::clone(&state.made)
    }

    /// What the files hold now, unless that is what is kept anyhow.
    fn read(
        &self,
        known: &Contents,
        make: impl FnOnce(&Sources, &Contents) -> Result<G, LoadError>,
    ) -> Result<Option<(Contents, G)>, LoadError> {
        let contents = Contents::read(&self.sources)?;
        if contents == *known {
            return Ok(None);
        }
        let made = make(&self.sources, &contents)?;
        Ok(Some((contents, made)))
    }

    fn lock(&self) -> MutexGuard<'_, State<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G> State<G> {
    fn take(
        &mut self,
        read: Result<Option<(Contents, G)>, LoadError>,
        has_changed: bool,
        tell: impl FnOnce(News<'_, G>),
    ) {
        match read {
            Ok(None) => self.failure = None,
            Ok(Some((contents, made))) => {
                tell(News::Taken(&made));
                (self.contents, self.made, self.failure) = (contents, Arc::new(made), None);
            }
            Err(error) => {
                let failure = Some(error.to_string());
                if has_changed || failure != self.failure {
                    tell(News::Failed(&error));
                }
                self.failure = failure;
            }
        }
    }
}

/// The files as they are, and whether that tells every change from now on.
fn look(sources: &Sources) -> (Stamps, bool) {
    // The clock first: a file that is written in between is young.
    let now = SystemTime::now();
    let stamps = Stamps::of(&sources.files());
    let is_settled = !stamps.is_young(now);
    (stamps, is_settled)
}
