//! Power cuts compared with a model: a list of all versions of the file since the last sync.

use env::{Fault, SimDisk};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Write { offset: usize, len: usize, byte: u8 },
    SetLen(usize),
    Allocate(usize),
    Sync,
}

/// All versions of the file since it was durable, oldest first.
struct VersionModel(Vec<Vec<u8>>);

impl VersionModel {
    fn now(&self) -> &Vec<u8> {
        self.0.last().unwrap()
    }

    fn step(&mut self, step: &Step) {
        let mut next = self.now().clone();
        match *step {
            Step::Write { len: 0, .. } => {}
            Step::Write { offset, len, byte } => {
                next.resize(next.len().max(offset + len), 0);
                next[offset..offset + len].fill(byte);
            }
            Step::SetLen(len) => next.resize(len, 0),
            Step::Allocate(len) => next.resize(next.len().max(len), 0),
            Step::Sync => self.0.clear(),
        }
        self.0.push(next);
    }

    /// A sector of a version, zero-padded after its end, as far as the found file goes.
    fn sector(version: &[u8], sector: usize, len: usize) -> Vec<u8> {
        let from = version.len().min(sector * SECTOR);
        let to = version.len().min(sector * SECTOR + len);
        let mut bytes = version[from..to].to_vec();
        bytes.resize(len, 0);
        bytes
    }

    fn allows(&self, found: &[u8]) -> Result<(), String> {
        let len_known = self.0.iter().any(|version| version.len() == found.len());
        let growing =
            self.0.windows(2).any(|pair| (pair[0].len()..pair[1].len()).contains(&found.len()));
        if !(len_known || growing && found.len().is_multiple_of(SECTOR)) {
            return Err(format!("length {}", found.len()));
        }
        for (sector, bytes) in found.chunks(SECTOR).enumerate() {
            let known =
                |version: &Vec<u8>| VersionModel::sector(version, sector, bytes.len()) == bytes;
            if !self.0.iter().any(known) {
                return Err(format!("sector {sector} has none of its versions"));
            }
        }
        Ok(())
    }
}

fn perform(file: &dyn File, step: &Step) -> std::io::Result<()> {
    match *step {
        Step::Write { offset, len, byte } => file.write_at(&vec![byte; len], offset as u64),
        Step::SetLen(len) => file.set_len(len as u64),
        Step::Allocate(len) => file.allocate(len as u64),
        Step::Sync => file.sync_data(),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![0..4000_usize, (0..8_usize).prop_map(|sectors| sectors * SECTOR)];
    prop_oneof![
        6 => (len(), len(), 1..=255_u8).prop_map(|(offset, len, byte)| Step::Write { offset, len, byte }),
        1 => len().prop_map(Step::SetLen),
        1 => len().prop_map(|len| Step::Allocate(len + 1)),
        2 => Just(Step::Sync),
    ]
}

proptest! {
    /// The last step may be interrupted by a crash.
    #[test]
    fn every_sector_shows_one_of_its_versions(
        steps in prop::collection::vec(step(), 0..12),
        last in step(),
        seeds in prop::collection::vec(any::<u64>(), 8),
    ) {
        let disk = SimDisk::new(1);
        let file = durable(&disk, "/file", b"");
        let mut twin = VersionModel(vec![Vec::new()]);
        for step in &steps {
            perform(&*file, step).unwrap();
            twin.step(step);
            prop_assert_eq!(&disk.contents("/file").unwrap(), twin.now());
        }
        disk.fail_change(0, Fault::Crash);
        prop_assert!(perform(&*file, &last).is_err());
        if !matches!(last, Step::Sync) {
            twin.step(&last);
        }
        for seed in seeds {
            let found = disk.power_cut(seed).contents("/file").unwrap();
            if let Err(wrong) = twin.allows(&found) {
                return Err(TestCaseError::fail(format!("{wrong}, after power_cut({seed})")));
            }
        }
    }
}
