//! Generated clients call generated servers, without a socket between them.

use std::{collections::BTreeMap, pin::Pin};

use parking_lot::Mutex;
use proto::{
    etcdserverpb::{
        CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
        PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, TxnRequest, TxnResponse,
        WatchCancelRequest, WatchRequest, WatchResponse, watch_request::RequestUnion,
    },
    health::{
        HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
        health_check_response::ServingStatus,
    },
    mvccpb::KeyValue,
};
use rpc::{
    etcdserverpb::{
        kv_client::KvClient,
        kv_server::{Kv, KvServer},
        watch_client::WatchClient,
        watch_server::{Watch, WatchServer},
    },
    health::{
        health_client::HealthClient,
        health_server::{Health, HealthServer},
    },
};
use tonic::{
    Code, Request, Response, Status, Streaming,
    codegen::{
        async_trait,
        tokio_stream::{self, Stream, StreamExt},
    },
};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Returns a stream of responses that are known at once.
fn answers<T: Send + 'static>(all: Vec<T>) -> Response<Answers<T>> {
    Response::new(Box::pin(tokio_stream::iter(all.into_iter().map(Ok))))
}

/// A key-value service without history.
#[derive(Default)]
struct Keys(Mutex<BTreeMap<Vec<u8>, KeyValue>>);

impl Keys {
    fn all(&self) -> Vec<KeyValue> {
        self.0.lock().values().cloned().collect()
    }
}

#[async_trait]
impl Kv for Keys {
    async fn range(&self, ask: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let key = ask.into_inner().key;
        if key.is_empty() {
            return Err(Status::invalid_argument("etcdserver: key is not provided"));
        }
        let kvs: Vec<_> = self.all().into_iter().filter(|kv| kv.key == key).collect();
        let count = i64::try_from(kvs.len()).unwrap_or(i64::MAX);
        Ok(Response::new(RangeResponse { kvs, count, ..Default::default() }))
    }

    type RangeStreamStream = Answers<RangeStreamResponse>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let piece = |kv| RangeResponse { kvs: vec![kv], ..Default::default() };
        let pieces = self.all().into_iter().map(piece);
        Ok(answers(
            pieces.map(|piece| RangeStreamResponse { range_response: Some(piece) }).collect(),
        ))
    }

    async fn put(&self, ask: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let PutRequest { key, value, .. } = ask.into_inner();
        let kv = KeyValue { key: key.clone(), value, ..Default::default() };
        let mut keys = self.0.lock();
        let prev_kv = keys.insert(key.to_vec(), kv);
        Ok(Response::new(PutResponse { prev_kv, header: None }))
    }

    async fn delete_range(
        &self,
        _: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn compact(
        &self,
        _: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

/// A watch service that answers every cancellation and nothing else.
struct CancelingWatch;

#[async_trait]
impl Watch for CancelingWatch {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(
        &self,
        asks: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let answers = asks.into_inner().filter_map(|ask| match ask {
            Ok(WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) }) => {
                let watch_id = cancel.watch_id;
                Some(Ok(WatchResponse { watch_id, canceled: true, ..Default::default() }))
            }
            Ok(_) => None,
            Err(status) => Some(Err(status)),
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

/// A health service that always reports SERVING.
struct AlwaysServing;

const WELL: HealthCheckResponse = HealthCheckResponse { status: ServingStatus::Serving as i32 };

#[async_trait]
impl Health for AlwaysServing {
    async fn check(
        &self,
        ask: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match ask.into_inner().service.as_str() {
            "" => Ok(Response::new(WELL)),
            _ => Err(Status::not_found("unknown service")),
        }
    }

    async fn list(
        &self,
        _: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        Ok(Response::new(HealthListResponse { statuses: [(String::new(), WELL)].into() }))
    }

    type WatchStream = Answers<HealthCheckResponse>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Ok(answers(vec![WELL]))
    }
}

fn put(key: &'static str, value: &'static str) -> PutRequest {
    PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn get(key: &'static str) -> RangeRequest {
    RangeRequest { key: key.into(), ..Default::default() }
}

#[tokio::test]
async fn a_client_puts_and_reads_a_key() {
    let mut client = KvClient::new(KvServer::new(Keys::default()));
    client.put(put("k", "old")).await.unwrap();
    let answer = client.put(put("k", "new")).await.unwrap().into_inner();
    assert_eq!(answer.prev_kv.unwrap().value, "old");

    let answer = client.range(get("k")).await.unwrap().into_inner();
    assert_eq!((answer.count, &answer.kvs[0].value[..]), (1, &b"new"[..]));
}

#[tokio::test]
async fn an_error_keeps_its_code_and_text() {
    let mut client = KvClient::new(KvServer::new(Keys::default()));
    let status = client.range(get("")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "etcdserver: key is not provided");
}

#[tokio::test]
async fn a_range_is_streamed_in_parts() {
    let mut client = KvClient::new(KvServer::new(Keys::default()));
    client.put(put("a", "1")).await.unwrap();
    client.put(put("b", "2")).await.unwrap();
    let pieces = client.range_stream(get("a")).await.unwrap().into_inner();
    let pieces: Vec<_> = pieces.collect::<Result<_, _>>().await.unwrap();
    let values: Vec<_> =
        pieces.into_iter().map(|p| p.range_response.unwrap().kvs[0].value.clone()).collect();
    assert_eq!(values, ["1", "2"]);
}

#[tokio::test]
async fn requests_and_responses_stream_both_ways() {
    let ask = |request| WatchRequest { request_union: request };
    let cancel = |watch_id| Some(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
    let mut client = WatchClient::new(WatchServer::new(CancelingWatch));
    let asks = tokio_stream::iter([ask(cancel(3)), ask(None), ask(cancel(-1))]);
    let answers = client.watch(asks).await.unwrap().into_inner();
    let answers: Vec<_> = answers.collect::<Result<_, _>>().await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| (answer.watch_id, answer.canceled)).collect();
    assert_eq!(ids, [(3, true), (-1, true)]);
}

#[tokio::test]
async fn health_is_checked_listed_and_watched() {
    let mut client = HealthClient::new(HealthServer::new(AlwaysServing));
    let member = HealthCheckRequest::default();
    assert_eq!(client.check(member.clone()).await.unwrap().into_inner(), WELL);
    let unknown = HealthCheckRequest { service: "etcdserverpb.KV".into() };
    assert_eq!(client.check(unknown).await.unwrap_err().code(), Code::NotFound);

    let list = client.list(HealthListRequest {}).await.unwrap().into_inner();
    assert_eq!(list.statuses, [(String::new(), WELL)].into());
    let mut watch = client.watch(member).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap(), Some(WELL));
    assert_eq!(watch.message().await.unwrap(), None);
}
