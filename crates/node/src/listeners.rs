//! The ports of a member. They are bound first, so that a port in use is found before the data
//! directory is touched.
//!
//! ```text
//!   --listen-client-urls http://127.0.0.1:2379,https://127.0.0.1:2379      one port for both
//! ```

use api::http::Surface;
use net::{BindError, Listener, SocketOptions};

use crate::settings;
use crate::tls_setup::{ClientTlsSetup, PeerTlsSetup, PortTls};
use config::Config;
use config::url::{Address, ListenUrl};

/// The ports of a member.
pub(crate) struct Listeners {
    /// Peer ports.
    pub(crate) peers: Vec<Port>,
    /// Client ports.
    pub(crate) clients: Vec<Port>,
    /// Ports for metrics and health.
    pub(crate) metrics: Vec<Port>,
}

/// A bound port and the API that it serves.
pub(crate) struct Port {
    pub(crate) listener: Listener,
    pub(crate) surface: Surface,
    pub(crate) tls: PortTls,
}

impl Listeners {
    /// Binds all ports.
    pub(crate) fn bind(
        config: &Config,
        client_tls: &ClientTlsSetup,
        peer_tls: &PeerTlsSetup,
    ) -> Result<Listeners, BindError> {
        let listen = &config.listen;
        let options =
            SocketOptions { reuse_port: listen.reuse_port, reuse_address: listen.reuse_address };
        let bind = |address: &Address| Listener::bind(&settings::address(address), options);
        let bind_all = |addresses: Vec<(&Address, PortTls)>, surface: Surface| {
            let port =
                |(address, tls)| bind(address).map(|listener| Port { listener, surface, tls });
            addresses.into_iter().map(port).collect::<Result<Vec<_>, _>>()
        };
        tracing::info!(listen_peer_urls = ?texts(&listen.peer), "configuring peer listeners");
        peer_tls.log_settings(&listen.peer);
        let peers = bind_all(by_url(&listen.peer), Surface::Peer)?;
        tracing::info!(listen_client_urls = ?texts(&listen.client), "configuring client listeners");
        let client_urls = listen.client.iter().chain(&listen.client_http);
        client_urls.filter(|url| !url.is_secure()).for_each(|url| client_tls.warn_ignored(url));
        let splits = !listen.client_http.is_empty();
        let surface = if splits { Surface::ClientGrpcOnly } else { Surface::Client };
        let mut clients = bind_all(by_address(&listen.client), surface)?;
        clients.extend(bind_all(by_address(&listen.client_http), Surface::ClientHttpOnly)?);
        let metrics = bind_all(by_url(&listen.metrics), Surface::Metrics)?;
        Ok(Listeners { peers, clients, metrics })
    }
}

/// Returns the address of each URL with its TLS.
fn by_url(urls: &[ListenUrl]) -> Vec<(&Address, PortTls)> {
    urls.iter().map(|url| (url.address(), PortTls::of(url))).collect()
}

/// Returns each address once, with the TLS of all its URLs.
fn by_address(urls: &[ListenUrl]) -> Vec<(&Address, PortTls)> {
    let mut addresses: Vec<(&Address, PortTls)> = Vec::new();
    for url in urls {
        let tls = PortTls::of(url);
        match addresses.iter_mut().find(|(known, _)| *known == url.address()) {
            Some((_, known)) => *known = known.and(tls),
            None => addresses.push((url.address(), tls)),
        }
    }
    addresses
}

/// Returns the URLs as given.
pub(crate) fn texts(urls: &[ListenUrl]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::url::Url;

    #[test]
    fn urls_of_one_address_share_a_port() {
        let urls: Vec<ListenUrl> =
            ["http://127.0.0.1:1", "http://127.0.0.1:2", "https://127.0.0.1:2", "unixs:///x"]
                .into_iter()
                .map(|url| ListenUrl::new(Url::parse(url).unwrap()).unwrap())
                .collect();
        let tls: Vec<PortTls> = by_address(&urls).into_iter().map(|(_, tls)| tls).collect();
        assert_eq!(tls, [PortTls::Plain, PortTls::Both, PortTls::Tls]);
    }
}
