//! Opening the configured outputs.
//!
//! As in zap, a path that is not absolute is parsed as a URL: `etcd.log` and
//! `file:///var/log/etcd.log` are files, `http://x` is rejected.

use std::io;
use std::path::Path;

use super::config::{LogConfig, Output, Rotation};
use super::sink::Sink;
use super::sink::journal::{Journal, identifier};
use super::sink::rotate::RotatingFile;
use super::sink::stream::{Stream, append};
use gocompat::os_error_text;

/// An output that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no journal.
    #[error("can't find journal (dial unixgram {path}: connect: {})", os_error_text(.source))]
    NoJournal {
        /// The path of its socket.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be opened.
    #[error("open sink {output:?}: open {path}: {}", os_error_text(.source))]
    File {
        /// The output as given.
        output: String,
        /// The path of the file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A URL that is not a file.
    #[error("open sink {output:?}: {why}")]
    Url {
        /// The output as given.
        output: String,
        /// The cause.
        why: String,
    },
}

/// Opens every output of `config`.
pub(super) fn open_all(
    config: &LogConfig,
    journal: &Path,
) -> Result<Vec<Box<dyn Sink>>, OpenError> {
    let outputs = config.merged_outputs();
    outputs.iter().map(|output| open(output, config.rotation.as_ref(), journal)).collect()
}

fn open(
    output: &Output,
    rotation: Option<&Rotation>,
    journal: &Path,
) -> Result<Box<dyn Sink>, OpenError> {
    match (output, rotation) {
        (Output::Stderr, _) => Ok(Box::new(Stream::new(io::stderr()))),
        (Output::Stdout, _) => Ok(Box::new(Stream::new(io::stdout()))),
        (Output::Journal, _) => open_journal(journal),
        (Output::File(typed), Some(rotation)) => open_rotated(typed, rotation),
        (Output::File(typed), None) => open_file(typed),
    }
}

fn open_journal(path: &Path) -> Result<Box<dyn Sink>, OpenError> {
    match Journal::open(path, identifier(), Box::new(io::stderr())) {
        Ok(journal) => Ok(Box::new(journal)),
        Err(source) => Err(OpenError::NoJournal { path: path.display().to_string(), source }),
    }
}

fn open_rotated(typed: &str, rotation: &Rotation) -> Result<Box<dyn Sink>, OpenError> {
    match RotatingFile::open(Path::new(typed), rotation) {
        Ok(file) => Ok(Box::new(file)),
        Err(source) => Err(OpenError::File { output: typed.into(), path: typed.into(), source }),
    }
}

fn open_file(typed: &str) -> Result<Box<dyn Sink>, OpenError> {
    let path = path_of(typed).map_err(|why| OpenError::Url { output: typed.into(), why })?;
    match append(path) {
        Ok(file) => Ok(Box::new(Stream::new(file))),
        Err(source) => Err(OpenError::File { output: typed.into(), path: path.into(), source }),
    }
}

/// Returns the path of a file output, or zap's error text.
fn path_of(typed: &str) -> Result<&str, String> {
    if typed.starts_with('/') {
        return Ok(typed);
    }
    let (scheme, rest) = split_scheme(typed).unwrap_or(("file", typed));
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(format!("no sink found for scheme {:?}", scheme.to_lowercase()));
    }
    let got = if rest.len() == typed.len() { format!("file://{typed}") } else { typed.to_owned() };
    if rest.contains('#') {
        return Err(format!("fragments not allowed with file URLs: got {got}"));
    }
    if rest.contains('?') {
        return Err(format!("query parameters not allowed with file URLs: got {got}"));
    }
    let Some(after) = rest.strip_prefix("//") else { return Ok(rest) };
    let (host, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    match host {
        "" | "localhost" => Ok(path),
        _ => Err(format!("file URLs must leave host empty or use localhost: got {got}")),
    }
}

/// Splits off the scheme of a URL.
fn split_scheme(typed: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = typed.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(output: Output, rotation: Option<Rotation>) -> String {
        let config = LogConfig { outputs: vec![output], rotation, ..LogConfig::default() };
        let missing = Path::new("/nonexistent/journal");
        open_all(&config, missing).err().unwrap().to_string()
    }

    #[test]
    fn paths_and_file_urls_are_files() {
        for (typed, path) in [
            ("/var/log/etcd.log", "/var/log/etcd.log"),
            ("/a?b#c", "/a?b#c"),
            ("etcd.log", "etcd.log"),
            ("a b.log", "a b.log"),
            ("file:///var/log/etcd.log", "/var/log/etcd.log"),
            ("file://localhost/x", "/x"),
        ] {
            assert_eq!(path_of(typed), Ok(path), "{typed}");
        }
    }

    /// The expected texts are those of etcd 3.7.
    #[test]
    fn outputs_that_cannot_be_opened_have_etcds_errors() {
        for (typed, expected) in [
            ("http://x", r#"open sink "http://x": no sink found for scheme "http""#),
            (
                "file://h/x",
                r#"open sink "file://h/x": file URLs must leave host empty or use localhost: got file://h/x"#,
            ),
            (
                "a?b",
                r#"open sink "a?b": query parameters not allowed with file URLs: got file://a?b"#,
            ),
            ("", r#"open sink "": open : no such file or directory"#),
            ("/", r#"open sink "/": open /: is a directory"#),
            (
                "/nonexistent/x",
                r#"open sink "/nonexistent/x": open /nonexistent/x: no such file or directory"#,
            ),
        ] {
            assert_eq!(rejection(Output::File(typed.to_owned()), None), expected);
        }
        assert_eq!(
            rejection(Output::Journal, None),
            "can't find journal (dial unixgram /nonexistent/journal: connect: no such file or directory)"
        );
    }

    #[test]
    fn a_rotating_file_that_cannot_be_opened_is_rejected_at_start() {
        let rejected =
            rejection(Output::File("/proc/nowhere/etcd.log".to_owned()), Some(Rotation::default()));
        assert!(rejected.starts_with(r#"open sink "/proc/nowhere/etcd.log": open "#), "{rejected}");
    }
}
