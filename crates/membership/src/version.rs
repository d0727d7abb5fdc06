//! The cluster version, decided from the versions of the members.
//!
//! ```text
//!   members run   cluster version   downgrade to   the leader sets
//!   3.7 3.7 ?     none              -              3.0   a member does not answer
//!   3.7 3.7 3.7   3.0               -              3.7   raised to the oldest member
//!   3.7 3.7 3.6   3.7               -              -     never lowered without a downgrade
//!   3.7 3.7 3.7   3.7               3.6            3.6   lowered by the downgrade
//!   3.6 3.6 3.6   3.6               3.6            -     the downgrade is complete
//! ```
//!
//! Only major and minor numbers count. These are pure functions; `server` queries the members.

use std::ops::RangeInclusive;

use backend::schema::cluster::Downgrade;
use backend::schema::version::{CURRENT, Version};

use crate::error::IncompatibleVersion;

/// The oldest cluster version.
pub const OLDEST: Version = Version::new(3, 0);

/// The reason why a downgrade cannot begin or be canceled. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DowngradeError {
    /// The target is not a version.
    #[error("etcdserver: wrong downgrade target version format")]
    WrongFormat,
    /// The cluster version is not set yet.
    #[error("etcdserver: cluster version not found during downgrade")]
    ClusterVersionUnavailable,
    /// The target is not exactly one minor version lower.
    #[error("etcdserver: invalid downgrade target version")]
    InvalidTarget,
    /// A downgrade is in progress.
    #[error("etcdserver: cluster has a downgrade job in progress")]
    InProcess,
    /// No downgrade is in progress.
    #[error("etcdserver: no inflight downgrade job")]
    NoneInflight,
}

/// Checks that the cluster version is not newer than this release.
pub fn check_server(cluster: Option<Version>) -> Result<(), IncompatibleVersion> {
    match cluster {
        Some(cluster) if cluster > CURRENT => Err(IncompatibleVersion { server: CURRENT, cluster }),
        _ => Ok(()),
    }
}

/// Formats a version as in responses: `3.7`.
#[must_use]
pub fn short(version: Version) -> String {
    format!("{}.{}", version.major, version.minor)
}

/// Parses the target of a downgrade: `3.6` or `3.6.0`. The patch number is ignored.
pub fn downgrade_target(text: &str) -> Result<Version, DowngradeError> {
    Version::parse(text.as_bytes())
        .or_else(|| Version::parse(format!("{text}.0").as_bytes()))
        .ok_or(DowngradeError::WrongFormat)
}

/// Checks whether a downgrade may begin.
pub fn check_downgrade(
    cluster: Option<Version>,
    downgrade: &Downgrade,
    target: Version,
) -> Result<(), DowngradeError> {
    let cluster = cluster.ok_or(DowngradeError::ClusterVersionUnavailable)?;
    if !is_one_down(cluster, target) {
        return Err(DowngradeError::InvalidTarget);
    }
    if downgrade.enabled {
        return Err(DowngradeError::InProcess);
    }
    Ok(())
}

/// Checks whether a downgrade can be canceled.
pub fn check_cancel(downgrade: &Downgrade) -> Result<(), DowngradeError> {
    if downgrade.enabled { Ok(()) } else { Err(DowngradeError::NoneInflight) }
}

/// Returns the new cluster version, if it has to change. `servers` are the versions of the members,
/// `None` for one that does not answer.
pub fn decide(
    cluster: Option<Version>,
    downgrade: &Downgrade,
    servers: impl IntoIterator<Item = Option<Version>>,
) -> Result<Option<Version>, DowngradeError> {
    let oldest = oldest(servers);
    let Some(cluster) = cluster else { return Ok(Some(oldest.unwrap_or(OLDEST))) };
    let Some(oldest) = oldest else { return Ok(None) };
    if downgrade.enabled {
        return lower(cluster, oldest, downgrade);
    }
    Ok((cluster < oldest && is_valid_change(cluster, oldest)).then_some(oldest))
}

/// Returns whether every member runs the target version of the downgrade.
#[must_use]
pub fn is_downgraded(
    downgrade: &Downgrade,
    servers: impl IntoIterator<Item = Option<Version>>,
) -> bool {
    let target = Version::parse(downgrade.target_version.as_bytes());
    downgrade.enabled && target.is_some() && servers.into_iter().all(|server| server == target)
}

/// Returns whether the cluster version may change: one minor version down, or any up within the
/// major version.
#[must_use]
pub fn is_valid_change(from: Version, to: Version) -> bool {
    is_one_down(from, to) || (from.major == to.major && from < to)
}

/// Returns the cluster versions that this release may join. A downgrading cluster is still one
/// minor version above.
#[must_use]
pub fn joinable(downgrading: bool) -> RangeInclusive<Version> {
    let above = Version::new(CURRENT.major, CURRENT.minor + 1);
    if downgrading { above..=above } else { OLDEST..=CURRENT }
}

/// Returns whether this release may join: at least one member reports a cluster version, and all
/// reported versions are joinable.
#[must_use]
pub fn may_join(
    clusters: impl IntoIterator<Item = Option<Version>>,
    joinable: &RangeInclusive<Version>,
) -> bool {
    let known: Vec<Version> = clusters.into_iter().flatten().collect();
    !known.is_empty() && known.iter().all(|version| joinable.contains(version))
}

fn lower(
    cluster: Version,
    oldest: Version,
    downgrade: &Downgrade,
) -> Result<Option<Version>, DowngradeError> {
    let target =
        Version::parse(downgrade.target_version.as_bytes()).ok_or(DowngradeError::WrongFormat)?;
    if target == cluster {
        return Ok(None);
    }
    if !is_one_down(cluster, target) || !is_one_down(oldest, target) {
        return Err(DowngradeError::InvalidTarget);
    }
    Ok(Some(target))
}

fn is_one_down(from: Version, to: Version) -> bool {
    from.major == to.major && from.minor.checked_sub(1) == Some(to.minor)
}

/// Returns the oldest version, or `None` if one is unknown.
fn oldest(servers: impl IntoIterator<Item = Option<Version>>) -> Option<Version> {
    let known: Option<Vec<Version>> = servers.into_iter().collect();
    known?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V3_0: Version = Version::new(3, 0);
    const V3_5: Version = Version::new(3, 5);
    const V3_6: Version = Version::new(3, 6);
    const V3_7: Version = Version::new(3, 7);
    const V3_8: Version = Version::new(3, 8);

    fn off() -> Downgrade {
        Downgrade::default()
    }

    fn to(target: &str) -> Downgrade {
        Downgrade { enabled: true, target_version: target.to_owned() }
    }

    fn decided(
        cluster: Option<Version>,
        downgrade: &Downgrade,
        servers: [Option<Version>; 3],
    ) -> Result<Option<Version>, DowngradeError> {
        decide(cluster, downgrade, servers)
    }

    #[test]
    fn decisions_are_as_documented() {
        let (all, old) = ([Some(V3_7); 3], [Some(V3_6); 3]);
        let unknown = [Some(V3_7), Some(V3_7), None];
        assert_eq!(decided(None, &off(), unknown), Ok(Some(V3_0)));
        assert_eq!(decided(None, &off(), all), Ok(Some(V3_7)));
        assert_eq!(decided(Some(V3_0), &off(), all), Ok(Some(V3_7)));
        assert_eq!(decided(Some(V3_0), &off(), unknown), Ok(None));
        assert_eq!(decided(Some(V3_7), &off(), all), Ok(None));
        assert_eq!(decided(Some(V3_7), &off(), [Some(V3_7), Some(V3_6), Some(V3_7)]), Ok(None));
        assert_eq!(decided(Some(V3_6), &off(), [Some(V3_7), Some(V3_6), Some(V3_7)]), Ok(None));
        assert_eq!(decided(Some(V3_7), &to("3.6.0"), all), Ok(Some(V3_6)));
        assert_eq!(decided(Some(V3_6), &to("3.6.0"), old), Ok(None));
        assert_eq!(decide(Some(V3_6), &off(), []), Ok(None));
    }

    #[test]
    fn an_invalid_downgrade_target_is_an_error() {
        let all = [Some(V3_7); 3];
        let invalid = Err(DowngradeError::InvalidTarget);
        assert_eq!(decided(Some(V3_7), &to("3.5.0"), all), invalid);
        assert_eq!(decided(Some(V3_6), &to("3.5.0"), all), invalid, "a member is too new");
        assert_eq!(decided(Some(V3_7), &to("x"), all), Err(DowngradeError::WrongFormat));
    }

    #[test]
    fn a_downgrade_goes_one_minor_version_down() {
        let check = |target| check_downgrade(Some(V3_7), &off(), downgrade_target(target)?);
        for target in ["3.6", "3.6.0", "3.6.16", "3.6.0-rc.1"] {
            assert_eq!(check(target), Ok(()), "{target}");
        }
        for target in ["3.7", "3.5", "2.6", "4.6", "3.8.0"] {
            assert_eq!(check(target), Err(DowngradeError::InvalidTarget), "{target}");
        }
        for target in ["", "3", "x", "3.6.0.0", "v3.6"] {
            assert_eq!(check(target), Err(DowngradeError::WrongFormat), "{target}");
        }
        assert_eq!(
            check_downgrade(Some(V3_0), &off(), V3_0),
            Err(DowngradeError::InvalidTarget),
            "3.0 has no lower minor version"
        );
    }

    #[test]
    fn only_one_downgrade_is_in_progress() {
        let check = |cluster, downgrade| check_downgrade(cluster, &downgrade, V3_6);
        assert_eq!(check(Some(V3_7), to("3.6.0")), Err(DowngradeError::InProcess));
        assert_eq!(check(None, off()), Err(DowngradeError::ClusterVersionUnavailable));
        assert_eq!(check_cancel(&off()), Err(DowngradeError::NoneInflight));
        assert_eq!(check_cancel(&to("3.6.0")), Ok(()));
    }

    #[test]
    fn a_downgrade_ends_when_all_run_the_target() {
        assert!(is_downgraded(&to("3.6.0"), [Some(V3_6), Some(V3_6)]));
        assert!(!is_downgraded(&to("3.6.0"), [Some(V3_6), Some(V3_7)]));
        assert!(!is_downgraded(&to("3.6.0"), [Some(V3_6), None]));
        assert!(!is_downgraded(&to("x"), [None]), "the target is not a version");
        assert!(!is_downgraded(&off(), [Some(V3_6)]));
    }

    #[test]
    fn a_newer_cluster_version_is_incompatible() {
        assert_eq!(check_server(None), Ok(()));
        assert_eq!(check_server(Some(V3_7)), Ok(()));
        let newer = check_server(Some(V3_8)).unwrap_err();
        assert!(newer.to_string().starts_with(
            "invalid downgrade; server version is lower than determined cluster version"
        ));
    }

    #[test]
    fn joining_needs_one_known_version_and_no_other_out_of_range() {
        let range = joinable(false);
        assert!(may_join([Some(V3_7), None], &range));
        assert!(may_join([Some(V3_0)], &range));
        assert!(!may_join([None, None], &range));
        assert!(!may_join([Some(V3_7), Some(V3_8)], &range));
        assert!(!may_join([Some(Version::new(2, 3))], &range));
        assert!(may_join([Some(V3_8)], &joinable(true)));
        assert!(!may_join([Some(V3_7)], &joinable(true)));
    }

    #[test]
    fn a_version_rises_freely_and_falls_by_one_minor() {
        assert!(is_valid_change(V3_0, V3_7) && is_valid_change(V3_7, V3_6));
        assert!(!is_valid_change(V3_7, V3_5) && !is_valid_change(V3_7, V3_7));
        assert!(!is_valid_change(V3_7, Version::new(4, 0)));
        assert_eq!(short(V3_7), "3.7");
    }
}
