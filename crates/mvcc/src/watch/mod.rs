//! Watching: clients are told of every change to the keys they name, once, in order, from the revision they name.
//!
//! A [`Hub`] has the watchers of all clients. Each client has a [`Stream`], where it creates watchers and reads responses. Where a
//! watcher stands follows from what it still has to get:
//!
//! ```text
//!     store at revision 70, history from 40
//!
//!     synced      A next 71+   B next 100        have all there is; get each transaction as it is applied      publish
//!     unsynced    C next 55                      read history, many in one walk, up to now                     sync, tail
//!     victim      D holds @70, next 71           its stream's queue is full: waits for room                    victims, outbox
//!     ended       E next 30                      what it needs is compacted: its client is told, and it is gone
//!
//!                publish, stream full                    room
//!       synced ───────────────────────►  victim ───────────────────►  unsynced ──── all read ────►  synced
//!                                          ▲       stream full            │
//!                                          └──────────────────────────────┘
//! ```
//!
//! What a client can rely on, and what it rests on here:
//!
//! - *Ordered, unique, reliable.* Everything a stream is told passes through one queue that is filled under one lock, and `Watcher::next` says what
//!   comes next: it moves when a response is in the queue, or held for it, and never back.
//! - *Atomic.* All events of a revision are in one response, or in its fragments.
//! - *Resumable.* A watcher created at a revision gets all from there, as long as it is not compacted; it is told if it is.
//! - *Bookmarkable.* A progress response is queued behind all events up to its revision, and only if its watchers have them.
//!
//! What the member can rely on: applying a transaction costs a search for each of its keys and a pointer for each watcher that wants it, and waits
//! for nobody who reads; history is read without the lock; all that waits is bounded ([`Limits`]), and a client that does not read is
//! left behind rather than remembered for. Not counted is what was before an event: it is read, for one response at a time, when the client takes it.
//!
//! Time arrives as an argument, and so does history ([`History`]). Who may watch body, the framing of messages and the threads that take the turns are
//! the business of those above.

mod key_span;
mod limits;

mod history;
mod request;
mod response;

mod interval_tree;
mod outbox;
mod tail;
mod watcher;
mod watcher_group;

mod hub_state;

mod progress;
mod publish;
mod sync;
mod victims;

mod hub;
mod stream;

pub use history::{History, HistoryError};
pub use hub::{Config, Hub, Next};
pub use limits::{Limits, PROGRESS_INTERVAL_MIN};
pub use outbox::Notify;
pub use request::{Busy, CreateRequest, Filters, Refusal};
pub use response::{NO_WATCH_ID, Response, WatchedEvent};
pub use stream::Stream;
