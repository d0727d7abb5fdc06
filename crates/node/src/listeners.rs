//! The ports of a member, taken before anything else is begun: what is taken by others is found out
//! first.
//!
//! ```text
//!   --listen-client-urls http://127.0.0.1:2379,https://127.0.0.1:2379      one port, which speaks both
//! ```

use api::http::Surface;
use net::{BindError, Listener, SocketOptions};

use crate::security::{ClientSecurity, PeerSecurity, Speaks};
use crate::settings;
use config::Config;
use config::url::{Address, ListenUrl};

/// The ports of a member.
pub(crate) struct Listeners {
    /// For other members.
    pub(crate) peers: Vec<Port>,
    /// For clients.
    pub(crate) clients: Vec<Port>,
    /// For metrics and health.
    pub(crate) metrics: Vec<Port>,
}

/// A port, and what is served there.
pub(crate) struct Port {
    pub(crate) listener: Listener,
    pub(crate) surface: Surface,
    pub(crate) speaks: Speaks,
}

impl Listeners {
    /// Takes them all, or none.
    pub(crate) fn bind(
        config: &Config,
        security: &ClientSecurity,
        of_peers: &PeerSecurity,
    ) -> Result<Listeners, BindError> {
        let listen = &config.listen;
        let options =
            SocketOptions { reuse_port: listen.reuse_port, reuse_address: listen.reuse_address };
        let bind = |address: &Address| Listener::bind(&settings::address(address), options);
        let bind_all = |addresses: Vec<(&Address, Speaks)>, surface: Surface| {
            let port = |(address, speaks)| Ok(Port { listener: bind(address)?, surface, speaks });
            addresses.into_iter().map(port).collect::<Result<Vec<_>, _>>()
        };
        tracing::info!(listen_peer_urls = ?texts(&listen.peer), "configuring peer listeners");
        of_peers.tell(&listen.peer);
        let peers = bind_all(by_url(&listen.peer), Surface::Peer)?;
        tracing::info!(listen_client_urls = ?texts(&listen.client), "configuring client listeners");
        let of_clients = listen.client.iter().chain(&listen.client_http);
        of_clients.filter(|url| !url.is_secure()).for_each(|url| security.tell_plain(url));
        let splits = !listen.client_http.is_empty();
        let surface = if splits { Surface::ClientGrpcOnly } else { Surface::Client };
        let mut clients = bind_all(by_address(&listen.client), surface)?;
        clients.extend(bind_all(by_address(&listen.client_http), Surface::ClientHttpOnly)?);
        let metrics = bind_all(by_url(&listen.metrics), Surface::Metrics)?;
        Ok(Listeners { peers, clients, metrics })
    }
}

/// The address of each URL, with what it asks for.
fn by_url(urls: &[ListenUrl]) -> Vec<(&Address, Speaks)> {
    urls.iter().map(|url| (url.address(), Speaks::of(url))).collect()
}

/// Each address once, with what its URLs ask for.
fn by_address(urls: &[ListenUrl]) -> Vec<(&Address, Speaks)> {
    let mut addresses: Vec<(&Address, Speaks)> = Vec::new();
    for url in urls {
        let speaks = Speaks::of(url);
        match addresses.iter_mut().find(|(known, _)| *known == url.address()) {
            Some((_, known)) => *known = known.and(speaks),
            None => addresses.push((url.address(), speaks)),
        }
    }
    addresses
}

/// As they were given.
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
        let speaks: Vec<Speaks> = by_address(&urls).into_iter().map(|(_, speaks)| speaks).collect();
        assert_eq!(speaks, [Speaks::Plain, Speaks::Both, Speaks::Tls]);
    }
}
