//! The thread that commits in the background: a clock and a condition round a [`Committer`].

use std::any::Any;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use crate::backend::{Backend, Shared};
use crate::commit::Committer;
use crate::error::CommitError;

/// Commits in the background until it is stopped or dropped, or a commit fails.
#[derive(Debug)]
pub struct CommitThread {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), CommitError>>>,
}

impl CommitThread {
    /// Starts one. A database needs no more than one.
    pub fn spawn(backend: &Backend) -> io::Result<CommitThread> {
        CommitThread::spawn_telling(backend, |_| ())
    }

    /// Starts one that tells why it ends, if that is not because it was told to: a commit has failed, whoever made it, or it has panicked. Nothing is
    /// accepted any more then, so somebody should hear of it who need not wait for a commit to do so.
    pub fn spawn_telling(
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

    /// Commits what is pending, and ends.
    pub fn stop(mut self) -> Result<(), CommitError> {
        self.join()
    }

    fn tell_to_stop(&self) {
        // Under the lock, or the thread might look before and sleep after.
        let _progress = self.shared.progress();
        self.stop.store(true, Ordering::Relaxed);
        self.shared.wake.notify_all();
    }

    fn join(&mut self) -> Result<(), CommitError> {
        self.tell_to_stop();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| Err(CommitError::Poisoned(text(&*panic).into())))
    }
}

impl Drop for CommitThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell_to_stop();
        } else {
            // Whoever cares calls `stop`. A failure was logged where it happened.
            let _ = self.join();
        }
    }
}

/// Commits until it is told to stop. A panic poisons the database as a failed commit does: nobody knows what is in the file.
fn run_or_poison(
    shared: &Shared,
    committer: &Committer,
    stop: &AtomicBool,
) -> Result<(), CommitError> {
    caught(|| run(shared, committer, stop)).unwrap_or_else(|panic| {
        let cause = format!("the thread that commits panicked: {panic}");
        shared.poison(cause.clone());
        Err(CommitError::Poisoned(cause.into()))
    })
}

/// Does something that nobody depends on once it has panicked. Returns what the panic said.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text(&*panic))
}

/// What a panic said, if it was words.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn run(shared: &Shared, committer: &Committer, stop: &AtomicBool) -> Result<(), CommitError> {
    while wait(shared, stop) {
        committer.turn()?;
    }
    committer.turn()?;
    Ok(())
}

/// Sleeps until a batch is to be committed. False: it is time to end.
fn wait(shared: &Shared, stop: &AtomicBool) -> bool {
    let mut progress = shared.progress();
    loop {
        if stop.load(Ordering::Relaxed) || progress.poisoned.is_some() {
            return false;
        }
        let now = shared.clock.monotonic();
        progress = match shared.due_at(&progress) {
            Some(at) if at <= now => return true,
            Some(at) => {
                let woken = shared.wake.wait_timeout(progress, at - now);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.wake.wait(progress).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
