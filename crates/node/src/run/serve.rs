//! Serving the bound ports.

use std::sync::Arc;

use api::http::Surface;

use super::Node;
use super::start::StartError;
use crate::listeners::{Port, texts};
use crate::tls_setup::PortTls;

impl Node<'_> {
    /// Serves the peer and metrics ports. The peers come first: without them there may be no
    /// leader, and a member without a leader cannot publish its URLs.
    pub(super) fn serve_peers_and_metrics(
        &mut self,
        peer_ports: Vec<Port>,
        metrics_ports: Vec<Port>,
    ) -> Result<(), StartError> {
        peer_ports.into_iter().try_for_each(|port| self.serve_peer_port(port))?;
        metrics_ports.into_iter().try_for_each(|port| self.serve_port(port))
    }

    /// Serves the client ports and notifies the service manager.
    pub(super) fn serve_clients(&mut self) -> Result<(), StartError> {
        self.client_tls.log_settings();
        for port in std::mem::take(&mut self.client_ports) {
            self.serve_port(port)?;
        }
        tracing::info!(
            local_member_id = %self.member.server().local(),
            listen_client_urls = ?texts(&self.config.listen.client),
            listen_metrics_urls = ?texts(&self.config.listen.metrics),
            "now serving peer/client/metrics"
        );
        logging::notify_ready();
        Ok(())
    }

    /// Serves a peer port on the thread of the transport.
    fn serve_peer_port(&self, port: Port) -> Result<(), StartError> {
        let Port { listener, surface, tls } = port;
        let (local, handler) = (listener.local(), Arc::new(self.client_api.port(surface)));
        let connections = net::Config {
            tls: self.peer_tls.peer_port(tls),
            detection_timeout: self.config.peer.read_timeout,
            log_protocol_errors: true,
            ..self.connections.clone()
        };
        self.transport.serve(listener, connections, handler).map_err(StartError::Serve)?;
        log_serving(surface, tls, &local);
        Ok(())
    }

    /// Serves a client or metrics port.
    fn serve_port(&mut self, port: Port) -> Result<(), StartError> {
        let Port { listener, surface, tls } = port;
        let local = listener.local();
        let handler = Arc::new(self.client_api.port(surface));
        let mode = match surface {
            Surface::Metrics => self.client_tls.metrics_port(tls),
            _ => self.client_tls.client_port(tls),
        };
        let connections = net::Config {
            tls: mode,
            closes_unknown_protocols: surface != Surface::Metrics,
            ..self.connections.clone()
        };
        let serving = net::serve(&self.runtimes, listener, handler, connections);
        self.serving.push(serving.map_err(StartError::Serve)?);
        log_serving(surface, tls, &local);
        Ok(())
    }
}

fn log_serving(surface: Surface, tls: PortTls, local: &net::LocalAddr) {
    let traffic = match surface {
        Surface::Client => "grpc+http",
        Surface::ClientGrpcOnly => "grpc",
        Surface::ClientHttpOnly => "http",
        Surface::Metrics => return tracing::info!(address = %local, "serving metrics"),
        Surface::Peer => return tracing::info!(address = %local, "serving peer traffic"),
    };
    tracing::info!("ready to serve client requests");
    if tls != PortTls::Tls {
        tracing::info!(
            traffic,
            address = %local,
            "serving client traffic insecurely; this is strongly discouraged!"
        );
    }
    if tls != PortTls::Plain {
        tracing::info!(traffic, address = %local, "serving client traffic securely");
    }
}
