//! Any sequence of calls has the same results on both disks.

use std::io;
use std::sync::Arc;

use env::{Create, File, Kind, Lock, Locking, Open};
use proptest::prelude::*;

use super::{TestDisk, real, simulated};

const SLOTS: usize = 4;

/// A call on a name or on one of a few open files.
#[derive(Clone, Debug)]
enum Call {
    Open(usize, String, Open),
    Close(usize),
    CreateDir(String),
    ReadDir(String),
    Kind(String),
    Rename(String, String),
    RemoveFile(String),
    RemoveDir(String),
    SyncDir(String),
    Read(usize, usize, u64),
    Write(usize, usize, u64, u8),
    Len(usize),
    SetLen(usize, u64),
    Allocate(usize, u64),
    Sync(usize),
    Lock(usize, Locking, Lock),
    IsAt(usize, String),
    Map(usize, u64),
}

/// The result of a call, in a form that is comparable between disks.
type Outcome = Result<String, io::ErrorKind>;

/// A disk with its open files.
struct CallRunner {
    ground: TestDisk,
    files: [Option<Arc<dyn File>>; SLOTS],
}

impl CallRunner {
    fn new(ground: TestDisk) -> CallRunner {
        CallRunner { ground, files: Default::default() }
    }

    fn execute(&mut self, call: &Call) -> Outcome {
        self.perform(call).map_err(|error| error.kind())
    }

    fn perform(&mut self, call: &Call) -> io::Result<String> {
        let disk = Arc::clone(&self.ground.disk);
        let path = |name: &String| self.ground.path(name);
        let file = |slot: &usize| self.files[*slot].clone().ok_or(io::ErrorKind::Other);
        Ok(match call {
            Call::Open(slot, name, how) => {
                let opened = self.ground.open(name, *how)?;
                self.files[*slot] = Some(opened);
                "opened".to_owned()
            }
            Call::Close(slot) => format!("closed {}", self.files[*slot].take().is_some()),
            Call::CreateDir(name) => format!("{:?}", disk.create_dir_all(&path(name))?),
            Call::ReadDir(name) => format!("{:?}", disk.read_dir(&path(name))?),
            Call::Kind(name) => format!("{:?}", disk.kind(&path(name))?),
            Call::Rename(from, to) => format!("{:?}", disk.rename(&path(from), &path(to))?),
            Call::RemoveFile(name) => format!("{:?}", disk.remove_file(&path(name))?),
            Call::RemoveDir(name) => format!("{:?}", disk.remove_dir_all(&path(name))?),
            Call::SyncDir(name) => format!("{:?}", disk.sync_dir(&path(name))?),
            Call::Read(slot, len, offset) => {
                let mut buf = vec![0; *len];
                let count = file(slot)?.read_at(&mut buf, *offset)?;
                format!("{:?}", &buf[..count])
            }
            Call::Write(slot, len, offset, byte) => {
                format!("{:?}", file(slot)?.write_at(&vec![*byte; *len], *offset)?)
            }
            Call::Len(slot) => format!("{:?}", file(slot)?.len()?),
            Call::SetLen(slot, len) => format!("{:?}", file(slot)?.set_len(*len)?),
            Call::Allocate(slot, len) => format!("{:?}", file(slot)?.allocate(*len)?),
            Call::Sync(slot) => format!("{:?}", file(slot)?.sync_data()?),
            Call::Lock(slot, locking, lock) => {
                format!("{:?}", file(slot)?.try_lock(*locking, *lock)?)
            }
            Call::IsAt(slot, name) => format!("{:?}", file(slot)?.is_at(&path(name))?),
            Call::Map(slot, len) => {
                // SAFETY: the slice is dropped before the next call.
                #[expect(unsafe_code, reason = "the test is about maps")]
                let map = unsafe { file(slot)?.map(*len, None)? };
                format!("{:?}", map.get(0, map.len()))
            }
        })
    }

    /// Reports whether the two disks may differ: Linux allows opening a directory for reading, and
    /// syncing a file as a directory.
    fn may_differ(&self, call: &Call) -> bool {
        let kind = |name: &String| self.ground.disk.kind(&self.ground.path(name)).ok().flatten();
        match call {
            Call::Open(_, name, how) => !how.write && kind(name) == Some(Kind::Dir),
            Call::SyncDir(name) => kind(name) == Some(Kind::File),
            _ => false,
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..=3)
        .prop_map(|parts| parts.join("/"))
}

fn how() -> impl Strategy<Value = Open> {
    let creates = vec![Create::Never, Create::IfMissing, Create::Truncate, Create::New];
    (prop::sample::select(creates), prop::bool::weighted(0.8))
        .prop_map(|(create, write)| Open { write, ..Open::create(create) })
}

fn call() -> impl Strategy<Value = Call> {
    let slot = || 0..SLOTS;
    let len = || 0..3000_u64;
    let locking = prop::sample::select(vec![Locking::Flock, Locking::Ofd]);
    let lock = prop::sample::select(vec![Lock::Shared, Lock::Exclusive]);
    prop_oneof![
        6 => (slot(), name(), how()).prop_map(|(slot, name, how)| Call::Open(slot, name, how)),
        1 => slot().prop_map(Call::Close),
        3 => name().prop_map(Call::CreateDir),
        1 => name().prop_map(Call::ReadDir),
        1 => name().prop_map(Call::Kind),
        4 => (name(), name()).prop_map(|(from, to)| Call::Rename(from, to)),
        2 => name().prop_map(Call::RemoveFile),
        1 => name().prop_map(Call::RemoveDir),
        1 => name().prop_map(Call::SyncDir),
        2 => (slot(), 0..3000_usize, len()).prop_map(|(slot, len, at)| Call::Read(slot, len, at)),
        3 => (slot(), 0..2000_usize, len(), any::<u8>())
            .prop_map(|(slot, len, at, byte)| Call::Write(slot, len, at, byte)),
        1 => slot().prop_map(Call::Len),
        1 => (slot(), len()).prop_map(|(slot, len)| Call::SetLen(slot, len)),
        1 => (slot(), len()).prop_map(|(slot, len)| Call::Allocate(slot, len)),
        1 => slot().prop_map(Call::Sync),
        3 => (slot(), locking, lock).prop_map(|(slot, locking, lock)| Call::Lock(slot, locking, lock)),
        1 => (slot(), name()).prop_map(|(slot, name)| Call::IsAt(slot, name)),
        1 => (slot(), len()).prop_map(|(slot, len)| Call::Map(slot, len)),
    ]
}

proptest! {
    #[test]
    fn both_disks_return_the_same_results(calls in prop::collection::vec(call(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let (mut sim, mut os) = (CallRunner::new(simulated()), CallRunner::new(real(dir.path())));
        for call in &calls {
            if !sim.may_differ(call) {
                prop_assert_eq!(sim.execute(call), os.execute(call), "{:?}", call);
            }
        }
    }
}
