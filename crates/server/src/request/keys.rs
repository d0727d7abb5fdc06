//! Keys: what changes them, and what forgets their history. Reading is in [`reading`](super::reading).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mvcc::{CompactionTicket, DeleteRangeResult, PutResult, TxnResult};
use proto::etcdserverpb as pb;

use super::Credentials;
use super::wait::within;
use crate::apply::Refusal;
use crate::error::Error;
use crate::server::Server;
use crate::state::StateMachine;
use crate::sync::oneshot::promise;

/// How often whoever waits for a compaction looks whether there is still anybody who compacts.
const COMPACTION_LOOK: Duration = Duration::from_secs(1);

impl Server {
    /// Puts a key.
    ///
    /// # Errors
    /// As [`Error`] tells; the same goes for all that go through the log.
    pub async fn put(&self, who: &Credentials, r: pb::PutRequest) -> Result<PutResult, Error> {
        self.log_for_reply(who, r).await
    }

    /// Deletes keys.
    pub async fn delete_range(
        &self,
        who: &Credentials,
        r: pb::DeleteRangeRequest,
    ) -> Result<DeleteRangeResult, Error> {
        self.log_for_reply(who, r).await
    }

    /// Carries out a transaction that may write. One that only reads is [`Reading::txn`](super::Reading::txn)'s.
    pub async fn txn(&self, who: &Credentials, r: pb::TxnRequest) -> Result<TxnResult, Error> {
        self.log_for_reply(who, r).await
    }

    /// Forgets the history before a revision. If it is to be so physically, returns when everything is gone, and durably so.
    pub async fn compact(
        &self,
        who: &Credentials,
        r: pb::CompactionRequest,
    ) -> Result<pb::CompactionResponse, Error> {
        self.check_admin(who).await?;
        let answered = self.log_for_reply(who, r).await;
        if r.physical
            && let Some(ticket) = self.compaction_to_wait_for(&answered)
        {
            self.finish_compaction(ticket).await?;
        }
        answered?;
        Ok(pb::CompactionResponse { header: Some(self.header_now()) })
    }

    /// Compat: as in etcd, a compaction that is refused because there was a later one waits for that.
    fn compaction_to_wait_for(
        &self,
        answered: &Result<CompactionTicket, Error>,
    ) -> Option<CompactionTicket> {
        match answered {
            Ok(ticket) => Some(*ticket),
            Err(Error::Refused(Refusal::Keys(mvcc::Error::Compacted))) => {
                Some(self.state().store.last_compaction())
            }
            Err(_) => None,
        }
    }

    /// Waits for a compaction, and makes it durable: after a power cut it would be done again, and the hash of the file be another for a while.
    async fn finish_compaction(&self, ticket: CompactionTicket) -> Result<(), Error> {
        let state = self.state();
        let (promise, finished) = promise();
        state.store.when_compacted(ticket, Box::new(move || promise.keep(())));
        self.finished_or_stopped(&state, finished).await?;
        let commit = move || state.backend.force_commit();
        let committed = self.aside(&self.shared.pools.short, commit).await?;
        committed.map_err(|error| Error::Fault(error.to_string()))
    }

    /// Nobody finishes a compaction when the member stops, or if a snapshot came and another state machine took over.
    async fn finished_or_stopped(
        &self,
        state: &Arc<StateMachine>,
        finished: impl Future<Output = Option<()>>,
    ) -> Result<(), Error> {
        let mut finished = pin!(finished);
        while within(finished.as_mut(), self.sleep(COMPACTION_LOOK)).await?.is_none() {
            if !Arc::ptr_eq(state, &self.state()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether there is space for what costs so much ([`crate::quota`]). If not, all members are told before the one who asked is.
    ///
    /// # Errors
    /// There is none.
    pub async fn check_quota(&self, cost: u64) -> Result<(), Error> {
        let state = self.state();
        if state.kept.quota.is_available(state.backend.size(), cost) {
            return Ok(());
        }
        let (kind, local) = (pb::AlarmType::Nospace, self.local());
        let raised = pb::AlarmMember { member_id: local.0, alarm: kind.into() };
        // Once is enough: a member that is full would otherwise fill its log as well.
        if !state.alarms.get(raised.alarm).contains(&raised) {
            self.raise(kind, local).await;
        }
        Err(Refusal::NoSpace.into())
    }
}
