//! The oldest etcd version that understands a log.
//!
//! Every message, field and enum value in etcd's `.proto` files is annotated with the release that
//! introduced it. A log requires the newest release of everything that its entries use, and a
//! cluster must not be downgraded below it. After a put with `ignore_value`:
//!
//! ```text
//! InternalRaftRequest            3.0
//!   header  RequestHeader        3.0
//!   put     PutRequest           3.0
//!     ignore_value               3.2    ◄ the log needs 3.2
//! ```
//!
//! Compat: as in etcd, repeated fields are not inspected, so the content of a transaction does not
//! count; a conf change requires 3.0, or 3.4 in its V2 form, whatever it contains.

mod annotations;

use std::fmt;
use std::str::FromStr;

use prost::Message;
use prost::bytes::Bytes;
use proto::nested;
use proto::raftpb::{ConfChange, ConfChangeV2, Entry, EntryType};
use thiserror::Error;

use annotations::VersionAnnotations;

/// A release of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 in 3.7.0.
    pub major: u64,
    /// 7 in 3.7.0.
    pub minor: u64,
    /// 0 in 3.7.0.
    pub patch: u64,
}

impl Version {
    const V3_0: Version = Version { major: 3, minor: 0, patch: 0 };
    const V3_4: Version = Version { major: 3, minor: 4, patch: 0 };
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    /// Parses `3.7.2`, and `3.7` as `3.7.0`.
    fn from_str(text: &str) -> Result<Version, InvalidVersion> {
        let mut numbers = text.splitn(3, '.').map(str::parse::<u64>);
        let mut next = || numbers.next().transpose().map_err(|_| InvalidVersion(text.to_owned()));
        match (next()?, next()?, next()?) {
            (Some(major), Some(minor), patch) => {
                Ok(Version { major, minor, patch: patch.unwrap_or(0) })
            }
            _ => Err(InvalidVersion(text.to_owned())),
        }
    }
}

/// The error of a text that is not a version.
#[derive(Debug, Error)]
#[error("{0:?} is not a version")]
pub struct InvalidVersion(String);

/// Reason why the release that an entry requires is unknown.
#[derive(Debug, Error)]
pub enum VersionError {
    /// The request does not decode.
    #[error("entry {index}: {source}")]
    Decode {
        /// Index of the entry.
        index: u64,
        /// The decoding error.
        source: prost::DecodeError,
    },
    /// An enum field has an unknown value.
    #[error("entry {index}: could not visit EnumNumber [{number}]")]
    UnknownValue {
        /// Index of the entry.
        index: u64,
        /// The value.
        number: u64,
    },
    /// The entry type is unknown.
    #[error("entry {index}: type {number} is unknown")]
    UnknownType {
        /// Index of the entry.
        index: u64,
        /// The type.
        number: i32,
    },
    /// The entry names the release that it requires, and the name is invalid.
    #[error("entry {index}: {source}")]
    InvalidVersion {
        /// Index of the entry.
        index: u64,
        /// The invalid name.
        source: InvalidVersion,
    },
}

/// Returns the oldest release that understands all entries, or `None` without entries.
pub fn minimal_etcd_version<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<Option<Version>, VersionError> {
    entries.into_iter().try_fold(None, |newest, entry| Ok(newest.max(entry_version(entry)?)))
}

fn entry_version(entry: &Entry) -> Result<Option<Version>, VersionError> {
    let number = entry.r#type.unwrap_or_default();
    let data = entry.data.clone().unwrap_or_default();
    match EntryType::try_from(number) {
        Ok(EntryType::EntryNormal) => request_version(entry.index(), &data).map(Some),
        Ok(EntryType::EntryConfChange) => Ok(ConfChange::decode(data).ok().map(|_| Version::V3_0)),
        Ok(EntryType::EntryConfChangeV2) => {
            Ok(ConfChangeV2::decode(data).ok().map(|_| Version::V3_4))
        }
        Err(_) => Err(VersionError::UnknownType { index: entry.index(), number }),
    }
}

fn request_version(index: u64, data: &Bytes) -> Result<Version, VersionError> {
    let decoded = nested::decode_request_around_txn(data.clone());
    let request = decoded.map_err(|source| VersionError::Decode { index, source })?;
    let used = VersionAnnotations::get().newest("etcdserverpb.InternalRaftRequest", data).map_err(
        |e| match e {
            annotations::VisitError::Decode(source) => VersionError::Decode { index, source },
            annotations::VisitError::UnknownValue(number) => {
                VersionError::UnknownValue { index, number }
            }
        },
    )?;
    // A downgrade test request names its required version.
    let tested = request.downgrade_version_test.map(|test| test.ver.parse()).transpose();
    let tested = tested.map_err(|source| VersionError::InvalidVersion { index, source })?;
    Ok(used.max(tested).unwrap_or(Version::V3_0))
}

#[cfg(test)]
mod tests;
