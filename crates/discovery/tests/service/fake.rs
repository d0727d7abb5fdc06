//! A service that keeps lists, in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::stream::{self, Stream};
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, TxnRequest,
    TxnResponse, WatchRequest, WatchResponse,
};
use proto::mvccpb::{Event, KeyValue};
use rpc::etcdserverpb::auth_server::AuthServer;
use rpc::etcdserverpb::kv_server::{Kv, KvServer};
use rpc::etcdserverpb::watch_server::{Watch, WatchServer};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tonic::codegen::async_trait;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::door::Door;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Keys, whoever watches, and the door that all come through.
#[derive(Clone)]
pub(crate) struct Service {
    keys: Arc<Mutex<BTreeMap<Vec<u8>, KeyValue>>>,
    told: broadcast::Sender<KeyValue>,
    pub(crate) door: Door,
}

impl Service {
    pub(crate) fn with_size(size: &str) -> Service {
        let (keys, door) = (Arc::default(), Door::default());
        let service = Service { keys, told: broadcast::channel(16).0, door };
        service.store(b"/_etcd/registry/t/_config/size", size.as_bytes());
        service
    }

    pub(crate) fn store(&self, key: &[u8], value: &[u8]) -> i64 {
        let mut keys = self.keys.lock().unwrap();
        let revision = 2 + i64::try_from(keys.len()).unwrap();
        let kv = KeyValue {
            key: key.to_vec().into(),
            value: value.to_vec().into(),
            create_revision: revision,
            mod_revision: revision,
            ..KeyValue::default()
        };
        keys.insert(key.to_vec(), kv.clone());
        // Nobody need watch.
        let _ = self.told.send(kv);
        revision
    }

    /// Serves on a port of its own; its URL.
    pub(crate) async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let incoming = stream::unfold(listener, |listener| async {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let router = Server::builder()
            .add_service(KvServer::new(self.clone()))
            .add_service(WatchServer::new(self.clone()))
            .add_service(AuthServer::new(self.door.clone()));
        tokio::spawn(router.serve_with_incoming(incoming));
        url
    }
}

#[async_trait]
impl Kv for Service {
    async fn range(&self, ask: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.door.admit("range", ask.metadata())?;
        let RangeRequest { key, range_end, .. } = ask.into_inner();
        let keys = self.keys.lock().unwrap();
        let is_asked = |kv: &&KeyValue| match range_end.is_empty() {
            true => kv.key == key,
            false => kv.key >= key && kv.key < range_end,
        };
        let kvs = keys.values().filter(is_asked).cloned().collect();
        let revision = 1 + i64::try_from(keys.len()).unwrap();
        let header = Some(ResponseHeader { revision, ..ResponseHeader::default() });
        Ok(Response::new(RangeResponse { header, kvs, ..RangeResponse::default() }))
    }

    type RangeStreamStream = Answers<RangeStreamResponse>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn put(&self, ask: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.door.admit("put", ask.metadata())?;
        let PutRequest { key, value, .. } = ask.into_inner();
        self.store(&key, &value);
        Ok(Response::new(PutResponse::default()))
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

#[async_trait]
impl Watch for Service {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(
        &self,
        asks: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // As in etcd, a watch that may not be is answered and ended, not refused.
        if let Err(status) = self.door.admit("watch", asks.metadata()) {
            let cancel_reason =
                format!("rpc error: code = {:?} desc = {}", status.code(), status.message());
            let ended = WatchResponse {
                created: true,
                canceled: true,
                cancel_reason,
                ..WatchResponse::default()
            };
            return Ok(Response::new(Box::pin(stream::once(ready(Ok(ended))))));
        }
        let mut asks = asks.into_inner();
        let Some(RequestUnion::CreateRequest(create)) =
            asks.message().await?.and_then(|ask| ask.request_union)
        else {
            return Err(Status::invalid_argument("nothing to watch"));
        };
        let told = self.told.subscribe();
        // What was stored before somebody listened is told first.
        let from = create.start_revision;
        let past: Vec<KeyValue> = self.keys.lock().unwrap().values().cloned().collect();
        let past = stream::iter(past.into_iter().filter(move |kv| kv.mod_revision >= from));
        // What is asked is kept with it: the end of that is the end of the watch.
        let live = stream::unfold((told, asks), |(mut told, asks)| async {
            let kv = told.recv().await.ok()?;
            Some((kv, (told, asks)))
        });
        let responses = past.chain(live).map(|kv| {
            let event = Event { kv: Some(kv), ..Event::default() };
            Ok(WatchResponse { events: vec![event], ..WatchResponse::default() })
        });
        Ok(Response::new(Box::pin(responses)))
    }
}
