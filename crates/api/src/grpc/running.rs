//! The work of a stream: what makes its responses.
//!
//! ```text
//!   body polled ──► work ──► Sink ──► taken by the body ──► HTTP/2
//!                    ▲
//!   the member stops, its leader is missed, a deadline passes: end ──► the work is gone, and the body says why, when it can
//! ```
//!
//! A streaming body *is* the work that makes it: whoever sends the response polls the body, and that runs the work until it has written something or has to
//! wait. So a client that does not read holds up its own stream and nothing else, and no task or queue stands between the work and the connection.
//!
//! But nobody polls a body while its last piece waits for the client to take it, which may be for ever. What the work holds (watchers, a thread, a snapshot of the
//! database) must not stay that long. So the work is not part of the body: whoever has a reason to ends it, and what it holds is free at once.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};

use super::deadline::{Alarm, Deadline};
use super::ends::{Ends, Place};
use super::errors::Canonical;
use super::metrics::Counted;
use super::spans::Open;
use super::status::Status;

/// Work does not go on before the connection has taken what it wrote, once that is so much. A single message may be larger.
const PIECE: usize = 32 << 10;

/// The work of a stream, until it has ended. Dropping it ends it.
pub(crate) struct Running {
    slot: Arc<Slot>,
    state: Mutex<State>,
    _place: Place,
    _alarm: Option<Alarm>,
}

enum State {
    Runs(Runs),
    Ended(Status),
}

type Work = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

struct Runs {
    work: Work,
    counted: Counted,
    open: Open,
    /// Whoever polls it, to be told that it was ended.
    waker: Option<Waker>,
}

/// What a piece of a body is made of.
pub(crate) enum Written {
    Piece(Bytes),
    Last(Bytes, Status),
}

/// What a stream is, beside its work.
pub(crate) struct Terms<'a> {
    pub(crate) ends: &'a Arc<Ends>,
    pub(crate) needs_leader: bool,
    pub(crate) deadline: Deadline,
    pub(crate) counted: Counted,
    pub(crate) open: Open,
}

impl Running {
    /// Begins work that writes into `sink`.
    pub(crate) fn new(
        terms: Terms<'_>,
        sink: &Sink,
        work: impl Future<Output = Result<(), Status>> + Send + 'static,
    ) -> Arc<Running> {
        let Terms { ends, needs_leader, deadline, counted, open } = terms;
        let running = Arc::new_cyclic(|running: &Weak<Running>| {
            let late = running.clone();
            let alarm = deadline.when_passed(move || {
                late.upgrade().into_iter().for_each(|late| late.end(Status::DEADLINE_EXCEEDED));
            });
            Running {
                slot: Arc::clone(&sink.slot),
                state: Mutex::new(State::Runs(Runs {
                    work: Box::pin(work),
                    counted,
                    open,
                    waker: None,
                })),
                _place: ends.list(running.clone(), needs_leader),
                _alarm: alarm,
            }
        });
        // Whoever closed it before now could not find this one.
        if ends.is_closed() {
            running.end(Canonical::Stopped.into());
        }
        running
    }

    /// Ends it, whether somebody polls it or not.
    pub(crate) fn end(&self, status: Status) {
        let ended = self.lock().end(status);
        if let Some((work, waker)) = ended {
            // Not under the lock: it may have much to let go of.
            drop(work);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Runs it until it has something to say. If it ends without a word: how. One that waits is waited for if `patient`.
    pub(crate) fn poll_begun(&self, cx: &mut Context<'_>, patient: bool) -> Poll<Option<Status>> {
        let ended = self.poll(cx);
        let is_silent = self.slot.lock().is_empty();
        match ended {
            Poll::Ready(status) if is_silent => Poll::Ready(Some(status)),
            Poll::Pending if is_silent && patient => Poll::Pending,
            _ => Poll::Ready(None),
        }
    }

    /// Runs it as far as it goes, and takes what it wrote.
    pub(crate) fn poll_written(&self, cx: &mut Context<'_>) -> Poll<Written> {
        let ended = self.poll(cx);
        let written = self.slot.take();
        match ended {
            Poll::Ready(status) => Poll::Ready(Written::Last(written, status)),
            Poll::Pending if written.is_empty() => Poll::Pending,
            Poll::Pending => Poll::Ready(Written::Piece(written)),
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Status> {
        let mut state = self.lock();
        let result = match &mut *state {
            State::Ended(status) => return Poll::Ready(status.clone()),
            State::Runs(runs) => match runs.work.as_mut().poll(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => {
                    runs.note(cx.waker());
                    return Poll::Pending;
                }
            },
        };
        let status = result.err().unwrap_or(Status::OK);
        let ended = state.end(status.clone());
        drop(state);
        drop(ended);
        Poll::Ready(status)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts its end. Returns what ran, and whoever polled it; nothing if it has ended before.
    fn end(&mut self, status: Status) -> Option<(Work, Option<Waker>)> {
        if let State::Ended(_) = self {
            return None;
        }
        let before = std::mem::replace(self, State::Ended(Status::OK));
        let State::Runs(runs) = before else { return None };
        runs.counted.end(status.code);
        runs.open.end(&status);
        *self = State::Ended(status);
        Some((runs.work, runs.waker))
    }
}

impl Runs {
    fn note(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(noted) => noted.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// What was written and not yet taken. Never contended: work and body are polled by the same task.
#[derive(Default)]
struct Slot(Mutex<BytesMut>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, BytesMut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Bytes {
        let mut slot = self.lock();
        if slot.is_empty() {
            return Bytes::new();
        }
        // The rest of a buffer is written to next time, unless it is a large one: a stream that has nothing to say must not keep it.
        if slot.capacity() > 2 * PIECE {
            return std::mem::take(&mut *slot).freeze();
        }
        slot.split().freeze()
    }
}

/// Where work writes its messages. To be used by the work of the one stream that it was given to.
#[derive(Clone, Default)]
pub(crate) struct Sink {
    slot: Arc<Slot>,
}

impl Sink {
    /// Appends to what goes out next.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        write(&mut self.slot.lock())
    }

    /// Returns once there is room for more; whether that had to be waited for.
    pub(crate) async fn room(&self) -> bool {
        let mut waited = false;
        // Nobody has to be woken: room is made when the body is polled, and that polls the work.
        std::future::poll_fn(|_| match self.slot.lock().len() < PIECE {
            true => Poll::Ready(waited),
            false => {
                waited = true;
                Poll::Pending
            }
        })
        .await
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
