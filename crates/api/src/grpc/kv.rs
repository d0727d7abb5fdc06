//! `etcdserverpb.KV`: keys.
//!
//! ```text
//!   Range, read-only Txn     check ─► wait until it may be read ─► read here, or aside if it is long ─► framed
//!   RangeStream              check ─► wait … ─► a piece whenever the client has room for one
//!   Put, Txn                 quota ─► check ─► through the log
//!   DeleteRange, Compact               check ─► through the log
//! ```

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use http::Response;
use mvcc::{RangeResult, Response as _, check};
use prost::encoding::{encode_varint, encoded_len_varint};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp,
    ResponseHeader, TxnRequest,
};
use server::Chunk;

use super::call::{Call, Context, Replies};
use super::message::RequestBody;
use super::reply::{Answer, Framed, Reply};
use super::rpc::Kv;
use super::slow::TXN_SUCCEEDED;
use super::status::Status;
use crate::body::Body;

/// Most keys that are read where the connection is served, rather than aside: a fraction of a millisecond.
const KEYS_AT_HAND_MAX: i64 = 512;

/// `RangeStreamResponse.range_response`, as a message: field 1.
const RANGE_RESPONSE: u8 = 1 << 3 | 2;

pub(super) async fn serve<B: RequestBody>(rpc: Kv, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Kv::Range => {
            call.unary_for_learners(|asked: &RangeRequest| asked.serializable, range).await
        }
        Kv::RangeStream => call.server_stream(false, range_stream),
        Kv::Put => call.unary(put).await,
        Kv::DeleteRange => call.unary(delete_range).await,
        Kv::Txn => call.unary(txn).await,
        Kv::Compact => call.unary(compact).await,
    }
}

async fn range(cx: Context, request: RangeRequest) -> Result<Framed, Status> {
    check::range(&request)?;
    let reading = cx.server().read(&cx.who, !request.serializable).await?;
    if is_short(&cx, &request) {
        return answer_range(&cx, reading.range(&request)?);
    }
    let shared = Arc::clone(cx.shared());
    shared.heavy.run(move || answer_range(&cx, reading.range(&request)?)).await
}

fn answer_range(cx: &Context, result: RangeResult) -> Result<Framed, Status> {
    Framed::new(Answer { header: cx.header(result.revision), count: result.count, result })
}

/// Whether answering a range takes so little that nobody else has to wait for long.
fn is_short(cx: &Context, request: &RangeRequest) -> bool {
    if request.range_end.is_empty() {
        return true;
    }
    // How many keys there were at an earlier revision is not known without looking at each.
    if request.revision > 0 {
        return false;
    }
    request.count_only
        || is_limited(request)
        || keys_in(cx, request).is_some_and(|keys| keys <= KEYS_AT_HAND_MAX)
}

/// Whether the limit bounds what is read, and not just what is sent.
fn is_limited(request: &RangeRequest) -> bool {
    (1..=KEYS_AT_HAND_MAX).contains(&request.limit) && check::range_stream(request).is_ok()
}

/// How many keys a range has. The index knows without looking at them.
fn keys_in(cx: &Context, request: &RangeRequest) -> Option<i64> {
    let RangeRequest { key, range_end, .. } = request.clone();
    let count = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
    cx.server().state().store.range(&count).ok().map(|found| found.count)
}

async fn range_stream(cx: Context, request: RangeRequest, replies: Replies) -> Result<(), Status> {
    check::range_stream(&request)?;
    let reading = cx.server().read(&cx.who, !request.serializable).await?;
    for chunk in reading.stream(request)? {
        let chunk = chunk?;
        let header = chunk.is_last.then(|| cx.header(chunk.range.revision));
        replies.send(&Piece { chunk, header }).await?;
    }
    Ok(())
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

async fn put(cx: Context, request: PutRequest) -> Result<impl Reply, Status> {
    cx.server().check_quota(membership::quota::put(&request)).await?;
    check::put(&request)?;
    let result = cx.server().put(&cx.who, request).await?;
    Ok(Answer { header: cx.header(result.revision), result, count: 0 })
}

async fn delete_range(cx: Context, request: DeleteRangeRequest) -> Result<impl Reply, Status> {
    check::delete_range(&request)?;
    let result = cx.server().delete_range(&cx.who, request).await?;
    Ok(Answer { header: cx.header(result.revision), count: result.deleted, result })
}

async fn txn(cx: Context, request: TxnRequest) -> Result<Framed, Status> {
    cx.server().check_quota(membership::quota::txn(&request)).await?;
    check::txn(&request, cx.server().config().max_txn_ops)?;
    if mvcc::txn::is_read_only(&request) {
        return read_txn(cx, request).await;
    }
    let result = cx.server().txn(&cx.who, request).await?;
    answer_txn(&cx, result)
}

async fn read_txn(cx: Context, request: TxnRequest) -> Result<Framed, Status> {
    let linearizable = !mvcc::txn::is_serializable(&request);
    let reading = cx.server().read(&cx.who, linearizable).await?;
    if are_short(&cx, &request) {
        return answer_txn(&cx, reading.txn(&request)?);
    }
    let shared = Arc::clone(cx.shared());
    shared.heavy.run(move || answer_txn(&cx, reading.txn(&request)?)).await
}

fn answer_txn(cx: &Context, result: mvcc::TxnResult) -> Result<Framed, Status> {
    let count = if result.succeeded { TXN_SUCCEEDED } else { 0 };
    Framed::new(Answer { header: cx.header(result.revision), result, count })
}

/// Whether all ranges of a transaction are short, whichever way it goes.
fn are_short(cx: &Context, request: &TxnRequest) -> bool {
    let short = |op: &RequestOp| match &op.request {
        Some(Request::RequestRange(range)) => is_short(cx, range),
        _ => true,
    };
    let TxnRequest { compare, success, failure } = request;
    compare.iter().all(|compare| compare.range_end.is_empty())
        && success.iter().chain(failure).all(short)
}

async fn compact(cx: Context, request: CompactionRequest) -> Result<CompactionResponse, Status> {
    Ok(cx.server().compact(&cx.who, request).await?)
}
