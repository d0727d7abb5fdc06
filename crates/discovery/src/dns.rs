//! Records of DNS, from whomever the system asks.
//!
//! The resolver of the system hands out addresses and nothing else, so a query for other records is made here: to the servers that `/etc/resolv.conf` names, each with
//! its own time. Addresses are left to the system, which may know more than DNS.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use crate::srv::{Lookup, Record};

/// Asks for records as `/etc/resolv.conf` says. Whoever asks waits, on a thread that is no runtime's.
#[derive(Clone, Debug, Default)]
pub struct SystemDns {
    /// Whom to ask instead.
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

    fn query(&self, name: &str) -> Result<Vec<Record>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let found = runtime.block_on(async {
            // A name with a dot at its end is looked for nowhere else.
            self.resolver()?.srv_lookup(format!("{}.", name.trim_end_matches('.'))).await
        });
        let found = found.map_err(|error| reason(&error))?;
        Ok(found.answers().iter().filter_map(|answer| record(&answer.data)).collect())
    }
}

impl Lookup for SystemDns {
    fn srv(&self, service: &str, domain: &str) -> Result<Vec<Record>, String> {
        let name = format!("_{service}._tcp.{domain}");
        match self.query(&name) {
            Ok(records) if records.is_empty() => Err(format!("lookup {name}: no such host")),
            Ok(records) => Ok(records),
            Err(reason) => Err(format!("lookup {name}: {reason}")),
        }
    }

    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        let failed = |reason: String| format!("lookup {host}: {reason}");
        let found = (host, port).to_socket_addrs().map_err(|error| failed(unknown(&error)))?;
        let found: Vec<SocketAddr> = found.collect();
        let preferred = found.iter().find(|address| address.is_ipv4()).or(found.first());
        preferred.copied().ok_or_else(|| failed("no such host".to_owned()))
    }
}

fn record(data: &RData) -> Option<Record> {
    match data {
        RData::SRV(srv) => {
            Some(Record { priority: srv.priority, target: srv.target.to_utf8(), port: srv.port })
        }
        _ => None,
    }
}

/// What Go says of a name that nobody knows.
fn reason(error: &NetError) -> String {
    match error.is_nx_domain() || error.is_no_records_found() {
        true => "no such host".to_owned(),
        false => error.to_string(),
    }
}

fn unknown(error: &io::Error) -> String {
    let text = error.to_string();
    match text.contains("not known") || text.contains("No address") {
        true => "no such host".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
