//! What the log flags mean, once read.
//!
//! ```text
//!   --log-level=info  --log-format=json  --log-outputs=stderr,/var/log/etcd.log  --enable-log-rotation
//!   level   Info      format  Json       outputs  [Stderr, File("/var/log/etcd.log")]     rotation  Some(..)
//! ```
//!
//! Plain values. How the flags are spelled, and which of them etcd lets stand together, is for `config` to say; here any outputs
//! go together, each is opened once, and `/dev/null` hides the others.

use super::Level;

/// `maxsize` when it is not given, in megabytes.
const SIZE_MB_DEFAULT: u64 = 100;

/// All that the log flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `--log-level`: lines less grave are not written.
    pub level: Level,
    /// `--log-format`.
    pub format: Format,
    /// `--log-outputs`; none means standard error.
    pub outputs: Vec<Output>,
    /// `--log-rotation-config-json`, with `--enable-log-rotation`: for every file among the outputs.
    pub rotation: Option<Rotation>,
}

impl Default for LogConfig {
    /// As long as nothing was said: JSON from `info`, on standard error.
    fn default() -> Self {
        Self {
            level: Level::Info,
            format: Format::Json,
            outputs: vec![Output::Stderr],
            rotation: None,
        }
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A JSON object.
    #[default]
    Json,
    /// Columns with tabs between them, and the fields as JSON.
    Console,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// `stderr`, and `default`.
    Stderr,
    /// `stdout`.
    Stdout,
    /// `systemd/journal`.
    Journal,
    /// A file, as typed: a path, or a URL of scheme `file`.
    File(String),
}

/// When the log file is set aside, and which of its predecessors are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// `maxsize`: the file is set aside before it grows past this, in units of 2^20 bytes. Zero: 100.
    pub size_mb_max: u64,
    /// `maxage`: backups older than this are removed. Zero: none are.
    pub age_days_max: u64,
    /// `maxbackups`: how many stay. Zero: all.
    pub backups_max: u64,
    /// `localtime`: backups are named by local time, not UTC.
    pub local_time: bool,
    /// `compress`: refused when the logs start.
    pub compress: bool,
}

impl LogConfig {
    /// The outputs to open: each once, and none but `/dev/null` if that is among them.
    pub(super) fn merged_outputs(&self) -> Vec<Output> {
        let nothing = Output::File("/dev/null".to_owned());
        if self.outputs.contains(&nothing) {
            return vec![nothing];
        }
        if self.outputs.is_empty() {
            return vec![Output::Stderr];
        }
        let mut outputs = self.outputs.clone();
        outputs.sort();
        outputs.dedup();
        outputs
    }

    /// Whether backups are to be compressed, which nothing here can do.
    pub(super) fn wants_compression(&self) -> bool {
        self.rotation.as_ref().is_some_and(|rotation| rotation.compress)
    }
}

impl Rotation {
    /// The bound of the file.
    pub(super) fn size_bytes_max(&self) -> u64 {
        let mb = if self.size_mb_max == 0 { SIZE_MB_DEFAULT } else { self.size_mb_max };
        mb.saturating_mul(1024 * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_opened_once_and_dev_null_hides_the_rest() {
        let merged = |outputs: &[Output]| {
            LogConfig { outputs: outputs.to_vec(), ..LogConfig::default() }.merged_outputs()
        };
        let nothing = Output::File("/dev/null".to_owned());
        assert_eq!(merged(&[]), [Output::Stderr]);
        assert_eq!(
            merged(&[Output::Stdout, Output::Stderr, Output::Stdout]),
            [Output::Stderr, Output::Stdout]
        );
        assert_eq!(merged(&[Output::Stdout, nothing.clone()]), [nothing]);
    }

    #[test]
    fn no_size_is_a_hundred_megabytes() {
        assert_eq!(Rotation::default().size_bytes_max(), 104_857_600);
        let huge = Rotation { size_mb_max: u64::MAX, ..Rotation::default() };
        assert_eq!(huge.size_bytes_max(), u64::MAX);
    }
}
