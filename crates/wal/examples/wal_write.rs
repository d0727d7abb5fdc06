//! Writes deterministic logs, for comparison with logs that etcd's own package writes from the same
//! numbers.
//!
//! `wal_write DIR --seed S --round R [--big]` saves a round of entries that ends with a snapshot
//! record; the first round creates the log. `wal_write DIR --noops N` adds empty entries, as a new
//! leader does, to any log that etcd may continue with.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use env::{OsDisk, SeededRandom};
use proto::raftpb::{ConfState, Entry, EntryType, HardState};
use proto::walpb::Snapshot;
use wal::{Config, Wal};

type Failure = Box<dyn std::error::Error>;

/// Saves in a round.
const SAVES: usize = 40;

/// Bytes that `--big` adds to each entry, so that a round takes several segments.
const BIG_BYTES: u64 = 1 << 20;

/// The only member votes for itself.
const VOTE: u64 = 1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wal_write: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [dir, "--noops", count] => noops(Path::new(dir), count.parse()?),
        [dir, "--seed", seed, "--round", round] => {
            Round::new(seed.parse()?, round.parse()?, 0).write(Path::new(dir))
        }
        [dir, "--seed", seed, "--round", round, "--big"] => {
            Round::new(seed.parse()?, round.parse()?, BIG_BYTES).write(Path::new(dir))
        }
        _ => {
            Err("usage: wal_write DIR --seed S --round R [--big] | wal_write DIR --noops N".into())
        }
    }
}

struct Round {
    random: SeededRandom,
    term: u64,
    extra_bytes: u64,
}

impl Round {
    fn new(seed: u64, round: u64, extra_bytes: u64) -> Round {
        let start = seed
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add((round + 1).wrapping_mul(0xD1B5_4A32_D192_ED03));
        Round { random: SeededRandom::new(start), term: round + 1, extra_bytes }
    }

    fn write(mut self, dir: &Path) -> Result<(), Failure> {
        let (mut wal, mut last) = if wal::exists(&OsDisk, dir)? {
            open(dir)?
        } else {
            (Wal::create(Arc::new(OsDisk), dir, "bowline interop", Config::default())?, 0)
        };
        wal.prepare_in_background()?;
        for _ in 0..SAVES {
            let count = 1 + self.random.next() % 5;
            let entries: Vec<Entry> =
                (last + 1..=last + count).map(|index| self.entry(index)).collect();
            last += count;
            wal.save(&state(self.term, VOTE, last), &entries, true)?;
        }
        let members =
            ConfState { voters: vec![VOTE], auto_leave: Some(false), ..ConfState::default() };
        wal.save_snapshot(&Snapshot {
            index: Some(last),
            term: Some(self.term),
            conf_state: Some(members),
        })?;
        Ok(wal.close()?)
    }

    fn entry(&mut self, index: u64) -> Entry {
        let number = self.random.next();
        let len = number % 2000 + self.extra_bytes;
        let byte = |at: u64| (number >> 24).wrapping_add(at).to_le_bytes()[0];
        let data: Vec<u8> = (0..len).map(byte).collect();
        Entry {
            r#type: Some(EntryType::EntryNormal as i32),
            term: Some(self.term),
            index: Some(index),
            data: Some(data.into()),
        }
    }
}

/// Opens a log at its newest snapshot. Also returns the last index.
fn open(dir: &Path) -> Result<(Wal, u64), Failure> {
    let start = wal::valid_snapshots(&OsDisk, dir)?.pop().ok_or("the log has no snapshot")?;
    let opening = Wal::open(Arc::new(OsDisk), dir, &start, Config::default())?;
    let (wal, contents) = opening.read_all()?;
    let last = contents.entries.last().map_or(start.index(), Entry::index);
    Ok((wal, last))
}

fn noops(dir: &Path, count: u64) -> Result<(), Failure> {
    let (mut wal, last) = open(dir)?;
    let (term, vote) = (wal.state().term(), wal.state().vote());
    for index in last + 1..=last + count {
        let entry = Entry {
            r#type: Some(EntryType::EntryNormal as i32),
            term: Some(term),
            index: Some(index),
            data: None,
        };
        wal.save(&state(term, vote, index), &[entry], true)?;
    }
    Ok(wal.close()?)
}

fn state(term: u64, vote: u64, commit: u64) -> HardState {
    HardState { term: Some(term), vote: Some(vote), commit: Some(commit) }
}
