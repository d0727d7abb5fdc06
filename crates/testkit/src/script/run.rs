//! Runs scripts: passes every case to a handler and reports all differences.

use std::fmt;
use std::path::{Path, PathBuf};
use std::{env, fs, io, thread};

use thiserror::Error;

use super::diff::diff;
use super::{Case, ParseError, RewriteError, Script};

/// Runs the script at `path` and returns the number of its cases. Panics if a case differs or there
/// are none.
#[track_caller]
pub fn run(path: impl AsRef<Path>, handler: impl FnMut(&Case) -> String) -> usize {
    Runner::from_env().run(path, handler)
}

/// Runs every script under `dir`, each with a handler of its own, and returns the number of cases.
/// Panics if one differs or there are none.
#[track_caller]
pub fn run_dir<H>(dir: impl AsRef<Path>, new_handler: impl FnMut() -> H) -> usize
where
    H: FnMut(&Case) -> String,
{
    Runner::from_env().run_dir(dir, new_handler)
}

/// Returns the directory of etcd-io/raft's published cases for `area` (`quorum`, `confchange`,
/// `interaction`).
///
/// The environment variable `RAFT_CASES` names the directory that contains them; they are not part
/// of this repository. Without it, a message is printed and no published case runs; an empty
/// directory fails in [`run_dir`]. A relative path starts at the root of the workspace, since cargo
/// runs each test in its own package.
pub fn published(area: &str) -> Option<PathBuf> {
    let home = env::var_os("RAFT_CASES").map(PathBuf::from);
    if home.is_none() {
        println!("RAFT_CASES is not set: only our own {area} cases run");
    }
    let root = env::var_os("CARGO_MANIFEST_DIR").map(|package| Path::new(&package).join("../.."));
    Some(root.unwrap_or_default().join(home?).join(area))
}

/// Removes log lines, for [`Runner::normalize`]: lines with `INFO`, `DEBUG`, `WARN` or `ERROR`
/// after the indent.
pub fn without_log_lines(output: &str) -> String {
    let is_log = |line: &str| {
        let level = line.split_whitespace().next().unwrap_or_default();
        matches!(level, "INFO" | "DEBUG" | "WARN" | "ERROR")
    };
    output.split_inclusive('\n').filter(|line| !is_log(line)).collect()
}

type Normalizer = Box<dyn Fn(&str) -> String>;

/// Options of a run: the normalizer, and whether differences are written back.
#[derive(Default)]
pub struct Runner {
    normalize: Option<Normalizer>,
    /// Directory of the crates whose `testdata` is rewritten.
    rewrite_in: Option<PathBuf>,
}

/// The error of a run.
#[derive(Debug, Error)]
pub enum RunError {
    /// A file or directory could not be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file does not follow the format.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Location and reason.
        source: ParseError,
    },
    /// No case ran, so nothing was tested.
    #[error("{path} has no cases")]
    NoCases {
        /// The file or directory.
        path: PathBuf,
    },
    /// Some outputs differ.
    #[error("{}", summary(mismatches, *ran))]
    Differ {
        /// The differing cases, in order.
        mismatches: Vec<Mismatch>,
        /// Number of cases that ran.
        ran: usize,
    },
    /// An output could not be expressed when rewriting.
    #[error("{path}: {source}")]
    Rewrite {
        /// The unchanged file.
        path: PathBuf,
        /// The output that cannot be expressed.
        source: RewriteError,
    },
    /// A rewritten file could not be stored.
    #[error("write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// A case whose output was not the expected one.
#[derive(Debug)]
pub struct Mismatch {
    /// Location, as `file:line`.
    pub at: String,
    /// Directive on one line.
    pub directive: String,
    /// Diff of expected and actual output, after the normalizer.
    pub diff: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.at, self.directive, self.diff)
    }
}

fn summary(mismatches: &[Mismatch], ran: usize) -> String {
    let list: String = mismatches.iter().map(|mismatch| format!("\n{mismatch}")).collect();
    format!("{} of {ran} cases differ (- expected, + actual)\n{list}", mismatches.len())
}

impl Runner {
    /// Returns a runner that compares, or with `BOWLINE_REWRITE=1` rewrites the files of this
    /// workspace.
    pub fn from_env() -> Runner {
        let rewrite = env::var_os("BOWLINE_REWRITE").is_some_and(|value| value == "1");
        // Cargo sets this to the directory of the test's package, which is among our crates.
        let package = env::var_os("CARGO_MANIFEST_DIR").filter(|_| rewrite).map(PathBuf::from);
        let crates = package.as_deref().and_then(Path::parent);
        Runner { rewrite_in: crates.map(Path::to_owned), ..Runner::default() }
    }

    /// Applies `normalize` to expected and actual output before they are compared.
    #[must_use]
    pub fn normalize(mut self, normalize: impl Fn(&str) -> String + 'static) -> Runner {
        self.normalize = Some(Box::new(normalize));
        self
    }

    /// Runs a script like the function [`run`].
    #[track_caller]
    pub fn run(&self, path: impl AsRef<Path>, handler: impl FnMut(&Case) -> String) -> usize {
        or_panic(self.try_run(path, handler))
    }

    /// Runs a directory like the function [`run_dir`].
    #[track_caller]
    pub fn run_dir<H>(&self, dir: impl AsRef<Path>, new_handler: impl FnMut() -> H) -> usize
    where
        H: FnMut(&Case) -> String,
    {
        or_panic(self.try_run_dir(dir, new_handler))
    }

    /// Runs the script at `path` and returns the number of its cases.
    pub fn try_run(
        &self,
        path: impl AsRef<Path>,
        handler: impl FnMut(&Case) -> String,
    ) -> Result<usize, RunError> {
        let mut tally = Tally::default();
        self.run_file(path.as_ref(), handler, &mut tally)?;
        tally.verdict()
    }

    /// Runs every script under `dir` in the order of their names and returns the number of cases.
    ///
    /// Skips hidden files, editor backups and `.md` files.
    pub fn try_run_dir<H>(
        &self,
        dir: impl AsRef<Path>,
        mut new_handler: impl FnMut() -> H,
    ) -> Result<usize, RunError>
    where
        H: FnMut(&Case) -> String,
    {
        let dir = dir.as_ref();
        let files = scripts_under(dir)?;
        let mut tally = Tally::default();
        for file in &files {
            self.run_file(file, new_handler(), &mut tally)?;
        }
        if files.is_empty() {
            return Err(RunError::NoCases { path: dir.to_owned() });
        }
        println!("{}: {} cases in {} files", dir.display(), tally.ran, files.len());
        tally.verdict()
    }

    fn run_file(
        &self,
        path: &Path,
        mut handler: impl FnMut(&Case) -> String,
        tally: &mut Tally,
    ) -> Result<(), RunError> {
        let script = read(path)?;
        if script.cases().is_empty() {
            return Err(RunError::NoCases { path: path.to_owned() });
        }
        tally.ran += script.cases().len();
        if self.may_rewrite(path) {
            return self.rewrite(path, &script, handler);
        }
        for case in script.cases() {
            tally.mismatches.extend(self.mismatch(case, &output_of(case, &mut handler)));
        }
        Ok(())
    }

    fn mismatch(&self, case: &Case, actual: &str) -> Option<Mismatch> {
        let (expected, actual) = (self.normalized(&case.expected), self.normalized(actual));
        (expected != actual).then(|| Mismatch {
            at: case.at(),
            directive: case.to_string(),
            diff: diff(&expected, &actual),
        })
    }

    fn normalized(&self, output: &str) -> String {
        self.normalize.as_ref().map_or_else(|| output.to_owned(), |normalize| normalize(output))
    }

    /// Returns whether a file is in the `testdata` of one of our crates.
    fn may_rewrite(&self, path: &Path) -> bool {
        let inside = |crates: &PathBuf| {
            let (path, crates) = (path.canonicalize().ok()?, crates.canonicalize().ok()?);
            let mut names = path.strip_prefix(crates).ok()?.iter().skip(1);
            Some(names.next()? == "testdata")
        };
        self.rewrite_in.as_ref().and_then(inside).unwrap_or(false)
    }

    fn rewrite(
        &self,
        path: &Path,
        script: &Script,
        mut handler: impl FnMut(&Case) -> String,
    ) -> Result<(), RunError> {
        let text = script
            .rewrite(|case| {
                let actual = output_of(case, &mut handler);
                self.mismatch(case, &actual).map(|_| actual)
            })
            .map_err(|source| RunError::Rewrite { path: path.to_owned(), source })?;
        if text != script.text {
            println!("rewrote {}", path.display());
            fs::write(path, text)
                .map_err(|source| RunError::Write { path: path.to_owned(), source })?;
        }
        Ok(())
    }
}

/// Returns the number of cases, or panics at the line of the caller.
#[track_caller]
fn or_panic(result: Result<usize, RunError>) -> usize {
    match result {
        Ok(ran) => ran,
        Err(error) => panic!("{error}"),
    }
}

/// The results so far.
#[derive(Default)]
struct Tally {
    ran: usize,
    mismatches: Vec<Mismatch>,
}

impl Tally {
    fn verdict(self) -> Result<usize, RunError> {
        let Tally { ran, mismatches } = self;
        if mismatches.is_empty() { Ok(ran) } else { Err(RunError::Differ { mismatches, ran }) }
    }
}

fn read(path: &Path) -> Result<Script, RunError> {
    let text = fs::read_to_string(path)
        .map_err(|source| RunError::Read { path: path.to_owned(), source })?;
    Script::parse_as(&path.display().to_string(), &text)
        .map_err(|source| RunError::Parse { path: path.to_owned(), source })
}

/// Runs one case. A non-empty output ends in a newline, like expected outputs.
fn output_of(case: &Case, handler: &mut impl FnMut(&Case) -> String) -> String {
    let _location = PrintLocationOnPanic(case);
    let mut output = handler(case);
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output
}

/// Prints the location in the script when a handler panics.
struct PrintLocationOnPanic<'a>(&'a Case);

impl Drop for PrintLocationOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("panic while running {}: {}", self.0.at(), self.0);
        }
    }
}

/// Returns all scripts under `dir`, at any depth, sorted.
fn scripts_under(dir: &Path) -> Result<Vec<PathBuf>, RunError> {
    let failed = |source| RunError::Read { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_ignored(&path) {
            continue;
        }
        if path.is_dir() {
            files.append(&mut scripts_under(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_ignored(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(['.', '#']) || name.ends_with('~') || name.ends_with(".md")
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
