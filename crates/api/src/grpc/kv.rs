//! `etcdserverpb.KV`: keys.
//!
//! ```text
//!   Range, read-only Txn     check ─► wait until it may be read ─► read here, or aside if it is long ─► framed
//!   RangeStream              check ─► wait … ─► a piece after the other, as the client takes them
//!   Put, Txn                 quota ─► check ─► through the log
//!   DeleteRange, Compact               check ─► through the log
//! ```

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use failpoint::failpoint;
use http::Response;
use mvcc::{RangeResult, Response as _, check};
use prost::Message as _;
use prost::encoding::{encode_varint, encoded_len_varint};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp,
    ResponseHeader, TxnRequest,
};
use server::{Chunk, Server};

use super::attributes;
use super::call::{Call, Context, Replies};
use super::decode::{count, first};
use super::message::RequestBody;
use super::reply::{Answer, Framed, Outcome, Reply};
use super::rpc::Kv;
use super::status::Status;
use super::steps::{AGREEMENT, ASSEMBLY, Detail, RAFT, Steps};
use crate::body::Body;

/// Most keys that are read for a request where its connection is served, rather than aside. With values of a few kilobytes that is a fraction of a millisecond, and no
/// more than handing it to another thread and back.
const KEYS_AT_HAND_MAX: usize = 64;

/// `RangeResponse.kvs` and `TxnResponse.responses`.
const RANGE_KVS: u32 = 2;
const TXN_RESPONSES: u32 = 3;

/// `RangeStreamResponse.range_response`, as a message: field 1.
const RANGE_RESPONSE: u8 = 1 << 3 | 2;

pub(super) async fn serve<B: RequestBody>(rpc: Kv, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Kv::Range => {
            call.unary_for_learners(|asked: &RangeRequest| asked.serializable, range).await
        }
        Kv::RangeStream => call.server_stream(false, range_stream).await,
        Kv::Put => call.unary(put).await,
        Kv::DeleteRange => call.unary(delete_range).await,
        Kv::Txn => call.unary(txn).await,
        Kv::Compact => call.unary(compact).await,
    }
}

async fn range(mut cx: Context, request: RangeRequest) -> Result<Framed, Status> {
    let mut steps = Steps::begin();
    check::range(&request)?;
    let _part = cx.part("range", || attributes::range(&request));
    let (key, range_end) = (request.key.clone(), request.range_end.clone());
    let answer = read_range(cx, request, &mut steps).await;
    steps.tell("range", |detail| {
        detail.add_bytes("range_begin", &key).add_bytes("range_end", &range_end);
        if let Ok(answer) = &answer {
            add_response(detail, "response_count", answer, RANGE_KVS);
        }
    });
    answer
}

async fn read_range(
    cx: Context,
    request: RangeRequest,
    steps: &mut Steps,
) -> Result<Framed, Status> {
    let reading = cx.server().read_range(&cx.who, &request).await;
    if !request.serializable {
        steps.done(AGREEMENT);
    }
    let reading = reading?;
    let keys = keys_of_range(cx.server(), &request);
    let answer = read(cx, keys, move |cx| answer_range(cx, reading.range(&request)?)).await;
    steps.done(ASSEMBLY);
    answer
}

/// What is told of a response: how often it has a field, and its revision.
fn add_response(detail: &mut Detail, name: &str, answer: &Framed, field: u32) {
    let message = answer.message();
    detail.add(name, count(message.clone(), field));
    // All answers begin with it.
    let header = first(message).and_then(|header| ResponseHeader::decode(header).ok());
    detail.add("response_revision", header.unwrap_or_default().revision);
}

fn answer_range(cx: &Context, result: RangeResult) -> Result<Framed, Status> {
    let outcome = Outcome::Count(result.count);
    Framed::new(Answer { header: cx.header(result.revision), result, outcome }, &cx.unsent)
}

/// Reads so many keys: here, if nobody else has to wait for long, and else aside.
async fn read(
    cx: Context,
    keys: usize,
    work: impl FnOnce(&Context) -> Result<Framed, Status> + Send + 'static,
) -> Result<Framed, Status> {
    if keys <= KEYS_AT_HAND_MAX {
        cx.unsent.wait_for_room().await;
        return work(&cx);
    }
    let (shared, unsent) = (Arc::clone(cx.shared()), Arc::clone(&cx.unsent));
    shared.heavy.run(&unsent, move || work(&cx)).await
}

/// Whether answering a range takes so little that nobody else has to wait for long.
pub(super) fn is_short(server: &Server, request: &RangeRequest) -> bool {
    keys_of_range(server, request) <= KEYS_AT_HAND_MAX
}

/// How many keys have to be looked at for a range, at most.
fn keys_of_range(server: &Server, request: &RangeRequest) -> usize {
    if request.range_end.is_empty() {
        return 1;
    }
    // How many keys there were at an earlier revision is not known without looking at each.
    if request.revision > 0 {
        return usize::MAX;
    }
    if request.count_only {
        return 1;
    }
    let keys = keys_in(server, request);
    match usize::try_from(request.limit) {
        Ok(limit) if limit > 0 && bounds_what_is_read(request) => keys.min(limit),
        _ => keys,
    }
}

/// Whether a limit bounds what is read, and not just what is sent.
fn bounds_what_is_read(request: &RangeRequest) -> bool {
    check::range_stream(request).is_ok()
}

/// How many keys a range has. The index knows without looking at them.
fn keys_in(server: &Server, request: &RangeRequest) -> usize {
    let RangeRequest { key, range_end, .. } = request.clone();
    let count = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
    let found = server.state().store.range(&count);
    found.ok().and_then(|found| usize::try_from(found.count).ok()).unwrap_or(usize::MAX)
}

async fn range_stream(
    mut cx: Context,
    request: RangeRequest,
    replies: Replies,
) -> Result<(), Status> {
    check::range_stream(&request)?;
    let _part = cx.part("range_streaming", || attributes::range_stream(&request));
    let reading = cx.server().read(&cx.who, !request.serializable).await?;
    let is_short = is_short(cx.server(), &request);
    let mut chunks = reading.stream(request)?;
    loop {
        failpoint!("beforeRangeStreamChunk");
        let chunk = if is_short {
            chunks.next()
        } else {
            let aside = move || Ok((chunks.next(), chunks));
            let (chunk, rest) = cx.shared().heavy.run(&cx.unsent, aside).await?;
            chunks = rest;
            chunk
        };
        let Some(chunk) = chunk.transpose()? else { return Ok(()) };
        let header = chunk.is_last.then(|| cx.header(chunk.range.revision));
        replies.send(&Piece { chunk, header }).await?;
    }
}

/// A piece of a range. All but the last are without a header.
///
/// ```text
///   0a len   [0a len header]   12 len kv  12 len kv …   [18 01 (more)]   [20 count]
/// ```
struct Piece {
    chunk: Chunk,
    header: Option<ResponseHeader>,
}

impl Piece {
    fn inner_len(&self) -> usize {
        match &self.header {
            Some(header) => self.chunk.range.encoded_len(header),
            None => self.chunk.range.body_len(),
        }
    }
}

impl Reply for Piece {
    fn size_hint(&self) -> usize {
        let inner = self.inner_len();
        1 + encoded_len_varint(inner as u64) + inner
    }

    fn write(&self, out: &mut BytesMut) {
        out.reserve(self.size_hint());
        out.put_u8(RANGE_RESPONSE);
        encode_varint(self.inner_len() as u64, out);
        match &self.header {
            Some(header) => self.chunk.range.encode(header, out),
            None => self.chunk.range.encode_body(out),
        }
    }
}

async fn put(mut cx: Context, request: PutRequest) -> Result<impl Reply, Status> {
    cx.server().check_quota(membership::quota::put(&request)).await?;
    check::put(&request)?;
    let _part = cx.part("put", || attributes::put(&request));
    let (mut steps, key, size) = (Steps::begin(), request.key.clone(), request.encoded_len());
    let result = cx.server().put(&cx.who, request).await?;
    steps.done(RAFT);
    steps.tell("put", |detail| {
        let detail = detail.add_bytes("key", &key).add("req_size", size);
        detail.add("response_revision", result.revision);
    });
    Ok(Answer { header: cx.header(result.revision), result, outcome: Outcome::default() })
}

async fn delete_range(mut cx: Context, request: DeleteRangeRequest) -> Result<Framed, Status> {
    check::delete_range(&request)?;
    cx.unsent.wait_for_room().await;
    let _part = cx.part("delete_range", || attributes::delete_range(&request));
    let result = cx.server().delete_range(&cx.who, request).await?;
    let outcome = Outcome::Count(result.deleted);
    Framed::new(Answer { header: cx.header(result.revision), result, outcome }, &cx.unsent)
}

async fn txn(mut cx: Context, request: TxnRequest) -> Result<Framed, Status> {
    cx.server().check_quota(membership::quota::txn(&request)).await?;
    check::txn(&request, cx.server().config().max_txn_ops)?;
    let _part = cx.part("txn", || attributes::txn(&request));
    let (mut steps, read_only) = (Steps::begin(), mvcc::txn::is_read_only(&request));
    let answer = if read_only {
        read_txn(cx, request, &mut steps).await
    } else {
        cx.unsent.wait_for_room().await;
        let result = cx.server().txn(&cx.who, request).await;
        steps.done(RAFT);
        answer_txn(&cx, result?)
    }?;
    steps.tell("transaction", |detail| {
        detail.add("read_only", read_only);
        add_response(detail, "number_of_response", &answer, TXN_RESPONSES);
    });
    Ok(answer)
}

async fn read_txn(cx: Context, request: TxnRequest, steps: &mut Steps) -> Result<Framed, Status> {
    let linearizable = !mvcc::txn::is_serializable(&request);
    let reading = cx.server().read(&cx.who, linearizable).await?;
    if linearizable {
        steps.done(AGREEMENT);
    }
    let keys = keys_of_txn(cx.server(), &request);
    let answer = read(cx, keys, move |cx| answer_txn(cx, reading.txn(&request)?)).await;
    steps.done(ASSEMBLY);
    answer
}

fn answer_txn(cx: &Context, result: mvcc::TxnResult) -> Result<Framed, Status> {
    let outcome = Outcome::Txn { succeeded: result.succeeded };
    Framed::new(Answer { header: cx.header(result.revision), result, outcome }, &cx.unsent)
}

/// How many keys have to be looked at for a transaction that only reads, at most, whichever way it goes.
fn keys_of_txn(server: &Server, request: &TxnRequest) -> usize {
    let TxnRequest { compare, success, failure } = request;
    if compare.iter().any(|compare| !compare.range_end.is_empty()) {
        return usize::MAX;
    }
    let keys_of = |operation: &RequestOp| match &operation.request {
        Some(Request::RequestRange(range)) => keys_of_range(server, range),
        Some(Request::RequestTxn(txn)) => keys_of_txn(server, txn),
        _ => 1,
    };
    let keys_of_all =
        |operations: &[RequestOp]| operations.iter().map(keys_of).fold(0, usize::saturating_add);
    compare.len().saturating_add(keys_of_all(success).max(keys_of_all(failure)))
}

async fn compact(
    mut cx: Context,
    request: CompactionRequest,
) -> Result<CompactionResponse, Status> {
    let _part = cx.part("compact", || attributes::compact(&request));
    let (mut steps, revision) = (Steps::begin(), request.revision);
    let response = cx.server().compact(&cx.who, request).await?;
    steps.done(RAFT);
    steps.tell("compact", |detail| {
        let header = response.header.unwrap_or_default();
        detail.add("revision", revision).add("response_revision", header.revision);
    });
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use env::{OsClock, OsDisk, OsRandom};
    use server::{Alone, Credentials, Machine, Member, ServerConfig};

    use super::*;

    const KEYS: usize = 100;

    async fn member(folder: &std::path::Path) -> Member {
        let mut config = ServerConfig::new("default", folder);
        config.unsafe_no_fsync = true;
        let (disk, clock) = (Arc::new(OsDisk), Arc::new(OsClock::default()));
        let machine = Machine { disk, clock, random: Box::new(OsRandom) };
        let registry = prometheus::Registry::new();
        let member = Member::start(config, machine, Arc::new(Alone), &registry).unwrap();
        for number in 0..KEYS {
            let put = PutRequest { key: format!("k{number:03}").into(), ..PutRequest::default() };
            member.server().put(&Credentials::default(), put).await.unwrap();
        }
        member
    }

    fn all() -> RangeRequest {
        RangeRequest { key: "k".into(), range_end: "l".into(), ..RangeRequest::default() }
    }

    fn read(range: RangeRequest) -> RequestOp {
        RequestOp { request: Some(Request::RequestRange(range)) }
    }

    #[tokio::test]
    async fn what_has_to_be_looked_at_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let member = member(folder.path()).await;
        let server = member.server();
        let one = RangeRequest { key: "k001".into(), ..RangeRequest::default() };
        let first = RangeRequest { limit: 5, ..all() };
        let sorted = RangeRequest { sort_target: 2, sort_order: 2, ..first.clone() };
        let counted = RangeRequest { count_only: true, ..all() };
        let earlier = RangeRequest { revision: 5, ..first.clone() };
        for (request, keys) in [
            (one.clone(), 1),
            (first.clone(), 5),
            (RangeRequest { limit: 500, ..all() }, KEYS),
            (all(), KEYS),
            // All are looked at to find the first five.
            (sorted, KEYS),
            (counted, 1),
            (earlier, usize::MAX),
        ] {
            assert_eq!(keys_of_range(server, &request), keys, "{request:?}");
        }

        let inner = TxnRequest { success: vec![read(all()), read(one)], ..TxnRequest::default() };
        assert_eq!(keys_of_txn(server, &inner), KEYS + 1);
        let nested = RequestOp { request: Some(Request::RequestTxn(inner)) };
        let outer = TxnRequest {
            compare: vec![proto::etcdserverpb::Compare::default()],
            success: vec![read(first)],
            failure: vec![nested.clone(), nested],
        };
        assert_eq!(keys_of_txn(server, &outer), 1 + 2 * (KEYS + 1), "the longer way");
        member.stop();
    }
}
