//! HTTP/2 by the frame, for what clients of libraries never do: a connection that pings too often, and what a server announces first.
//!
//! ```text
//!   length (3)  type (1)  flags (1)  stream (4)  payload
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::PATIENCE;

/// What a client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Longest payload that is read: what a server may send unless told otherwise.
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// Types of frames.
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// A setting: streams at a time.
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// A connection.
#[derive(Debug)]
pub struct Connection(TcpStream);

/// Why a server ends a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// The error code: 0 none, 11 "enhance your calm".
    pub code: u32,
    /// What it adds.
    pub text: String,
}

struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl Connection {
    /// Connects to `host:port`, with no settings of our own.
    pub fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut connection = Connection(stream);
        connection.0.write_all(PREFACE)?;
        connection.write(SETTINGS, &[])?;
        Ok(connection)
    }

    /// How many streams at a time the server allows, if it says so in its first settings.
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

    /// Waits until the server ends the connection, and says why.
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
        let length = u8::try_from(payload.len()).expect("no frame of ours is long");
        self.0.write_all(&[&[0, 0, length, kind, 0, 0, 0, 0, 0], payload].concat())
    }

    fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let [a, b, c, kind, ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(io::Error::other("a frame that is too long"));
        }
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload)?;
        Ok(Frame { kind, payload })
    }
}

/// A setting in the payload of a frame of settings: an id of two bytes and a value of four, each.
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
