//! `etcdserverpb.KV`: keys.
//!
//! ```text
//!   Range, read-only Txn   validate ─► read index ─► read inline, or on a blocking thread ─► frame
//!   RangeStream            validate ─► read index ─► chunk by chunk, as the client reads
//!   Put, Txn               quota ─► validate ─► propose
//!   DeleteRange, Compact   validate ─► propose
//! ```

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use failpoint::failpoint_async;
use grpc::{FramedReply, Reply, RequestBody, Status, Summary};
use mvcc::{RangeResult, Response as _};
use net::COUNTED_BYTES_MIN;
use prost::Message as _;
use prost::encoding::{encode_varint, encoded_len_varint};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp,
    ResponseHeader, TxnRequest,
};
use proto::fields;
use proto::nested::NestedTxn;
use server::{Chunk, Server};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::GrpcResponse;
use crate::context::{Call, Context, Replies};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Kv;
use crate::observe::{AGREEMENT, ASSEMBLY, Operation, RAFT, StepDetail, attributes};
use crate::validate;

/// The most keys that a request reads on the thread of its connection. With values of a few
/// kilobytes that takes a fraction of a millisecond, no more than the way to a blocking thread and
/// back.
const INLINE_KEYS_MAX: usize = 64;

/// The most writes with long replies that are proposed at a time.
pub(super) const LONG_WRITES_MAX: usize = 4;
/// The most keys in the replies of writes that are proposed at a time without knowing their size.
pub(super) const WRITE_REPLY_KEYS_MAX: usize = LONG_WRITES_MAX * INLINE_KEYS_MAX;

/// The numbers of the fields `RangeResponse.kvs` and `TxnResponse.responses`.
const RANGE_KVS: u32 = 2;
const TXN_RESPONSES: u32 = 3;

/// The tag of the field `RangeStreamResponse.range_response`: field 1, a message.
const RANGE_RESPONSE: u8 = 1 << 3 | 2;

pub(super) fn serve<B: RequestBody>(rpc: Kv, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Kv::Range => {
            let serializable = |request: &RangeRequest| request.serializable;
            call.unary(interceptor::unary_on_learner(serializable), range)
        }
        Kv::RangeStream => call.server_stream(interceptor::stream, range_stream),
        Kv::Put => call.unary(interceptor::unary, put),
        Kv::DeleteRange => call.unary(interceptor::unary, delete_range),
        Kv::Txn => call.unary(interceptor::unary, txn),
        Kv::Compact => call.unary(interceptor::unary, compact),
    }
}

async fn range(mut cx: Context, request: RangeRequest) -> Result<FramedReply, CallError> {
    validate::range(&request)?;
    let mut operation = cx.operation("range", || attributes::range(&request));
    let (key, range_end) = (request.key.clone(), request.range_end.clone());
    let reply = read_range(&cx, request, &mut operation).await;
    operation.log("range", |detail| {
        detail.add_bytes("range_begin", &key).add_bytes("range_end", &range_end);
        if let Ok(reply) = &reply {
            add_response(detail, "response_count", reply, RANGE_KVS);
        }
    });
    reply
}

async fn read_range(
    cx: &Context,
    request: RangeRequest,
    operation: &mut Operation,
) -> Result<FramedReply, CallError> {
    let reading = cx.server().read_range(&cx.credentials, &request).await;
    if !request.serializable {
        operation.step(AGREEMENT);
    }
    let reading = reading?;
    let keys = keys_of_range(cx.server(), &request);
    let bytes = request.encoded_len();
    let reply = read(cx, keys, bytes, move |cx| range_reply(cx, reading.range(&request)?)).await;
    operation.step(ASSEMBLY);
    reply
}

/// Adds the number of occurrences of a field in a response, and the revision of its header.
fn add_response(detail: &mut StepDetail, name: &str, reply: &FramedReply, field: u32) {
    let message = reply.message();
    detail.add(name, fields::count(message.clone(), field));
    // The header is the first field of all responses.
    let header = fields::first(message).and_then(|header| ResponseHeader::decode(header).ok());
    detail.add("response_revision", header.unwrap_or_default().revision);
}

fn range_reply(cx: &Context, result: RangeResult) -> Result<FramedReply, CallError> {
    let summary = Summary::Count(result.count);
    let reply = KeysReply { header: cx.header(result.revision), result, summary };
    Ok(FramedReply::new(reply, &cx.send_budget)?)
}

/// Runs a read of at most `keys` keys: inline if it is short, otherwise on a blocking thread. Its
/// request of `request_bytes` is kept while it waits.
async fn read(
    cx: &Context,
    keys: usize,
    request_bytes: usize,
    work: impl Fn(&Context) -> Result<FramedReply, CallError> + Send + 'static,
) -> Result<FramedReply, CallError> {
    if keys <= INLINE_KEYS_MAX {
        let reply = work(cx)?;
        return match cx.keep_if_room(request_bytes, reply).await? {
            Some(reply) => Ok(reply),
            None => work(cx),
        };
    }
    let context = cx.clone();
    let blocking = cx.shared().transport.blocking();
    blocking.run(&cx.send_budget, request_bytes, move || work(&context)).await
}

/// Waits until a write may be proposed whose reply has the keys of `reads`. Its reply is built when
/// the write is applied, and cannot be dropped and built again as that of a read. So there must be
/// room for a long one before, and only a few of them may be proposed at a time.
async fn wait_to_write(
    cx: &Context,
    reads: &[RangeRequest],
    request: &impl prost::Message,
) -> Result<Option<OwnedSemaphorePermit>, Status> {
    let keys = keys_of_ranges(cx.server(), reads);
    if keys == 0 {
        return Ok(None);
    }
    if keys <= INLINE_KEYS_MAX {
        if let Some(permit) = reserve_keys(cx, keys) {
            return Ok(Some(permit));
        }
        if has_short_reply(cx, reads).await {
            return Ok(None);
        }
    }
    let budget = cx.shared().transport.receive_budget();
    let permit = grpc::wait_with_room(&cx.send_budget, &cx.shared().long_writes);
    Ok(budget.count_while(request.encoded_len(), permit).await?)
}

/// Reserves keys in the replies of writes in progress, whatever their size, if there are enough.
fn reserve_keys(cx: &Context, keys: usize) -> Option<OwnedSemaphorePermit> {
    let keys = u32::try_from(keys).ok().filter(|_| cx.send_budget.has_room())?;
    Arc::clone(&cx.shared().write_reply_keys).try_acquire_many_owned(keys).ok()
}

/// Reports whether the keys of `reads` are short now, so that a reply with them needs no room.
async fn has_short_reply(cx: &Context, reads: &[RangeRequest]) -> bool {
    // A request that may not read is refused later.
    let Ok(reading) = cx.server().read(&cx.credentials, false).await else { return true };
    let bytes = reads.iter().map(|range| {
        reading.range(range).map_or(0, |result| result.encoded_len(&ResponseHeader::default()))
    });
    bytes.sum::<usize>() < COUNTED_BYTES_MIN
}

/// Reports whether a range is short enough to be read on the thread of the connection.
pub(super) fn is_short(server: &Server, request: &RangeRequest) -> bool {
    keys_of_range(server, request) <= INLINE_KEYS_MAX
}

/// Returns an upper bound on the number of keys that a range visits.
fn keys_of_range(server: &Server, request: &RangeRequest) -> usize {
    if request.range_end.is_empty() {
        return 1;
    }
    // The number of keys at an earlier revision is not known without visiting them.
    if request.revision > 0 {
        return usize::MAX;
    }
    if request.count_only {
        return 1;
    }
    let keys = server.count_keys(request.key.clone(), request.range_end.clone());
    match usize::try_from(request.limit) {
        Ok(limit) if limit > 0 && limit_bounds_the_read(request) => keys.min(limit),
        _ => keys,
    }
}

/// Returns an upper bound on the number of keys that some ranges visit.
fn keys_of_ranges(server: &Server, ranges: &[RangeRequest]) -> usize {
    ranges.iter().map(|range| keys_of_range(server, range)).fold(0, usize::saturating_add)
}

/// Returns the range in the reply to a put, if it has one.
fn reads_of_put(request: &PutRequest) -> Option<RangeRequest> {
    request.prev_kv.then(|| range_of(&request.key, &Bytes::new()))
}

/// Returns the range in the reply to a deletion, if it has one.
fn reads_of_delete(request: &DeleteRangeRequest) -> Option<RangeRequest> {
    request.prev_kv.then(|| range_of(&request.key, &request.range_end))
}

fn range_of(key: &Bytes, range_end: &Bytes) -> RangeRequest {
    RangeRequest { key: key.clone(), range_end: range_end.clone(), ..RangeRequest::default() }
}

/// Returns the ranges in the reply to a transaction, of both branches.
fn reads_of_txn(request: &TxnRequest) -> Vec<RangeRequest> {
    let mut reads = Vec::new();
    for operation in request.success.iter().chain(&request.failure) {
        match &operation.request {
            Some(Request::RequestRange(range)) => reads.push(range.clone()),
            Some(Request::RequestDeleteRange(delete)) => reads.extend(reads_of_delete(delete)),
            Some(Request::RequestTxn(txn)) => reads.extend(reads_of_txn(txn)),
            Some(Request::RequestPut(put)) => reads.extend(reads_of_put(put)),
            None => {}
        }
    }
    reads
}

/// Reports whether the limit of a range bounds the keys that are read, not just the reply.
fn limit_bounds_the_read(request: &RangeRequest) -> bool {
    validate::range_stream(request).is_ok()
}

async fn range_stream(
    mut cx: Context,
    request: RangeRequest,
    replies: Replies,
) -> Result<(), CallError> {
    validate::range_stream(&request)?;
    let _span = cx.span("range_streaming", || attributes::range_stream(&request));
    let reading = cx.server().read(&cx.credentials, !request.serializable).await?;
    let (is_short, request_bytes) = (is_short(cx.server(), &request), request.encoded_len());
    let mut chunks = reading.stream(request)?;
    loop {
        failpoint_async!("beforeRangeStreamChunk");
        let chunk = if is_short {
            let (budget, room) = (cx.shared().transport.receive_budget(), &cx.send_budget);
            let room = budget.count_while(request_bytes, room.wait_for_room()).await;
            room.map_err(Status::from)?;
            chunks.next()
        } else {
            let next = move || Ok::<_, CallError>((chunks.next(), chunks));
            let blocking = cx.shared().transport.blocking();
            let (chunk, rest) = blocking.run(&cx.send_budget, request_bytes, next).await?;
            chunks = rest;
            chunk
        };
        let Some(chunk) = chunk.transpose()? else { return Ok(()) };
        let header = chunk.is_last.then(|| cx.header(chunk.range.revision));
        // Dropped before the wait for a client that may never read: the keys are written.
        replies.write(&RangeChunk { chunk, header }).await?;
        replies.room().await;
    }
}

/// A reply about keys with its header, copied from stored bytes.
#[derive(Debug)]
struct KeysReply<R> {
    header: ResponseHeader,
    result: R,
    summary: Summary,
}

impl<R: mvcc::Response> Reply for KeysReply<R> {
    fn size_hint(&self) -> usize {
        self.result.encoded_len(&self.header)
    }

    fn write(&self, out: &mut BytesMut) {
        self.result.encode(&self.header, out);
    }

    fn summary(&self) -> Summary {
        self.summary
    }

    /// Writes the reply in the buffer that holds the keys, if possible.
    fn into_message(self, headroom: usize) -> BytesMut {
        self.result.into_message(&self.header, headroom)
    }
}

/// A chunk of a range. Only the last one has a header.
///
/// ```text
///   0a len   [0a len header]   12 len kv  12 len kv …   [18 01 (more)]   [20 count]
/// ```
struct RangeChunk {
    chunk: Chunk,
    header: Option<ResponseHeader>,
}

impl RangeChunk {
    fn inner_len(&self) -> usize {
        match &self.header {
            Some(header) => self.chunk.range.encoded_len(header),
            None => self.chunk.range.body_len(),
        }
    }
}

impl Reply for RangeChunk {
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

async fn put(mut cx: Context, request: PutRequest) -> Result<impl Reply, CallError> {
    cx.server().check_quota(&request).await?;
    validate::put(&request)?;
    let mut operation = cx.operation("put", || attributes::put(&request));
    let (key, size) = (request.key.clone(), request.encoded_len());
    let _permit = wait_to_write(&cx, reads_of_put(&request).as_slice(), &request).await?;
    let result = cx.server().put(&cx.credentials, request).await?;
    operation.step(RAFT);
    operation.log("put", |detail| {
        let detail = detail.add_bytes("key", &key).add("req_size", size);
        detail.add("response_revision", result.revision);
    });
    Ok(KeysReply { header: cx.header(result.revision), result, summary: Summary::default() })
}

async fn delete_range(
    mut cx: Context,
    request: DeleteRangeRequest,
) -> Result<FramedReply, CallError> {
    validate::delete_range(&request)?;
    let _permit = wait_to_write(&cx, reads_of_delete(&request).as_slice(), &request).await?;
    let _span = cx.span("delete_range", || attributes::delete_range(&request));
    let result = cx.server().delete_range(&cx.credentials, request).await?;
    let summary = Summary::Count(result.deleted);
    let reply = KeysReply { header: cx.header(result.revision), result, summary };
    Ok(FramedReply::new(reply, &cx.send_budget)?)
}

async fn txn(mut cx: Context, NestedTxn(request): NestedTxn) -> Result<FramedReply, CallError> {
    cx.server().check_quota(&request).await?;
    validate::txn(&request, cx.server().config().max_txn_ops)?;
    let mut operation = cx.operation("txn", || attributes::txn(&request));
    let read_only = mvcc::txn::is_read_only(&request);
    let reply = if read_only {
        read_txn(&cx, request, &mut operation).await
    } else {
        let _permit = wait_to_write(&cx, &reads_of_txn(&request), &request).await?;
        let result = cx.server().txn(&cx.credentials, request).await;
        operation.step(RAFT);
        txn_reply(&cx, result?)
    }?;
    operation.log("transaction", |detail| {
        detail.add("read_only", read_only);
        add_response(detail, "number_of_response", &reply, TXN_RESPONSES);
    });
    Ok(reply)
}

async fn read_txn(
    cx: &Context,
    request: TxnRequest,
    operation: &mut Operation,
) -> Result<FramedReply, CallError> {
    let linearizable = !mvcc::txn::is_serializable(&request);
    let reading = cx.server().read(&cx.credentials, linearizable).await?;
    if linearizable {
        operation.step(AGREEMENT);
    }
    let keys = keys_of_txn(cx.server(), &request);
    let bytes = request.encoded_len();
    let reply = read(cx, keys, bytes, move |cx| txn_reply(cx, reading.txn(&request)?)).await;
    operation.step(ASSEMBLY);
    reply
}

fn txn_reply(cx: &Context, result: mvcc::TxnResult) -> Result<FramedReply, CallError> {
    let summary = Summary::Branch { succeeded: result.succeeded };
    let reply = KeysReply { header: cx.header(result.revision), result, summary };
    Ok(FramedReply::new(reply, &cx.send_budget)?)
}

/// Returns an upper bound on the number of keys that a read-only transaction visits in either
/// branch.
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
) -> Result<CompactionResponse, CallError> {
    let mut operation = cx.operation("compact", || attributes::compact(&request));
    let revision = request.revision;
    let response = cx.server().compact(&cx.credentials, request).await?;
    operation.step(RAFT);
    operation.log("compact", |detail| {
        let header = response.header.unwrap_or_default();
        detail.add("revision", revision).add("response_revision", header.revision);
    });
    Ok(response)
}

#[cfg(test)]
mod tests {
    use server::Credentials;
    use testmember::TestMember;

    use super::*;

    const KEYS: usize = 100;

    async fn member() -> TestMember {
        let member = TestMember::builder().start();
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
    async fn the_number_of_visited_keys_is_bounded_beforehand() {
        let member = member().await;
        let server = &member.server();
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
            // All keys are visited to find the first five.
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
        assert_eq!(keys_of_txn(server, &outer), 1 + 2 * (KEYS + 1), "the longer branch");
        let reply_keys = |txn: &TxnRequest| keys_of_ranges(server, &reads_of_txn(txn));
        assert_eq!(reply_keys(&outer), 5 + 2 * (KEYS + 1), "both branches, no comparisons");

        let delete = |prev_kv| {
            let (key, range_end) = ("k".into(), "l".into());
            let delete = DeleteRangeRequest { key, range_end, prev_kv };
            RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
        };
        let put = RequestOp { request: Some(Request::RequestPut(PutRequest::default())) };
        let writes =
            |operation| TxnRequest { success: vec![operation; 128], ..TxnRequest::default() };
        assert_eq!(reply_keys(&writes(put)), 0);
        assert_eq!(reply_keys(&writes(delete(false))), 0);
        assert_eq!(reply_keys(&writes(delete(true))), 128 * KEYS);
    }
}
