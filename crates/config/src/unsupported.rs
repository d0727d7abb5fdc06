//! Flags that Bowline cannot honour, and refuses rather than ignores.
//!
//! A flag in [`FLAGS`] may only have its default value. An entry is removed when the feature is
//! built.

use crate::error::ConfigError;
use crate::flags::{Flags, Slot, find};

const PROFILES: &str = "there is no Go runtime to profile; see docs/profiling.md for perf, metrics, traces and the log";

/// Unsupported flags, with the reason.
const FLAGS: &[(&str, &str)] =
    &[("memory-mlock", "the pages of the database cannot be locked yet")];

/// Subcommands of etcd that are not built yet.
pub(crate) const SUBCOMMANDS: [&str; 2] = ["gateway", "grpc-proxy"];

/// Returns the error text for a subcommand.
pub(crate) fn subcommand(name: &str) -> String {
    format!("{name} is not yet supported by Bowline\n")
}

/// Refuses unsupported flags, all of them in one error.
pub(crate) fn check(flags: &Flags) -> Result<(), ConfigError> {
    let mut reasons: Vec<String> = Vec::new();
    let (mut given, mut fresh) = (flags.clone(), Flags::new());
    for (name, reason) in FLAGS.iter().filter(|(name, _)| !is_same(name, &mut given, &mut fresh)) {
        reasons.push(format!("--{name} is not yet supported by Bowline: {reason}"));
    }
    reasons.extend(freelist(flags));
    reasons.extend(profiles(flags));
    if reasons.is_empty() { Ok(()) } else { Err(ConfigError::Unsupported(reasons)) }
}

/// Refuses the array freelist: Bowline keeps free pages by size, like etcd's default `map`.
fn freelist(flags: &Flags) -> Option<String> {
    (flags.backend_bbolt_freelist_type == "array").then(|| {
        "--backend-bbolt-freelist-type=array is not supported by Bowline: free pages are always kept by size (map)"
            .to_owned()
    })
}

/// Refuses pprof, which only Go's runtime provides.
fn profiles(flags: &Flags) -> Option<String> {
    flags.enable_pprof.then(|| format!("--enable-pprof is not supported by Bowline: {PROFILES}"))
}

/// Returns whether a flag has the same value in both. They are mutable only because a slot returns
/// a mutable reference; neither is changed.
fn is_same(name: &str, given: &mut Flags, fresh: &mut Flags) -> bool {
    let Some(flag) = find(name) else { return false };
    match flag.slot {
        Slot::Text(field) | Slot::Choice(_, field) => field(given) == field(fresh),
        Slot::Bool(field) => field(given) == field(fresh),
        Slot::Uint(field) | Slot::Uint64(field) => field(given) == field(fresh),
        Slot::Uint32(field) => field(given) == field(fresh),
        Slot::Int(field) | Slot::Int64(field) => field(given) == field(fresh),
        Slot::Duration(field) => field(given) == field(fresh),
        Slot::Urls(_, field) => field(given).urls() == field(fresh).urls(),
        Slot::Words(field) | Slot::List(field) | Slot::Stages(_, field) => {
            field(given) == field(fresh)
        }
        Slot::Gates(field) => field(given) == field(fresh),
        Slot::Ignored => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{FLAGS, PROFILES, check};
    use crate::Flags;
    use crate::flags::{Slot, find};

    fn refusal(flags: &Flags) -> String {
        check(flags).expect_err("refused").to_string()
    }

    #[test]
    fn every_unsupported_flag_exists_and_is_refused() {
        for (name, reason) in FLAGS {
            let flag = find(name).expect(name);
            let mut flags = Flags::new();
            let value = match flag.slot {
                Slot::Bool(_) if flag.default == "true" => "false",
                Slot::Bool(_) => "true",
                Slot::Duration(_) => "77s",
                Slot::Choice(..) => "existing",
                _ => "77",
            };
            flags.set(&flag, value).expect(name);
            assert_eq!(
                refusal(&flags),
                format!("--{name} is not yet supported by Bowline: {reason}")
            );
        }
    }

    #[test]
    fn defaults_are_not_refused() {
        assert_eq!(check(&Flags::new()), Ok(()));
    }

    #[test]
    fn one_error_names_all_unsupported_flags() {
        let mut flags = Flags::new();
        flags.memory_mlock = true;
        flags.enable_pprof = true;
        assert_eq!(
            refusal(&flags),
            format!(
                "--memory-mlock is not yet supported by Bowline: the pages of the database cannot be locked yet; \
                 --enable-pprof is not supported by Bowline: {PROFILES}"
            )
        );
    }
}
