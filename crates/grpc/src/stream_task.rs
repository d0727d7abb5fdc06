//! The task of a stream: the handler that produces its replies.
//!
//! ```text
//!   body polled ──► handler ──► Sink ──► taken by the body ──► HTTP/2
//!                      ▲
//!   end: the server stops, a condition fails, the deadline passes ──► the handler is dropped,
//!        and the body reports the status when it is polled
//! ```
//!
//! A streaming body drives the handler that fills it: the connection polls the body, and that polls
//! the handler until it has written something or has to wait. A client that does not read blocks
//! its own stream and nothing else, and no spawned task or queue stands between handler and
//! connection.
//!
//! The connection does not poll a body while its last chunk waits for the client to take it, which
//! may take forever. The resources of the handler (watchers, a thread, a database snapshot) must
//! not be held that long. The handler therefore lives in a shared `StreamTask` rather than in the
//! body: the registry or the deadline can end it, which frees its resources at once.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use net::{COUNTED_BYTES_MIN, SendBudget};
use parking_lot::Mutex;

use crate::deadline::{Deadline, DeadlineTimer};
use crate::observer::Observer;
use crate::status::Status;
use crate::streams::{EndStream, Registration, StreamRegistry};

/// The handler waits once this many bytes are written and not taken by the connection. A single
/// message may be larger.
const CHUNK_BYTES: usize = 32 << 10;

/// The handler of a stream with its observer. Dropping it cancels the stream.
pub(crate) struct StreamTask<O> {
    buffer: Arc<Buffer>,
    state: Mutex<TaskState<O>>,
    _registration: Registration,
    _timer: Option<DeadlineTimer>,
}

enum TaskState<O> {
    Running(RunningTask<O>),
    Ended(Status),
}

type HandlerFuture = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

struct RunningTask<O> {
    handler: HandlerFuture,
    observer: O,
    /// Wakes the poller of the body when the stream is ended from outside.
    waker: Option<Waker>,
}

/// Output of a stream task.
pub(crate) enum StreamOutput {
    /// Bytes of one or more messages.
    Chunk(Bytes),
    /// The last bytes, which may be empty, and the final status.
    Last(Bytes, Status),
}

/// Properties of a stream beside its handler.
pub(crate) struct StreamSetup<'a, O> {
    pub(crate) registry: &'a Arc<StreamRegistry>,
    pub(crate) conditional: bool,
    pub(crate) deadline: Deadline,
    pub(crate) observer: O,
}

impl<O: Observer> StreamTask<O> {
    /// Creates a task for a handler that writes into `sink`.
    pub(crate) fn new<E: Into<Status>>(
        setup: StreamSetup<'_, O>,
        sink: &Sink,
        handler: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Arc<StreamTask<O>> {
        let StreamSetup { registry, conditional, deadline, observer } = setup;
        let task = Arc::new_cyclic(|task: &Weak<StreamTask<O>>| {
            let expired = task.clone();
            let timer = deadline.call_at_deadline(move || {
                expired
                    .upgrade()
                    .into_iter()
                    .for_each(|expired| expired.end(Status::DEADLINE_EXCEEDED));
            });
            StreamTask {
                buffer: Arc::clone(&sink.buffer),
                state: Mutex::new(TaskState::Running(RunningTask {
                    handler: Box::pin(async { handler.await.map_err(Into::into) }),
                    observer,
                    waker: None,
                })),
                _registration: registry.register(task.clone(), conditional),
                _timer: timer,
            }
        });
        // A registry that was closed before now could not upgrade the weak reference.
        if let Some(status) = registry.closed() {
            task.end(status);
        }
        task
    }

    /// Runs the handler until it has written something. Returns the status if it ends without a
    /// message. If `wait` is set, a handler that is pending is waited for.
    pub(crate) fn poll_first(&self, cx: &mut Context<'_>, wait: bool) -> Poll<Option<Status>> {
        let ended = self.poll(cx);
        let is_silent = self.buffer.is_empty();
        match ended {
            Poll::Ready(status) if is_silent => Poll::Ready(Some(status)),
            Poll::Pending if is_silent && wait => Poll::Pending,
            _ => Poll::Ready(None),
        }
    }

    /// Runs the handler until it has to wait, and takes its output.
    pub(crate) fn poll_output(&self, cx: &mut Context<'_>) -> Poll<StreamOutput> {
        let ended = self.poll(cx);
        let written = self.buffer.take();
        match ended {
            Poll::Ready(status) => Poll::Ready(StreamOutput::Last(written, status)),
            Poll::Pending if written.is_empty() => Poll::Pending,
            Poll::Pending => Poll::Ready(StreamOutput::Chunk(written)),
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Status> {
        let mut state = self.state.lock();
        let result = match &mut *state {
            TaskState::Ended(status) => return Poll::Ready(status.clone()),
            TaskState::Running(running) => match running.handler.as_mut().poll(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => {
                    running.set_waker(cx.waker());
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
}

impl<O: Observer> EndStream for StreamTask<O> {
    /// Ends the stream, whether its body is being polled or not.
    fn end(&self, status: Status) {
        let ended = self.state.lock().end(status);
        if let Some((handler, waker)) = ended {
            // Without the lock: the handler may have much to free.
            drop(handler);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<O: Observer> TaskState<O> {
    /// Reports the end to the observer. Returns the handler and the waker of its poller; none if
    /// the stream has ended before.
    fn end(&mut self, status: Status) -> Option<(HandlerFuture, Option<Waker>)> {
        if let TaskState::Ended(_) = self {
            return None;
        }
        let before = std::mem::replace(self, TaskState::Ended(Status::OK));
        let TaskState::Running(running) = before else { return None };
        running.observer.finish(&status);
        *self = TaskState::Ended(status);
        Some((running.handler, running.waker))
    }
}

impl<O> RunningTask<O> {
    fn set_waker(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(current) => current.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }
}

impl<O> fmt::Debug for StreamTask<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamTask").finish_non_exhaustive()
    }
}

/// Bytes that the handler has written and the body has not taken. Never contended: handler and body
/// are polled by the same task.
#[derive(Default)]
struct Buffer {
    bytes: Mutex<BufferedBytes>,
    send_budget: Arc<SendBudget>,
}

/// The buffered bytes, in order. A long chunk is charged when it is written: a client whose window
/// is closed may leave it here forever.
#[derive(Default)]
struct BufferedBytes {
    charged: Bytes,
    open: BytesMut,
}

impl BufferedBytes {
    fn len(&self) -> usize {
        self.charged.len() + self.open.len()
    }
}

impl Buffer {
    fn is_empty(&self) -> bool {
        self.bytes.lock().len() == 0
    }

    fn write<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        let mut bytes = self.bytes.lock();
        let written = write(&mut bytes.open);
        if bytes.open.len() >= COUNTED_BYTES_MIN {
            let chunk = bytes.take_all();
            bytes.charged = self.send_budget.charge(chunk);
        }
        written
    }

    fn take(&self) -> Bytes {
        self.bytes.lock().take_all()
    }
}

impl BufferedBytes {
    fn take_all(&mut self) -> Bytes {
        let charged = std::mem::take(&mut self.charged);
        match (charged.is_empty(), self.open.is_empty()) {
            (true, true) => Bytes::new(),
            (false, true) => charged,
            (true, false) => self.take_open(),
            // Only a handler that did not wait for room has both.
            (false, false) => [&charged[..], &self.take_open()[..]].concat().into(),
        }
    }

    fn take_open(&mut self) -> Bytes {
        // The spare capacity of a small buffer is reused. That of a large one is not: an idle
        // stream must not keep it.
        if self.open.capacity() > 2 * CHUNK_BYTES {
            return std::mem::take(&mut self.open).freeze();
        }
        self.open.split().freeze()
    }
}

/// The writing end of a stream's buffer, for the handler of that stream only.
#[derive(Clone, Default)]
pub(crate) struct Sink {
    buffer: Arc<Buffer>,
}

impl Sink {
    /// Creates a sink whose long chunks are charged to the budget of their connection.
    pub(crate) fn new(send_budget: &Arc<SendBudget>) -> Sink {
        let send_budget = Arc::clone(send_budget);
        Sink { buffer: Arc::new(Buffer { bytes: Mutex::default(), send_budget }) }
    }

    /// Appends to the next chunk.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        self.buffer.write(write)
    }

    /// Waits until there is room for more. Returns whether it had to wait.
    pub(crate) async fn room(&self) -> bool {
        let mut waited = false;
        // No waker is needed: the body makes room when it is polled, and then polls the handler.
        std::future::poll_fn(|_| match self.buffer.bytes.lock().len() < CHUNK_BYTES {
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
