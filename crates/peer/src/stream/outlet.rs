//! What is to be said over a stream.
//!
//! The raft loop puts messages in, and whoever writes the stream takes all of them at once:
//!
//! ```text
//!   push MsgApp 7, push MsgApp 8   ──►  [7 8]  ──►  take: one buffer, one write
//!        wakes the writer once           │
//!                                        └─ more than QUEUE_MAX, or QUEUE_BYTES_MAX: full
//! ```
//!
//! What is always true: nothing waits where no stream is attached; at most one stream is attached, the last one that was dialled; the order is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use net::Connection;
use raft::Message;
use tokio::time::Instant;

use super::StreamKind;

/// Messages that may wait, as many as in etcd.
pub(crate) const QUEUE_MAX: usize = 4096;
/// What they may hold. Entries are shared with the log as long as that has them.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;

/// What is to be said over one kind of stream to one member.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) kind: StreamKind,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Message>,
    bytes: usize,
    /// Since when something has been waiting: in the queue, or taken by whoever writes it and has not come back since.
    waiting: Option<Instant>,
    attached: Option<Attached>,
    /// Streams that have been attached so far.
    count: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Attached {
    stream: StreamId,
    waker: Option<Waker>,
    connection: Arc<Connection>,
}

/// One of the streams that have been attached to an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamId(u64);

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Pushed {
    /// It will be said. Whoever does so is to be woken, if it sleeps.
    Queued(Option<Waker>),
    /// Too many wait.
    Full,
    /// There is no stream: it has to go another way.
    Detached(Message),
}

/// What was attached before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) was_attached: bool,
    /// Whether something waited, which is lost.
    pub(crate) had_messages: bool,
}

/// Whoever writes a stream that is not attached any more has to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

impl Outlet {
    pub(crate) fn new(kind: StreamKind) -> Outlet {
        Outlet { kind, state: Mutex::default() }
    }

    /// A message to be said.
    pub(crate) fn push(&self, message: Message) -> Pushed {
        let mut state = self.lock();
        let Some(attached) = &mut state.attached else { return Pushed::Detached(message) };
        let waker = attached.waker.take();
        let bytes = weight(&message);
        let is_full = state.queue.len() >= QUEUE_MAX
            || (state.bytes > 0 && state.bytes + bytes > QUEUE_BYTES_MAX);
        if is_full {
            return Pushed::Full;
        }
        if state.waiting.is_none() {
            state.waiting = Some(Instant::now());
        }
        state.bytes += bytes;
        state.queue.push_back(message);
        Pushed::Queued(waker)
    }

    /// Takes all that waits, behind what is in `into`; if nothing does, the caller is woken when something comes.
    pub(crate) fn take(
        &self,
        stream: StreamId,
        into: &mut VecDeque<Message>,
        cx: &mut Context<'_>,
    ) -> Result<(), Ended> {
        let mut state = self.lock();
        let State { queue, attached, .. } = &mut *state;
        let attached = attached.as_mut().filter(|attached| attached.stream == stream);
        let Some(attached) = attached else { return Err(Ended) };
        if queue.is_empty() && into.is_empty() {
            attached.waker = Some(cx.waker().clone());
            state.waiting = None;
            return Ok(());
        }
        // The buffers are handed back and forth, so that neither side allocates.
        if into.is_empty() {
            std::mem::swap(queue, into);
        } else {
            into.append(queue);
        }
        (state.bytes, state.waiting) = (0, Some(Instant::now()));
        Ok(())
    }

    /// A stream has come, which takes the place of the one before. None if there are to be none any more.
    pub(crate) fn attach(&self, connection: Arc<Connection>) -> Option<(StreamId, Replaced)> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let replaced = state.detach();
        state.count += 1;
        let stream = StreamId(state.count);
        state.attached = Some(Attached { stream, waker: None, connection });
        Some((stream, replaced))
    }

    /// A stream has ended. None if it was not attached any more.
    pub(crate) fn detach(&self, stream: StreamId) -> Option<Replaced> {
        let mut state = self.lock();
        let is_it = state.attached.as_ref().is_some_and(|attached| attached.stream == stream);
        is_it.then(|| state.detach())
    }

    /// Cuts a stream over which nothing could be said for so long.
    pub(crate) fn cut_if_stalled(&self, patience: Duration) -> Option<Replaced> {
        let mut state = self.lock();
        let stalls = state.waiting.is_some_and(|since| since.elapsed() > patience);
        let connection = state.attached.as_ref().filter(|_| stalls)?.connection.clone();
        let replaced = state.detach();
        drop(state);
        connection.cut();
        Some(replaced)
    }

    /// Ends the stream, and takes no other.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.detach();
    }

    #[cfg(test)]
    pub(crate) fn is_attached(&self) -> bool {
        self.lock().attached.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whoever writes the stream is woken to end it.
    fn detach(&mut self) -> Replaced {
        let attached = self.attached.take();
        let had_messages = !self.queue.is_empty();
        self.queue.clear();
        (self.bytes, self.waiting) = (0, None);
        let was_attached = attached.is_some();
        attached.and_then(|attached| attached.waker).into_iter().for_each(Waker::wake);
        Replaced { was_attached, had_messages }
    }
}

/// What a message holds on to.
fn weight(message: &Message) -> usize {
    let entries = message.entries.iter().map(|entry| size_of_val(entry) + entry.data.len());
    size_of_val(message) + entries.sum::<usize>() + message.context.len()
}

#[cfg(test)]
mod tests {
    use net::Peer;
    use raft::{Entry, MessageType};
    use types::MemberId;

    use super::*;

    fn outlet() -> Outlet {
        Outlet::new(StreamKind::Message)
    }

    fn connection() -> Arc<Connection> {
        Arc::new(Connection::new(Peer::Unix, false))
    }

    fn message(to: u64) -> Message {
        Message::new(MessageType::MsgApp, MemberId(to))
    }

    fn take(outlet: &Outlet, stream: StreamId) -> Result<Vec<u64>, Ended> {
        let mut taken = VecDeque::new();
        outlet.take(stream, &mut taken, &mut Context::from_waker(Waker::noop()))?;
        Ok(taken.iter().map(|message| message.to.0).collect())
    }

    #[test]
    fn without_a_stream_messages_go_another_way() {
        assert!(matches!(outlet().push(message(7)), Pushed::Detached(m) if m == message(7)));
    }

    #[test]
    fn all_that_waits_is_taken_at_once_and_who_takes_it_is_woken_once() {
        let outlet = outlet();
        let (stream, replaced) = outlet.attach(connection()).unwrap();
        assert_eq!(replaced, Replaced { was_attached: false, had_messages: false });
        assert_eq!(take(&outlet, stream), Ok(vec![]));
        assert!(matches!(outlet.push(message(1)), Pushed::Queued(Some(_))));
        assert!(matches!(outlet.push(message(2)), Pushed::Queued(None)));
        assert_eq!(take(&outlet, stream), Ok(vec![1, 2]));
        assert!(matches!(outlet.push(message(3)), Pushed::Queued(None)), "nobody sleeps");
        assert_eq!(take(&outlet, stream), Ok(vec![3]));
    }

    #[test]
    fn the_stream_that_came_last_counts() {
        let outlet = outlet();
        let (first, _) = outlet.attach(connection()).unwrap();
        assert!(matches!(outlet.push(message(1)), Pushed::Queued(None)));
        let (second, replaced) = outlet.attach(connection()).unwrap();
        assert_eq!(replaced, Replaced { was_attached: true, had_messages: true });
        assert_eq!(take(&outlet, first), Err(Ended));
        assert_eq!(outlet.detach(first), None);
        assert_eq!(take(&outlet, second), Ok(vec![]), "what was for the first is lost");
        assert_eq!(outlet.detach(second).map(|it| it.was_attached), Some(true));
        assert!(!outlet.is_attached());
        outlet.close();
        assert!(outlet.attach(connection()).is_none());
    }

    #[test]
    fn what_waits_is_bounded() {
        let outlet = outlet();
        let (stream, _) = outlet.attach(connection()).unwrap();
        let queued =
            (0..=QUEUE_MAX).filter(|_| matches!(outlet.push(message(1)), Pushed::Queued(_)));
        assert_eq!(queued.count(), QUEUE_MAX);
        assert_eq!(take(&outlet, stream).unwrap().len(), QUEUE_MAX);

        let data = vec![0; QUEUE_BYTES_MAX / 2].into();
        let large = Message { entries: vec![Entry { data, ..Entry::default() }], ..message(1) };
        assert!(matches!(outlet.push(large.clone()), Pushed::Queued(_)));
        assert!(matches!(outlet.push(large), Pushed::Full));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_nothing_is_cut() {
        let (outlet, second) = (outlet(), Duration::from_secs(1));
        let (stream, _) = outlet.attach(connection()).unwrap();
        tokio::time::advance(10 * second).await;
        outlet.push(message(1));
        assert_eq!(outlet.cut_if_stalled(5 * second), None, "it has just come");
        tokio::time::advance(4 * second).await;
        assert_eq!(take(&outlet, stream), Ok(vec![1]));
        assert_eq!(take(&outlet, stream), Ok(vec![]), "and wants more");
        tokio::time::advance(10 * second).await;
        assert_eq!(outlet.cut_if_stalled(5 * second), None, "there is nothing to be said");
        outlet.push(message(2));
        tokio::time::advance(4 * second).await;
        assert_eq!(outlet.cut_if_stalled(5 * second), None);
        tokio::time::advance(2 * second).await;
        let cut = outlet.cut_if_stalled(5 * second);
        assert_eq!(cut, Some(Replaced { was_attached: true, had_messages: true }));
        assert_eq!(take(&outlet, stream), Err(Ended));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_and_does_not_come_back_is_cut() {
        let (outlet, second) = (outlet(), Duration::from_secs(1));
        let (stream, _) = outlet.attach(connection()).unwrap();
        outlet.push(message(1));
        assert_eq!(take(&outlet, stream), Ok(vec![1]));
        tokio::time::advance(6 * second).await;
        let cut = outlet.cut_if_stalled(5 * second);
        assert_eq!(cut, Some(Replaced { was_attached: true, had_messages: false }));
    }
}
