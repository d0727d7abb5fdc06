//! Tables of the flags of a verb.

use gocompat::GoDuration;

/// A verb of a group, with the type of its flags.
pub(crate) trait Verb: Default + 'static {
    /// The name of the group.
    const GROUP: &'static str;
    /// The description of the verb.
    const SHORT: &'static str;
    /// The flags, sorted by name, without `help`.
    const FLAGS: &'static [Flag<Self>];
}

/// A flag of a verb with flags `F`.
pub(crate) struct Flag<F> {
    /// The name without dashes.
    pub(crate) name: &'static str,
    /// The field and the type.
    pub(crate) slot: Slot<F>,
    /// The default as a text; empty is the default of the type.
    pub(crate) default: &'static str,
    /// The help text.
    pub(crate) help: &'static str,
}

/// The type of a flag, with access to its field in `F`.
pub(crate) enum Slot<F> {
    /// Any text.
    Text(fn(&mut F) -> &mut String),
    /// A boolean; the name alone means true.
    Bool(fn(&mut F) -> &mut bool),
    /// Go's `int`.
    Int(fn(&mut F) -> &mut i64),
    /// Go's `uint`.
    Uint(fn(&mut F) -> &mut u64),
    /// Go's `uint32`.
    Uint32(fn(&mut F) -> &mut u32),
    /// A duration.
    Duration(fn(&mut F) -> &mut GoDuration),
    /// A line of comma-separated values; repeated flags add up.
    Strings(fn(&mut F) -> &mut Vec<String>),
}

impl<F> Slot<F> {
    /// The name of the type in the help.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Slot::Text(_) => "string",
            Slot::Bool(_) => "",
            Slot::Int(_) => "int",
            Slot::Uint(_) => "uint",
            Slot::Uint32(_) => "uint32",
            Slot::Duration(_) => "duration",
            Slot::Strings(_) => "strings",
        }
    }
}

macro_rules! slot_type {
    (Text) => { String };
    (Bool) => { bool };
    (Int) => { i64 };
    (Uint) => { u64 };
    (Uint32) => { u32 };
    (Duration) => { gocompat::GoDuration };
    (Strings) => { Vec<String> };
}

/// Declares the flags of a verb: the struct, and its table.
macro_rules! verb {
    (
        $(#[$doc:meta])*
        $flags:ident = $group:literal start, $short:literal {
            $($name:literal $field:ident : $kind:ident = $default:literal, $help:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $flags {
            $(#[doc = $help] pub $field: $crate::subcommand::table::slot_type!($kind),)*
        }

        impl $crate::subcommand::table::Verb for $flags {
            const GROUP: &'static str = $group;
            const SHORT: &'static str = $short;
            const FLAGS: &'static [$crate::subcommand::table::Flag<$flags>] = &[
                $($crate::subcommand::table::Flag {
                    name: $name,
                    slot: $crate::subcommand::table::Slot::$kind(|flags| &mut flags.$field),
                    default: $default,
                    help: $help,
                },)*
            ];
        }
    };
}

pub(crate) use {slot_type, verb};
