//! Which version the cluster speaks, decided from what its members run.
//!
//! ```text
//!   members run      cluster speaks   downgrade to   the leader decides
//!   3.7 3.7 ?        none             -              3.0   some member is not heard of: the oldest there is
//!   3.7 3.7 3.7      3.0              -              3.7   raised to the oldest of them
//!   3.7 3.7 3.6      3.7              -              -     never lowered by itself
//!   3.7 3.7 3.7      3.7              3.6            3.6   lowered because it was asked for
//!   3.6 3.6 3.6      3.6              3.6            -     and the downgrade is done
//! ```
//!
//! Only major and minor number count. All here are functions of what they are given; asking the members is left to `server`.

use std::ops::RangeInclusive;

use backend::schema::cluster::Downgrade;
use backend::schema::version::{CURRENT, Version};

use crate::error::IncompatibleVersion;

/// The oldest version that a cluster may speak.
pub const OLDEST: Version = Version::new(3, 0);

/// Why a downgrade is not begun, or none is ended. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DowngradeError {
    /// What should be a version is none.
    #[error("etcdserver: wrong downgrade target version format")]
    WrongFormat,
    /// Nobody has said yet which version the cluster speaks.
    #[error("etcdserver: cluster version not found during downgrade")]
    ClusterVersionUnavailable,
    /// The way goes one minor version down, and nowhere else.
    #[error("etcdserver: invalid downgrade target version")]
    InvalidTarget,
    /// The cluster is on its way already.
    #[error("etcdserver: cluster has a downgrade job in progress")]
    InProcess,
    /// There is nothing to end.
    #[error("etcdserver: no inflight downgrade job")]
    NoneInflight,
}

/// Whether this program may be a member of a cluster that speaks a version: it must not be newer.
pub fn check_server(cluster: Option<Version>) -> Result<(), IncompatibleVersion> {
    match cluster {
        Some(cluster) if cluster > CURRENT => Err(IncompatibleVersion { server: CURRENT, cluster }),
        _ => Ok(()),
    }
}

/// What a version is called in answers: `3.7`.
#[must_use]
pub fn short(version: Version) -> String {
    format!("{}.{}", version.major, version.minor)
}

/// Where a downgrade is to go: `3.6` or `3.6.0`. A patch number is accepted and does not count.
pub fn downgrade_target(text: &str) -> Result<Version, DowngradeError> {
    Version::parse(text.as_bytes())
        .or_else(|| Version::parse(format!("{text}.0").as_bytes()))
        .ok_or(DowngradeError::WrongFormat)
}

/// Whether a downgrade may begin.
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

/// Whether there is a downgrade to be ended.
pub fn check_cancel(downgrade: &Downgrade) -> Result<(), DowngradeError> {
    if downgrade.enabled { Ok(()) } else { Err(DowngradeError::NoneInflight) }
}

/// The version that the cluster should speak, if it is another than it does. `servers` is what each member runs, none for one that
/// does not answer.
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

/// Whether every member runs the version that the downgrade is to.
#[must_use]
pub fn is_downgraded(
    downgrade: &Downgrade,
    servers: impl IntoIterator<Item = Option<Version>>,
) -> bool {
    let target = Version::parse(downgrade.target_version.as_bytes());
    downgrade.enabled && target.is_some() && servers.into_iter().all(|server| server == target)
}

/// Whether a cluster's version may become another: one down, or any up that keeps the major number.
#[must_use]
pub fn is_valid_change(from: Version, to: Version) -> bool {
    is_one_down(from, to) || (from.major == to.major && from < to)
}

/// The versions that a cluster may speak for this program to join it. While it is downgrading it still speaks the one above.
#[must_use]
pub fn joinable(downgrading: bool) -> RangeInclusive<Version> {
    let above = Version::new(CURRENT.major, CURRENT.minor + 1);
    if downgrading { above..=above } else { OLDEST..=CURRENT }
}

/// Whether this program may join: at least one of the others says which version the cluster speaks, and none says a wrong one.
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

/// The oldest of them all, unless there is one that nobody knows.
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
    fn decisions_are_as_drawn() {
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
    fn a_downgrade_that_leads_nowhere_changes_nothing() {
        let all = [Some(V3_7); 3];
        let invalid = Err(DowngradeError::InvalidTarget);
        assert_eq!(decided(Some(V3_7), &to("3.5.0"), all), invalid);
        assert_eq!(decided(Some(V3_6), &to("3.5.0"), all), invalid, "a member is too new");
        assert_eq!(decided(Some(V3_7), &to("x"), all), Err(DowngradeError::WrongFormat));
    }

    #[test]
    fn a_downgrade_goes_one_minor_version_down() {
        let check = |target| check_downgrade(Some(V3_7), &off(), downgrade_target(target)?);
        for target in ["3.6", "3.6.0", "3.6.14", "3.6.0-rc.1"] {
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
            "below zero there is nothing"
        );
    }

    #[test]
    fn one_downgrade_at_a_time() {
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
        assert!(!is_downgraded(&to("x"), [None]), "no version is not every version");
        assert!(!is_downgraded(&off(), [Some(V3_6)]));
    }

    #[test]
    fn this_program_speaks_what_is_not_newer() {
        assert_eq!(check_server(None), Ok(()));
        assert_eq!(check_server(Some(V3_7)), Ok(()));
        let newer = check_server(Some(V3_8)).unwrap_err();
        assert!(newer.to_string().starts_with(
            "invalid downgrade; server version is lower than determined cluster version"
        ));
    }

    #[test]
    fn joining_needs_one_that_knows_and_none_that_differs() {
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
    fn up_is_free_and_down_is_one() {
        assert!(is_valid_change(V3_0, V3_7) && is_valid_change(V3_7, V3_6));
        assert!(!is_valid_change(V3_7, V3_5) && !is_valid_change(V3_7, V3_7));
        assert!(!is_valid_change(V3_7, Version::new(4, 0)));
        assert_eq!(short(V3_7), "3.7");
    }
}
