//! The log line of slow unary calls, with etcd's text and fields. At debug level all calls are
//! logged.
//!
//! ```text
//!   {"level":"warn",…,"msg":"request stats","start time":"2026-11-15T18:08:34.855810Z",
//!    "time spent":"401.2ms","remote":"127.0.0.1:40964","response type":"/etcdserverpb.KV/Put",
//!    "request count":1,"request size":12,"response count":0,"response size":28,
//!    "request content":"key:\"a\" value_size:5"}
//! ```
//!
//! The request is decoded a second time for the line, rather than kept for a case that is rare.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use grpc::{Method, Summary};
use net::Connection;
use prost::Message;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest};
use proto::nested::NestedTxn;
use server::describe::Loggable;

use crate::methods::{Kv, Rpc};

/// The counts of methods other than those of `KV`.
const NOT_COUNTED: i64 = -1;

/// A unary call.
#[derive(Debug)]
pub(super) struct Unary<'a> {
    pub(super) rpc: Rpc,
    pub(super) method: &'static Method,
    pub(super) connection: &'a Connection,
    /// The encoded request.
    pub(super) request: &'a Bytes,
}

/// The counts and sizes of a call.
#[derive(Debug, PartialEq, Eq)]
struct Stats {
    request_count: i64,
    request_size: i64,
    response_count: i64,
    response_size: i64,
    content: String,
}

impl Unary<'_> {
    /// Logs the call if it took longer than the threshold. `reply` has the summary and length of
    /// the reply, unless the call failed.
    pub(super) fn report(
        self,
        spent: Duration,
        threshold: Duration,
        reply: Option<(Summary, usize)>,
    ) {
        if spent <= threshold && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let stats = Stats::new(self.rpc, self.request, reply);
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

/// Formats a date as in other log lines.
pub(super) fn date(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|time| format!("{time:.6}")).unwrap_or_default()
}

impl Stats {
    fn new(rpc: Rpc, request: &Bytes, reply: Option<(Summary, usize)>) -> Stats {
        let (summary, response_size) = reply.unwrap_or_default();
        let mut stats = Stats {
            request_count: 0,
            request_size: signed(request.len()),
            response_count: if let Summary::Count(count) = summary { count } else { 0 },
            response_size: signed(response_size),
            content: String::new(),
        };
        match rpc {
            Rpc::Kv(Kv::Range) => stats.content = content::<RangeRequest>(request),
            Rpc::Kv(Kv::DeleteRange) => stats.content = content::<DeleteRangeRequest>(request),
            Rpc::Kv(Kv::Put) => {
                stats.request_count = 1;
                stats.content = content::<PutRequest>(request);
            }
            Rpc::Kv(Kv::Txn) => stats.add_txn(request, reply.map(|(summary, _)| summary)),
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

    /// Counts the operations of the branch that a transaction took.
    fn add_txn(&mut self, request: &Bytes, summary: Option<Summary>) {
        let Ok(NestedTxn(request)) = NestedTxn::decode(request.clone()) else { return };
        let executed = match summary {
            Some(Summary::Branch { succeeded: true }) => &request.success,
            Some(_) => &request.failure,
            None => {
                self.request_size = 0;
                return;
            }
        };
        self.request_count = signed(executed.len());
        self.request_size = signed(executed.iter().map(Message::encoded_len).sum());
        self.content = Loggable(&request).to_string();
    }
}

fn content<Q: Message + Default>(request: &Bytes) -> String
where
    for<'a> Loggable<&'a Q>: std::fmt::Display,
{
    Q::decode(request.clone()).map(|request| Loggable(&request).to_string()).unwrap_or_default()
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proto::etcdserverpb::request_op::Request;
    use proto::etcdserverpb::{RequestOp, TxnRequest};

    use super::*;

    fn encoded(message: &impl Message) -> Bytes {
        message.encode_to_vec().into()
    }

    #[test]
    fn a_put_is_logged_without_its_value() {
        let put = PutRequest { key: "a".into(), value: "secret".into(), ..PutRequest::default() };
        let stats = Stats::new(Rpc::Kv(Kv::Put), &encoded(&put), Some((Summary::Count(0), 28)));
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
    fn the_executed_branch_of_a_transaction_is_counted() {
        let put = PutRequest { key: "a".into(), ..PutRequest::default() };
        let op = RequestOp { request: Some(Request::RequestPut(put)) };
        let txn = TxnRequest { success: vec![op.clone(), op], ..TxnRequest::default() };
        let stats = |succeeded| {
            let summary = Summary::Branch { succeeded };
            Stats::new(Rpc::Kv(Kv::Txn), &encoded(&txn), Some((summary, 9)))
        };
        assert_eq!((stats(true).request_count, stats(true).request_size), (2, 10));
        assert_eq!((stats(false).request_count, stats(false).request_size), (0, 0));
        assert_eq!(stats(true).response_count, 0);
    }

    #[test]
    fn other_methods_are_not_counted() {
        let stats = Stats::new(Rpc::Kv(Kv::Compact), &Bytes::new(), Some((Summary::Count(0), 5)));
        assert_eq!((stats.request_count, stats.response_size), (NOT_COUNTED, NOT_COUNTED));
        assert_eq!(stats.content, "");
    }
}
