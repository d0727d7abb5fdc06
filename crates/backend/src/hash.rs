//! The hash of the whole file, as returned by etcd's maintenance API.

use bolt::Snapshot;

use crate::backend::Backend;
use crate::error::HashError;

impl Backend {
    /// Commits pending writes and returns the CRC-32C of all bucket names, keys and values, in file
    /// order. Skips keys for which `ignore` returns true; etcd uses
    /// [`ignored_by_hash`](crate::schema::ignored_by_hash).
    pub fn hash(&self, ignore: &dyn Fn(&[u8], &[u8]) -> bool) -> Result<u32, HashError> {
        hash(&self.snapshot()?, ignore)
    }
}

fn hash(snapshot: &Snapshot, ignore: &dyn Fn(&[u8], &[u8]) -> bool) -> Result<u32, HashError> {
    let (root, mut sum) = (snapshot.root(), 0);
    for top in root.cursor().rest() {
        let name = top?.key;
        let bucket = root.bucket(name)?.ok_or_else(|| HashError::NotABucket(name.to_vec()))?;
        sum = crc32c::crc32c_append(sum, name);
        for item in bucket.cursor().rest() {
            let item = item?;
            if !ignore(name, item.key) {
                sum = crc32c::crc32c_append(sum, item.key);
                sum = crc32c::crc32c_append(sum, item.value.unwrap_or_default());
            }
        }
    }
    Ok(sum)
}
