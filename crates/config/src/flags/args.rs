//! The command line.
//!
//! ```text
//!     --name m1   -name=m1   --pre-vote   --pre-vote=false    one dash or two; space or `=`
//!     --          ends the flags; arguments that are not flags are rejected
//! ```
//!
//! The last value of a repeated flag counts; lists of URLs and gates have their own rules. A
//! boolean takes a value only with an equals sign.

use crate::flags::{Flag, Flags, find};
use gocompat::quote;

/// The reason to stop parsing the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Help was requested.
    Help,
    /// A bad flag, with the text to print before the usage.
    Usage(String),
    /// An argument that is not a flag.
    Stray(String),
}

/// Parses arguments, without the name of the program, into `flags`.
pub(crate) fn read(flags: &mut Flags, args: &[String]) -> Result<(), Stop> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some((name, value)) = split(arg)? else {
            let stray = if arg == "--" { rest.next() } else { Some(arg) };
            return stray.map_or(Ok(()), |arg| Err(Stop::Stray(arg.clone())));
        };
        let flag = lookup(name)?;
        if flag.slot.is_bool() {
            set_bool(flags, &flag, value)?;
        } else {
            let value = value.or_else(|| rest.next().map(String::as_str));
            set(flags, &flag, value)?;
        }
    }
    Ok(())
}

/// Splits a flag into name and value; `None` if `arg` is not a flag.
fn split(arg: &str) -> Result<Option<(&str, Option<&str>)>, Stop> {
    if arg.len() < 2 || arg == "--" {
        return Ok(None);
    }
    let Some(name) = arg.strip_prefix('-') else { return Ok(None) };
    let name = name.strip_prefix('-').unwrap_or(name);
    if name.starts_with(['-', '=']) {
        return Err(Stop::Usage(format!("bad flag syntax: {arg}")));
    }
    Ok(Some(match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    }))
}

fn lookup(name: &str) -> Result<Flag, Stop> {
    match find(name) {
        Some(flag) => Ok(flag),
        None if name == "help" || name == "h" => Err(Stop::Help),
        None => Err(Stop::Usage(format!("flag provided but not defined: -{name}"))),
    }
}

fn set_bool(flags: &mut Flags, flag: &Flag, value: Option<&str>) -> Result<(), Stop> {
    let value = value.unwrap_or("true");
    flags.set(flag, value).map_err(|reason| {
        Stop::Usage(format!("invalid boolean value {} for -{}: {reason}", quote(value), flag.name))
    })
}

fn set(flags: &mut Flags, flag: &Flag, value: Option<&str>) -> Result<(), Stop> {
    let missing = || Stop::Usage(format!("flag needs an argument: -{}", flag.name));
    let value = value.ok_or_else(missing)?;
    flags.set(flag, value).map_err(|reason| {
        Stop::Usage(format!("invalid value {} for flag -{}: {reason}", quote(value), flag.name))
    })
}
