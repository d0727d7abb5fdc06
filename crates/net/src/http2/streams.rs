//! The calls in flight on a connection.

use std::collections::BTreeSet;

use super::frames::{Frame, kind};

/// The streams on which the server has not finished its response.
///
/// Bounded by the connection's limit on streams: h2 resets a stream above it, which removes it
/// here.
#[derive(Debug, Default)]
pub(super) struct Streams {
    running: BTreeSet<u32>,
    /// The highest stream id that the client has opened.
    last: u32,
}

impl Streams {
    pub(super) fn on_received(&mut self, frame: Frame) {
        match frame.kind {
            // Neither trailers of a known stream, nor ids that only servers use.
            kind::HEADERS if frame.stream > self.last && frame.stream % 2 == 1 => {
                self.last = frame.stream;
                self.running.insert(frame.stream);
            }
            kind::RST_STREAM => {
                self.running.remove(&frame.stream);
            }
            _ => {}
        }
    }

    pub(super) fn on_sent(&mut self, frame: Frame) {
        if frame.ends_stream() || frame.kind == kind::RST_STREAM {
            self.running.remove(&frame.stream);
        }
    }

    pub(super) fn any_running(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u8 = 1;

    fn frame(kind: u8, flags: u8, stream: u32) -> Frame {
        Frame { length: 0, kind, flags, stream }
    }

    #[test]
    fn a_call_is_in_flight_from_its_headers_to_the_end_of_the_response() {
        let mut streams = Streams::default();
        streams.on_received(frame(kind::HEADERS, END, 1));
        streams.on_received(frame(kind::HEADERS, 0, 3));
        assert!(streams.any_running());
        streams.on_sent(frame(kind::HEADERS, 0, 1));
        streams.on_sent(frame(kind::DATA, END, 1));
        assert!(streams.any_running());
        streams.on_received(frame(kind::DATA, END, 3));
        assert!(streams.any_running(), "the client is done, the server is not");
        streams.on_sent(frame(kind::HEADERS, END, 3));
        assert!(!streams.any_running());
        assert_eq!(streams.last(), 3);
    }

    #[test]
    fn a_reset_from_either_side_ends_a_call() {
        let mut streams = Streams::default();
        streams.on_received(frame(kind::HEADERS, 0, 1));
        streams.on_received(frame(kind::RST_STREAM, 0, 1));
        assert!(!streams.any_running());
        streams.on_received(frame(kind::HEADERS, 0, 3));
        streams.on_sent(frame(kind::RST_STREAM, 0, 3));
        assert!(!streams.any_running());
    }

    #[test]
    fn frames_of_ended_or_invalid_streams_open_no_call() {
        let mut streams = Streams::default();
        streams.on_received(frame(kind::HEADERS, 0, 5));
        streams.on_sent(frame(kind::HEADERS, END, 5));
        streams.on_received(frame(kind::HEADERS, END, 5));
        streams.on_received(frame(kind::RST_STREAM, 0, 5));
        streams.on_received(frame(kind::HEADERS, END, 3));
        streams.on_received(frame(kind::HEADERS, END, 8));
        assert!(!streams.any_running());
        assert_eq!(streams.last(), 5);
    }
}
