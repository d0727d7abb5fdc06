//! Reads, executed on the thread of the caller.
//!
//! A read has two halves. [`Server::read`] waits until this member has applied everything that was
//! committed when the read was requested. The caller then holds a [`Reading`], which only waits for
//! the disk.
//!
//! Permissions are checked before the read, and the auth revision after it, so that no data is
//! returned that was forbidden meanwhile.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use auth::AuthInfo;
use mvcc::{OpResult, RangeResult, Response as _, TxnResult};
use proto::etcdserverpb as pb;

use super::caller::Credentials;
use super::stream::RangeStream;
use crate::apply::Refusal;
use crate::describe::Loggable;
use crate::error::Error;
use crate::metrics::{Executed, Op};
use crate::propose::stage_timings::{RequestStage, StageTimings};
use crate::server::Server;
use crate::state::{LessorAdapter, StateMachine};

/// The log prefix of a slow range.
const READ_ONLY_RANGE: &str = "read-only range ";

/// A read that may begin: its user is known, and the required entries are applied.
#[derive(Debug)]
pub struct Reading {
    pub(super) server: Server,
    pub(super) state: Arc<StateMachine>,
    pub(super) caller: AuthInfo,
    /// The time when the read was requested.
    requested: Duration,
    /// The time when the required entries were applied.
    began: Duration,
}

impl Server {
    /// Begins a read: linearizable, or of the local state as it is.
    ///
    /// # Errors
    /// The read index could not be confirmed, or the token is invalid.
    pub async fn read(
        &self,
        credentials: &Credentials,
        linearizable: bool,
    ) -> Result<Reading, Error> {
        let (requested, began) =
            self.wait_for_read_index(linearizable, credentials.timings.as_ref()).await?;
        let caller = self.auth_info(credentials).await?.unwrap_or_default();
        Ok(Reading { server: self.clone(), state: self.state(), caller, requested, began })
    }

    /// Begins to read a range. Compat: as in etcd, a range that cannot begin counts as failed; a
    /// transaction does not.
    ///
    /// # Errors
    /// As for [`Server::read`].
    pub async fn read_range(
        &self,
        credentials: &Credentials,
        request: &pb::RangeRequest,
    ) -> Result<Reading, Error> {
        let requested = self.now();
        let reading = self.read(credentials, !request.serializable).await;
        if reading.is_err() {
            let found = |_: &Reading| String::new();
            let slow = SlowRead { prefix: READ_ONLY_RANGE, request: &Loggable(request), found };
            self.record_read(Op::Range, requested, &reading, false, slow);
        }
        reading
    }

    /// Begins to read a range in the name of this member, with all permissions.
    ///
    /// # Errors
    /// The read index could not be confirmed.
    pub async fn read_as_root(&self, linearizable: bool) -> Result<Reading, Error> {
        let requested = self.now();
        let (requested, began) =
            self.wait_for_read_index(linearizable, None).await.inspect_err(|_| {
                let took = self.now().saturating_sub(requested);
                self.metrics().request_duration.observe(Op::Range, false, took);
            })?;
        let state = self.state();
        let caller = state.auth.root_info();
        Ok(Reading { server: self.clone(), state, caller, requested, began })
    }

    /// Waits for the read index. Returns when the read was requested and when it may begin.
    async fn wait_for_read_index(
        &self,
        linearizable: bool,
        timings: Option<&Arc<StageTimings>>,
    ) -> Result<(Duration, Duration), Error> {
        let requested = self.now();
        if !linearizable {
            return Ok((requested, requested));
        }
        let note = |stage, now| timings.into_iter().for_each(|timings| timings.record(stage, now));
        note(RequestStage::ReadRequested, requested);
        self.linearizable_timed(timings.cloned()).await?;
        let began = self.now();
        note(RequestStage::ReadBegan, began);
        Ok((requested, began))
    }

    /// Counts a read and logs a slow one.
    fn record_read<T>(
        &self,
        op: Op,
        began: Duration,
        result: &Result<T, Error>,
        success: bool,
        slow: SlowRead<'_, impl Fn(&T) -> String>,
    ) {
        let (metrics, took) = (self.metrics(), self.now().saturating_sub(began));
        metrics.request_duration.observe(op, success, took);
        let expected = self.config().warning_apply_duration;
        if took <= expected {
            return;
        }
        metrics.slow_apply.inc();
        tracing::warn!(
            took = ?took,
            expected_duration = ?expected,
            prefix = slow.prefix,
            request = %slow.request,
            response = result.as_ref().map_or(String::new(), slow.found),
            error = result.as_ref().err().map(tracing::field::display),
            "apply request took too long"
        );
    }
}

impl Reading {
    /// Reads a range.
    ///
    /// # Errors
    /// The user has no permission, or the revision is compacted or in the future.
    pub fn range(&self, request: &pb::RangeRequest) -> Result<RangeResult, Error> {
        let result = self.range_if_permitted(request);
        let found = |range: &RangeResult| {
            let size = range.encoded_len(&revision_alone(range.revision));
            format!("range_response_count:{} size:{size}", range.kvs.len())
        };
        let slow = SlowRead { prefix: READ_ONLY_RANGE, request: &Loggable(request), found };
        self.server.record_read(Op::Range, self.requested, &result, result.is_ok(), slow);
        result
    }

    fn range_if_permitted(&self, request: &pb::RangeRequest) -> Result<RangeResult, Error> {
        self.state.auth.check_range(&self.caller, request)?;
        let result = self.measured_range(request);
        self.check_unchanged()?;
        result
    }

    pub(super) fn measured_range(&self, request: &pb::RangeRequest) -> Result<RangeResult, Error> {
        let (metrics, began) = (self.server.metrics(), self.server.now());
        let result = self.state.store.range(request);
        let took = self.server.now().saturating_sub(began);
        metrics.range_duration.observe(result.is_ok(), took);
        metrics.count(Executed::range());
        Ok(result?)
    }

    /// Executes a read-only transaction.
    ///
    /// # Errors
    /// As for a range; or the transaction writes.
    pub fn txn(&self, request: &pb::TxnRequest) -> Result<TxnResult, Error> {
        let result = self.txn_if_permitted(request);
        let found = |txn: &TxnResult| {
            let size = txn.encoded_len(&revision_alone(txn.revision));
            format!("responses:<{}> size:{size}", RangeCounts(txn))
        };
        let slow = SlowRead { prefix: "read-only txn ", request: &Loggable(request), found };
        // Compat: as in etcd, without the wait for the read index, and a denied one is no failure.
        let success = matches!(result, Ok(_) | Err(Error::Refused(Refusal::Auth(_))));
        self.server.record_read(Op::ReadonlyTxn, self.began, &result, success, slow);
        result
    }

    fn txn_if_permitted(&self, request: &pb::TxnRequest) -> Result<TxnResult, Error> {
        if !mvcc::txn::is_read_only(request) {
            return Err(Error::Fault(
                "a transaction that writes must go through the log".to_owned(),
            ));
        }
        let leases = LessorAdapter(&self.state.lessor);
        self.state.auth.check_txn(&self.caller, request, &leases)?;
        let result = self.state.store.read_txn(request);
        if let Ok(result) = &result {
            self.server.metrics().count(Executed::read_txn(request, result));
        }
        self.check_unchanged()?;
        Ok(result?)
    }

    /// Reads a range in chunks.
    ///
    /// # Errors
    /// The user has no permission. Other errors come with the chunks.
    pub fn stream(self, request: pb::RangeRequest) -> Result<RangeStream, Error> {
        self.state.auth.check_range(&self.caller, &request)?;
        Ok(RangeStream::new(self, request))
    }

    /// Checks that the data may still be returned, against the current state machine: a snapshot
    /// may have replaced the one that was read.
    pub(super) fn check_unchanged(&self) -> Result<(), Error> {
        Ok(self.server.state().auth.check_unchanged(&self.caller)?)
    }
}

/// The log fields of a slow read.
struct SlowRead<'a, F> {
    prefix: &'static str,
    request: &'a dyn Display,
    /// Describes the result.
    found: F,
}

/// Returns the part of the header that counts toward the logged size.
fn revision_alone(revision: i64) -> pb::ResponseHeader {
    pb::ResponseHeader { revision, ..pb::ResponseHeader::default() }
}

/// Formats the number of keys that each range of a transaction found.
struct RangeCounts<'a>(&'a TxnResult);

impl Display for RangeCounts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.responses.iter().filter_map(|response| match response {
            OpResult::Range(range) => Some(range.kvs.len()),
            _ => None,
        });
        ranges.enumerate().try_for_each(|(at, count)| {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}range_response_count:{count}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mvcc::Kvs;

    #[test]
    fn a_slow_transaction_logs_the_count_of_each_range() {
        let range = || {
            OpResult::Range(RangeResult { revision: 2, kvs: Kvs::default(), more: false, count: 0 })
        };
        let found = |responses| {
            RangeCounts(&TxnResult { revision: 2, succeeded: true, responses }).to_string()
        };
        assert_eq!(found(vec![]), "");
        assert_eq!(found(vec![range(), range()]), "range_response_count:0 range_response_count:0");
    }
}
