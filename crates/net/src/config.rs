//! Settings and limits of a listener's connections, with etcd's defaults.
//!
//! Operators set some by flags ([`Config::connections_max`], [`Config::streams_max`],
//! [`KeepAlive`]). Only tests set the others, because a test cannot wait for five minutes. The rest
//! are constants.

use std::time::Duration;

use crate::limits::{UNSENT_GRACE, UNSENT_TOTAL_BYTES_MAX};
use crate::open::TlsMode;

/// The value of [`Config::streams_max`] that sets no limit and announces none. etcd's default.
pub const STREAMS_UNLIMITED: u32 = u32::MAX;
/// The size of a request's headers: names, values and, for HTTP/2, 32 bytes per field.
pub const HEADER_BYTES_MAX: u32 = 64 << 10;
/// Streams that a client opened and reset before the server accepted them. A client that cancels
/// hundreds of calls at once must keep its connection; a "rapid reset" attack must not.
pub const PENDING_RESETS_MAX: usize = 1024;
/// Streams that were reset for an error of the client, over the life of a connection.
pub const LOCAL_RESETS_MAX: usize = 1024;

/// The receive window of a stream. A put of 1.5 MiB, etcd's largest by default, then takes two
/// round trips; HTTP/2's initial 64 KiB would take 24.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The receive window of a connection. Larger than that of a stream, so that a request that is not
/// being read does not block the others. (grpc-go returns this window as soon as data arrives, and
/// so has no bound per connection.)
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// The send buffer of a stream, beside the chunk that was handed over last. Enough to keep 2 Gbit/s
/// busy over a round trip of one millisecond.
pub(crate) const SEND_BUFFER_BYTES: usize = 256 << 10;
/// The largest frame that a client may send: the smallest maximum that HTTP/2 allows, and that of
/// grpc-go.
pub(crate) const FRAME_BYTES_MAX: u32 = 16 << 10;
/// The number of header fields of an HTTP/1 request.
pub(crate) const HTTP1_HEADERS_MAX: usize = 256;

/// The settings of a listener's connections.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether TLS is spoken.
    pub tls: TlsMode,
    /// The most open connections; further ones wait in the backlog. See
    /// [`connections_max`](crate::connections_max).
    pub connections_max: u32,
    /// The most concurrent streams of an HTTP/2 connection: `--max-concurrent-streams`.
    pub streams_max: u32,
    /// HTTP/2 pings, in both directions.
    pub keep_alive: KeepAlive,
    /// The most pending connections: those in protocol detection or in the TLS handshake. One more
    /// evicts the oldest, so that silent clients do not block others.
    pub pending_max: usize,
    /// The time to identify the protocol, and to complete the first HTTP/2 frame. As in grpc-go.
    pub detection_timeout: Duration,
    /// The time for a TLS handshake. As in etcd.
    pub handshake_timeout: Duration,
    /// The time for the headers of a request, once begun; for HTTP/1 also the time a connection may
    /// idle before its next request.
    pub headers_timeout: Duration,
    /// The most unsent bytes of long responses, over all connections.
    pub unsent_total_bytes_max: usize,
    /// The time a long response may stay unread while there are that many.
    pub unsent_grace: Duration,
    /// The time that a response over HTTP/1 has after its client has closed its side of the
    /// connection; zero to drop it at once.
    pub half_closed_grace: Duration,
    /// Whether a connection without TLS whose first line is not HTTP/1 is closed without a
    /// response. As etcd's multiplexer on client ports.
    pub closes_unknown_protocols: bool,
    /// Whether clients that do not speak HTTP are logged as warnings: for ports that only members
    /// use.
    pub log_protocol_errors: bool,
    /// Whether the header fields of HTTP/2 requests are printed on standard error.
    pub prints_http2_headers: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tls: TlsMode::Disabled,
            connections_max: 10_000,
            streams_max: STREAMS_UNLIMITED,
            keep_alive: KeepAlive::default(),
            pending_max: 4096,
            detection_timeout: Duration::from_secs(120),
            handshake_timeout: Duration::from_secs(10),
            headers_timeout: Duration::from_secs(5 * 60),
            unsent_total_bytes_max: UNSENT_TOTAL_BYTES_MAX,
            unsent_grace: UNSENT_GRACE,
            half_closed_grace: Duration::from_secs(1),
            closes_unknown_protocols: false,
            log_protocol_errors: false,
            prints_http2_headers: false,
        }
    }
}

/// HTTP/2 keep-alive settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The least time between two pings of a client that has a call in flight.
    pub min_time: Duration,
    /// The silence after which the server pings a client.
    pub interval: Duration,
    /// The time a client has to answer that ping before it is disconnected.
    pub timeout: Duration,
}

/// Added to the longest silence of a client that answers pings, so that hyper's keep-alive notices
/// first.
const SILENCE_SLACK: Duration = Duration::from_secs(1);
/// Longer than any connection lasts, and short enough to be added to an `Instant`.
const SILENCE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl KeepAlive {
    /// grpc-go's default where etcd sets no `min_time`.
    const MIN_TIME_UNSET: Duration = Duration::from_secs(5 * 60);

    /// Builds the settings from `--grpc-keepalive-min-time`, `--grpc-keepalive-interval` and
    /// `--grpc-keepalive-timeout`, each zero if not positive.
    ///
    /// Compat: as in etcd, zero disables nothing, despite the flags' help texts. It selects
    /// grpc-go's defaults: five minutes for the first; for the other two, a zero in either resets
    /// both to the defaults they have anyway.
    pub fn from_flags(min_time: Duration, interval: Duration, timeout: Duration) -> Self {
        let min_time = if min_time.is_zero() { Self::MIN_TIME_UNSET } else { min_time };
        if interval.is_zero() || timeout.is_zero() {
            return Self { min_time, ..Self::default() };
        }
        Self { min_time, interval, timeout }
    }

    /// Returns the longest silence of a client that answers pings.
    pub(crate) fn silence_max(&self) -> Duration {
        let silence = self.interval.saturating_add(self.timeout).saturating_add(SILENCE_SLACK);
        silence.min(SILENCE_MAX)
    }
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            min_time: Duration::from_secs(5),
            interval: Duration::from_secs(2 * 60 * 60),
            timeout: Duration::from_secs(20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_flag_selects_grpc_gos_default() {
        let (second, zero) = (Duration::from_secs(1), Duration::ZERO);
        let defaults = KeepAlive::default();

        let all = KeepAlive { min_time: second, interval: 2 * second, timeout: 3 * second };
        assert_eq!(KeepAlive::from_flags(second, 2 * second, 3 * second), all);

        let stricter = KeepAlive { min_time: 300 * second, ..all };
        assert_eq!(KeepAlive::from_flags(zero, 2 * second, 3 * second), stricter);

        let discarded = KeepAlive { min_time: second, ..defaults };
        assert_eq!(KeepAlive::from_flags(second, zero, 3 * second), discarded);
        assert_eq!(KeepAlive::from_flags(second, 2 * second, zero), discarded);
    }
}
