//! The bucket `cluster`: the cluster version, and a pending downgrade.

use bytes::Bytes;
use serde_json::Value as Json;

use crate::error::ReadError;
use crate::read::Read;
use crate::schema::Bucket;
use crate::schema::version::Version;
use crate::tx::Tx;

/// The cluster version, as text.
pub const CLUSTER_VERSION: &[u8] = b"clusterVersion";
/// The downgrade state, as JSON.
pub const DOWNGRADE: &[u8] = b"downgrade";

/// Maximum size of the JSON that is parsed. etcd writes about fifty bytes.
const JSON_BYTES_MAX: usize = 4096;

/// The downgrade state of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Downgrade {
    /// A downgrade is in progress.
    pub enabled: bool,
    /// The target version; empty without a downgrade.
    pub target_version: String,
}

/// Returns the cluster version; `None` before the members agreed on one.
pub fn version(from: &impl Read) -> Result<Option<Version>, ReadError> {
    let malformed = || ReadError::malformed(Bucket::Cluster, CLUSTER_VERSION, "not a version");
    match from.get(Bucket::Cluster, CLUSTER_VERSION)? {
        None => Ok(None),
        Some(text) => Version::parse(&text).map(Some).ok_or_else(malformed),
    }
}

/// Sets the cluster version.
pub fn set_version(tx: &mut Tx<'_>, version: Version) {
    tx.set(Bucket::Cluster, CLUSTER_VERSION, Bytes::from(version.to_string()));
}

/// Returns the downgrade state; `None` if no downgrade was ever requested.
pub fn downgrade(from: &impl Read) -> Result<Option<Downgrade>, ReadError> {
    let malformed = |reason| ReadError::malformed(Bucket::Cluster, DOWNGRADE, reason);
    let Some(text) = from.get(Bucket::Cluster, DOWNGRADE)? else { return Ok(None) };
    let downgrade =
        decode_downgrade(&text).ok_or_else(|| malformed("invalid JSON of a downgrade"))?;
    if downgrade.enabled && Version::parse(downgrade.target_version.as_bytes()).is_none() {
        return Err(malformed("the target is not a version"));
    }
    Ok(Some(downgrade))
}

/// Sets the downgrade state.
pub fn set_downgrade(tx: &mut Tx<'_>, downgrade: &Downgrade) {
    let target = Json::from(downgrade.target_version.as_str());
    // In etcd's order of fields.
    let text = format!(r#"{{"target-version":{target},"enabled":{}}}"#, downgrade.enabled);
    tx.set(Bucket::Cluster, DOWNGRADE, Bytes::from(text));
}

/// Decodes as Go does: missing fields are empty, unknown ones are skipped.
fn decode_downgrade(text: &[u8]) -> Option<Downgrade> {
    if text.len() > JSON_BYTES_MAX {
        return None;
    }
    let json: Json = serde_json::from_slice(text).ok()?;
    let fields = json.as_object()?;
    let enabled = fields.get("enabled").map_or(Some(false), Json::as_bool)?;
    let target_version = fields.get("target-version").map_or(Some(""), Json::as_str)?.to_owned();
    Some(Downgrade { enabled, target_version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downgrade_written_by_etcd_decodes() {
        let on = decode_downgrade(br#"{"target-version":"3.6.0","enabled":true}"#).unwrap();
        assert_eq!(on, Downgrade { enabled: true, target_version: "3.6.0".to_owned() });
        let off = decode_downgrade(br#"{"target-version":"","enabled":false}"#).unwrap();
        assert_eq!(off, Downgrade::default());
        assert_eq!(decode_downgrade(b"{}"), Some(Downgrade::default()));
        assert_eq!(decode_downgrade(br#"{"enabled":"yes"}"#), None);
        assert_eq!(decode_downgrade(&vec![b' '; JSON_BYTES_MAX + 1]), None);
    }
}
