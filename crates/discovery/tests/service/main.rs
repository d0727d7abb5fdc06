//! A list that a service keeps: what goes over the wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use discovery::{Settings, join};
use futures_util::StreamExt as _;
use futures_util::stream::{self, Stream};
use prometheus::Registry;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, TxnRequest,
    TxnResponse, WatchRequest, WatchResponse,
};
use proto::mvccpb::{Event, KeyValue};
use rpc::etcdserverpb::kv_server::{Kv, KvServer};
use rpc::etcdserverpb::watch_server::{Watch, WatchServer};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tonic::codegen::async_trait;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Keys, and whoever watches.
#[derive(Clone)]
struct Service {
    keys: Arc<Mutex<BTreeMap<Vec<u8>, KeyValue>>>,
    told: broadcast::Sender<KeyValue>,
}

impl Service {
    fn with_size(size: &str) -> Service {
        let service = Service { keys: Arc::default(), told: broadcast::channel(16).0 };
        service.store(b"/_etcd/registry/t/_config/size", size.as_bytes());
        service
    }

    fn store(&self, key: &[u8], value: &[u8]) -> i64 {
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
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let incoming = stream::unfold(listener, |listener| async {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let router = Server::builder()
            .add_service(KvServer::new(self.clone()))
            .add_service(WatchServer::new(self.clone()));
        tokio::spawn(router.serve_with_incoming(incoming));
        url
    }
}

#[async_trait]
impl Kv for Service {
    async fn range(&self, ask: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
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

fn settings(endpoints: &[&str]) -> Settings {
    Settings {
        token: "t".to_owned(),
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        dial_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        keepalive_time: Duration::from_secs(2),
        keepalive_timeout: Duration::from_secs(6),
        tls: None,
        user: None,
    }
}

async fn joined(settings: Settings, id: u64, info: &'static str) -> Result<String, String> {
    let metrics = tls::Metrics::new(&Registry::new()).unwrap();
    join(&settings, &metrics, id, info, |_| true).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn three_members_find_each_other() {
    let service = Service::with_size("3");
    let url = service.start().await;
    let first = tokio::spawn(joined(settings(&[&url]), 1, "m1=http://10.0.0.1:2380"));
    let second = tokio::spawn(joined(settings(&[&url]), 2, "m2=http://10.0.0.2:2380"));
    let third = tokio::spawn(joined(settings(&[&url]), 3, "m3=http://10.0.0.3:2380"));
    let first = first.await.unwrap().unwrap();
    assert_eq!(first, second.await.unwrap().unwrap());
    assert_eq!(first, third.await.unwrap().unwrap());
    for member in ["m1=http://10.0.0.1:2380", "m2=http://10.0.0.2:2380", "m3=http://10.0.0.3:2380"]
    {
        assert!(first.contains(member), "{first}");
    }
    let late = joined(settings(&[&url]), 4, "m4=http://10.0.0.4:2380").await;
    assert_eq!(late, Err("discovery: cluster is full".to_owned()));
}

#[tokio::test]
async fn without_a_size_there_is_no_cluster() {
    let service = Service::with_size("many");
    let url = service.start().await;
    let bad = joined(settings(&[&url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(bad, Err("discovery: size key is bad".to_owned()));
    let nobody = joined(settings(&[]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(nobody, Err("etcdclient: no available endpoints".to_owned()));
    let odd = joined(settings(&["ftp://x:1"]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(odd, Err("URL scheme must be http, https, unix, or unixs: ftp://x:1".to_owned()));
}
