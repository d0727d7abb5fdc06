//! Flags, arguments and environment of a server.

use std::collections::BTreeMap;

/// Flags, arguments and environment of a server. In all values, `{dir}` stands for the directory of
/// the sandbox, and `{client}`, `{peer}` and `{extra}` for its ports.
#[derive(Clone, Debug, Default)]
pub struct Options {
    flags: BTreeMap<String, String>,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
}

/// Flags with which a member can run beside others.
const DEFAULTS: [(&str, &str); 5] = [
    ("data-dir", "{dir}/data"),
    ("listen-client-urls", "http://127.0.0.1:{client}"),
    ("advertise-client-urls", "http://127.0.0.1:{client}"),
    ("listen-peer-urls", "http://127.0.0.1:{peer}"),
    ("initial-advertise-peer-urls", "http://127.0.0.1:{peer}"),
];

/// The initial cluster, which must match the peer URL.
const INITIAL_CLUSTER: (&str, &str) = ("initial-cluster", "default=http://127.0.0.1:{peer}");

impl Options {
    /// Options of a member in a sandbox.
    pub fn new() -> Options {
        DEFAULTS.into_iter().chain([INITIAL_CLUSTER]).fold(Options::bare(), with)
    }

    /// No options at all.
    pub fn bare() -> Options {
        Options::default()
    }

    /// Sets a flag, named without its dashes.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl Into<String>) -> Options {
        self.flags.insert(name.to_owned(), value.into());
        self
    }

    /// Removes a flag.
    #[must_use]
    pub fn without(mut self, name: &str) -> Options {
        self.flags.remove(name);
        self
    }

    /// Adds an argument after all flags.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Options {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Options {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the value of a flag, unexpanded.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.flags.get(name).map(String::as_str)
    }

    /// Returns the command line, with `fill` applied to every value.
    pub(crate) fn command_line(&self, fill: impl Fn(&str) -> String) -> Vec<String> {
        let flags = self.flags.iter().map(|(name, value)| format!("--{name}={}", fill(value)));
        flags.chain(self.arguments.iter().map(|argument| fill(argument))).collect()
    }

    /// Returns the environment, with `fill` applied to every value.
    pub(crate) fn environment(&self, fill: impl Fn(&str) -> String) -> BTreeMap<String, String> {
        self.variables.iter().map(|(name, value)| (name.clone(), fill(value))).collect()
    }
}

fn with(options: Options, (name, value): (&str, &str)) -> Options {
    options.flag(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_flag_counts() {
        let options = Options::bare().flag("name", "a").flag("name", "b{peer}").argument("-x");
        let options = options.env("ETCD_NAME", "{dir}");
        let fill = |value: &str| value.replace("{peer}", "1").replace("{dir}", "d");
        assert_eq!(options.command_line(fill), ["--name=b1", "-x"]);
        assert_eq!(options.environment(fill)["ETCD_NAME"], "d");
        assert!(options.without("name").command_line(fill) == ["-x"]);
    }
}
