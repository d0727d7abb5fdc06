//! The end of a member: the stop flag, the reason, and the waiters for it.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sync::{Timers, oneshot};

use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;

/// The reason why a member stops.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StopReason {
    /// [`Member::stop`](crate::Member::stop) was called.
    #[error("stopped")]
    Requested,
    /// The member was removed from the cluster.
    #[error("the member has been permanently removed from the cluster")]
    Removed,
    /// A stage failed.
    #[error("{0}")]
    Fault(Arc<str>),
}

impl StopReason {
    pub(crate) fn fault(what: &str, error: &dyn Display) -> StopReason {
        StopReason::Fault(format!("{what}: {error}").into())
    }
}

/// Stops a member, once, for the first reason given.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    raft: Arc<RaftHandle>,
    timers: Arc<Timers>,
    is_stopping: AtomicBool,
    end: Mutex<EndState>,
}

#[derive(Debug, Default)]
struct EndState {
    reason: Option<StopReason>,
    waiters: Vec<oneshot::Sender<StopReason>>,
}

impl Lifecycle {
    pub(crate) fn new(raft: Arc<RaftHandle>, timers: Arc<Timers>) -> Lifecycle {
        Lifecycle { raft, timers, is_stopping: AtomicBool::new(false), end: Mutex::default() }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Stops the member: ends the raft loop, cancels timers and completes the waiters for the end.
    /// Only the first call has an effect.
    pub(crate) fn stop(&self, reason: StopReason) {
        let mut end = self.end.lock();
        if end.reason.is_some() {
            return;
        }
        let notice = reason.clone();
        end.reason = Some(reason);
        let waiters = std::mem::take(&mut end.waiters);
        drop(end);
        self.is_stopping.store(true, Ordering::Release);
        self.raft.push(Event::Stop);
        self.timers.close();
        waiters.into_iter().for_each(|waiter| drop(waiter.send(notice.clone())));
    }

    /// Stops the member at a later time.
    pub(crate) fn stop_at(self: &Arc<Lifecycle>, time: Duration, reason: StopReason) {
        let lifecycle = Arc::clone(self);
        self.timers.call_at(time, move || lifecycle.stop(reason));
    }

    /// Stops the member because a stage failed.
    pub(crate) fn fail(&self, what: &str, error: &dyn Display) {
        tracing::error!(%error, "{what}; the member stops");
        self.stop(StopReason::fault(what, error));
    }

    /// The reason why the member stopped, or [`StopReason::Requested`] if it has not.
    pub(crate) fn reason(&self) -> StopReason {
        self.end.lock().reason.clone().unwrap_or(StopReason::Requested)
    }

    /// Returns when the member stops, with the reason.
    pub(crate) async fn stopped(&self) -> StopReason {
        let receiver = {
            let mut end = self.end.lock();
            if let Some(reason) = &end.reason {
                return reason.clone();
            }
            let (sender, receiver) = oneshot::channel();
            end.waiters.retain(|waiter| !waiter.is_canceled());
            end.waiters.push(sender);
            receiver
        };
        receiver.await.unwrap_or(StopReason::Requested)
    }
}
