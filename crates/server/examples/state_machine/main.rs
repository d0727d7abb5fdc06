//! The state machine behind a pipe, as if it were a cluster of one: to be compared with etcd, request by request.
//!
//! ```text
//!   request   u32 length | u8 method | u8 length of user | user | message          numbers big-endian
//!   reply     u32 length | u8 gRPC code | message, or the text of the error
//! ```
//!
//! `state_machine FOLDER [--ttl-min SECONDS]` reads requests from its input until that ends. Each is checked, proposed to a log that nobody else writes to, applied, and
//! answered, as the server does it; the folder holds the database. What etcd does with time, this does at once: compactions are
//! finished before the next request, and watchers are caught up when their stream is asked for.

mod answer;
mod driver;
mod users;
mod watch;

use std::io::{self, BufReader, BufWriter, Read, Write};

use anyhow::{Context as _, bail};
use bytes::Bytes;

use driver::{Driver, Frame};

/// No request is longer.
const FRAME_BYTES_MAX: usize = 64 << 20;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut driver = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder] => Driver::open(folder.as_ref(), lease::TTL_MIN_SECONDS_DEFAULT)?,
        [folder, "--ttl-min", seconds] => Driver::open(folder.as_ref(), seconds.parse()?)?,
        _ => bail!("usage: state_machine FOLDER [--ttl-min SECONDS]"),
    };
    let (mut input, mut output) = (BufReader::new(io::stdin()), BufWriter::new(io::stdout()));
    while let Some(frame) = read_frame(&mut input)? {
        let (code, payload) = match driver.answer(&frame)? {
            Ok(message) => (0, message),
            Err(refused) => (refused.code, Bytes::from(refused.text)),
        };
        let len = u32::try_from(1 + payload.len()).context("answer is too long")?;
        output.write_all(&len.to_be_bytes())?;
        output.write_all(&[code])?;
        output.write_all(&payload)?;
        output.flush()?;
    }
    driver.close()
}

fn read_frame(input: &mut impl Read) -> anyhow::Result<Option<Frame>> {
    let mut len = [0; 4];
    match input.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_be_bytes(len) as usize;
    if !(2..=FRAME_BYTES_MAX).contains(&len) {
        bail!("a frame of {len} bytes");
    }
    let mut bytes = vec![0; len];
    input.read_exact(&mut bytes)?;
    let bytes = Bytes::from(bytes);
    let user_end = 2 + usize::from(bytes[1]);
    let user = bytes.get(2..user_end).context("the user is cut short")?;
    let user = String::from_utf8(user.to_vec())?;
    Ok(Some(Frame { method: bytes[0], user, payload: bytes.slice(user_end..) }))
}
