//! Text dump of a whole database: one line per bucket and one per pair.
//!
//! ```text
//! bucket 616c706861 seq 2
//! kv 3030303030303031 07080a
//! kv 3030303030303032 -
//! bucket 616c706861/696e6e6572 seq 0
//! ```
//!
//! Bytes are in hex; an empty value is a dash, and a value longer than [`SHORT`] is replaced by its
//! SHA-256. The nested buckets follow the pairs of a bucket. `boltdump` in `interop` writes the
//! same text for a file that it reads with bbolt.

use std::io::{self, Write};

use bolt::{Bucket, CorruptPage, Snapshot};

use crate::sha256::sha256;

/// Maximum number of bytes printed in hex.
const SHORT: usize = 1024;

/// Writes the contents of a state as text.
pub(crate) fn dump(snapshot: &Snapshot, to: &mut dyn Write) -> io::Result<()> {
    inner_buckets(&snapshot.root(), "", to)
}

fn bucket(bucket: &Bucket<'_>, path: &str, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "bucket {path} seq {}", bucket.sequence())?;
    let mut cursor = bucket.cursor();
    while let Some(item) = cursor.next().map_err(into_io_error)? {
        if let Some(value) = item.value {
            writeln!(to, "kv {} {}", text(item.key), text(value))?;
        }
    }
    inner_buckets(bucket, &format!("{path}/"), to)
}

fn inner_buckets(outer: &Bucket<'_>, path: &str, to: &mut dyn Write) -> io::Result<()> {
    let mut cursor = outer.cursor();
    while let Some(item) = cursor.next().map_err(into_io_error)? {
        if item.value.is_none()
            && let Some(inner) = outer.bucket(item.key).map_err(into_io_error)?
        {
            bucket(&inner, &format!("{path}{}", hex(item.key)), to)?;
        }
    }
    Ok(())
}

fn into_io_error(corrupt: CorruptPage) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, corrupt)
}

fn text(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "-".to_owned(),
        1..=SHORT => hex(bytes),
        _ => format!("sha256:{}", hex(&sha256(bytes))),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
