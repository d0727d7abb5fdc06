//! Counters of the events of a run, with which tests check that a simulation was eventful.

/// Counters with names.
pub trait Counters {
    /// Returns every counter with its name and label.
    fn all(&self) -> Vec<(&'static str, &'static str, u64)>;
}

/// Declares a struct of counters, each with a label. Its values can be added up, and displayed with
/// one line per counter.
///
/// ```
/// simkit::counters! {
///     /// Counters of a run.
///     pub struct Totals {
///         crashes: "crashes",
///         dropped: "messages lost",
///     }
/// }
///
/// let mut totals = Totals { crashes: 1, dropped: 5 };
/// totals += Totals { crashes: 2, ..Totals::default() };
/// assert_eq!(totals.to_string(), "         3 crashes\n         5 messages lost\n");
/// assert_eq!(simkit::Counters::all(&totals)[0], ("crashes", "crashes", 3));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident: $label:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $(#[doc = $label] $vis $field: u64,)*
        }

        impl $crate::Counters for $name {
            fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($field), $label, self.$field),)*]
            }
        }

        impl ::std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$field += other.$field;)*
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $(writeln!(f, "{:>10} {}", self.$field, $label)?;)*
                Ok(())
            }
        }
    };
}
