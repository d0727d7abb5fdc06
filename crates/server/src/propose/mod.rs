//! Proposals: requests on their way through the log.
//!
//! ```text
//!   request ─► id (ids) ─► pending (pending) ─► raft loop … applier ─► complete the waiter
//!   proposer: the steps up to the raft loop
//!                              stage_timings: when it passed each stage, if it is traced
//!   typed: the type of the reply to each command
//!   alarms: proposals that the member makes when a request finds no space or a corruption
//! ```

pub(crate) mod alarms;
pub(crate) mod ids;
pub(crate) mod pending;
pub(crate) mod proposer;
pub(crate) mod stage_timings;
pub(crate) mod typed;

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use env::Clock;
use types::MemberId;

use crate::metrics::Metrics;
use ids::RequestIds;
use pending::PendingProposals;
use stage_timings::TimedProposals;

/// The proposals of a member: their ids, their waiters, and the timings of traced ones.
#[derive(Debug)]
pub(crate) struct Proposals {
    pub(crate) ids: RequestIds,
    pub(crate) pending: Arc<PendingProposals>,
    pub(crate) timed: TimedProposals,
}

impl Proposals {
    pub(crate) fn new(local: MemberId, clock: &Arc<dyn Clock>, metrics: &Metrics) -> Proposals {
        let start = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        Proposals {
            ids: RequestIds::new(local, start),
            pending: Arc::new(PendingProposals::new(Arc::clone(clock), metrics)),
            timed: TimedProposals::default(),
        }
    }
}
