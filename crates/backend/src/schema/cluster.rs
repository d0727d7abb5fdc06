//! The bucket `cluster`: which version the members speak, and whether they are on their way to an older one.

use bytes::Bytes;
use serde_json::Value as Json;

use crate::error::ReadError;
use crate::read::Read;
use crate::schema::Bucket;
use crate::schema::version::Version;
use crate::tx::Tx;

/// The version that all members speak, as text.
pub const CLUSTER_VERSION: &[u8] = b"clusterVersion";
/// Whether the cluster is on its way to an older version, as JSON.
pub const DOWNGRADE: &[u8] = b"downgrade";

/// Most bytes of JSON that are looked at. What etcd writes has some fifty.
const JSON_BYTES_MAX: usize = 4096;

/// Whether the cluster is on its way to an older version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Downgrade {
    /// Whether it is.
    pub enabled: bool,
    /// Where to. Empty if it is not.
    pub target_version: String,
}

/// The version that all members speak; none before they have agreed on one.
pub fn version(from: &impl Read) -> Result<Option<Version>, ReadError> {
    let malformed = || ReadError::malformed(Bucket::Cluster, CLUSTER_VERSION, "not a version");
    match from.get(Bucket::Cluster, CLUSTER_VERSION)? {
        None => Ok(None),
        Some(text) => Version::parse(&text).map(Some).ok_or_else(malformed),
    }
}

/// Sets the version that all members speak.
pub fn set_version(tx: &mut Tx<'_>, version: Version) {
    tx.set(Bucket::Cluster, CLUSTER_VERSION, Bytes::from(version.to_string()));
}

/// Whether the cluster is on its way to an older version; none if that was never asked for.
pub fn downgrade(from: &impl Read) -> Result<Option<Downgrade>, ReadError> {
    let malformed = |reason| ReadError::malformed(Bucket::Cluster, DOWNGRADE, reason);
    let Some(text) = from.get(Bucket::Cluster, DOWNGRADE)? else { return Ok(None) };
    let downgrade = decode_downgrade(&text).ok_or_else(|| malformed("not a downgrade as JSON"))?;
    if downgrade.enabled && Version::parse(downgrade.target_version.as_bytes()).is_none() {
        return Err(malformed("its target is not a version"));
    }
    Ok(Some(downgrade))
}

/// Sets whether the cluster is on its way to an older version.
pub fn set_downgrade(tx: &mut Tx<'_>, downgrade: &Downgrade) {
    let target = Json::from(downgrade.target_version.as_str());
    // In etcd's order of fields.
    let text = format!(r#"{{"target-version":{target},"enabled":{}}}"#, downgrade.enabled);
    tx.set(Bucket::Cluster, DOWNGRADE, Bytes::from(text));
}

/// As Go reads it: what is missing is empty, what is unknown is skipped.
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
    fn reads_what_etcd_writes() {
        let on = decode_downgrade(br#"{"target-version":"3.6.0","enabled":true}"#).unwrap();
        assert_eq!(on, Downgrade { enabled: true, target_version: "3.6.0".to_owned() });
        let off = decode_downgrade(br#"{"target-version":"","enabled":false}"#).unwrap();
        assert_eq!(off, Downgrade::default());
        assert_eq!(decode_downgrade(b"{}"), Some(Downgrade::default()));
        assert_eq!(decode_downgrade(br#"{"enabled":"yes"}"#), None);
        assert_eq!(decode_downgrade(&vec![b' '; JSON_BYTES_MAX + 1]), None);
    }
}
