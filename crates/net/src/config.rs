//! What a listener grants its connections, with etcd's defaults.
//!
//! Two groups: what an operator sets by flags ([`Config::connections_max`], [`Config::streams_max`], [`KeepAlive`]), and what only tests
//! set, because a test cannot wait for five minutes. The rest are constants.

use std::time::Duration;

use crate::open::TlsMode;

/// A [`Config::streams_max`] that limits nothing, and is not announced to clients either: etcd's default.
pub const STREAMS_UNLIMITED: u32 = u32::MAX;
/// The headers of one request. Names, values and, for HTTP/2, 32 bytes for each field.
pub const HEADER_BYTES_MAX: u32 = 64 << 10;
/// Streams that a client opened and reset before they could be looked at. A client that gives up on hundreds of calls at once must not
/// lose its connection; one that opens and resets streams for the sake of it does ("rapid reset").
pub const PENDING_RESETS_MAX: usize = 1024;
/// Streams that were reset for an error of the client, over the life of a connection.
pub const LOCAL_RESETS_MAX: usize = 1024;

/// What a client may send on one stream before it is read. A put of 1.5 MiB, etcd's largest by default, then takes two round trips; the
/// 64 KiB that HTTP/2 starts with would take 24.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The same for all streams of a connection together. More than one stream can take, so that a request which nobody reads yet does not
/// hold up the others. (grpc-go gives this window back as soon as something has arrived, and so has no bound for a connection.)
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// What is buffered of a response whose client does not read, beside the piece that was handed over last. Enough to keep 2 Gbit/s busy over a millisecond.
pub(crate) const SEND_BUFFER_BYTES: usize = 256 << 10;
/// The largest frame that a client may send: the smallest maximum that HTTP/2 knows, and that of grpc-go.
pub(crate) const FRAME_BYTES_MAX: u32 = 16 << 10;
/// Header fields of a request of HTTP/1.
pub(crate) const HTTP1_HEADERS_MAX: usize = 256;

/// How a listener treats its connections.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether TLS is spoken.
    pub tls: TlsMode,
    /// Connections at a time. More wait in the backlog. See [`connections_max`](crate::connections_max).
    pub connections_max: u32,
    /// Streams at a time on a connection of HTTP/2; the flag `--max-concurrent-streams`.
    pub streams_max: u32,
    /// Pings, ours and theirs.
    pub keep_alive: KeepAlive,
    /// Connections at a time that have not said what they speak, or are still at their handshake. For one more, the first of them is cut: a crowd that says
    /// nothing makes room by itself.
    pub pending_max: usize,
    /// Time to say which protocol is spoken, and to finish the first frame of HTTP/2. That of grpc-go.
    pub detection_timeout: Duration,
    /// Time for a handshake of TLS. That of etcd.
    pub handshake_timeout: Duration,
    /// Time for the headers of a request, once begun; for HTTP/1 also the time a connection may wait for its next request.
    pub headers_timeout: Duration,
    /// Whether the log is warned of whoever speaks no HTTP: where nobody comes but those who should.
    pub log_protocol_errors: bool,
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
            log_protocol_errors: false,
        }
    }
}

/// Pings of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The least time between two pings of a client that has a call running.
    pub min_time: Duration,
    /// A connection that has been silent for so long is pinged.
    pub interval: Duration,
    /// And cut if it says nothing for so long.
    pub timeout: Duration,
}

/// What is added to the longest silence of a client that answers pings, so that whoever pings it is the first to notice.
const SILENCE_SLACK: Duration = Duration::from_secs(1);
/// Longer than any connection lasts, and not too long to be added to a point in time.
const SILENCE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl KeepAlive {
    /// What grpc-go takes where etcd sets no `min_time`.
    const MIN_TIME_UNSET: Duration = Duration::from_secs(5 * 60);

    /// From `--grpc-keepalive-min-time`, `--grpc-keepalive-interval` and `--grpc-keepalive-timeout`, zero for what is not positive.
    ///
    /// Compat: as in etcd, zero disables nothing, whatever the help text of these flags says. It leaves grpc-go to its own defaults: five minutes for
    /// the first, and for the other two, of which either zero discards both, what they are by default anyway.
    pub fn from_flags(min_time: Duration, interval: Duration, timeout: Duration) -> Self {
        let min_time = if min_time.is_zero() { Self::MIN_TIME_UNSET } else { min_time };
        if interval.is_zero() || timeout.is_zero() {
            return Self { min_time, ..Self::default() };
        }
        Self { min_time, interval, timeout }
    }

    /// The longest that nothing is heard of a client that answers pings.
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
    fn a_zero_flag_means_what_grpc_go_makes_of_it() {
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
