//! Publishes the name and the client URLs of this member to the cluster.
//!
//! A member serves no clients before that. If the initial corruption check is enabled, it also
//! takes no part in consensus before the check has passed, as in etcd: it neither votes nor
//! applies.
//!
//! ```text
//!   initial check ─► propose {member 8e9e05c52164694d, name "default", urls [..]} ─► applied
//!     if enabled      ▲                                                  │             │
//!     failed: stop    └──── timed out, or leader or state changed ───────┘         published
//! ```
//!
//! A proposal is retried at once if the leader has changed, since the new one may not have received
//! it, and if a snapshot has replaced the state, since that may contain it already. etcd waits for
//! its timeout in both cases. The first leader that a member knows is no change: the raft loop
//! holds proposals until there is one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use failpoint::failpoint_async;
use parking_lot::Mutex;
use proto::membershippb::{Attributes, ClusterMemberAttrSetRequest};

use types::{MemberId, Term};

use super::BackgroundTask;
use super::corruption::{Inconsistent, PeerHashes, initial_check};
use super::pending_task::{NEVER, POLL, PendingTask, propose_and_wait};
use crate::error::Error;
use crate::server::Server;
use crate::state::StateMachine;
use sync::oneshot;

/// The delay before a retry after a publication failed.
const RETRY: Duration = Duration::from_millis(100);

/// Whether this member has published its attributes, with the waiters for it.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<PublishState>);

#[derive(Debug)]
enum PublishState {
    /// Not published yet; holds the waiters.
    Pending(Vec<oneshot::Sender<()>>),
    Published,
    /// Will never be published: the member stops.
    GivenUp,
}

impl Default for PublishState {
    fn default() -> PublishState {
        PublishState::Pending(Vec::new())
    }
}

impl Published {
    /// Returns a future that resolves once the member is published. It is canceled if the member
    /// stops before.
    pub(crate) fn wait(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        match &mut *self.0.lock() {
            PublishState::Pending(all) => all.push(sender),
            PublishState::Published => drop(sender.send(())),
            PublishState::GivenUp => drop(sender),
        }
        receiver
    }

    /// Returns whether the member has published.
    pub(crate) fn is_set(&self) -> bool {
        matches!(*self.0.lock(), PublishState::Published)
    }

    fn set(&self) {
        let before = std::mem::replace(&mut *self.0.lock(), PublishState::Published);
        if let PublishState::Pending(waiters) = before {
            for sender in waiters {
                let _ = sender.send(());
            }
        }
    }

    /// Cancels the waiters, unless the member has published.
    fn give_up(&self) {
        let mut state = self.0.lock();
        if let PublishState::Pending(waiters) = &mut *state {
            let canceled = std::mem::take(waiters);
            *state = PublishState::GivenUp;
            drop(state);
            drop(canceled);
        }
    }
}

/// Publishes the attributes of this member once.
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
    Publish(PendingTask<Result<(), Error>>, ProposalConditions),
    Wait(Duration),
    Done,
}

/// The leader that receives a proposal, its term, and the state machine at that time.
#[derive(Debug)]
struct ProposalConditions {
    leader: Option<MemberId>,
    term: Term,
    state: Weak<StateMachine>,
}

impl ProposalConditions {
    fn of(server: &Server) -> ProposalConditions {
        let state = Arc::downgrade(&server.state());
        ProposalConditions { leader: server.leader(), term: server.term(), state }
    }

    /// Returns whether there is another leader, term or state machine by now. Without a leader so
    /// far, the first one receives the proposal and becomes part of the conditions.
    fn have_changed(&mut self, server: &Server) -> bool {
        let now = ProposalConditions::of(server);
        if now.leader.is_none() {
            return false;
        }
        if self.leader.is_none() {
            (self.leader, self.term) = (now.leader, now.term);
        }
        (self.leader, self.term) != (now.leader, now.term) || !self.state.ptr_eq(&now.state)
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

    /// Returns the handle that reports the publication.
    pub(super) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    fn propose(&self) -> Stage {
        let (mut task, conditions) = (PendingTask::default(), ProposalConditions::of(&self.server));
        let (server, request) = (self.server.clone(), request(&self.server));
        task.begin(async move {
            failpoint_async!("beforePublishing");
            propose_and_wait(server, request).await
        });
        Stage::Publish(task, conditions)
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
            Stage::Publish(task, conditions) => match task.poll() {
                Some(outcome) => Some(self.on_settled(outcome, now)),
                None => conditions.have_changed(&self.server).then_some(Stage::Wait(now)),
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
