//! What is to be said over a stream.
//!
//! The raft loop puts messages in, and whoever writes the stream takes them out, as many at once as make a good write:
//!
//! ```text
//!   push MsgApp 7, push MsgApp 8   ──►  [7 8]  ──►  take: one buffer, one write
//!        wakes the writer once           │
//!                                        └─ more than QUEUE_MAX, or QUEUE_BYTES_MAX: full
//! ```
//!
//! The writer takes nothing before it is rid of what it took, so that whatever cannot be said soon waits here, where it is counted.
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
/// What is taken at once does not hold more than this, but for its last message.
const TAKE_BYTES: usize = 1 << 20;

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
    /// Whether something waited, or was being written, which is lost.
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

    /// Takes what is to be written next; if there is nothing, the caller is woken when something comes. To be called whenever the stream can take more, and first with
    /// nothing in `into`; whoever has not yet written what it took says so by [`Outlet::goes_on`].
    pub(crate) fn take(
        &self,
        stream: StreamId,
        into: &mut Vec<Message>,
        cx: &mut Context<'_>,
    ) -> Result<(), Ended> {
        let mut state = self.lock();
        state.attached(stream)?;
        let taken = state.pop(into);
        state.waiting = taken.then(Instant::now);
        // Whoever takes something comes back by itself.
        state.attached(stream)?.waker = (!taken).then(|| cx.waker().clone());
        Ok(())
    }

    /// Part of what was taken has been written.
    pub(crate) fn goes_on(&self, stream: StreamId) -> Result<(), Ended> {
        let mut state = self.lock();
        state.attached(stream)?;
        state.waiting = Some(Instant::now());
        Ok(())
    }

    /// A stream has come, which takes the place of the one before. None if there are to be none any more.
    pub(crate) fn attach(&self, connection: Arc<Connection>) -> Option<(StreamId, Replaced)> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let (replaced, stuck) = state.detach();
        state.count += 1;
        let stream = StreamId(state.count);
        // A connection that has several streams is not cut for one of them.
        let stuck = stuck.filter(|stuck| !Arc::ptr_eq(stuck, &connection));
        state.attached = Some(Attached { stream, waker: None, connection });
        drop(state);
        stuck.into_iter().for_each(|stuck| stuck.cut());
        Some((stream, replaced))
    }

    /// A stream has ended. None if it was not attached any more.
    pub(crate) fn detach(&self, stream: StreamId) -> Option<Replaced> {
        let mut state = self.lock();
        let is_it = state.attached.as_ref().is_some_and(|attached| attached.stream == stream);
        is_it.then(|| state.detach().0)
    }

    /// Cuts a stream over which nothing could be said for so long.
    pub(crate) fn cut_if_stalled(&self, patience: Duration) -> Option<Replaced> {
        let mut state = self.lock();
        if state.waiting.is_none_or(|since| since.elapsed() <= patience) {
            return None;
        }
        let (replaced, stuck) = state.detach();
        drop(state);
        stuck.into_iter().for_each(|stuck| stuck.cut());
        Some(replaced)
    }

    /// Ends the stream, and takes no other.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let (_, stuck) = state.detach();
        drop(state);
        stuck.into_iter().for_each(|stuck| stuck.cut());
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
    fn attached(&mut self, stream: StreamId) -> Result<&mut Attached, Ended> {
        self.attached.as_mut().filter(|attached| attached.stream == stream).ok_or(Ended)
    }

    /// Takes out what makes one write. Whether there was anything.
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

    /// Whoever writes the stream is woken to end it. If it does not sleep, it may wait for somebody who never reads again, and what it holds with it: then
    /// its connection is handed back, to be cut.
    fn detach(&mut self) -> (Replaced, Option<Arc<Connection>>) {
        let had_messages = self.waiting.is_some();
        self.queue.clear();
        (self.bytes, self.waiting) = (0, None);
        let Some(attached) = self.attached.take() else {
            return (Replaced { was_attached: false, had_messages }, None);
        };
        attached.waker.into_iter().for_each(Waker::wake);
        let stuck = had_messages.then_some(attached.connection);
        (Replaced { was_attached: true, had_messages }, stuck)
    }
}

/// What a message holds on to.
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

    fn outlet() -> Outlet {
        Outlet::new(StreamKind::Message)
    }

    fn connection() -> Arc<Connection> {
        Arc::new(Connection::new(RemoteAddr::Unix, false))
    }

    fn message(to: u64) -> Message {
        Message::new(MessageType::MsgApp, MemberId(to))
    }

    fn take(outlet: &Outlet, stream: StreamId) -> Result<Vec<u64>, Ended> {
        let mut taken = Vec::new();
        outlet.take(stream, &mut taken, &mut Context::from_waker(Waker::noop()))?;
        Ok(taken.iter().map(|message| message.to.0).collect())
    }

    #[test]
    fn without_a_stream_messages_go_another_way() {
        assert!(matches!(outlet().push(message(7)), Pushed::Detached(m) if m == message(7)));
    }

    #[test]
    fn what_waits_is_taken_at_once_and_who_takes_it_is_woken_once() {
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
        assert_eq!(cut, Some(Replaced { was_attached: true, had_messages: true }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_goes_on_however_slowly_is_not_cut() {
        let (outlet, second) = (outlet(), Duration::from_secs(1));
        let (stream, _) = outlet.attach(connection()).unwrap();
        outlet.push(message(1));
        assert_eq!(take(&outlet, stream), Ok(vec![1]));
        for _ in 0..10 {
            tokio::time::advance(4 * second).await;
            assert_eq!(outlet.goes_on(stream), Ok(()));
            assert_eq!(outlet.cut_if_stalled(5 * second), None);
        }
        outlet.close();
        assert_eq!(outlet.goes_on(stream), Err(Ended));
    }

    #[test]
    fn what_cannot_be_said_soon_waits_and_is_counted() {
        let outlet = outlet();
        let (stream, _) = outlet.attach(connection()).unwrap();
        let data = vec![0; TAKE_BYTES / 2].into();
        let half = Message { entries: vec![Entry { data, ..Entry::default() }], ..message(1) };
        let push = || matches!(outlet.push(half.clone()), Pushed::Queued(_));
        let fit = (0..).take_while(|_| push()).count();
        assert!(fit * TAKE_BYTES / 2 <= QUEUE_BYTES_MAX, "{fit}");
        assert_eq!(take(&outlet, stream).unwrap().len(), 2, "and all others wait");
        assert_eq!((0..).take_while(|_| push()).count(), 2);
    }

    #[test]
    fn a_connection_is_cut_if_what_was_taken_is_not_out() {
        let outlet = outlet();
        let connections: Vec<_> = (0..4).map(|_| connection()).collect();
        let is_cut = |n: usize| connections[n].is_cut();
        let attach = |n: usize| outlet.attach(Arc::clone(&connections[n])).unwrap();
        let (idle, _) = attach(0);
        assert_eq!(take(&outlet, idle), Ok(vec![]));
        let (busy, _) = attach(1);
        assert!(!is_cut(0), "it ends by itself");
        outlet.push(message(1));
        assert_eq!(take(&outlet, busy), Ok(vec![1]));
        let (_, replaced) = attach(2);
        assert!(is_cut(1) && replaced.had_messages);
        outlet.push(message(2));
        attach(2);
        assert!(!is_cut(2), "the new stream is on it, too");
        outlet.push(message(3));
        outlet.close();
        assert!(is_cut(2));
    }
}
