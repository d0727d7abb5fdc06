//! Reads arbitrary bytes as HTTP/1. The first byte selects the decoder:
//!
//! ```text
//!   0   requests of a client: the reader between a socket and hyper
//!   1   the answer of a proxy to CONNECT
//!   2   the answers of a SOCKS 5 proxy
//! ```
//!
//! Invariants: no panic. Results do not depend on how the bytes are cut. A request that is passed
//! on is parsed by httparse, has one host and at most one length or coding, and ends where a second
//! implementation finds its end, so no request hides in another. No byte of the next request is
//! passed on before the response is complete, and none is lost by an upgrade. A rewritten request
//! is passed on unchanged when it is read again. A refusal is a complete response. A tunnel begins
//! with the first byte behind the answer of the proxy.

#![no_main]

/// The parts of `net` that the included modules use.
mod config {
    pub(crate) use net::HEADER_BYTES_MAX;
    /// The value of `net::config::HTTP1_HEADERS_MAX`, which is private.
    pub(crate) const HTTP1_HEADERS_MAX: usize = 256;
}
#[allow(dead_code, unused_imports, reason = "the crate uses the rest of it")]
#[path = "../../crates/net/src/dial"]
mod dial {
    pub(crate) mod client_stream {
        /// The tunnels are opened over a socket in memory.
        pub(crate) type ClientStream = crate::socket::Socket;
    }
    pub(crate) mod proxy;
    pub(crate) mod target;

    /// Opens a tunnel to `m1:2380` by the proxy in the environment variable `HTTPS_PROXY`.
    pub(crate) async fn open_tunnel(
        socket: &mut client_stream::ClientStream,
        url: &str,
    ) -> Result<(), proxy::TunnelError> {
        let variable = |name: &str| (name == "HTTPS_PROXY").then(|| url.to_owned());
        let (settings, _) = proxy::ProxySettings::from_variables(variable);
        let [_, proxy] = settings.proxies();
        proxy::open_tunnel(socket, proxy.expect("the URL of a proxy"), ("m1", 2380)).await
    }
}
#[allow(dead_code, unused_imports, reason = "the crate uses the rest of it")]
#[path = "../../crates/net/src/http1/mod.rs"]
mod http1;
#[path = "http1_request/model.rs"]
mod model;
#[path = "http1_request/requests.rs"]
mod requests;
#[path = "http1_request/socket.rs"]
mod socket;
#[path = "http1_request/tunnels.rs"]
mod tunnels;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, input)) => requests::check(input),
        Some((1, input)) => tunnels::check_connect(input),
        Some((2, input)) => tunnels::check_socks(input),
        _ => {}
    }
});
