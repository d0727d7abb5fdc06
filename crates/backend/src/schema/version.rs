//! The storage version of the file, and migration between versions.
//!
//! ```text
//!   3.5 ──────────────────────► 3.6 ──────────────────────► 3.7
//!        + meta/storageVersion       only the version text
//! ```
//!
//! Migrations go both ways, one minor version at a time. Files before 3.6 do not store their
//! version: it is 3.5 if they have a `term`, and unknown otherwise. A member starts on a file of
//! unknown version (3.4, or 3.5 before its first snapshot), but does not migrate it.

use std::fmt;

use bytes::Bytes;

use crate::error::ReadError;
use crate::read::Read;
use crate::schema::{Bucket, meta};
use crate::tx::Tx;
use types::Term;

/// The first version that is stored in the file.
const FIRST: Version = Version { major: 3, minor: 6 };

/// The version that this code writes.
pub const CURRENT: Version = Version { major: 3, minor: 7 };

/// Maximum length of a version text, in bytes.
const TEXT_MAX: usize = 64;

/// A minor version: `3.7.0` is 3.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3 in 3.7.0.
    pub major: u32,
    /// 7 in 3.7.0.
    pub minor: u32,
}

impl Version {
    /// Creates a version.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Version {
        Version { major, minor }
    }

    /// Parses `3.7.2` or `3.7.0-rc.0+abc`. Returns `None` for another format.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Version> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_MAX)?;
        let release = text.split(['-', '+']).next()?;
        let mut numbers = release.split('.').map(number);
        let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(Version { major, minor })
    }

    /// Returns the version one minor step closer to `target`.
    fn step_toward(self, target: Version) -> Version {
        let minor = if self.minor < target.minor { self.minor + 1 } else { self.minor - 1 };
        Version { minor, ..self }
    }
}

fn number(digits: &str) -> Option<u32> {
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.0", self.major, self.minor)
    }
}

/// Reason why the version of a file is unknown. The text is etcd's.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The file has neither a version nor a term.
    #[error("missing term information")]
    MissingTerm,
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reason why no migration path exists. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The major versions differ.
    #[error("changing major storage version is not supported")]
    Major,
    /// A step involves a version that this code does not know.
    #[error("version \"{0}\" is not supported")]
    Unsupported(Version),
}

/// Reason why a file could not be migrated. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The current version is unknown.
    #[error("cannot detect storage schema version: {0}")]
    Detect(#[from] DetectError),
    /// There is no migration path.
    #[error("cannot create migration plan: {0}")]
    Plan(#[from] PlanError),
    /// The log has entries that the older version cannot read.
    #[error(
        "cannot downgrade storage, WAL contains newer entries, as the target version ({target}) is lower than the version ({log}) detected from WAL logs"
    )]
    NewerLog {
        /// The target version.
        target: Version,
        /// The version that the log requires.
        log: Version,
    },
}

/// Returns the version stored in the file. Compat: as in etcd, an invalid text counts as none.
pub fn storage(from: &impl Read) -> Result<Option<Version>, ReadError> {
    let text = from.get(Bucket::Meta, meta::STORAGE_VERSION)?;
    Ok(text.and_then(|text| Version::parse(&text)))
}

/// Returns the version of the file, stored or inferred.
pub fn detect(from: &impl Read) -> Result<Version, DetectError> {
    if let Some(version) = storage(from)? {
        return Ok(version);
    }
    match meta::applied(from)? {
        (_, Term::ZERO) => Err(DetectError::MissingTerm),
        _ => Ok(Version::new(3, 5)),
    }
}

/// Verifies that a member of this version may start on the file.
pub fn validate(from: &impl Read) -> Result<(), MigrateError> {
    match detect(from) {
        Ok(version) => Ok(plan(version, CURRENT).map(|_| ())?),
        Err(DetectError::MissingTerm) => {
            tracing::warn!(
                "storage version unknown: wait for a snapshot before upgrading the cluster"
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Migrates the file to a version. Returns the intermediate versions, to be logged after the
/// commit. `log` is the oldest version that can read the log, if it has relevant entries.
pub fn migrate(
    tx: &mut Tx<'_>,
    target: Version,
    log: Option<Version>,
) -> Result<Vec<Version>, MigrateError> {
    let current = detect(tx)?;
    let steps = plan(current, target)?;
    if let Some(log) = log
        && target < current
        && target < log
    {
        return Err(MigrateError::NewerLog { target, log });
    }
    for version in &steps {
        if *version < FIRST {
            tx.delete(Bucket::Meta, Bytes::from_static(meta::STORAGE_VERSION));
        } else {
            tx.set(Bucket::Meta, meta::STORAGE_VERSION, Bytes::from(version.to_string()));
        }
    }
    Ok(steps)
}

/// Returns the versions on the path from `current` to `target`, without the first.
fn plan(current: Version, target: Version) -> Result<Vec<Version>, PlanError> {
    if current.major != target.major {
        return Err(PlanError::Major);
    }
    let (mut steps, mut at) = (Vec::new(), current);
    while at != target {
        let next = at.step_toward(target);
        // The change of a step belongs to the newer of its two versions.
        let newer = at.max(next);
        if newer.major != FIRST.major || !(FIRST.minor..=CURRENT.minor).contains(&newer.minor) {
            return Err(PlanError::Unsupported(newer));
        }
        steps.push(next);
        at = next;
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V3_4: Version = Version::new(3, 4);
    const V3_5: Version = Version::new(3, 5);
    const V3_6: Version = Version::new(3, 6);
    const V3_7: Version = Version::new(3, 7);
    const V3_8: Version = Version::new(3, 8);

    #[test]
    fn versions_are_parsed_and_formatted() {
        for text in ["3.7.0", "3.7.2", "3.7.0-rc.1", "3.7.0+git", "3.7.0-alpha.0+x.y"] {
            assert_eq!(Version::parse(text.as_bytes()), Some(V3_7), "{text}");
        }
        for text in ["", "3", "3.7", "3.7.x", "3.7.0.1", "v3.7.0", "+3.7.0", "-3.7.0", "3..0"] {
            assert_eq!(Version::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(V3_7.to_string(), "3.7.0");
    }

    #[test]
    fn a_migration_moves_one_minor_version_at_a_time() {
        assert_eq!(plan(V3_5, V3_7), Ok(vec![V3_6, V3_7]));
        assert_eq!(plan(V3_7, V3_5), Ok(vec![V3_6, V3_5]));
        assert_eq!(plan(V3_7, V3_7), Ok(vec![]));
        assert_eq!(plan(V3_8, V3_8), Ok(vec![]), "no step is needed");
    }

    #[test]
    fn unsupported_migrations_are_refused_with_etcds_texts() {
        let refused = |from, to| plan(from, to).unwrap_err().to_string();
        assert_eq!(refused(V3_8, V3_7), "version \"3.8.0\" is not supported");
        assert_eq!(refused(V3_7, V3_8), "version \"3.8.0\" is not supported");
        assert_eq!(refused(V3_5, V3_4), "version \"3.5.0\" is not supported");
        assert_eq!(refused(V3_4, V3_7), "version \"3.5.0\" is not supported");
        let major = "changing major storage version is not supported";
        assert_eq!(refused(Version::new(4, 0), V3_7), major);
    }
}
