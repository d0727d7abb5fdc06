//! Requests about keys: `etcdserverpb.KV` through the cache, the leasing keys, the ordering and the
//! namespace.
//!
//! ```text
//!   range   serializable? ─► cache ── miss ──► leasing ─► ordering ─► namespace ─► member
//!   write   invalidate ─► leasing ─► namespace ─► member ─► invalidate again
//! ```
//!
//! A write invalidates twice: before, so that no old entry is found while it runs; and after,
//! because a read in between may have kept the value before it. A write that fails or is canceled
//! does so too, since it may have been applied all the same.
//!
//! Requests of authenticated users are neither answered from the cache nor kept in it, and not
//! answered from owned keys: neither knows permissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use grpc::Status;
use http::HeaderMap;
use net::SendBudget;
use prost::Message as _;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RequestOp, ResponseHeader, ResponseOp, TxnRequest,
    TxnResponse,
};
use proto::nested::NestedTxn;

use crate::cache::{Cache, CacheEpoch, Lookup};
use crate::context::has_token;
use crate::errors;
use crate::leasing::Leasing;
use crate::metrics::Metrics;
use crate::namespace::Namespace;
use crate::upstream::{Upstream, from_tonic};

/// Attempts per endpoint to get an answer that is not older than one before. As in etcd.
const ORDERING_ROUNDS: usize = 5;

/// The path of requests about keys.
#[derive(Debug)]
pub(crate) struct KvProxy {
    upstream: Upstream,
    namespace: Namespace,
    cache: Cache,
    metrics: Arc<Metrics>,
    /// The newest revision of any answer, if answers are ordered.
    newest: Option<AtomicI64>,
    /// The keys that this proxy owns, if there is a prefix for leasing keys.
    leasing: Option<Leasing>,
}

impl KvProxy {
    pub(crate) fn new(
        upstream: Upstream,
        namespace: Namespace,
        ordered: bool,
        metrics: Arc<Metrics>,
        leasing: Option<Leasing>,
    ) -> KvProxy {
        let newest = ordered.then(AtomicI64::default);
        KvProxy { upstream, namespace, cache: Cache::default(), metrics, newest, leasing }
    }

    /// Reads a range.
    pub(crate) async fn range(
        &self,
        metadata: &HeaderMap,
        request: RangeRequest,
        send_budget: &SendBudget,
    ) -> Result<Arc<RangeResponse>, Status> {
        let cached = !has_token(metadata);
        if request.serializable && cached {
            match self.cache.get(&request) {
                Lookup::Hit(response) => {
                    self.metrics.cache_hits.inc();
                    // It is shared, and takes memory only once it is written for this client.
                    if send_budget.must_wait_with(response.encoded_len()) {
                        send_budget.wait_for_room().await;
                    }
                    return Ok(response);
                }
                Lookup::Compacted => {
                    self.metrics.cache_hits.inc();
                    return Err(errors::compacted());
                }
                Lookup::Miss => self.metrics.cache_misses.inc(),
            }
        }
        if let Some(leasing) = self.leasing.as_ref().filter(|_| cached)
            && let Some(answer) = leasing.range(metadata, &request).await
        {
            self.record_revision(answer.header.as_ref());
            return Ok(Arc::new(answer));
        }
        let sent_in = self.cache.epoch();
        let read = |bytes_max| self.read_within(metadata, request.clone(), bytes_max);
        // Each attempt takes a permit of its own: none is held during the pauses.
        let attempt = || self.upstream.read(send_budget, &read);
        let response = Arc::new(self.upstream.retry_read(attempt).await?);
        if cached {
            self.cache.add(&request, &response, sent_in);
            self.count_entries();
        }
        Ok(response)
    }

    /// Reads a range from a member, for the proxy itself.
    pub(crate) async fn read(
        &self,
        metadata: &HeaderMap,
        request: RangeRequest,
    ) -> Result<RangeResponse, Status> {
        self.read_within(metadata, request, self.upstream.recv_bytes_max()).await
    }

    /// Reads a range from a member, with a limit on its response.
    async fn read_within(
        &self,
        metadata: &HeaderMap,
        mut request: RangeRequest,
        bytes_max: usize,
    ) -> Result<RangeResponse, Status> {
        self.refuse_empty(&request.key)?;
        self.namespace.range(&mut request);
        let oldest = self.newest();
        let mut attempts = ORDERING_ROUNDS * self.upstream.endpoints().len().max(1);
        loop {
            let sent = self.upstream.request(request.clone(), metadata).map_err(from_tonic)?;
            let mut kv = self.upstream.kv().max_decoding_message_size(bytes_max);
            let mut response = kv.range(sent).await.map_err(from_tonic)?.into_inner();
            if revision(response.header.as_ref()) >= oldest {
                self.record_revision(response.header.as_ref());
                self.namespace.range_response(&mut response);
                return Ok(response);
            }
            // The next attempt goes to another endpoint.
            attempts -= 1;
            if attempts == 0 {
                return Err(errors::no_greater_revision());
            }
        }
    }

    /// Puts a key.
    pub(crate) async fn put(
        &self,
        metadata: &HeaderMap,
        request: PutRequest,
    ) -> Result<PutResponse, Status> {
        self.refuse_empty(&request.key)?;
        let write = self.begin_write(vec![(request.key.clone(), Bytes::new())]);
        let response = match &self.leasing {
            Some(leasing) => leasing.put(metadata, request).await?,
            None => self.send_put(metadata, request).await?,
        };
        write.answered(response.header.as_ref());
        Ok(response)
    }

    async fn send_put(
        &self,
        metadata: &HeaderMap,
        mut request: PutRequest,
    ) -> Result<PutResponse, Status> {
        self.namespace.put(&mut request);
        let sent = self.upstream.request(request, metadata).map_err(from_tonic)?;
        let response = self.upstream.kv().put(sent).await;
        let mut response = response.map_err(from_tonic)?.into_inner();
        self.namespace.put_response(&mut response);
        Ok(response)
    }

    /// Deletes a range.
    pub(crate) async fn delete_range(
        &self,
        metadata: &HeaderMap,
        request: DeleteRangeRequest,
        send_budget: &SendBudget,
    ) -> Result<DeleteRangeResponse, Status> {
        self.refuse_empty(&request.key)?;
        let write = self.begin_write(vec![(request.key.clone(), request.range_end.clone())]);
        let returns_keys = request.prev_kv && !request.range_end.is_empty();
        let long_response = returns_keys.then_some(send_budget);
        let response = match &self.leasing {
            Some(leasing) => leasing.delete_range(metadata, request, long_response).await?,
            None => {
                let delete = self.send_delete_range(metadata, request);
                self.upstream.send_once(long_response, delete).await?
            }
        };
        write.answered(response.header.as_ref());
        Ok(response)
    }

    async fn send_delete_range(
        &self,
        metadata: &HeaderMap,
        mut request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        self.namespace.delete_range(&mut request);
        let sent = self.upstream.request(request, metadata).map_err(from_tonic)?;
        let response = self.upstream.kv().delete_range(sent).await;
        let mut response = response.map_err(from_tonic)?.into_inner();
        self.namespace.delete_response(&mut response);
        Ok(response)
    }

    /// Runs a transaction.
    pub(crate) async fn txn(
        &self,
        metadata: &HeaderMap,
        request: TxnRequest,
        send_budget: &SendBudget,
    ) -> Result<TxnResponse, Status> {
        if let Some(leasing) = self.leasing.as_ref().filter(|_| !has_token(metadata))
            && let Some(answer) = leasing.evaluate(&request)
        {
            self.record_revision(answer.header.as_ref());
            return Ok(answer);
        }
        let sent_in = self.cache.epoch();
        let ranges = written_ranges(&request);
        let is_write = !ranges.is_empty();
        let write = self.begin_write(ranges);
        let response = if is_write {
            self.write(metadata, &request, send_budget).await?
        } else {
            let read = |bytes_max| self.send_txn(metadata, request.clone(), bytes_max);
            self.upstream.read(send_budget, read).await?
        };
        let ops = if response.succeeded { &request.success } else { &request.failure };
        // Compat: as in etcd, a comparison may show that an entry is stale.
        for compare in &request.compare {
            self.cache.invalidate(&compare.key, &compare.range_end, None);
        }
        let writes = changes_anything(ops);
        write.answered(response.header.as_ref().filter(|_| writes));
        // Reads before or after a write of the same transaction may differ from the final state.
        if !writes && !has_token(metadata) {
            self.keep_reads(ops, &response, sent_in);
        }
        self.record_revision(response.header.as_ref());
        self.count_entries();
        Ok(response)
    }

    /// Runs a transaction that may write, and is therefore sent once.
    async fn write(
        &self,
        metadata: &HeaderMap,
        request: &TxnRequest,
        send_budget: &SendBudget,
    ) -> Result<TxnResponse, Status> {
        let returns_ranges = returns_ranges(&request.success) || returns_ranges(&request.failure);
        let long_response = returns_ranges.then_some(send_budget);
        match &self.leasing {
            Some(leasing) => leasing.txn(metadata, request.clone(), long_response).await,
            None => {
                let bytes_max = self.upstream.recv_bytes_max();
                let txn = self.send_txn(metadata, request.clone(), bytes_max);
                self.upstream.send_once(long_response, txn).await
            }
        }
    }

    async fn send_txn(
        &self,
        metadata: &HeaderMap,
        mut request: TxnRequest,
        bytes_max: usize,
    ) -> Result<TxnResponse, Status> {
        self.namespace.txn(&mut request);
        let sent = self.upstream.request(NestedTxn(request), metadata).map_err(from_tonic)?;
        let sent = self.upstream.txn_within(sent, bytes_max).await;
        let mut response = sent.map_err(from_tonic)?;
        self.namespace.txn_response(&mut response);
        Ok(response)
    }

    /// Compacts the history.
    pub(crate) async fn compact(
        &self,
        metadata: &HeaderMap,
        request: CompactionRequest,
    ) -> Result<CompactionResponse, Status> {
        let sent = self.upstream.request(request, metadata).map_err(from_tonic)?;
        let response = self.upstream.kv().compact(sent).await.map_err(from_tonic)?;
        self.cache.compact(request.revision);
        Ok(response.into_inner())
    }

    /// Forgets all responses, because they may be readable by fewer users from now on.
    pub(crate) fn forget(&self) {
        self.cache.clear();
        self.count_entries();
        if let Some(leasing) = &self.leasing {
            leasing.forget();
        }
    }

    /// Compat: as in etcd, a proxy with a namespace itself refuses an empty key, which would
    /// otherwise become the prefix.
    fn refuse_empty(&self, key: &Bytes) -> Result<(), Status> {
        match key.is_empty() && !self.namespace.is_empty() {
            true => Err(errors::empty_key()),
            false => Ok(()),
        }
    }

    /// Begins a write of keys and ranges.
    fn begin_write(&self, ranges: Vec<(Bytes, Bytes)>) -> WriteInFlight<'_> {
        self.invalidate(&ranges, None);
        WriteInFlight { kv: self, ranges }
    }

    /// Invalidates the entries of keys and ranges. `written` is the header of a write of them, if
    /// it was answered.
    fn invalidate(&self, ranges: &[(Bytes, Bytes)], written: Option<&ResponseHeader>) {
        for (key, range_end) in ranges {
            self.cache.invalidate(key, range_end, written.map(|header| header.revision));
        }
        self.record_revision(written);
        self.count_entries();
    }

    /// Keeps the ranges that a transaction has read.
    fn keep_reads(&self, ops: &[RequestOp], response: &TxnResponse, sent_in: CacheEpoch) {
        for (op, answer) in ops.iter().zip(&response.responses) {
            let (Some(Request::RequestRange(range)), ResponseOp { response: Some(answer) }) =
                (&op.request, answer)
            else {
                continue;
            };
            if let Response::ResponseRange(found) = answer {
                let mut found = found.clone();
                // Compat: etcd keeps the header of the operation, which has only a revision.
                found.header.get_or_insert_with(|| response.header.unwrap_or_default());
                self.cache.add(range, &Arc::new(found), sent_in);
            }
        }
    }

    fn newest(&self) -> i64 {
        self.newest.as_ref().map_or(0, |newest| newest.load(Ordering::Relaxed))
    }

    fn record_revision(&self, header: Option<&ResponseHeader>) {
        let Some(header) = header else { return };
        if let Some(newest) = &self.newest {
            newest.fetch_max(header.revision, Ordering::Relaxed);
        }
        if let Some(leasing) = &self.leasing {
            leasing.record_revision(header);
        }
    }

    fn count_entries(&self) {
        self.metrics.cache_keys.set(i64::try_from(self.cache.len()).unwrap_or(i64::MAX));
    }
}

/// A write in flight. Dropped without an answer, it invalidates what the write may have changed.
#[derive(Debug)]
struct WriteInFlight<'a> {
    kv: &'a KvProxy,
    /// The keys and ranges that may be written: each a key and a range end.
    ranges: Vec<(Bytes, Bytes)>,
}

impl WriteInFlight<'_> {
    /// Ends the write. `written` is the header of its answer, if anything was written.
    fn answered(mut self, written: Option<&ResponseHeader>) {
        self.kv.invalidate(&std::mem::take(&mut self.ranges), written);
    }
}

impl Drop for WriteInFlight<'_> {
    fn drop(&mut self) {
        if !self.ranges.is_empty() {
            // Without a revision of the write, the age of responses in flight is unknown. First,
            // so that none is kept after the invalidation.
            self.kv.cache.begin_epoch();
            self.kv.invalidate(&self.ranges, None);
        }
    }
}

fn revision(header: Option<&ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

/// Returns the keys and ranges that a transaction may write, in both branches at any depth.
fn written_ranges(request: &TxnRequest) -> Vec<(Bytes, Bytes)> {
    let mut ranges = Vec::new();
    // A stack of our own: transactions may be nested deeply.
    let mut pending = vec![request];
    while let Some(txn) = pending.pop() {
        for op in txn.success.iter().chain(&txn.failure) {
            match &op.request {
                Some(Request::RequestPut(put)) => ranges.push((put.key.clone(), Bytes::new())),
                Some(Request::RequestDeleteRange(delete)) => {
                    ranges.push((delete.key.clone(), delete.range_end.clone()));
                }
                Some(Request::RequestTxn(txn)) => pending.push(txn),
                Some(Request::RequestRange(_)) | None => {}
            }
        }
    }
    ranges
}

/// Returns whether an operation writes, at any depth.
fn changes_anything(ops: &[RequestOp]) -> bool {
    ops.iter().any(|op| match &op.request {
        Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) => true,
        Some(Request::RequestTxn(txn)) => {
            changes_anything(&txn.success) || changes_anything(&txn.failure)
        }
        Some(Request::RequestRange(_)) | None => false,
    })
}

/// Returns whether the response to an operation has the keys of a range, at any depth.
fn returns_ranges(ops: &[RequestOp]) -> bool {
    ops.iter().any(|op| match &op.request {
        Some(Request::RequestRange(range)) => !range.range_end.is_empty(),
        Some(Request::RequestDeleteRange(delete)) => delete.prev_kv && !delete.range_end.is_empty(),
        Some(Request::RequestTxn(txn)) => {
            returns_ranges(&txn.success) || returns_ranges(&txn.failure)
        }
        Some(Request::RequestPut(_)) | None => false,
    })
}

#[cfg(test)]
mod tests;
