//! Watch: delivers every change of the watched keys, once, in order, from a given revision.
//!
//! A [`Hub`] has the watchers of all clients. Each client has a [`Stream`], where it creates
//! watchers and reads responses. The group of a watcher follows from the events that it still
//! needs:
//!
//! ```text
//!     store at revision 70, history from 40
//!
//!     synced     A next 71+, B next 100   up to date; gets each transaction when applied   publish
//!     unsynced   C next 55                reads history, many watchers in one pass         sync
//!     victim     D holds @70, next 71     the queue of its stream is full                  victims
//!     canceled   E next 30                needs compacted revisions
//!
//!            publish, stream full                 room
//!     synced ────────────────────► victim ──────────────────► unsynced ── caught up ──► synced
//!                                     ▲      stream full         │
//!                                     └──────────────────────────┘
//! ```
//!
//! Guarantees to clients, and how they are kept:
//!
//! - *Ordered, unique, reliable.* All responses of a stream pass through one queue that is filled
//!   under one lock. `Watcher::next` is the next revision to deliver. It advances when a response
//!   is queued, or held for the queue, and never goes back.
//! - *Atomic.* All events of a revision are in one response, or in its fragments.
//! - *Resumable.* A watcher gets every event from its start revision on. It is canceled if that
//!   revision is compacted.
//! - *Bookmarkable.* A progress response is queued after all events up to its revision, and only
//!   if its watchers have them.
//!
//! Guarantees to the member:
//!
//! - Publishing a transaction costs a search per key and a pointer per interested watcher, and
//!   never waits for a client.
//! - History is read without the lock.
//! - All queues are bounded ([`Limits`]): a client that does not read falls behind. Previous values
//!   (`prev_kv`) are not queued; they are read when the client takes the response.
//!
//! Time and history ([`History`]) are arguments. Permissions, framing and threads are up to the
//! caller.

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
pub use hub::{Config, Hub, HubTurn};
pub use limits::{Limits, PROGRESS_INTERVAL_MIN};
pub use outbox::Notify;
pub use request::{Busy, CreateRequest, Filters, Refusal};
pub use response::{NO_WATCH_ID, Response, WatchedEvent};
pub use stream::Stream;
