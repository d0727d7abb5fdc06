//! Connections to the endpoints of a discovery service.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use net::{ClientStream, DialError, Dialer, Target};
use tls::ClientTls;
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint};

use crate::error::JoinError;
use crate::settings::Settings;

/// The least time between two pings. As in grpc-go.
const KEEPALIVE_MIN: Duration = Duration::from_secs(10);

/// Creates a channel that connects on demand and reconnects when lost.
pub(super) fn channel(
    endpoint: &str,
    tls: &Arc<ClientTls>,
    settings: &Settings,
) -> Result<Channel, JoinError> {
    let target = Target::parse(&with_scheme(endpoint, settings.tls.is_some()))?;
    let proxies = Arc::clone(&settings.proxies);
    let dialer = Dialer { proxies, ..Dialer::new(Arc::clone(tls), settings.dial_timeout) };
    let endpoint = Endpoint::from_shared(format!("http://{}", target.authority()))
        .map_err(|error| JoinError::Authority(error.to_string()))?
        .http2_keep_alive_interval(settings.keepalive_time.max(KEEPALIVE_MIN))
        .keep_alive_timeout(settings.keepalive_timeout);
    Ok(endpoint.connect_with_connector_lazy(Connector { dialer, target }))
}

/// Adds a scheme to `host:port`.
fn with_scheme(endpoint: &str, is_secure: bool) -> String {
    match endpoint.split_once(':') {
        Some((_, rest)) if rest.starts_with("//") => endpoint.to_owned(),
        Some((scheme @ ("unix" | "unixs"), path)) => format!("{scheme}://{path}"),
        _ if is_secure => format!("https://{endpoint}"),
        _ => format!("http://{endpoint}"),
    }
}

/// Connects for a channel.
#[derive(Clone)]
struct Connector {
    dialer: Dialer,
    target: Target,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ClientStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<ClientStream>, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Connector { dialer, target } = self.clone();
        Box::pin(async move { Ok(TokioIo::new(dialer.dial(&target).await?)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_or_host_and_port() {
        for (endpoint, is_secure, url) in [
            ("http://d:1", true, "http://d:1"),
            ("https://d:1", false, "https://d:1"),
            ("d:1", false, "http://d:1"),
            ("d:1", true, "https://d:1"),
            ("unix:///run/d", false, "unix:///run/d"),
            ("unix:/run/d", false, "unix:///run/d"),
        ] {
            assert_eq!(with_scheme(endpoint, is_secure), url);
        }
    }
}
