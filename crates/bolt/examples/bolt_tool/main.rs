//! Inspects and creates database files, for users and for comparisons with bbolt.
//!
//! ```text
//! bolt_tool dump FILE                  print the contents as text
//! bolt_tool check FILE                 check the consistency
//! bolt_tool stats FILE                 print statistics
//! bolt_tool write --seed S --count N [--nested] [--deletes] [--page-size P] [--sync-freelist] FILE
//! bolt_tool round --seed S --round R FILE
//! bolt_tool defrag FILE
//! bolt_tool snapshot FILE OUT          copy the newest state
//! bolt_tool hold FILE COMMAND...       run a command while the file is open for writing
//! ```
//!
//! `write` and `round` make changes derived from the seed, the same as `boltwrite` in `interop`
//! makes with bbolt.

mod dump;
mod sha256;
mod workload;

use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bolt::{Db, Options};
use env::{OsClock, OsDisk};

const USAGE: &str = "usage: bolt_tool dump|check|stats|write|round|defrag|snapshot|hold [flags] FILE [OUT|COMMAND...]";

/// Maximum time to wait for the lock of the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match Args::parse(std::env::args().skip(1)).and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bolt_tool: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    match args.command.as_str() {
        "dump" => dump_file(args.file()?),
        "check" => check(args.file()?),
        "stats" => stats(args.file()?),
        "write" => args.write()?.apply(&args.open()?),
        "round" => args.round()?.apply(&args.open()?),
        "defrag" => {
            args.open()?.defragment(&OsClock::default())?;
            Ok(())
        }
        "hold" => hold(args),
        "snapshot" => snapshot(args.file()?, args.files.get(1).context("no OUT given")?),
        other => bail!("unknown command {other:?}; {USAGE}"),
    }
}

/// The parsed command line.
#[derive(Debug, Default)]
struct Args {
    command: String,
    files: Vec<PathBuf>,
    seed: u64,
    count: u64,
    round: Option<u64>,
    nested: bool,
    deletes: bool,
    sync_freelist: bool,
    page_size: Option<usize>,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Args> {
        let command = words.next().context(USAGE)?;
        let mut args = Args { command, seed: 1, ..Args::default() };
        while let Some(word) = words.next() {
            match word.as_str() {
                // All further arguments belong to the command.
                _ if args.command == "hold" && !args.files.is_empty() => {
                    args.files.push(word.into());
                    args.files.extend(words.by_ref().map(PathBuf::from));
                }
                "--nested" => args.nested = true,
                "--deletes" => args.deletes = true,
                "--sync-freelist" => args.sync_freelist = true,
                "--seed" => args.seed = number(&word, words.next())?,
                "--count" => args.count = number(&word, words.next())?,
                "--round" => args.round = Some(number(&word, words.next())?),
                "--page-size" => {
                    args.page_size = Some(usize::try_from(number(&word, words.next())?)?);
                }
                flag if flag.starts_with("--") => bail!("unknown flag {flag}; {USAGE}"),
                _ => args.files.push(word.into()),
            }
        }
        Ok(args)
    }

    fn file(&self) -> Result<&Path> {
        Ok(self.files.first().context("no FILE given")?)
    }

    /// Opens the file for writing, creating it if it is missing.
    fn open(&self) -> Result<Db> {
        let mut options = Options { sync_freelist: self.sync_freelist, ..Options::default() };
        options.page_size = self.page_size.unwrap_or(options.page_size);
        open(self.file()?, options)
    }

    fn write(&self) -> Result<workload::Workload> {
        Ok(workload::written(self.seed, self.count, self.nested, self.deletes))
    }

    fn round(&self) -> Result<workload::Workload> {
        Ok(workload::round(self.seed, self.round.context("no --round given")?))
    }
}

fn number(flag: &str, word: Option<String>) -> Result<u64> {
    let word = word.with_context(|| format!("{flag} needs a number"))?;
    word.parse().with_context(|| format!("{flag} {word}"))
}

fn open(path: &Path, mut options: Options) -> Result<Db> {
    options.lock_timeout = Some(LOCK_TIMEOUT);
    Ok(Db::open(Arc::new(OsDisk), &OsClock::default(), path, options)?)
}

fn open_to_read(path: &Path) -> Result<Db> {
    open(path, Options { read_only: true, ..Options::default() })
}

fn dump_file(path: &Path) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    dump::dump(&open_to_read(path)?.snapshot(), &mut out)?;
    Ok(out.flush()?)
}

fn check(path: &Path) -> Result<()> {
    let snapshot = open_to_read(path)?.snapshot();
    let errors = snapshot.check();
    errors.iter().for_each(|error| eprintln!("{error}"));
    ensure!(errors.is_empty(), "{} errors", errors.len());
    let stats = snapshot.root().stats()?;
    // The root does not count as a bucket, and buckets do not count as keys.
    let buckets = stats.buckets - 1;
    println!("ok buckets {buckets} keys {}", stats.keys - buckets);
    Ok(())
}

fn stats(path: &Path) -> Result<()> {
    let snapshot = open_to_read(path)?.snapshot();
    let stats = snapshot.root().stats()?;
    println!(
        "txid {} page size {} size {}",
        snapshot.txid(),
        snapshot.page_size(),
        snapshot.size()
    );
    println!("buckets {} inline {} items {}", stats.buckets, stats.inline_buckets, stats.keys);
    println!(
        "depth {} branch pages {} leaf pages {}",
        stats.depth, stats.branch_pages, stats.leaf_pages
    );
    println!(
        "overflow pages {} bytes in all of these {}",
        stats.overflow_pages, stats.allocated_bytes
    );
    Ok(())
}

fn hold(args: &Args) -> Result<()> {
    let _held = args.open()?;
    let command = args.files.get(1).context("no COMMAND given")?;
    let status = std::process::Command::new(command).args(&args.files[2..]).status()?;
    ensure!(status.success(), "{}: {status}", command.display());
    Ok(())
}

fn snapshot(path: &Path, out: &Path) -> Result<()> {
    let snapshot = open_to_read(path)?.snapshot();
    let file =
        std::fs::File::create_new(out).with_context(|| format!("create {}", out.display()))?;
    let mut to = BufWriter::new(file);
    snapshot.write_to(&mut to)?;
    to.into_inner()?.sync_all()?;
    Ok(())
}
