//! Looks at database files, and makes a member's directory, for etcd to judge.
//!
//! ```text
//! data_dir status FILE      what `etcdutl snapshot status -w json` says of it
//! data_dir buckets FILE     each bucket, and how many keys it has
//! data_dir hash FILE        what a member that has it answers when asked for its hash
//! data_dir assemble DIR     a directory as `etcdutl snapshot restore` makes it, for one member called `default`
//! ```

mod assemble;
mod keys;
mod status;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use backend::schema::ignored_by_hash;
use backend::{Backend, Config};
use env::{OsClock, OsDisk};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    match arguments {
        [command, path] if command == "status" => println!("{}", status::status(&open(path)?)?),
        [command, path] if command == "buckets" => print!("{}", status::buckets(&open(path)?)?),
        [command, path] if command == "hash" => println!("{}", hash(path)?),
        [command, path] if command == "assemble" => assemble::assemble(Path::new(path))?,
        _ => bail!("usage: data_dir status FILE | buckets FILE | hash FILE | assemble DIR"),
    }
    Ok(())
}

fn hash(path: &str) -> anyhow::Result<u32> {
    let bolt = bolt::Options { read_only: true, ..bolt::Options::default() };
    let config = Config { bolt, ..Config::default() };
    let clock = Arc::new(OsClock::default());
    let backend = Backend::open(Arc::new(OsDisk), clock, path.as_ref(), config).context("open")?;
    Ok(backend.hash(&ignored_by_hash)?)
}

/// The newest state of a file. The file may end with a hash, as snapshots do.
fn open(path: &str) -> anyhow::Result<bolt::Snapshot> {
    let options = bolt::Options { read_only: true, ..bolt::Options::default() };
    let clock = OsClock::default();
    let db = bolt::Db::open(Arc::new(OsDisk), &clock, path.as_ref(), options).context("open")?;
    Ok(db.snapshot())
}
