//! SRV records, from the system's DNS servers.
//!
//! The system's resolver returns addresses only, so SRV queries are sent from here, to the servers
//! in `/etc/resolv.conf`, each with its own timeout. Addresses are resolved by the system, which
//! may know more than DNS.

use std::net::{SocketAddr, ToSocketAddrs as _};

use gocompat::lookup_error_text;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use crate::srv::{Lookup, SrvRecord};

/// Queries the servers of `/etc/resolv.conf`. Blocks the caller, which must not be a runtime
/// thread.
#[derive(Clone, Debug, Default)]
pub struct SystemDns {
    /// The servers to query instead.
    servers: Option<ResolverConfig>,
}

impl SystemDns {
    fn resolver(&self) -> Result<TokioResolver, NetError> {
        match &self.servers {
            None => TokioResolver::builder_tokio()?.build(),
            Some(servers) => {
                let runtime = TokioRuntimeProvider::default();
                TokioResolver::builder_with_config(servers.clone(), runtime).build()
            }
        }
    }

    fn query(&self, name: &str) -> Result<Vec<SrvRecord>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let found = runtime.block_on(async {
            // A trailing dot prevents the search of other domains.
            self.resolver()?.srv_lookup(format!("{}.", name.trim_end_matches('.'))).await
        });
        let found = found.map_err(|error| reason(&error))?;
        Ok(found.answers().iter().filter_map(|answer| record(&answer.data)).collect())
    }
}

impl Lookup for SystemDns {
    fn srv(&self, service: &str, domain: &str) -> Result<Vec<SrvRecord>, String> {
        let name = format!("_{service}._tcp.{domain}");
        match self.query(&name) {
            Ok(records) if records.is_empty() => Err(format!("lookup {name}: no such host")),
            Ok(records) => Ok(records),
            Err(reason) => Err(format!("lookup {name}: {reason}")),
        }
    }

    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        let failed = |reason: String| format!("lookup {host}: {reason}");
        let found =
            (host, port).to_socket_addrs().map_err(|error| failed(lookup_error_text(&error)))?;
        let found: Vec<SocketAddr> = found.collect();
        let preferred = found.iter().find(|address| address.is_ipv4()).or(found.first());
        preferred.copied().ok_or_else(|| failed("no such host".to_owned()))
    }
}

fn record(data: &RData) -> Option<SrvRecord> {
    match data {
        RData::SRV(srv) => Some(SrvRecord {
            priority: srv.priority,
            target: srv.target.to_utf8(),
            port: srv.port,
            weight: srv.weight,
        }),
        _ => None,
    }
}

/// Returns Go's text for an unknown name.
fn reason(error: &NetError) -> String {
    match error.is_nx_domain() || error.is_no_records_found() {
        true => "no such host".to_owned(),
        false => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
