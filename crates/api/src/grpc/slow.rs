//! Unary calls that took long are told of in the log, with etcd's words and fields; at debug level, all are.
//!
//! ```text
//!   {"level":"warn",…,"msg":"request stats","start time":"2026-11-15T18:08:34.855810Z","time spent":"401.2ms","remote":"127.0.0.1:40964",
//!    "response type":"/etcdserverpb.KV/Put","request count":1,"request size":12,"response count":0,"response size":28,
//!    "request content":"key:\"a\" value_size:5"}
//! ```
//!
//! What was asked is decoded a second time then, rather than kept for the case that it will be wanted.

use std::time::{Instant, SystemTime};

use bytes::Bytes;
use net::Connection;
use prost::Message;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};
use server::describe::Loggable;

use super::Config;
use super::reply::Outcome;
use super::rpc::{Kv, Method, Rpc};

/// What is not known of other methods.
const NOT_COUNTED: i64 = -1;

/// A unary call.
#[derive(Debug)]
pub(crate) struct Unary<'a> {
    pub(crate) method: &'static Method,
    pub(crate) connection: &'a Connection,
    pub(crate) started: Instant,
    /// The encoded request.
    pub(crate) asked: Bytes,
}

/// What a call was about.
#[derive(Debug, PartialEq, Eq)]
struct Stats {
    request_count: i64,
    request_size: i64,
    response_count: i64,
    response_size: i64,
    content: String,
}

impl Unary<'_> {
    /// Says what is to be said, now that it has ended, of what came of it and the length of its reply.
    pub(crate) fn report(self, config: &Config, reply: Option<(Outcome, usize)>) {
        let spent = self.started.elapsed();
        let slow = spent > config.warning_unary_request_duration;
        if !slow && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let stats = Stats::new(self.method.rpc, &self.asked, reply);
        macro_rules! report {
            ($level:ident) => {
                tracing::$level!(
                    "start time" = %date(SystemTime::now() - spent),
                    "time spent" = ?spent,
                    "remote" = %self.connection.remote,
                    "response type" = self.method.path,
                    "request count" = stats.request_count,
                    "request size" = stats.request_size,
                    "response count" = stats.response_count,
                    "response size" = stats.response_size,
                    "request content" = stats.content,
                    "request stats"
                )
            };
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            report!(debug);
        } else {
            report!(warn);
        }
    }
}

/// A date, as the log has them.
pub(super) fn date(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|time| format!("{time:.6}")).unwrap_or_default()
}

impl Stats {
    fn new(rpc: Rpc, asked: &Bytes, reply: Option<(Outcome, usize)>) -> Stats {
        let (outcome, response_size) = reply.unwrap_or_default();
        let mut stats = Stats {
            request_count: 0,
            request_size: signed(asked.len()),
            response_count: if let Outcome::Count(count) = outcome { count } else { 0 },
            response_size: signed(response_size),
            content: String::new(),
        };
        match rpc {
            Rpc::Kv(Kv::Range) => stats.content = content::<RangeRequest>(asked),
            Rpc::Kv(Kv::DeleteRange) => stats.content = content::<DeleteRangeRequest>(asked),
            Rpc::Kv(Kv::Put) => {
                stats.request_count = 1;
                stats.content = content::<PutRequest>(asked);
            }
            Rpc::Kv(Kv::Txn) => stats.add_txn(asked, reply.map(|(outcome, _)| outcome)),
            _ => {
                let content = String::new();
                return Stats {
                    request_count: NOT_COUNTED,
                    request_size: NOT_COUNTED,
                    response_count: NOT_COUNTED,
                    response_size: NOT_COUNTED,
                    content,
                };
            }
        }
        stats
    }

    /// Of a transaction, what was done counts.
    fn add_txn(&mut self, asked: &Bytes, outcome: Option<Outcome>) {
        let Ok(request) = TxnRequest::decode(asked.clone()) else { return };
        let done = match outcome {
            Some(Outcome::Txn { succeeded: true }) => &request.success,
            Some(_) => &request.failure,
            None => {
                self.request_size = 0;
                return;
            }
        };
        self.request_count = signed(done.len());
        self.request_size = signed(done.iter().map(Message::encoded_len).sum());
        self.content = Loggable(&request).to_string();
    }
}

fn content<Q: Message + Default>(asked: &Bytes) -> String
where
    for<'a> Loggable<&'a Q>: std::fmt::Display,
{
    Q::decode(asked.clone()).map(|request| Loggable(&request).to_string()).unwrap_or_default()
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proto::etcdserverpb::RequestOp;
    use proto::etcdserverpb::request_op::Request;

    use super::*;

    fn encoded(message: &impl Message) -> Bytes {
        message.encode_to_vec().into()
    }

    #[test]
    fn a_put_is_told_of_without_its_value() {
        let put = PutRequest { key: "a".into(), value: "secret".into(), ..PutRequest::default() };
        let stats = Stats::new(Rpc::Kv(Kv::Put), &encoded(&put), Some((Outcome::Count(0), 28)));
        assert_eq!(
            stats,
            Stats {
                request_count: 1,
                request_size: 11,
                response_count: 0,
                response_size: 28,
                content: "key:\"a\" value_size:6".to_owned(),
            }
        );
    }

    #[test]
    fn of_a_transaction_the_branch_counts_that_was_taken() {
        let put = PutRequest { key: "a".into(), ..PutRequest::default() };
        let op = RequestOp { request: Some(Request::RequestPut(put)) };
        let txn = TxnRequest { success: vec![op.clone(), op], ..TxnRequest::default() };
        let stats = |succeeded| {
            let outcome = Outcome::Txn { succeeded };
            Stats::new(Rpc::Kv(Kv::Txn), &encoded(&txn), Some((outcome, 9)))
        };
        assert_eq!((stats(true).request_count, stats(true).request_size), (2, 10));
        assert_eq!((stats(false).request_count, stats(false).request_size), (0, 0));
        assert_eq!(stats(true).response_count, 0);
    }

    #[test]
    fn others_are_not_counted() {
        let stats = Stats::new(Rpc::Kv(Kv::Compact), &Bytes::new(), Some((Outcome::Count(0), 5)));
        assert_eq!((stats.request_count, stats.response_size), (NOT_COUNTED, NOT_COUNTED));
        assert_eq!(stats.content, "");
    }
}
