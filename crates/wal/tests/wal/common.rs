//! Helpers shared by the tests.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use env::{Create, Disk, Open, SimDisk};
use prost::Message;
use proto::raftpb::{ConfState, Entry, HardState};
use proto::walpb::{Record, Snapshot};
use wal::{Config, LogContents, Wal};

/// Directory of the log.
pub(crate) fn dir() -> &'static Path {
    Path::new("/member/wal")
}

/// Metadata of the log.
pub(crate) const METADATA: &[u8] =
    b"\x08\xcd\xd2\x91\xa9\xd2\xb8\xc1\xcf\x8e\x01\x10\x8e\xee\xbe\xca\xda\xef\x90\xfb\xcd\x01";

/// The member voted for, with a realistic id.
pub(crate) const VOTE: u64 = 0x8e9e_05c5_2164_694d;

/// Creates a disk with the parent directory of the log.
pub(crate) fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(Path::new("/member/snap")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.sync_dir(Path::new("/member")).unwrap();
    disk
}

pub(crate) fn shared(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

pub(crate) fn segments_of(bytes: u64) -> Config {
    Config { segment_bytes: bytes, ..Config::default() }
}

pub(crate) fn create(disk: &SimDisk, bytes: u64) -> Wal {
    Wal::create(shared(disk), dir(), METADATA, segments_of(bytes)).unwrap()
}

/// Opens and reads the log, which must succeed.
pub(crate) fn reopen(disk: &SimDisk, bytes: u64, start: &Snapshot) -> (Wal, LogContents) {
    Wal::open(shared(disk), dir(), start, segments_of(bytes)).unwrap().read_all().unwrap()
}

/// Creates an entry with data derived from its index, without zeros.
pub(crate) fn entry(term: u64, index: u64, len: usize) -> Entry {
    let start = index % 255 * 31 + term % 255 * 7;
    let byte = |at| u8::try_from((start + at) % 255 + 1).unwrap();
    let data: Vec<u8> = (0..len as u64).map(byte).collect();
    Entry {
        r#type: None,
        term: Some(term),
        index: Some(index),
        data: (len > 0).then(|| Bytes::from(data)),
    }
}

pub(crate) fn entries(term: u64, indexes: std::ops::RangeInclusive<u64>, len: usize) -> Vec<Entry> {
    indexes.map(|index| entry(term, index, len)).collect()
}

pub(crate) fn state(term: u64, commit: u64) -> HardState {
    HardState { term: Some(term), vote: Some(VOTE), commit: Some(commit) }
}

pub(crate) fn snapshot(index: u64, term: u64) -> Snapshot {
    let members = ConfState { voters: vec![VOTE], auto_leave: Some(false), ..ConfState::default() };
    Snapshot { index: Some(index), term: Some(term), conf_state: (index > 0).then_some(members) }
}

/// Lists the directory of the log.
pub(crate) fn names(disk: &SimDisk) -> Vec<String> {
    disk.read_dir(dir()).unwrap()
}

pub(crate) fn path(name: &str) -> std::path::PathBuf {
    dir().join(name)
}

/// A handcrafted log, for content that no writer produces.
#[derive(Default)]
pub(crate) struct RawLog {
    segments: Vec<(String, Vec<u8>)>,
    crc: u32,
}

impl RawLog {
    /// Starts a segment with its checksum and metadata.
    pub(crate) fn segment(&mut self, name: &str, metadata: &[u8]) {
        self.segments.push((name.to_owned(), Vec::new()));
        self.frame(&Record { r#type: Some(4), crc: Some(self.crc), data: None });
        self.push(1, metadata);
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, kind: i64, data: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, data);
        let data = Some(Bytes::copy_from_slice(data));
        self.frame(&Record { r#type: Some(kind), crc: Some(self.crc), data });
    }

    /// Adds raw bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.segments.last_mut().unwrap().1.extend(bytes);
    }

    fn frame(&mut self, record: &Record) {
        let record = record.encode_to_vec();
        let pad = record.len().next_multiple_of(8) - record.len();
        let top = if pad == 0 { 0 } else { 0x80 | pad as u64 };
        self.bytes(&(record.len() as u64 | top << 56).to_le_bytes());
        self.bytes(&record);
        self.bytes(&[0; 8][..pad]);
    }

    /// Writes the log to a disk, replacing any other.
    pub(crate) fn write(&self, disk: &SimDisk) {
        disk.create_dir_all(dir()).unwrap();
        for (name, bytes) in &self.segments {
            let file = disk.open(&path(name), Open::create(Create::Truncate)).unwrap();
            file.write_at(bytes, 0).unwrap();
            file.sync_data().unwrap();
        }
        disk.sync_dir(dir()).unwrap();
        disk.sync_dir(Path::new("/member")).unwrap();
    }
}
