//! A discovery service in memory.

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

use crate::fake_auth::FakeAuth;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The keys, the watchers, and the authentication.
#[derive(Clone)]
pub(crate) struct FakeService {
    keys: Arc<Mutex<BTreeMap<Vec<u8>, KeyValue>>>,
    events: broadcast::Sender<KeyValue>,
    pub(crate) auth: FakeAuth,
}

impl FakeService {
    pub(crate) fn with_size(size: &str) -> FakeService {
        let (keys, auth) = (Arc::default(), FakeAuth::default());
        let service = FakeService { keys, events: broadcast::channel(16).0, auth };
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
        // There may be no watcher.
        let _ = self.events.send(kv);
        revision
    }

    /// Serves on a port of its own and returns the URL.
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
            .add_service(AuthServer::new(self.auth.clone()));
        tokio::spawn(router.serve_with_incoming(incoming));
        url
    }
}

#[async_trait]
impl Kv for FakeService {
    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        self.auth.admit("range", request.metadata())?;
        let RangeRequest { key, range_end, .. } = request.into_inner();
        let keys = self.keys.lock().unwrap();
        let is_requested = |kv: &&KeyValue| match range_end.is_empty() {
            true => kv.key == key,
            false => kv.key >= key && kv.key < range_end,
        };
        let kvs = keys.values().filter(is_requested).cloned().collect();
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

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.auth.admit("put", request.metadata())?;
        let PutRequest { key, value, .. } = request.into_inner();
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
impl Watch for FakeService {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(
        &self,
        requests: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // Compat: as in etcd, a refused watch is answered with a cancellation.
        if let Err(status) = self.auth.admit("watch", requests.metadata()) {
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
        let mut requests = requests.into_inner();
        let Some(RequestUnion::CreateRequest(create)) =
            requests.message().await?.and_then(|request| request.request_union)
        else {
            return Err(Status::invalid_argument("nothing to watch"));
        };
        let events = self.events.subscribe();
        // Events from before the subscription come first.
        let from = create.start_revision;
        let past: Vec<KeyValue> = self.keys.lock().unwrap().values().cloned().collect();
        let past = stream::iter(past.into_iter().filter(move |kv| kv.mod_revision >= from));
        // Keeps the request stream: its end ends the watch.
        let live = stream::unfold((events, requests), |(mut events, requests)| async {
            let kv = events.recv().await.ok()?;
            Some((kv, (events, requests)))
        });
        let responses = past.chain(live).map(|kv| {
            let event = Event { kv: Some(kv), ..Event::default() };
            Ok(WatchResponse { events: vec![event], ..WatchResponse::default() })
        });
        Ok(Response::new(Box::pin(responses)))
    }
}
