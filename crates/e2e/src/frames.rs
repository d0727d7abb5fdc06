//! HTTP/2 frames by hand, for what client libraries never do: ping too often, read SETTINGS.
//!
//! ```text
//!   length (3)  type (1)  flags (1)  stream (4)  payload
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::TIMEOUT;

/// The client connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum payload: HTTP/2's default maximum frame size.
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// Frame types.
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const HEADERS: u8 = 1;
/// Flag of the last frame of a header block.
const END_HEADERS: u8 = 4;
/// Id of the setting SETTINGS_MAX_CONCURRENT_STREAMS.
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// A connection.
#[derive(Debug)]
pub struct Connection(TcpStream);

/// A GOAWAY frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// Error code: 0 is NO_ERROR, 1 is PROTOCOL_ERROR, 11 is ENHANCE_YOUR_CALM.
    pub code: u32,
    /// Debug data.
    pub text: String,
}

struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl Connection {
    /// Connects to `host:port` with empty settings.
    pub fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut connection = Connection(stream);
        connection.0.write_all(PREFACE)?;
        connection.write(SETTINGS, &[])?;
        Ok(connection)
    }

    /// Returns the limit on concurrent streams in the server's first settings, if there is one.
    pub fn streams_max(&mut self) -> io::Result<Option<u32>> {
        loop {
            let frame = self.read()?;
            if frame.kind == SETTINGS && !frame.payload.is_empty() {
                return Ok(setting(&frame.payload, MAX_CONCURRENT_STREAMS));
            }
        }
    }

    /// Sends a ping.
    pub fn ping(&mut self) -> io::Result<()> {
        self.write(PING, &[0; 8])
    }

    /// Sends the headers of a POST on stream 1.
    pub fn post(&mut self, path: &str) -> io::Result<()> {
        let length = u8::try_from(path.len()).expect("our paths are short");
        // Two indexed fields, method and scheme; a path that is added to the dynamic table.
        let block = [&[0x83, 0x86, 0x44, length], path.as_bytes()].concat();
        let length = u8::try_from(block.len()).expect("our frames are short");
        let header = [0, 0, length, HEADERS, END_HEADERS, 0, 0, 0, 1];
        self.0.write_all(&[&header, &block[..]].concat())
    }

    /// Waits for the server's GOAWAY frame.
    pub fn wait_for_go_away(&mut self) -> io::Result<GoAway> {
        loop {
            let frame = self.read()?;
            if let (GOAWAY, [_, _, _, _, code @ ..]) = (frame.kind, &frame.payload[..])
                && let Some((code, text)) = code.split_first_chunk()
            {
                let text = String::from_utf8_lossy(text).into_owned();
                return Ok(GoAway { code: u32::from_be_bytes(*code), text });
            }
        }
    }

    fn write(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let length = u8::try_from(payload.len()).expect("our frames are short");
        self.0.write_all(&[&[0, 0, length, kind, 0, 0, 0, 0, 0], payload].concat())
    }

    fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let [a, b, c, kind, ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(io::Error::other("frame exceeds the maximum size"));
        }
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload)?;
        Ok(Frame { kind, payload })
    }
}

/// Finds a setting in the payload of a SETTINGS frame: ids of two bytes, values of four.
fn setting(payload: &[u8], wanted: u16) -> Option<u32> {
    let (settings, _) = payload.as_chunks::<6>();
    settings.iter().find_map(|&[i, j, a, b, c, d]| {
        (u16::from_be_bytes([i, j]) == wanted).then(|| u32::from_be_bytes([a, b, c, d]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_among_others() {
        let payload = [0, 5, 0, 0, 64, 0, 0, 3, 0, 0, 0, 7];
        assert_eq!(setting(&payload, MAX_CONCURRENT_STREAMS), Some(7));
        assert_eq!(setting(&payload[..6], MAX_CONCURRENT_STREAMS), None);
    }
}
