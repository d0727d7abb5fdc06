//! Benchmarks of durable appends to the log: `cargo bench -p wal`.
//!
//! Saves of 1, 16 and 256 entries of 256 bytes, each synced, into one segment on a real disk: in
//! the directory named by `BOWLINE_BENCH_DIR`, or a temporary one. One line per result: name,
//! value, unit.
//!
//! ```text
//! wal_append_16_p50 812.4 us          median of the saves
//! wal_append_16_p99 1620.9 us         99th percentile
//! wal_append_16_cpu 41.3 us           CPU time per save
//! file_zeros_16_p50 803.1 us          the same on a plain file, prepared in one of three ways:
//!                                     allocated   space allocated, as in etcd
//!                                     zeros       filled with zeros
//!                                     recycled    filled with zeros, over an old segment
//! ```
//!
//! `cargo bench -p wal -- --quick` runs few saves of each, as a smoke test. So does `cargo test
//! --benches`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env as process, fs};

use env::{Create, Disk, File, Open, OsDisk};
use proto::raftpb::{Entry, HardState};
use wal::{Config, SEGMENT_BYTES, Wal};

type Failure = Box<dyn std::error::Error>;

/// Data size of an entry, in bytes.
const PAYLOAD: usize = 256;

/// Entries per save.
const BATCHES: [u64; 3] = [1, 16, 256];

/// Uncounted saves at the start, while caches fill.
const WARM_UP: usize = 20;

/// Ways to prepare a plain file.
const WAYS: [&str; 3] = ["allocated", "zeros", "recycled"];

fn main() -> Result<(), Failure> {
    let has = |flag: &str| process::args().any(|argument| argument == flag);
    let saves = if has("--bench") && !has("--quick") { 500 } else { 20 };
    let parent = match process::var_os("BOWLINE_BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    for batch in BATCHES {
        let (figures, bytes) = append(parent.path(), batch, saves)?;
        figures.print(&format!("wal_append_{batch}"));
        for way in WAYS {
            let file = prepared(&parent.path().join(way), way)?;
            let figures = measure(saves, |turn| {
                file.write_at(&vec![7; bytes], (turn * bytes) as u64)?;
                Ok(file.sync_data()?)
            })?;
            figures.print(&format!("file_{way}_{batch}"));
        }
    }
    Ok(())
}

/// Appends to a new log. Also returns the bytes that a save takes.
fn append(parent: &Path, batch: u64, saves: usize) -> Result<(Figures, usize), Failure> {
    let dir = parent.join(format!("wal-{batch}"));
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mut wal = Wal::create(disk, &dir, "bench", Config::default())?;
    let payload = bytes::Bytes::from(vec![7; PAYLOAD]);
    let entry = |index| Entry {
        term: Some(1),
        index: Some(index),
        data: Some(payload.clone()),
        r#type: None,
    };
    let start = wal.written().offset;
    let figures = measure(saves, |_| {
        let next = wal.last_index() + 1;
        let entries: Vec<Entry> = (next..next + batch).map(entry).collect();
        let state = HardState { term: Some(1), vote: Some(1), commit: Some(next - 1) };
        Ok(wal.save(&state, &entries, true)?)
    })?;
    assert_eq!(wal.last_index(), batch * (saves + WARM_UP) as u64);
    assert_eq!(
        (wal.written().seq, wal.durable()),
        (0, wal.written()),
        "everything is durable in one segment"
    );
    let bytes = (wal.written().offset - start) / (saves + WARM_UP) as u64;
    wal.close()?;
    fs::remove_dir_all(dir)?;
    Ok((figures, usize::try_from(bytes)?))
}

/// Creates a file with the size of a segment.
fn prepared(path: &Path, way: &str) -> Result<Arc<dyn File>, Failure> {
    let file = OsDisk.open(path, Open::create(Create::Truncate))?;
    file.allocate(SEGMENT_BYTES)?;
    let fill = |byte| {
        let bytes = vec![byte; usize::try_from(SEGMENT_BYTES)?];
        file.write_at(&bytes, 0)?;
        Ok::<_, Failure>(file.sync_data()?)
    };
    if way == "recycled" {
        fill(9)?;
    }
    if way != "allocated" {
        fill(0)?;
    }
    file.sync_data()?;
    Ok(file)
}

/// Durations of a series of calls.
struct Figures {
    /// Sorted durations.
    times: Vec<Duration>,
    /// CPU time per call.
    cpu: Duration,
}

fn measure(
    calls: usize,
    mut act: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Figures, Failure> {
    for turn in 0..WARM_UP {
        act(turn)?;
    }
    let before = cpu_time()?;
    let mut times = Vec::with_capacity(calls);
    for turn in WARM_UP..WARM_UP + calls {
        let start = Instant::now();
        act(turn)?;
        times.push(start.elapsed());
    }
    let cpu = (cpu_time()? - before) / u32::try_from(calls)?;
    times.sort_unstable();
    Ok(Figures { times, cpu })
}

impl Figures {
    fn print(&self, name: &str) {
        let at = |percent| self.times[(self.times.len() - 1) * percent / 100];
        for (figure, value) in [("p50", at(50)), ("p99", at(99)), ("cpu", self.cpu)] {
            println!("{name}_{figure} {:.1} us", value.as_secs_f64() * 1e6);
        }
    }
}

/// CPU time of this thread so far, or 0 where the system does not provide it.
fn cpu_time() -> Result<Duration, Failure> {
    let Ok(text) = fs::read_to_string("/proc/thread-self/schedstat") else {
        return Ok(Duration::ZERO);
    };
    let nanos = text.split(' ').next().unwrap_or("0").parse()?;
    Ok(Duration::from_nanos(nanos))
}
