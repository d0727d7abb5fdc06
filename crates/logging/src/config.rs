//! The resolved log flags.
//!
//! ```text
//!   --log-level=info  --log-format=json  --log-outputs=stderr,/x.log        --enable-log-rotation
//!   level  Info       format  Json       outputs  [Stderr, File("/x.log")]  rotation  Some(..)
//! ```
//!
//! Which flags etcd allows together is checked in `config`. Here any outputs may be combined; each
//! is opened once, and `/dev/null` hides the others.

use super::Level;

/// The default of `maxsize`, in megabytes.
const SIZE_MB_DEFAULT: u64 = 100;

/// The configuration of logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `--log-level`: the lowest level that is written.
    pub level: Level,
    /// `--log-format`.
    pub format: Format,
    /// `--log-outputs`; empty means standard error.
    pub outputs: Vec<Output>,
    /// `--log-rotation-config-json` with `--enable-log-rotation`; applies to every file output.
    pub rotation: Option<Rotation>,
}

impl Default for LogConfig {
    /// JSON from level `info`, to standard error.
    fn default() -> Self {
        Self {
            level: Level::Info,
            format: Format::Json,
            outputs: vec![Output::Stderr],
            rotation: None,
        }
    }
}

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A JSON object.
    #[default]
    Json,
    /// Columns separated by tabs, the fields as JSON.
    Console,
}

/// A destination of lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// `stderr`, and `default`.
    Stderr,
    /// `stdout`.
    Stdout,
    /// `systemd/journal`.
    Journal,
    /// A file, as given: a path or a `file` URL.
    File(String),
}

/// The rule by which a log file is rotated and backups are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// `maxsize`: the file is rotated before it grows past this size, in MiB. Zero is 100.
    pub size_mb_max: u64,
    /// `maxage`: backups older than this are removed. Zero keeps all.
    pub age_days_max: u64,
    /// `maxbackups`: the number of backups to keep. Zero keeps all.
    pub backups_max: u64,
    /// `localtime`: backup names have local time instead of UTC.
    pub local_time: bool,
    /// `compress`: backups are compressed with gzip.
    pub compress: bool,
}

impl LogConfig {
    /// Returns the outputs to open: each once, and only `/dev/null` if it is among them.
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
}

impl Rotation {
    /// Returns the maximum size of the file.
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
