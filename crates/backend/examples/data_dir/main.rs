//! Inspects database files and creates a data directory, for comparison with etcd.
//!
//! ```text
//! data_dir status FILE      print the same as `etcdutl snapshot status -w json`
//! data_dir buckets FILE     list the buckets with their number of keys
//! data_dir hash FILE        print the hash that a member with this file reports
//! data_dir assemble DIR     create a data directory for one member `default`
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

/// Opens the newest state of a file. The file may end with a hash, as snapshots do.
fn open(path: &str) -> anyhow::Result<bolt::Snapshot> {
    let options = bolt::Options { read_only: true, ..bolt::Options::default() };
    let clock = OsClock::default();
    let db = bolt::Db::open(Arc::new(OsDisk), &clock, path.as_ref(), options).context("open")?;
    Ok(db.snapshot())
}
