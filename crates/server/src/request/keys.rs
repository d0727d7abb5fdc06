//! Writes and compactions of keys. [`reading`](super::reading) has the reads.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mvcc::{CompactionTicket, DeleteRangeResult, PutResult, TxnResult};
use proto::etcdserverpb as pb;

use super::Credentials;
use super::wait::within;
use crate::apply::Refusal;
use crate::error::Error;
use crate::quota::QuotaCost;
use crate::server::Server;
use crate::state::StateMachine;
use sync::oneshot;

/// The interval at which a waiter of a compaction checks that the state machine still exists.
const COMPACTION_POLL: Duration = Duration::from_secs(1);
/// Pause before a commit is submitted again to a full pool.
pub(super) const COMMIT_RETRY: Duration = Duration::from_millis(100);

impl Server {
    /// Puts a key.
    ///
    /// # Errors
    /// See [`Error`], as for all requests that go through the log.
    pub async fn put(
        &self,
        credentials: &Credentials,
        r: pb::PutRequest,
    ) -> Result<PutResult, Error> {
        self.reply_for(credentials, r).await
    }

    /// Deletes keys.
    pub async fn delete_range(
        &self,
        credentials: &Credentials,
        r: pb::DeleteRangeRequest,
    ) -> Result<DeleteRangeResult, Error> {
        self.reply_for(credentials, r).await
    }

    /// Executes a transaction that may write. [`Reading::txn`](super::Reading::txn) executes
    /// read-only ones.
    pub async fn txn(
        &self,
        credentials: &Credentials,
        r: pb::TxnRequest,
    ) -> Result<TxnResult, Error> {
        self.reply_for(credentials, r).await
    }

    /// Discards revisions before one. With `physical`, returns when they are durably deleted.
    pub async fn compact(
        &self,
        credentials: &Credentials,
        r: pb::CompactionRequest,
    ) -> Result<pb::CompactionResponse, Error> {
        self.check_admin(credentials).await?;
        let answered = self.reply_for(credentials, r).await;
        if r.physical
            && let Some(ticket) = self.compaction_to_wait_for(&answered)
        {
            self.finish_compaction(ticket).await?;
        }
        answered?;
        Ok(pb::CompactionResponse { header: Some(self.header_now()) })
    }

    /// Compat: as in etcd, a compaction that is refused because of a later one waits for the later
    /// one.
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

    /// Waits for a compaction and makes it durable. After a power cut it would run again, and the
    /// hash of the file would differ for a while.
    async fn finish_compaction(&self, ticket: CompactionTicket) -> Result<(), Error> {
        let state = self.state();
        let (sender, finished) = oneshot::channel();
        state.store.when_compacted(
            ticket,
            Box::new(move || {
                let _ = sender.send(());
            }),
        );
        self.finished_or_stopped(&state, finished).await?;
        let committed = loop {
            let state = Arc::clone(&state);
            let commit = move || state.backend.force_commit();
            match self.run_blocking(&self.inner.pools.short, commit).await {
                // The compaction is applied. This error would say that it was not.
                Err(Error::TooManyRequests) => self.sleep(COMMIT_RETRY).await?,
                committed => break committed?,
            }
        };
        committed.map_err(|error| Error::Fault(error.to_string()))
    }

    /// Waits for a compaction, unless the member stops or a snapshot replaces the state machine:
    /// then it never finishes.
    async fn finished_or_stopped(
        &self,
        state: &Arc<StateMachine>,
        finished: oneshot::Receiver<()>,
    ) -> Result<(), Error> {
        let mut finished = pin!(finished);
        while within(finished.as_mut(), self.sleep(COMPACTION_POLL)).await?.is_none() {
            if !Arc::ptr_eq(state, &self.state()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Checks that the quota has space for a request. If not, raises the alarm before it returns.
    ///
    /// # Errors
    /// The quota is exceeded.
    pub async fn check_quota(&self, request: &impl QuotaCost) -> Result<(), Error> {
        let state = self.state();
        if state.retained.quota.is_available(state.backend.size(), request.cost()) {
            return Ok(());
        }
        let (kind, local) = (pb::AlarmType::Nospace, self.local());
        let raised = pb::AlarmMember { member_id: local.0, alarm: kind.into() };
        // Only once: otherwise a full member would fill its log with alarms.
        if !state.alarms.get(raised.alarm).contains(&raised) {
            self.inner.alarms.raise(kind, local).await;
        }
        Err(Refusal::NoSpace.into())
    }
}
