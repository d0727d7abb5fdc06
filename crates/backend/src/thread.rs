//! The background commit thread.

use std::any::Any;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::backend::{Backend, BackendShared};
use crate::commit::Committer;
use crate::error::CommitError;

/// A thread that commits until it is stopped or dropped, or a commit fails.
#[derive(Debug)]
pub struct CommitThread {
    shared: Arc<BackendShared>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), CommitError>>>,
}

impl CommitThread {
    /// Starts the thread. A database needs at most one.
    pub fn spawn(backend: &Backend) -> io::Result<CommitThread> {
        CommitThread::spawn_with_callback(backend, |_| ())
    }

    /// Starts the thread with a callback that runs if it ends unexpectedly: after a failed commit,
    /// its own or of another committer, or after a panic. No writes are accepted from then on, so
    /// the member should learn of it without waiting for a commit.
    pub fn spawn_with_callback(
        backend: &Backend,
        failed: impl FnOnce(&CommitError) + Send + 'static,
    ) -> io::Result<CommitThread> {
        let (shared, stop) = (Arc::clone(&backend.shared), Arc::new(AtomicBool::new(false)));
        let (committer, stopped) = (backend.committer(), Arc::clone(&stop));
        let state = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("commit".to_owned()).spawn(move || {
            let outcome = run_or_poison(&state, &committer, &stopped);
            outcome.inspect_err(failed)
        })?;
        Ok(CommitThread { shared, stop, thread: Some(thread) })
    }

    /// Commits pending writes and ends the thread.
    pub fn stop(mut self) -> Result<(), CommitError> {
        self.join()
    }

    fn request_stop(&self) {
        // Under the lock, or the thread could miss the wake-up between its check and its sleep.
        let _progress = self.shared.progress();
        self.stop.store(true, Ordering::Relaxed);
        self.shared.wake.notify_all();
    }

    fn join(&mut self) -> Result<(), CommitError> {
        self.request_stop();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| Err(CommitError::Poisoned(text(&*panic).into())))
    }
}

impl Drop for CommitThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.request_stop();
        } else {
            // Callers that need the result use `stop`. A failure was logged where it happened.
            let _ = self.join();
        }
    }
}

/// Runs until stopped. A panic poisons the database like a failed commit: the content of the file
/// is unknown.
fn run_or_poison(
    shared: &BackendShared,
    committer: &Committer,
    stop: &AtomicBool,
) -> Result<(), CommitError> {
    catch_panic(|| run(shared, committer, stop)).unwrap_or_else(|panic| {
        let cause = format!("the commit thread panicked: {panic}");
        shared.poison(cause.clone());
        Err(CommitError::Poisoned(cause.into()))
    })
}

/// Runs a closure and converts a panic into its message. State that the closure used must not be
/// used after a panic.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text(&*panic))
}

/// The message of a panic, if it is a string.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn run(
    shared: &BackendShared,
    committer: &Committer,
    stop: &AtomicBool,
) -> Result<(), CommitError> {
    while wait(shared, stop) {
        committer.turn()?;
    }
    committer.turn()?;
    Ok(())
}

/// Sleeps until a batch is due. Returns false if the thread should end.
fn wait(shared: &BackendShared, stop: &AtomicBool) -> bool {
    let mut progress = shared.progress();
    loop {
        if stop.load(Ordering::Relaxed) || progress.poisoned.is_some() {
            return false;
        }
        let now = shared.clock.monotonic();
        match shared.due_at(&progress) {
            Some(at) if at <= now => return true,
            Some(at) => {
                shared.wake.wait_for(&mut progress, at - now);
            }
            None => shared.wake.wait(&mut progress),
        }
    }
}
