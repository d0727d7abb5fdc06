//! The way of a request into the log.
//!
//! A request gets an id, is encoded, and its waiter is registered. Then the raft loop takes it:
//!
//! ```text
//!   PutRequest ─► id …45 ─► bytes of the entry ─► pending: …45 ─► Event::Propose ─► raft loop
//! ```
//!
//! The waiter is registered first, because the entry may be applied at any moment after that.

use std::sync::Arc;
use std::time::Duration;

use auth::AuthInfo;
use bytes::Bytes;
use membership::Change;
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb::{InternalRaftRequest, RequestHeader};
use proto::nested;
use types::Term;

use crate::context::MemberContext;
use crate::error::Error;
use crate::metrics::Op;
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;
use crate::propose::Proposals;
use crate::propose::pending::{Proposal, ProposalKind, ProposalResult};
use crate::propose::stage_timings::{RequestStage, StageTimings, TimingGuard};
use crate::propose::typed::{self, AppliedReply, Propose, RequestProposal};
use crate::read::applied_index::AppliedIndex;

/// The maximum number of committed entries that are not applied. Beyond it requests are refused.
pub const APPLY_GAP_MAX: u64 = 5_000;
/// The bound for requests with priority, if the feature `PriorityRequest` is on.
pub const APPLY_GAP_PRIORITY_MAX: u64 = 2 * APPLY_GAP_MAX;

/// Proposes requests: registers their waiters and hands them to the raft loop.
#[derive(Clone, Debug)]
pub(crate) struct Proposer {
    pub(crate) context: Arc<MemberContext>,
    pub(crate) raft: Arc<RaftHandle>,
    pub(crate) proposals: Arc<Proposals>,
    pub(crate) applied: Arc<AppliedIndex>,
}

/// A request with its id, encoded and ready to be proposed.
struct EncodedRequest {
    id: u64,
    op: Op,
    since: Duration,
    data: Bytes,
}

impl EncodedRequest {
    fn kind(&self) -> ProposalKind {
        ProposalKind::Request { op: self.op, bytes: self.data.len(), since: self.since }
    }

    fn into_event(self, leader_term: Option<Term>) -> Event {
        Event::Propose { id: self.id, data: self.data, since: self.since, leader_term }
    }
}

impl Proposer {
    /// Proposes a command in the name of the member itself.
    ///
    /// # Errors
    /// The command was not proposed. After `Ok`, it may be applied even if its future never
    /// completes.
    pub(crate) fn propose<P: Propose>(&self, request: P) -> Result<RequestProposal<P>, Error> {
        let command = request.into();
        self.check_apply_gap(&command)?;
        Ok(self.propose_timed::<P>(RequestHeader::default(), command, None)?.0)
    }

    /// Proposes a decision of the leader of `term`. It is dropped if the member does not lead in
    /// that term any more, because the next leader decides for itself. `caller` is the user in
    /// whose name it is applied.
    ///
    /// # Errors
    /// As for [`Proposer::propose`].
    pub(crate) fn propose_as_leader<P: Propose>(
        &self,
        caller: Option<&AuthInfo>,
        request: P,
        term: Term,
    ) -> Result<RequestProposal<P>, Error> {
        let command = request.into();
        self.check_apply_gap(&command)?;
        let mut header = RequestHeader::default();
        caller.into_iter().for_each(|caller| caller.write_to(&mut header));
        let encoded = self.encode(header, command)?;
        let (pending, extract) = (&self.proposals.pending, AppliedReply::of::<P>);
        let proposal = pending.register(encoded.id, encoded.kind(), extract)?;
        self.submit(encoded.into_event(Some(term)))?;
        Ok(proposal)
    }

    /// Proposes the command of a request `P` after [`Proposer::check_apply_gap`]. While the guard
    /// exists, the stages record in `timings` when they reach the proposal.
    pub(crate) fn propose_timed<P: Propose>(
        &self,
        header: RequestHeader,
        command: Command,
        timings: Option<&Arc<StageTimings>>,
    ) -> Result<(RequestProposal<P>, Option<TimingGuard<'_>>), Error> {
        let encoded = self.encode(header, command)?;
        let (proposals, extract) = (&self.proposals, AppliedReply::of::<P>);
        let proposal = proposals.pending.register(encoded.id, encoded.kind(), extract)?;
        if let Some(timings) = timings {
            timings.record(RequestStage::Proposed, encoded.since);
        }
        let guard = proposals.timed.track(encoded.id, timings);
        self.submit(encoded.into_event(None))?;
        Ok((proposal, guard))
    }

    /// Proposes a command and passes its result to `callback`. With a leader term, the command is
    /// conditional as for [`Proposer::propose_as_leader`].
    ///
    /// # Errors
    /// As for [`Proposer::propose`]. The callback may or may not have been called with the error.
    pub(crate) fn propose_with_callback<P: Propose>(
        &self,
        request: P,
        leader_term: Option<Term>,
        callback: impl FnOnce(Result<AppliedReply<P::Reply>, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let command = request.into();
        self.check_apply_gap(&command)?;
        let encoded = self.encode(RequestHeader::default(), command)?;
        let callback = |result: ProposalResult| callback(result.and_then(AppliedReply::of::<P>));
        self.proposals.pending.register_callback(encoded.id, encoded.kind(), callback)?;
        self.submit(encoded.into_event(leader_term))
    }

    /// Proposes a conf change. It has no timeout: it waits until it is applied, the future is
    /// dropped, or the member stops.
    ///
    /// # Errors
    /// As for [`Proposer::propose`].
    pub(crate) fn propose_conf_change(&self, change: &Change) -> Result<Proposal<()>, Error> {
        let id = self.proposals.ids.next();
        let (pending, extract) = (&self.proposals.pending, typed::conf_change_result);
        let proposal = pending.register(id, ProposalKind::ConfChange, extract)?;
        let change = change.to_conf_change(Some(id));
        // A start in the infinite future never times out.
        self.submit(Event::ProposeConfChange { id, change, since: Duration::MAX })?;
        Ok(proposal)
    }

    /// Assigns the request id and encodes the entry.
    fn encode(&self, mut header: RequestHeader, command: Command) -> Result<EncodedRequest, Error> {
        let (id, op) = (self.proposals.ids.next(), Op::of(&command));
        let since = self.context.now();
        header.id = id;
        let mut request = InternalRaftRequest::from(RaftRequest::new(header, command));
        let data = Bytes::from(nested::encode_request(&mut request));
        if data.len() > self.context.config.max_request_bytes {
            self.count_too_large(op, since);
            return Err(Error::RequestTooLarge);
        }
        Ok(EncodedRequest { id, op, since, data })
    }

    /// Compat: as in etcd, a request that is too large counts as a success.
    fn count_too_large(&self, op: Op, since: Duration) {
        let took = self.context.now().saturating_sub(since);
        self.context.metrics.request_duration.observe(op, true, took);
    }

    fn submit(&self, event: Event) -> Result<(), Error> {
        if self.raft.push_deferred(event) { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Refuses a request if the applied index is too far behind the commit index.
    pub(crate) fn check_apply_gap(&self, command: &Command) -> Result<(), Error> {
        let is_revoke = matches!(command, Command::LeaseRevoke(_));
        let priority = self.context.config.features.priority_request && is_revoke;
        let gap_max = if priority { APPLY_GAP_PRIORITY_MAX } else { APPLY_GAP_MAX };
        // The commit index is read first, so that the gap is never overestimated.
        let committed = self.raft.progress.committed().0;
        if committed > self.applied.get().0.saturating_add(gap_max) {
            return Err(Error::TooManyRequests);
        }
        Ok(())
    }
}
