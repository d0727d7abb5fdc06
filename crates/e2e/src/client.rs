//! A gRPC client: one connection, the generated stubs of every service, and short ways to what is asked most.

use std::time::Duration;

use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, WatchCreateRequest,
};
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::cluster_client::ClusterClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::lease_client::LeaseClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use rpc::health::health_client::HealthClient;
use rpc::v3lockpb::lock_client::LockClient;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::PATIENCE;
use crate::watching::Watching;

/// How long a connection may take; on loopback it takes nothing, or is refused.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection to a member. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// Connects when first used, and again when the connection is lost. Inside a runtime only.
    ///
    /// # Panics
    ///
    /// If `url` is none.
    #[track_caller]
    pub fn new(url: &str) -> Client {
        Client { channel: endpoint(url).connect_lazy() }
    }

    /// The same, with pings that often.
    #[track_caller]
    pub fn pinging(url: &str, interval: Duration) -> Client {
        Client { channel: endpoint(url).http2_keep_alive_interval(interval).connect_lazy() }
    }

    /// Over TLS.
    pub(crate) fn over(endpoint: &Endpoint) -> Client {
        Client { channel: endpoint.connect_lazy() }
    }

    /// Keys.
    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    /// Leases.
    pub fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    /// Watches.
    pub fn watches(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone())
    }

    /// Alarms, status, snapshots and other chores.
    pub fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    /// Members.
    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    /// Users and roles.
    pub fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    /// Locks.
    pub fn lock(&self) -> LockClient<Channel> {
        LockClient::new(self.channel.clone())
    }

    /// gRPC's own health service.
    pub fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel.clone())
    }

    /// Puts a key.
    pub async fn put(&self, key: &str, value: &str) -> Result<PutResponse, Status> {
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        let put = PutRequest { key, value, ..PutRequest::default() };
        Ok(self.kv().put(put).await?.into_inner())
    }

    /// Reads a key.
    pub async fn get(&self, key: &str) -> Result<RangeResponse, Status> {
        let key = key.to_owned().into();
        self.range(RangeRequest { key, ..RangeRequest::default() }).await
    }

    /// Reads all keys that begin so.
    pub async fn get_prefix(&self, prefix: &str) -> Result<RangeResponse, Status> {
        let (key, range_end) = (prefix.to_owned().into(), end_of_prefix(prefix).into());
        self.range(RangeRequest { key, range_end, ..RangeRequest::default() }).await
    }

    /// Reads.
    pub async fn range(&self, range: RangeRequest) -> Result<RangeResponse, Status> {
        Ok(self.kv().range(range).await?.into_inner())
    }

    /// Deletes a key.
    pub async fn delete(&self, key: &str) -> Result<DeleteRangeResponse, Status> {
        let key = key.to_owned().into();
        let delete = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
        Ok(self.kv().delete_range(delete).await?.into_inner())
    }

    /// Runs a transaction.
    pub async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse, Status> {
        Ok(self.kv().txn(txn).await?.into_inner())
    }

    /// Forgets history, and waits until it is gone from the file.
    pub async fn compact(&self, revision: i64) -> Result<CompactionResponse, Status> {
        let compaction = CompactionRequest { revision, physical: true };
        Ok(self.kv().compact(compaction).await?.into_inner())
    }

    /// What the member says of itself.
    pub async fn status(&self) -> Result<StatusResponse, Status> {
        Ok(self.maintenance().status(StatusRequest {}).await?.into_inner())
    }

    /// Watches on a stream of its own, which has been confirmed.
    pub async fn watch(&self, create: WatchCreateRequest) -> Result<Watching, Status> {
        Watching::open(self.watches(), create).await
    }

    /// Watches all keys that begin so, from the revision on, or from now if it is 0.
    pub async fn watch_prefix(&self, prefix: &str, revision: i64) -> Result<Watching, Status> {
        self.watch(WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: end_of_prefix(prefix).into(),
            start_revision: revision,
            ..WatchCreateRequest::default()
        })
        .await
    }
}

#[track_caller]
pub(crate) fn endpoint(url: &str) -> Endpoint {
    let endpoint = Endpoint::from_shared(url.to_owned()).expect("it is a URL");
    endpoint.connect_timeout(CONNECT_TIMEOUT).timeout(PATIENCE)
}

/// The key after all that begin so. Names in tests are ASCII, so the last byte can grow.
fn end_of_prefix(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
