//! A member tells the others its name and where clients reach it. It serves nobody before that: whoever hears of it could not tell who it is. If it is to be compared with others,
//! it takes no part in consensus before that, as in etcd: it neither votes nor applies anything.
//!
//! ```text
//!   compare with others ─► propose {member 8e9e05c52164694d, name "default", client_urls [..]} ─► applied here ─► published
//!     if asked for                      ▲                                                     │
//!     differs: stop                     └──── not in time, or in vain: again, for ever ───────┘
//! ```
//!
//! It is in vain if somebody else leads by now, who may never have heard of it, and if a snapshot came, which may have it already. etcd waits for its timeout then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use failpoint::failpoint;
use proto::membershippb::{Attributes, ClusterMemberAttrSetRequest};

use types::{MemberId, Term};

use super::BackgroundTask;
use super::corruption::{Inconsistent, PeerHashes, initial_check};
use super::pending_task::{NEVER, POLL, PendingTask, carry_out};
use crate::error::Error;
use crate::server::Server;
use crate::state::StateMachine;
use sync::oneshot;

/// How long is waited after a publication that could not even be proposed. One that was not settled has taken its time already.
const RETRY: Duration = Duration::from_millis(100);

/// Whether this member has published what it is; and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<State>);

#[derive(Debug)]
enum State {
    /// Not yet; and these wait.
    Pending(Vec<oneshot::Sender<()>>),
    Published,
    /// It will never be.
    GivenUp,
}

impl Default for State {
    fn default() -> State {
        State::Pending(Vec::new())
    }
}

impl Published {
    /// A future that is there once it has. It is there and empty if it never will.
    pub(crate) fn wait(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        match &mut *self.lock() {
            State::Pending(all) => all.push(sender),
            State::Published => drop(sender.send(())),
            State::GivenUp => drop(sender),
        }
        receiver
    }

    /// Whether it is done.
    pub(crate) fn is_set(&self) -> bool {
        matches!(*self.lock(), State::Published)
    }

    fn set(&self) {
        let before = std::mem::replace(&mut *self.lock(), State::Published);
        if let State::Pending(waiting) = before {
            for sender in waiting {
                let _ = sender.send(());
            }
        }
    }

    /// Breaks the promises, if they were not kept.
    fn give_up(&self) {
        let mut state = self.lock();
        if let State::Pending(waiting) = &mut *state {
            let broken = std::mem::take(waiting);
            *state = State::GivenUp;
            drop(state);
            drop(broken);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publishes what this member is, once.
#[derive(Debug)]
pub(super) struct Publish {
    server: Server,
    stage: Stage,
    published: Arc<Published>,
}

impl Drop for Publish {
    fn drop(&mut self) {
        self.published.give_up();
    }
}

#[derive(Debug)]
enum Stage {
    Compare(PendingTask<Result<(), Inconsistent>>),
    Publish(PendingTask<Result<(), Error>>, Surroundings),
    Wait(Duration),
    Done,
}

/// Who led when something was proposed, and the state it was to be applied to.
#[derive(Debug)]
struct Surroundings {
    leader: Option<MemberId>,
    term: Term,
    state: Weak<StateMachine>,
}

impl Surroundings {
    fn of(server: &Server) -> Surroundings {
        let state = Arc::downgrade(&server.state());
        Surroundings { leader: server.leader(), term: server.term(), state }
    }

    /// Whether somebody leads, and either somebody else did then, or a snapshot came meanwhile.
    fn have_changed(&self, server: &Server) -> bool {
        let now = Surroundings::of(server);
        let same = (self.leader, self.term) == (now.leader, now.term);
        now.leader.is_some() && !(same && self.state.ptr_eq(&now.state))
    }
}

impl Publish {
    pub(super) fn new(server: Server, peers: Arc<dyn PeerHashes>) -> Publish {
        let stage = if server.config().features.initial_corrupt_check {
            let mut task = PendingTask::default();
            task.begin(initial_check(server.clone(), peers));
            Stage::Compare(task)
        } else {
            Stage::Wait(Duration::ZERO)
        };
        Publish { server, stage, published: Arc::default() }
    }

    /// Where it is told that it is done.
    pub(super) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    fn propose(&self) -> Stage {
        failpoint!("beforePublishing");
        let (mut task, surroundings) = (PendingTask::default(), Surroundings::of(&self.server));
        task.begin(carry_out(self.server.clone(), request(&self.server)));
        Stage::Publish(task, surroundings)
    }

    fn on_compared(&self, compared: Result<(), Inconsistent>) -> Stage {
        match compared {
            Ok(()) => {
                self.server.inner.raft.participate();
                self.propose()
            }
            Err(inconsistent) => {
                self.server.inner.lifecycle.fail("failed initial corruption check", &inconsistent);
                self.published.give_up();
                Stage::Done
            }
        }
    }

    fn on_settled(&self, outcome: Result<(), Error>, now: Duration) -> Stage {
        let (server, config) = (&self.server, self.server.config());
        match outcome {
            Ok(_) => {
                tracing::info!(
                    local_member_id = %server.local(),
                    name = config.name,
                    client_urls = ?config.client_urls,
                    cluster_id = %server.cluster_id(),
                    publish_timeout = ?config.request_timeout(),
                    "published local member to cluster through raft"
                );
                self.published.set();
                Stage::Done
            }
            Err(Error::Stopped) => {
                tracing::warn!(local_member_id = %server.local(), "stopped publish because server is stopping");
                self.published.give_up();
                Stage::Done
            }
            Err(error) => {
                tracing::warn!(
                    local_member_id = %server.local(),
                    publish_timeout = ?config.request_timeout(),
                    %error,
                    "failed to publish local member to cluster through raft"
                );
                Stage::Wait(now + RETRY)
            }
        }
    }
}

impl BackgroundTask for Publish {
    fn turn(&mut self, now: Duration) -> Duration {
        if matches!(self.stage, Stage::Wait(until) if until <= now) {
            self.stage = self.propose();
        }
        let next = match &mut self.stage {
            Stage::Compare(task) => task.poll().map(|compared| self.on_compared(compared)),
            Stage::Publish(task, surroundings) => match task.poll() {
                Some(outcome) => Some(self.on_settled(outcome, now)),
                None => surroundings.have_changed(&self.server).then_some(Stage::Wait(now)),
            },
            Stage::Wait(_) | Stage::Done => None,
        };
        if let Some(stage) = next {
            self.stage = stage;
        }
        match self.stage {
            Stage::Compare(_) | Stage::Publish(..) => now + POLL,
            Stage::Wait(until) => until,
            Stage::Done => NEVER,
        }
    }
}

fn request(server: &Server) -> ClusterMemberAttrSetRequest {
    let config = server.config();
    let attributes =
        Attributes { name: config.name.clone(), client_urls: config.client_urls.clone() };
    let (member_id, member_attributes) = (server.local().0, Some(attributes));
    ClusterMemberAttrSetRequest { member_id, member_attributes }
}
