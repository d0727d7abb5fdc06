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
use mvcc::{RangeResult, Response as _, TxnResult};
use proto::etcdserverpb as pb;

use super::caller::Credentials;
use super::stream::RangeStream;
use crate::error::Error;
use crate::server::Server;
use crate::state::{Attached, StateMachine};

/// A read that may begin: the caller is known, and everything is applied that has to be.
#[derive(Debug)]
pub struct Reading {
    pub(super) server: Server,
    pub(super) state: Arc<StateMachine>,
    pub(super) caller: AuthInfo,
    /// When it was asked for.
    began: Duration,
}

impl Server {
    /// Begins to read. If it is linearizable, the answer is no older than the question; if not, it is whatever this member knows.
    ///
    /// # Errors
    /// It could not be made sure of, or the caller is nobody.
    pub async fn read(&self, who: &Credentials, linearizable: bool) -> Result<Reading, Error> {
        let began = self.read_began(linearizable).await?;
        let caller = self.auth_info(who).await?.unwrap_or_default();
        Ok(Reading { server: self.clone(), state: self.state(), caller, began })
    }

    /// Begins to read in the name of this member itself, which may read everything.
    ///
    /// # Errors
    /// It could not be made sure of.
    pub async fn read_as_root(&self, linearizable: bool) -> Result<Reading, Error> {
        let began = self.read_began(linearizable).await?;
        let state = self.state();
        let caller = state.auth.root_info();
        Ok(Reading { server: self.clone(), state, caller, began })
    }

    async fn read_began(&self, linearizable: bool) -> Result<Duration, Error> {
        let began = self.now();
        if linearizable {
            self.linearizable().await?;
        }
        Ok(began)
    }
}

impl Reading {
    /// Answers a range.
    ///
    /// # Errors
    /// The caller may not, or the revision is not there to be read.
    pub fn range(&self, request: &pb::RangeRequest) -> Result<RangeResult, Error> {
        self.state.auth.check_range(&self.caller, request)?;
        let result = self.state.store.range(request);
        let found = || result.as_ref().map(|found| (found.kvs.len(), found.body_len()));
        self.warn_if_slow("read-only range ", &Keys(&request.key, &request.range_end), found);
        self.check_unchanged()?;
        Ok(result?)
    }

    /// Answers a transaction that only reads.
    ///
    /// # Errors
    /// As for a range; or if it does not only read.
    pub fn txn(&self, request: &pb::TxnRequest) -> Result<TxnResult, Error> {
        if !mvcc::txn::is_read_only(request) {
            return Err(Error::Fault("a transaction that writes goes through the log".to_owned()));
        }
        let leases = Attached(&self.state.lessor);
        self.state.auth.check_txn(&self.caller, request, &leases)?;
        let result = self.state.store.read_txn(request);
        let found = || result.as_ref().map(|found| (found.responses.len(), found.body_len()));
        self.warn_if_slow("read-only txn ", &first_key(request), found);
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

    /// Says so if a read took long, the time included that it had to wait.
    fn warn_if_slow<'a>(
        &self,
        prefix: &str,
        request: &dyn Display,
        found: impl FnOnce() -> Result<(usize, usize), &'a mvcc::Error>,
    ) {
        let expected = self.server.config().warning_apply_duration;
        let took = self.server.now().saturating_sub(self.began);
        if took <= expected {
            return;
        }
        let response = match found() {
            Ok((count, size)) => format!("range_response_count:{count} size:{size}"),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            took = ?took,
            expected_duration = ?expected,
            prefix,
            %request,
            response,
            "apply request took too long"
        );
    }
}

/// Keys as they are told to people.
struct Keys<'a>(&'a [u8], &'a [u8]);

impl Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key:\"{}\"", self.0.escape_ascii())?;
        match self.1 {
            [] => Ok(()),
            end => write!(f, " range_end:\"{}\"", end.escape_ascii()),
        }
    }
}

/// The first keys that a transaction looks at: enough to find it again.
fn first_key(request: &pb::TxnRequest) -> Keys<'_> {
    use pb::request_op::Request;
    let compared = request.compare.first().map(|compare| Keys(&compare.key, &compare.range_end));
    let read = || match request.success.first()?.request.as_ref()? {
        Request::RequestRange(range) => Some(Keys(&range.key, &range.range_end)),
        _ => None,
    };
    compared.or_else(read).unwrap_or(Keys(&[], &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_without_their_values() {
        assert_eq!(Keys(b"a\0", b"").to_string(), r#"key:"a\x00""#);
        assert_eq!(Keys(b"a", b"\xff").to_string(), r#"key:"a" range_end:"\xff""#);
        let compare = pb::Compare { key: "c".into(), ..pb::Compare::default() };
        let txn = pb::TxnRequest { compare: vec![compare], ..pb::TxnRequest::default() };
        assert_eq!(first_key(&txn).to_string(), r#"key:"c""#);
        assert_eq!(first_key(&pb::TxnRequest::default()).to_string(), r#"key:"""#);
    }
}
