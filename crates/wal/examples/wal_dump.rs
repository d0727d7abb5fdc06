//! Prints a log and snapshot files as text for comparison: `wal_dump DIR [--snap DIR]`, one line
//! per record.
//!
//! ```text
//! crc 0
//! metadata 08e2e5e8d3d8c3e8e80a109e928d89f49499e3b101
//! snapshot 0 0
//! entry 1 1 1 1000188...                      term, index, type, data; `-` if empty, or a hash
//! state 1 6388509975005204352 1               term, vote, commit
//! snapshot 1 1 voters=6388509975005204352 learners= voters_outgoing= learners_next= …
//! torn                                        an incomplete record ends the log
//! snap 0000000000000001-0000000000000001.snap 1 1 3182873102 9f86d0...
//! ```
//!
//! `wal_dump --check DIR` instead opens the log for writing at its newest snapshot and prints how
//! it ends; `wal_dump --hold DIR COMMAND` runs a command while it is open.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use env::{Disk, OsDisk};
use prost::Message;
use proto::raftpb::{ConfState, Entry};
use proto::{snappb, walpb};
use wal::{Config, Record, RecordKind, Records, Wal, snap};

#[path = "../../bolt/examples/bolt_tool/sha256.rs"]
mod sha256;

use sha256::sha256;

type Failure = Box<dyn std::error::Error>;

/// Longer data is printed as a hash.
const HEX_BYTES_MAX: usize = 1024;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wal_dump: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--check", dir] => check(&mut out, Path::new(dir))?,
        ["--hold", dir, command, ref arguments @ ..] => hold(Path::new(dir), command, arguments)?,
        [dir] => dump_log(&mut out, Path::new(dir))?,
        [dir, "--snap", snap] => {
            dump_log(&mut out, Path::new(dir))?;
            dump_snapshots(&mut out, Path::new(snap))?;
        }
        _ => {
            return Err(
                "usage: wal_dump DIR [--snap DIR] | --check DIR | --hold DIR COMMAND".into()
            );
        }
    }
    Ok(out.flush()?)
}

fn dump_log(out: &mut impl Write, dir: &Path) -> Result<(), Failure> {
    let mut records = Records::open(&OsDisk, dir)?;
    loop {
        match records.next() {
            Ok(Some(record)) => dump_record(out, &record)?,
            Ok(None) => return Ok(()),
            Err(error) if error.is_torn() => return Ok(writeln!(out, "torn")?),
            Err(error) => return Err(error.into()),
        }
    }
}

fn dump_record(out: &mut impl Write, record: &Record) -> Result<(), Failure> {
    match record.kind {
        RecordKind::Crc => writeln!(out, "crc {}", record.crc)?,
        RecordKind::Metadata => writeln!(out, "metadata {}", hex(&record.data))?,
        RecordKind::State => {
            let state = wal::decode_state(record)?;
            writeln!(out, "state {} {} {}", state.term(), state.vote(), state.commit())?;
        }
        RecordKind::Entry => {
            let entry = wal::decode_entry(record)?;
            let kind = entry.r#type.unwrap_or_default();
            writeln!(out, "entry {} {} {kind} {}", entry.term(), entry.index(), hex(entry.data()))?;
        }
        RecordKind::Snapshot => {
            let snapshot = wal::decode_snapshot(record)?;
            let members = snapshot.conf_state.as_ref().map(members).unwrap_or_default();
            writeln!(out, "snapshot {} {}{members}", snapshot.index(), snapshot.term())?;
        }
    }
    Ok(())
}

fn members(state: &ConfState) -> String {
    let list = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    format!(
        " voters={} learners={} voters_outgoing={} learners_next={} auto_leave={}",
        list(&state.voters),
        list(&state.learners),
        list(&state.voters_outgoing),
        list(&state.learners_next),
        state.auto_leave()
    )
}

fn dump_snapshots(out: &mut impl Write, dir: &Path) -> Result<(), Failure> {
    for name in OsDisk.read_dir(dir)?.iter().filter(|name| name.ends_with(".snap")) {
        let path: PathBuf = dir.join(name);
        // A server killed while writing a snapshot file leaves it unreadable.
        let Ok(snapshot) = snap::read(&OsDisk, &path) else {
            writeln!(out, "snap {name} unreadable")?;
            continue;
        };
        let disk: &dyn Disk = &OsDisk;
        let crc =
            snappb::Snapshot::decode(&disk.read(&path, wal::snap::SNAP_BYTES_MAX)?[..])?.crc();
        let metadata = snapshot.metadata.clone().unwrap_or_default();
        let hash = plain_hex(&sha256(snapshot.data()));
        writeln!(out, "snap {name} {} {} {crc} {hash}", metadata.index(), metadata.term())?;
    }
    Ok(())
}

/// Opens the log as a server does: for writing, at the newest snapshot.
fn open(dir: &Path) -> Result<(Wal, wal::LogContents, walpb::Snapshot), Failure> {
    let start: walpb::Snapshot =
        wal::valid_snapshots(&OsDisk, dir)?.pop().ok_or("the log has no snapshot")?;
    let opening = Wal::open(Arc::new(OsDisk), dir, &start, Config::default())?;
    let (wal, contents) = opening.read_all()?;
    Ok((wal, contents, start))
}

fn hold(dir: &Path, command: &str, arguments: &[&str]) -> Result<(), Failure> {
    let (wal, ..) = open(dir)?;
    let status = std::process::Command::new(command).args(arguments).status()?;
    wal.close()?;
    if status.success() { Ok(()) } else { Err(format!("{command}: {status}").into()) }
}

fn check(out: &mut impl Write, dir: &Path) -> Result<(), Failure> {
    let (wal, contents, start) = open(dir)?;
    wal.close()?;
    let last = contents.entries.last().map_or(start.index(), Entry::index);
    let (count, state) = (contents.entries.len(), contents.state);
    let (term, vote, commit) = (state.term(), state.vote(), state.commit());
    Ok(writeln!(out, "ok entries {count} last {last} state {term} {vote} {commit}")?)
}

fn hex(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "-".into(),
        1..=HEX_BYTES_MAX => plain_hex(bytes),
        _ => format!("sha256:{}", plain_hex(&sha256(bytes))),
    }
}

fn plain_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
