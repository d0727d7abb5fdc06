//! The registration of this proxy, and the list of all registered ones: `--resolver-prefix`.
//!
//! ```text
//!   proxies/10.0.0.1:23790    {"Op":0,"Addr":"10.0.0.1:23790","Metadata":"{\"name\":\"host\"}"}
//!   └ prefix/address          attached to a lease, which this proxy renews until it ends
//! ```
//!
//! The keys are those of etcd's `naming/endpoints`, so etcd's clients can resolve them, and proxies
//! of both kinds list each other. Keys are in the namespace of the proxy, as in etcd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::etcdserverpb::{LeaseGrantRequest, PutRequest, RangeRequest, WatchCreateRequest};
use proto::mvccpb::event::EventType;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::cluster::Proxies;
use crate::context::own_metadata;
use crate::keep_alive::KeepAlives;
use crate::server::ProxyState;
use crate::upstream::from_tonic;

/// The pause between two attempts. As in etcd.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Renewals per TTL. As in etcd's client.
const RENEWALS: u32 = 3;

/// The settings of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrySettings {
    /// The prefix of the keys, `--resolver-prefix`.
    pub prefix: String,
    /// The time to live, in seconds.
    pub ttl: i64,
}

/// A registered proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The address for clients.
    pub(crate) address: String,
    /// JSON with the name.
    metadata: String,
}

impl Registration {
    pub(crate) fn new(address: &str, name: &str) -> Registration {
        Registration { address: address.to_owned(), metadata: json!({ "name": name }).to_string() }
    }

    /// Parses a value; none if it is not a registration.
    fn parse(value: &[u8]) -> Option<Registration> {
        let value: Value = serde_json::from_slice(value).ok()?;
        let address = value.get("Addr")?.as_str()?.to_owned();
        let metadata = value.get("Metadata").and_then(Value::as_str).unwrap_or_default();
        Some(Registration { address, metadata: metadata.to_owned() })
    }

    fn value(&self) -> String {
        // In the order of etcd's fields.
        let (address, metadata) = (json!(self.address), json!(self.metadata));
        format!(r#"{{"Op":0,"Addr":{address},"Metadata":{metadata}}}"#)
    }

    /// Returns the name.
    ///
    /// # Errors
    /// The metadata is not that of a proxy.
    pub(crate) fn name(&self) -> Result<String, String> {
        let metadata: Value =
            serde_json::from_str(&self.metadata).map_err(|error| error.to_string())?;
        Ok(metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
    }
}

/// Keeps this proxy registered, forever.
pub(crate) async fn keep_registered(
    shared: Arc<ProxyState>,
    settings: RegistrySettings,
    address: String,
    host_name: String,
) {
    loop {
        match register(&shared, &settings, &address, &host_name).await {
            Ok(lease) => {
                let (addr, lease_ttl) = (&address, settings.ttl);
                tracing::info!(addr, lease_ttl, "registered session with lease");
                keep_alive(&shared.keep_alives, lease, settings.ttl).await;
                tracing::warn!("session expired; possible network partition or server restart");
                tracing::warn!("creating a new session to rejoin");
            }
            Err(error) => tracing::warn!(%error, "failed to create a session"),
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Grants a lease, and puts the key of this proxy.
async fn register(
    shared: &ProxyState,
    settings: &RegistrySettings,
    address: &str,
    host_name: &str,
) -> Result<i64, grpc::Status> {
    let metadata = own_metadata();
    let grant = LeaseGrantRequest { ttl: settings.ttl, id: 0 };
    let grant = shared.upstream.request(grant, &metadata).map_err(from_tonic)?;
    let lease = shared.upstream.lease().lease_grant(grant).await.map_err(from_tonic)?;
    let lease = lease.into_inner().id;
    let put = PutRequest {
        key: format!("{}/{address}", settings.prefix).into(),
        value: Registration::new(address, host_name).value().into(),
        lease,
        ..PutRequest::default()
    };
    shared.kv.put(&metadata, put).await?;
    Ok(lease)
}

/// Renews a lease until it is lost.
async fn keep_alive(keep_alives: &KeepAlives, lease: i64, ttl: i64) {
    let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or_default());
    loop {
        let mut renewals = keep_alives.client();
        renewals.renew(lease);
        match timeout(ttl, renewals.next()).await {
            Ok(Ok(answer)) if answer.ttl > 0 => sleep(ttl / RENEWALS).await,
            _ => return,
        }
    }
}

/// Follows the registered proxies, forever.
pub(crate) async fn follow(shared: Arc<ProxyState>, prefix: String, proxies: Proxies) {
    let range = (Bytes::from(format!("{prefix}/")), Bytes::from(format!("{prefix}0")));
    loop {
        if let Err(error) = follow_once(&shared, &range, &proxies).await {
            tracing::warn!(prefix, %error, "failed to establish endpoint watch");
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Reads all registered proxies, and follows their changes until the watch is lost.
async fn follow_once(
    shared: &ProxyState,
    (key, range_end): &(Bytes, Bytes),
    proxies: &Proxies,
) -> Result<(), grpc::Status> {
    let request = RangeRequest {
        key: key.clone(),
        range_end: range_end.clone(),
        serializable: true,
        ..RangeRequest::default()
    };
    let found = shared.kv.read(&own_metadata(), request).await?;
    let revision = found.header.map_or(0, |header| header.revision);
    let parsed = found.kvs.into_iter().filter_map(|kv| Some((kv.key, parse(&kv.value)?)));
    proxies.replace(parsed.collect::<BTreeMap<_, _>>());
    watch(shared, key, range_end, revision + 1, proxies).await.map_err(from_tonic)
}

async fn watch(
    shared: &ProxyState,
    key: &Bytes,
    range_end: &Bytes,
    start_revision: i64,
    proxies: &Proxies,
) -> Result<(), tonic::Status> {
    let create = WatchCreateRequest {
        key: shared.namespace.key(key),
        range_end: shared.namespace.range_end(range_end),
        start_revision,
        ..WatchCreateRequest::default()
    };
    let request = shared.upstream.request(create, &own_metadata())?;
    let mut responses = shared.upstream.open_watch(request).await?;
    while let Some(mut response) = responses.message().await? {
        if response.canceled {
            return Err(tonic::Status::cancelled(response.cancel_reason));
        }
        shared.namespace.watch_response(&mut response);
        for event in response.events {
            let is_put = event.r#type == i32::from(EventType::Put);
            let Some(kv) = event.kv else { continue };
            proxies.update(kv.key, if is_put { parse(&kv.value) } else { None });
        }
    }
    Ok(())
}

fn parse(value: &[u8]) -> Option<Registration> {
    let parsed = Registration::parse(value);
    if parsed.is_none() {
        tracing::warn!("unmarshal endpoint update failed");
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value was put by etcd 3.7.3.
    #[test]
    fn a_registration_is_that_of_etcd() {
        let value = r#"{"Op":0,"Addr":"127.0.0.1:23790","Metadata":"{\"name\":\"host\"}"}"#;
        let registration = Registration::new("127.0.0.1:23790", "host");
        assert_eq!(registration.value(), value);
        assert_eq!(Registration::parse(value.as_bytes()), Some(registration.clone()));
        assert_eq!(registration.name().as_deref(), Ok("host"));
    }

    #[test]
    fn other_values_are_no_registrations() {
        assert_eq!(Registration::parse(b"x"), None);
        assert_eq!(Registration::parse(b"{}"), None);
        let anonymous = Registration::parse(br#"{"Addr":"a:1"}"#).unwrap();
        assert!(anonymous.name().is_err());
    }
}
