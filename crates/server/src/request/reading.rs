//! Reading, on the caller's own time.
//!
//! A read has two halves. What has to be waited for comes first: that this member has applied all that was committed, anywhere, when it was asked
//! ([`Server::read`]). Then the caller holds a [`Reading`], and nothing in it waits for anything but the disk.
//!
//! Permission is asked for before something is read; and afterwards, whether users and roles are still the same. So nobody gets what they were
//! forbidden to read while it was being read.

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
use crate::propose::stage_timings::{Marks, Moment};
use crate::server::Server;
use crate::state::{Attached, StateMachine};

/// How the log names a range that took long.
const READ_ONLY_RANGE: &str = "read-only range ";

/// A read that may begin: the caller is known, and everything is applied that has to be.
#[derive(Debug)]
pub struct Reading {
    pub(super) server: Server,
    pub(super) state: Arc<StateMachine>,
    pub(super) caller: AuthInfo,
    /// When it was asked for.
    asked: Duration,
    /// When it could begin.
    began: Duration,
}

impl Server {
    /// Begins to read. If it is linearizable, the answer is no older than the question; if not, it is whatever this member knows.
    ///
    /// # Errors
    /// It could not be made sure of, or the caller is nobody.
    pub async fn read(&self, who: &Credentials, linearizable: bool) -> Result<Reading, Error> {
        let (asked, began) = self.read_began(linearizable, who.marks.as_ref()).await?;
        let caller = self.auth_info(who).await?.unwrap_or_default();
        Ok(Reading { server: self.clone(), state: self.state(), caller, asked, began })
    }

    /// Begins to read a range. Compat: as in etcd, one that cannot begin counts as one that failed; a transaction does not.
    ///
    /// # Errors
    /// As for [`Server::read`].
    pub async fn read_range(
        &self,
        who: &Credentials,
        request: &pb::RangeRequest,
    ) -> Result<Reading, Error> {
        let asked = self.now();
        let reading = self.read(who, !request.serializable).await;
        if reading.is_err() {
            let found = |_: &Reading| String::new();
            let slow = Slow { prefix: READ_ONLY_RANGE, request: &Loggable(request), found };
            self.read_ended(Op::Range, asked, &reading, false, slow);
        }
        reading
    }

    /// Begins to read a range in the name of this member itself, which may read everything.
    ///
    /// # Errors
    /// It could not be made sure of.
    pub async fn read_as_root(&self, linearizable: bool) -> Result<Reading, Error> {
        let asked = self.now();
        let (asked, began) = self.read_began(linearizable, None).await.inspect_err(|_| {
            let took = self.now().saturating_sub(asked);
            self.metrics().request_duration.observe(Op::Range, false, took);
        })?;
        let state = self.state();
        let caller = state.auth.root_info();
        Ok(Reading { server: self.clone(), state, caller, asked, began })
    }

    /// When it was asked for, and when it could begin.
    async fn read_began(
        &self,
        linearizable: bool,
        marks: Option<&Arc<Marks>>,
    ) -> Result<(Duration, Duration), Error> {
        let asked = self.now();
        if !linearizable {
            return Ok((asked, asked));
        }
        let note = |moment, now| marks.into_iter().for_each(|marks| marks.note(moment, now));
        note(Moment::ReadAsked, asked);
        self.linearizable_followed(marks.cloned()).await?;
        let began = self.now();
        note(Moment::ReadBegan, began);
        Ok((asked, began))
    }

    /// Counts a read, and says so if it took long.
    fn read_ended<T>(
        &self,
        op: Op,
        began: Duration,
        result: &Result<T, Error>,
        success: bool,
        slow: Slow<'_, impl Fn(&T) -> String>,
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
    /// Answers a range.
    ///
    /// # Errors
    /// The caller may not, or the revision is not there to be read.
    pub fn range(&self, request: &pb::RangeRequest) -> Result<RangeResult, Error> {
        let result = self.range_if_permitted(request);
        let found = |range: &RangeResult| {
            let size = range.encoded_len(&revision_alone(range.revision));
            format!("range_response_count:{} size:{size}", range.kvs.len())
        };
        let slow = Slow { prefix: READ_ONLY_RANGE, request: &Loggable(request), found };
        self.server.read_ended(Op::Range, self.asked, &result, result.is_ok(), slow);
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

    /// Answers a transaction that only reads.
    ///
    /// # Errors
    /// As for a range; or if it does not only read.
    pub fn txn(&self, request: &pb::TxnRequest) -> Result<TxnResult, Error> {
        let result = self.txn_if_permitted(request);
        let found = |txn: &TxnResult| {
            let size = txn.encoded_len(&revision_alone(txn.revision));
            format!("responses:<{}> size:{size}", Counts(txn))
        };
        let slow = Slow { prefix: "read-only txn ", request: &Loggable(request), found };
        // Compat: as in etcd, without the time that it had to wait; and one that the caller may not read is no failure.
        let success = matches!(result, Ok(_) | Err(Error::Refused(Refusal::Auth(_))));
        self.server.read_ended(Op::ReadonlyTxn, self.began, &result, success, slow);
        result
    }

    fn txn_if_permitted(&self, request: &pb::TxnRequest) -> Result<TxnResult, Error> {
        if !mvcc::txn::is_read_only(request) {
            return Err(Error::Fault("a transaction that writes goes through the log".to_owned()));
        }
        let leases = Attached(&self.state.lessor);
        self.state.auth.check_txn(&self.caller, request, &leases)?;
        let result = self.state.store.read_txn(request);
        if let Ok(result) = &result {
            self.server.metrics().count(Executed::read_txn(request, result));
        }
        self.check_unchanged()?;
        Ok(result?)
    }

    /// Answers a range in pieces, whatever its size.
    ///
    /// # Errors
    /// The caller may not. What else may go wrong comes with the pieces.
    pub fn stream(self, request: pb::RangeRequest) -> Result<RangeStream, Error> {
        self.state.auth.check_range(&self.caller, &request)?;
        Ok(RangeStream::new(self, request))
    }

    /// Whether what was read may be given out. As things are now: after a snapshot, in another state machine than the one that was read.
    pub(super) fn check_unchanged(&self) -> Result<(), Error> {
        Ok(self.server.state().auth.check_unchanged(&self.caller)?)
    }
}

/// What is said of a read that took long.
struct Slow<'a, F> {
    prefix: &'static str,
    request: &'a dyn Display,
    /// In words, what was found.
    found: F,
}

/// What counts of a header towards the size of an answer.
fn revision_alone(revision: i64) -> pb::ResponseHeader {
    pb::ResponseHeader { revision, ..pb::ResponseHeader::default() }
}

/// How many keys each range of a transaction found.
struct Counts<'a>(&'a TxnResult);

impl Display for Counts<'_> {
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
    fn what_a_transaction_found_is_told_range_by_range() {
        let range = || {
            OpResult::Range(RangeResult { revision: 2, kvs: Kvs::default(), more: false, count: 0 })
        };
        let found =
            |responses| Counts(&TxnResult { revision: 2, succeeded: true, responses }).to_string();
        assert_eq!(found(vec![]), "");
        assert_eq!(found(vec![range(), range()]), "range_response_count:0 range_response_count:0");
    }
}
