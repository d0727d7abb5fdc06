//! The queue of messages for a stream.
//!
//! The raft loop pushes messages, and the stream writer takes as many at once as make a good write:
//!
//! ```text
//!   push MsgApp 7, push MsgApp 8   ──►  [7 8]  ──►  take: one buffer, one write
//!        wakes the writer once           │
//!                                        └─ more than QUEUE_MAX, or QUEUE_BYTES_MAX: full
//! ```
//!
//! The writer takes nothing before it has written what it took. So messages that cannot be sent
//! soon wait here, where they are counted.
//!
//! Invariants: nothing is queued while no stream is attached; at most one stream is attached, the
//! last one that was dialed; messages keep their order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use net::Connection;
use parking_lot::Mutex;
use raft::Message;
use tokio::time::Instant;

use super::StreamKind;

/// The most queued messages. As in etcd.
pub(crate) const QUEUE_MAX: usize = 4096;
/// The most bytes of queued messages. Entries are shared with the log as long as it has them.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;
/// The most bytes taken at once, except for the last message.
const TAKE_BYTES: usize = 1 << 20;

/// The queue of messages for one kind of stream to one peer.
#[derive(Debug)]
pub(crate) struct StreamQueue {
    pub(crate) kind: StreamKind,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    queue: VecDeque<Message>,
    bytes: usize,
    /// The time since which a message is queued, or was taken without progress by the writer.
    waiting_since: Option<Instant>,
    attached: Option<AttachedStream>,
    /// The number of streams attached so far.
    count: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct AttachedStream {
    stream: StreamId,
    waker: Option<Waker>,
    connection: Arc<Connection>,
}

/// Identifies one of the streams that were attached to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamId(u64);

/// The outcome of a push.
#[derive(Debug)]
pub(crate) enum Pushed {
    /// The message is queued. The waker of the writer, if it sleeps.
    Queued(Option<Waker>),
    /// The queue is full.
    Full,
    /// No stream is attached; the message must be sent by other means.
    NoStream(Message),
}

/// The stream that was attached before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreviousStream {
    pub(crate) was_attached: bool,
    /// Whether messages were queued or being written, which are lost.
    pub(crate) had_messages: bool,
}

/// The stream is no longer attached; its writer must end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detached;

impl StreamQueue {
    pub(crate) fn new(kind: StreamKind) -> StreamQueue {
        StreamQueue { kind, state: Mutex::default() }
    }

    /// Queues a message.
    pub(crate) fn push(&self, message: Message) -> Pushed {
        let mut state = self.state.lock();
        let Some(attached) = &mut state.attached else { return Pushed::NoStream(message) };
        let waker = attached.waker.take();
        let bytes = weight(&message);
        let is_full = state.queue.len() >= QUEUE_MAX
            || (state.bytes > 0 && state.bytes + bytes > QUEUE_BYTES_MAX);
        if is_full {
            return Pushed::Full;
        }
        if state.waiting_since.is_none() {
            state.waiting_since = Some(Instant::now());
        }
        state.bytes += bytes;
        state.queue.push_back(message);
        Pushed::Queued(waker)
    }

    /// Takes the messages to write next. If there are none, registers the caller's waker. Called
    /// whenever the stream can accept more and everything taken before is written. A writer that is
    /// not done calls [`StreamQueue::record_progress`] instead.
    pub(crate) fn take(
        &self,
        stream: StreamId,
        into: &mut Vec<Message>,
        cx: &mut Context<'_>,
    ) -> Result<(), Detached> {
        let mut state = self.state.lock();
        state.attached(stream)?;
        let taken = state.pop(into);
        state.waiting_since = taken.then(Instant::now);
        // A writer that took messages polls again without a wake-up.
        state.attached(stream)?.waker = (!taken).then(|| cx.waker().clone());
        Ok(())
    }

    /// Records that part of the taken messages was written.
    pub(crate) fn record_progress(&self, stream: StreamId) -> Result<(), Detached> {
        let mut state = self.state.lock();
        state.attached(stream)?;
        state.waiting_since = Some(Instant::now());
        Ok(())
    }

    /// Attaches a stream in place of the previous one. Returns `None` if the queue is closed.
    pub(crate) fn attach(&self, connection: Arc<Connection>) -> Option<(StreamId, PreviousStream)> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        let (replaced, stuck) = state.detach();
        state.count += 1;
        let stream = StreamId(state.count);
        // Both streams may share a connection, which then is not cut.
        let stuck = stuck.filter(|stuck| !Arc::ptr_eq(stuck, &connection));
        state.attached = Some(AttachedStream { stream, waker: None, connection });
        drop(state);
        stuck.into_iter().for_each(|stuck| stuck.cut());
        Some((stream, replaced))
    }

    /// Detaches a stream. Returns `None` if it was not attached any more.
    pub(crate) fn detach(&self, stream: StreamId) -> Option<PreviousStream> {
        let mut state = self.state.lock();
        let is_attached = state.attached.as_ref().is_some_and(|attached| attached.stream == stream);
        is_attached.then(|| state.detach().0)
    }

    /// Cuts a stream that made no progress for longer than `stall_max`.
    pub(crate) fn cut_if_stalled(&self, stall_max: Duration) -> Option<PreviousStream> {
        let mut state = self.state.lock();
        if state.waiting_since.is_none_or(|since| since.elapsed() <= stall_max) {
            return None;
        }
        let (replaced, stuck) = state.detach();
        drop(state);
        stuck.into_iter().for_each(|stuck| stuck.cut());
        Some(replaced)
    }

    /// Detaches the stream and refuses further ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let (_, stuck) = state.detach();
        drop(state);
        stuck.into_iter().for_each(|stuck| stuck.cut());
    }

    #[cfg(test)]
    pub(crate) fn is_attached(&self) -> bool {
        self.state.lock().attached.is_some()
    }
}

impl QueueState {
    fn attached(&mut self, stream: StreamId) -> Result<&mut AttachedStream, Detached> {
        self.attached.as_mut().filter(|attached| attached.stream == stream).ok_or(Detached)
    }

    /// Takes the messages of one write. Returns whether there were any.
    fn pop(&mut self, into: &mut Vec<Message>) -> bool {
        let mut bytes = 0;
        while bytes < TAKE_BYTES
            && let Some(message) = self.queue.pop_front()
        {
            bytes += weight(&message);
            into.push(message);
        }
        self.bytes -= bytes;
        bytes > 0
    }

    /// Wakes the writer, which then ends its stream. A writer that is not asleep may be blocked by
    /// a client that never reads again: then its connection is returned, to be cut.
    fn detach(&mut self) -> (PreviousStream, Option<Arc<Connection>>) {
        let had_messages = self.waiting_since.is_some();
        self.queue.clear();
        (self.bytes, self.waiting_since) = (0, None);
        let Some(attached) = self.attached.take() else {
            return (PreviousStream { was_attached: false, had_messages }, None);
        };
        attached.waker.into_iter().for_each(Waker::wake);
        let stuck = had_messages.then_some(attached.connection);
        (PreviousStream { was_attached: true, had_messages }, stuck)
    }
}

/// Returns the memory that a message holds.
fn weight(message: &Message) -> usize {
    let entries = message.entries.iter().map(|entry| size_of_val(entry) + entry.data.len());
    size_of_val(message) + entries.sum::<usize>() + message.context.len()
}

#[cfg(test)]
mod tests {
    use net::RemoteAddr;
    use raft::{Entry, MessageType};
    use types::MemberId;

    use super::*;

    fn queue() -> StreamQueue {
        StreamQueue::new(StreamKind::Message)
    }

    fn connection() -> Arc<Connection> {
        Arc::new(Connection::new(RemoteAddr::Unix, false))
    }

    fn message(to: u64) -> Message {
        Message::new(MessageType::MsgApp, MemberId(to))
    }

    fn take(queue: &StreamQueue, stream: StreamId) -> Result<Vec<u64>, Detached> {
        let mut taken = Vec::new();
        queue.take(stream, &mut taken, &mut Context::from_waker(Waker::noop()))?;
        Ok(taken.iter().map(|message| message.to.0).collect())
    }

    #[test]
    fn without_a_stream_messages_are_returned() {
        assert!(matches!(queue().push(message(7)), Pushed::NoStream(m) if m == message(7)));
    }

    #[test]
    fn queued_messages_are_taken_at_once_and_wake_the_writer_once() {
        let queue = queue();
        let (stream, replaced) = queue.attach(connection()).unwrap();
        assert_eq!(replaced, PreviousStream { was_attached: false, had_messages: false });
        assert_eq!(take(&queue, stream), Ok(vec![]));
        assert!(matches!(queue.push(message(1)), Pushed::Queued(Some(_))));
        assert!(matches!(queue.push(message(2)), Pushed::Queued(None)));
        assert_eq!(take(&queue, stream), Ok(vec![1, 2]));
        assert!(matches!(queue.push(message(3)), Pushed::Queued(None)), "the writer is awake");
        assert_eq!(take(&queue, stream), Ok(vec![3]));
    }

    #[test]
    fn the_last_attached_stream_replaces_the_previous_one() {
        let queue = queue();
        let (first, _) = queue.attach(connection()).unwrap();
        assert!(matches!(queue.push(message(1)), Pushed::Queued(None)));
        let (second, replaced) = queue.attach(connection()).unwrap();
        assert_eq!(replaced, PreviousStream { was_attached: true, had_messages: true });
        assert_eq!(take(&queue, first), Err(Detached));
        assert_eq!(queue.detach(first), None);
        assert_eq!(take(&queue, second), Ok(vec![]), "messages for the first stream are lost");
        assert_eq!(queue.detach(second).map(|it| it.was_attached), Some(true));
        assert!(!queue.is_attached());
        queue.close();
        assert!(queue.attach(connection()).is_none());
    }

    #[test]
    fn the_queue_is_bounded() {
        let queue = queue();
        let (stream, _) = queue.attach(connection()).unwrap();
        let queued =
            (0..=QUEUE_MAX).filter(|_| matches!(queue.push(message(1)), Pushed::Queued(_)));
        assert_eq!(queued.count(), QUEUE_MAX);
        assert_eq!(take(&queue, stream).unwrap().len(), QUEUE_MAX);

        let data = vec![0; QUEUE_BYTES_MAX / 2].into();
        let large = Message { entries: vec![Entry { data, ..Entry::default() }], ..message(1) };
        assert!(matches!(queue.push(large.clone()), Pushed::Queued(_)));
        assert!(matches!(queue.push(large), Pushed::Full));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_accepts_nothing_is_cut() {
        let (queue, second) = (queue(), Duration::from_secs(1));
        let (stream, _) = queue.attach(connection()).unwrap();
        tokio::time::advance(10 * second).await;
        queue.push(message(1));
        assert_eq!(queue.cut_if_stalled(5 * second), None, "the message was just queued");
        tokio::time::advance(4 * second).await;
        assert_eq!(take(&queue, stream), Ok(vec![1]));
        assert_eq!(take(&queue, stream), Ok(vec![]), "the writer wrote everything");
        tokio::time::advance(10 * second).await;
        assert_eq!(queue.cut_if_stalled(5 * second), None, "nothing is queued");
        queue.push(message(2));
        tokio::time::advance(4 * second).await;
        assert_eq!(queue.cut_if_stalled(5 * second), None);
        tokio::time::advance(2 * second).await;
        let cut = queue.cut_if_stalled(5 * second);
        assert_eq!(cut, Some(PreviousStream { was_attached: true, had_messages: true }));
        assert_eq!(take(&queue, stream), Err(Detached));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_does_not_finish_a_write_is_cut() {
        let (queue, second) = (queue(), Duration::from_secs(1));
        let (stream, _) = queue.attach(connection()).unwrap();
        queue.push(message(1));
        assert_eq!(take(&queue, stream), Ok(vec![1]));
        tokio::time::advance(6 * second).await;
        let cut = queue.cut_if_stalled(5 * second);
        assert_eq!(cut, Some(PreviousStream { was_attached: true, had_messages: true }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_with_slow_progress_is_not_cut() {
        let (queue, second) = (queue(), Duration::from_secs(1));
        let (stream, _) = queue.attach(connection()).unwrap();
        queue.push(message(1));
        assert_eq!(take(&queue, stream), Ok(vec![1]));
        for _ in 0..10 {
            tokio::time::advance(4 * second).await;
            assert_eq!(queue.record_progress(stream), Ok(()));
            assert_eq!(queue.cut_if_stalled(5 * second), None);
        }
        queue.close();
        assert_eq!(queue.record_progress(stream), Err(Detached));
    }

    #[test]
    fn messages_that_are_not_taken_count_towards_the_limit() {
        let queue = queue();
        let (stream, _) = queue.attach(connection()).unwrap();
        let data = vec![0; TAKE_BYTES / 2].into();
        let half = Message { entries: vec![Entry { data, ..Entry::default() }], ..message(1) };
        let push = || matches!(queue.push(half.clone()), Pushed::Queued(_));
        let fit = (0..).take_while(|_| push()).count();
        assert!(fit * TAKE_BYTES / 2 <= QUEUE_BYTES_MAX, "{fit}");
        assert_eq!(take(&queue, stream).unwrap().len(), 2, "all others stay queued");
        assert_eq!((0..).take_while(|_| push()).count(), 2);
    }

    #[test]
    fn a_connection_is_cut_if_taken_messages_are_not_written() {
        let queue = queue();
        let connections: Vec<_> = (0..4).map(|_| connection()).collect();
        let is_cut = |n: usize| connections[n].is_cut();
        let attach = |n: usize| queue.attach(Arc::clone(&connections[n])).unwrap();
        let (idle, _) = attach(0);
        assert_eq!(take(&queue, idle), Ok(vec![]));
        let (busy, _) = attach(1);
        assert!(!is_cut(0), "an idle writer ends its stream itself");
        queue.push(message(1));
        assert_eq!(take(&queue, busy), Ok(vec![1]));
        let (_, replaced) = attach(2);
        assert!(is_cut(1) && replaced.had_messages);
        queue.push(message(2));
        attach(2);
        assert!(!is_cut(2), "the new stream uses the same connection");
        queue.push(message(3));
        queue.close();
        assert!(is_cut(2));
    }
}
