//! Summaries of a database file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use backend::BackendView;
use backend::schema::revision::RevisionKey;
use backend::schema::{Bucket, version};
use bolt::Snapshot;
use prost::Message as _;
use prost::bytes::Bytes;
use proto::mvccpb::KeyValue;

/// Returns the line of JSON that `etcdutl snapshot status -w json` prints.
pub(crate) fn status(file: &Snapshot) -> anyhow::Result<String> {
    let errors = file.check();
    ensure!(errors.is_empty(), "{} errors, the first: {}", errors.len(), errors[0]);
    let (hash, keys) = (hash(file)?, Keys::read(file)?);
    let version = version::storage(&BackendView::of_file(file.clone()))?;
    let version = version.map_or(String::new(), |version| version.to_string());
    Ok(format!(
        r#"{{"hash":{hash},"revision":{},"totalKey":{},"totalSize":{},"version":"{version}"}}"#,
        keys.revision,
        keys.live.len(),
        file.size()
    ))
}

/// Returns a line per bucket.
pub(crate) fn buckets(file: &Snapshot) -> anyhow::Result<String> {
    let mut lines = String::new();
    each_bucket(file, |name, bucket| {
        Ok(writeln!(lines, "{} {}", name.escape_ascii(), bucket.stats()?.keys)?)
    })?;
    Ok(lines)
}

/// CRC-32C of all bucket names, keys and values. Unlike the hash of a member, it skips nothing.
fn hash(file: &Snapshot) -> anyhow::Result<u32> {
    let mut sum = 0;
    each_bucket(file, |name, bucket| {
        sum = crc32c::crc32c_append(sum, name);
        for item in bucket.cursor().rest() {
            let item = item?;
            sum = crc32c::crc32c_append(sum, item.key);
            sum = crc32c::crc32c_append(sum, item.value.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(sum)
}

fn each_bucket(
    file: &Snapshot,
    mut look: impl FnMut(&[u8], bolt::Bucket<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let root = file.root();
    for top in root.cursor().rest() {
        let name = top?.key;
        let Some(bucket) = root.bucket(name)? else {
            bail!("{} is not a bucket", name.escape_ascii())
        };
        look(name, bucket)?;
    }
    Ok(())
}

/// Totals of the key history.
#[derive(Default)]
struct Keys {
    revision: i64,
    live: BTreeSet<Bytes>,
}

impl Keys {
    fn read(file: &Snapshot) -> anyhow::Result<Keys> {
        let mut keys = Keys::default();
        let Some(bucket) = file.bucket(Bucket::Key.name().as_bytes())? else { return Ok(keys) };
        for item in bucket.cursor().rest() {
            let item = item?;
            let at = RevisionKey::decode(item.key).context("parse revision")?;
            let change =
                KeyValue::decode(item.value.unwrap_or_default()).context("decode change")?;
            keys.revision = at.revision.main;
            match at.tombstone {
                true => keys.live.remove(&change.key),
                false => keys.live.insert(change.key),
            };
        }
        Ok(keys)
    }
}
