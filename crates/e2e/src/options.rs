//! What a server is started with.

use std::collections::BTreeMap;

/// Flags, other arguments and environment of a server. In all values, `{dir}` stands for the folder of the test, and `{client}`, `{peer}` and
/// `{extra}` for free ports.
#[derive(Clone, Debug, Default)]
pub struct Options {
    flags: BTreeMap<String, String>,
    arguments: Vec<String>,
    settings: BTreeMap<String, String>,
}

/// What a member needs to run beside others.
const USUAL: [(&str, &str); 5] = [
    ("data-dir", "{dir}/data"),
    ("listen-client-urls", "http://127.0.0.1:{client}"),
    ("advertise-client-urls", "http://127.0.0.1:{client}"),
    ("listen-peer-urls", "http://127.0.0.1:{peer}"),
    ("initial-advertise-peer-urls", "http://127.0.0.1:{peer}"),
];

/// That, and the initial cluster: which cannot be left to its default as soon as there is another peer URL than the default one.
const INITIAL_CLUSTER: (&str, &str) = ("initial-cluster", "default=http://127.0.0.1:{peer}");

impl Options {
    /// A member in a folder and on ports of its own.
    pub fn new() -> Options {
        USUAL.into_iter().chain([INITIAL_CLUSTER]).fold(Options::bare(), with)
    }

    /// Nothing at all.
    pub fn bare() -> Options {
        Options::default()
    }

    /// With a flag, `name` being what follows the dashes. Replaces what it had.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl Into<String>) -> Options {
        self.flags.insert(name.to_owned(), value.into());
        self
    }

    /// Without a flag.
    #[must_use]
    pub fn without(mut self, name: &str) -> Options {
        self.flags.remove(name);
        self
    }

    /// With an argument as it stands, after all flags.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Options {
        self.arguments.push(argument.into());
        self
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn setting(mut self, name: &str, value: impl Into<String>) -> Options {
        self.settings.insert(name.to_owned(), value.into());
        self
    }

    /// A flag's value, as it was given.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.flags.get(name).map(String::as_str)
    }

    /// The command line, with `fill` applied to every value.
    pub(crate) fn command_line(&self, fill: impl Fn(&str) -> String) -> Vec<String> {
        let flags = self.flags.iter().map(|(name, value)| format!("--{name}={}", fill(value)));
        flags.chain(self.arguments.iter().map(|argument| fill(argument))).collect()
    }

    /// The environment, with `fill` applied to every value.
    pub(crate) fn environment(&self, fill: impl Fn(&str) -> String) -> BTreeMap<String, String> {
        self.settings.iter().map(|(name, value)| (name.clone(), fill(value))).collect()
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
        let options = options.setting("ETCD_NAME", "{dir}");
        let fill = |value: &str| value.replace("{peer}", "1").replace("{dir}", "d");
        assert_eq!(options.command_line(fill), ["--name=b1", "-x"]);
        assert_eq!(options.environment(fill)["ETCD_NAME"], "d");
        assert!(options.without("name").command_line(fill) == ["-x"]);
    }
}
