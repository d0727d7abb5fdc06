//! The ports of a member, taken before anything else is begun: what is taken by others is found out first.

use api::http::Surface;
use net::{BindError, Listener, SocketOptions};

use crate::config::Config;
use crate::config::url::ListenUrl;
use crate::settings;

/// The ports of a member.
pub(crate) struct Listeners {
    /// For other members.
    pub(crate) peers: Vec<Listener>,
    /// For clients, with what is served there.
    pub(crate) clients: Vec<(Listener, Surface)>,
    /// For metrics and health.
    pub(crate) metrics: Vec<Listener>,
}

impl Listeners {
    /// Takes them all, or none.
    pub(crate) fn bind(config: &Config) -> Result<Listeners, BindError> {
        let listen = &config.listen;
        let options =
            SocketOptions { reuse_port: listen.reuse_port, reuse_address: listen.reuse_address };
        let bind = |url: &ListenUrl| Listener::bind(&settings::address(url.address()), options);
        let bind_all = |urls: &[ListenUrl]| urls.iter().map(bind).collect::<Result<Vec<_>, _>>();
        tracing::info!(listen_peer_urls = ?texts(&listen.peer), "configuring peer listeners");
        let peers = bind_all(&listen.peer)?;
        tracing::info!(listen_client_urls = ?texts(&listen.client), "configuring client listeners");
        let splits = !listen.client_http.is_empty();
        let surface = if splits { Surface::ClientGrpcOnly } else { Surface::Client };
        let grpc = bind_all(&listen.client)?.into_iter().map(|listener| (listener, surface));
        let http = bind_all(&listen.client_http)?.into_iter();
        let http = http.map(|listener| (listener, Surface::ClientHttpOnly));
        let clients = grpc.chain(http).collect();
        let metrics = bind_all(&listen.metrics)?;
        Ok(Listeners { peers, clients, metrics })
    }
}

/// As they were given.
pub(crate) fn texts(urls: &[ListenUrl]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}
