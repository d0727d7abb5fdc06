//! The calls on names.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::directory::{DirNode, Entry, FileNode};
use super::faults::DiskCall;
use super::handle::SimFile;
use super::{SimDisk, SimState, tree};
use crate::{Create, Disk, File, Kind, Open};

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        let missing = !matches!(tree::entry(&state.root, path), Ok(Some(_)));
        let changes = match how.create {
            Create::Never => false,
            Create::IfMissing | Create::New => missing,
            Create::Truncate => true,
        };
        let file = state.change(DiskCall::Open { changes }, |state| open(state, path, how))?;
        state.handles += 1;
        Ok(Arc::new(SimFile::new(self.clone(), file, state.handles, how.write)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.lock().change(DiskCall::CreateDir, |state| create_dir_all(state, path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.enter(DiskCall::Stat)?;
        let directory = tree::directory(&state.root, path)?;
        Ok(directory.lock().names().keys().cloned().collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let mut state = self.lock();
        state.enter(DiskCall::Stat)?;
        Ok(tree::entry(&state.root, path)?.map(|entry| entry.kind()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.lock().change(DiskCall::Rename, |state| rename(state, from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.lock().change(DiskCall::Remove, |state| {
            let slot = tree::name_slot(&state.root, path)?;
            match slot.existing()? {
                Entry::File(_) => slot.directory.lock().unlink(&slot.name, state.next_stamp()),
                Entry::Dir(_) => return Err(io::ErrorKind::IsADirectory.into()),
            }
            Ok(())
        })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.lock().change(DiskCall::Remove, |state| {
            let slot = tree::name_slot(&state.root, path)?;
            empty(state, &tree::child(&slot.directory, &slot.name)?);
            slot.directory.lock().unlink(&slot.name, state.next_stamp());
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.enter(DiskCall::SyncDir)?;
        let directory = tree::directory(&state.root, path)?;
        directory.lock().sync();
        Ok(())
    }
}

fn open(state: &mut SimState, path: &Path, how: Open) -> io::Result<FileNode> {
    if !how.write && how.create != Create::Never {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if tree::names(path).is_empty() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let slot = tree::name_slot(&state.root, path)?;
    match (slot.entry(), how.create) {
        (Some(_), Create::New) => Err(io::ErrorKind::AlreadyExists.into()),
        (Some(Entry::Dir(_)), _) => Err(io::ErrorKind::IsADirectory.into()),
        (Some(Entry::File(file)), Create::Truncate) => {
            file.lock().contents.set_len(0, state.next_stamp());
            Ok(file)
        }
        (Some(Entry::File(file)), Create::Never | Create::IfMissing) => Ok(file),
        (None, Create::Never) => Err(io::ErrorKind::NotFound.into()),
        (None, Create::IfMissing | Create::Truncate | Create::New) => {
            let file = FileNode::default();
            let entry = Entry::File(Arc::clone(&file));
            slot.directory.lock().link(&slot.name, entry, state.next_stamp());
            Ok(file)
        }
    }
}

fn create_dir_all(state: &mut SimState, path: &Path) -> io::Result<()> {
    let names = tree::names(path);
    let mut directory = Arc::clone(&state.root);
    for (depth, name) in names.iter().enumerate() {
        let found = directory.lock().get(name);
        directory = match found {
            Some(Entry::Dir(inner)) => inner,
            Some(Entry::File(_)) if depth + 1 == names.len() => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => {
                let inner = DirNode::default();
                directory.lock().link(name, Entry::Dir(Arc::clone(&inner)), state.next_stamp());
                inner
            }
        };
    }
    Ok(())
}

/// Removes everything in a directory, one change at a time.
fn empty(state: &mut SimState, directory: &DirNode) {
    let names = directory.lock().names().clone();
    for (name, entry) in names {
        if let Entry::Dir(inner) = entry {
            empty(state, &inner);
        }
        directory.lock().unlink(&name, state.next_stamp());
    }
}

fn rename(state: &mut SimState, from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (tree::name_slot(&state.root, from)?, tree::name_slot(&state.root, to)?);
    let entry = source.existing()?;
    let (from, to) = (tree::names(from), tree::names(to));
    if from == to {
        return Ok(());
    }
    if to.starts_with(&from) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if from.starts_with(&to) {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    if let Some(replaced) = target.entry() {
        may_replace(&entry, &replaced)?;
    }
    if Arc::ptr_eq(&source.directory, &target.directory) {
        source.directory.lock().rename(&source.name, &target.name, state.next_stamp());
    } else {
        target.directory.lock().link(&target.name, entry, state.next_stamp());
        source.directory.lock().unlink(&source.name, state.next_stamp());
    }
    Ok(())
}

/// A file may replace a file, and a directory an empty directory.
fn may_replace(entry: &Entry, replaced: &Entry) -> io::Result<()> {
    match (entry, replaced) {
        (Entry::File(_), Entry::File(_)) => Ok(()),
        (Entry::File(_), Entry::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
        (Entry::Dir(_), Entry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
        (Entry::Dir(_), Entry::Dir(directory)) if directory.lock().names().is_empty() => Ok(()),
        (Entry::Dir(_), Entry::Dir(_)) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
    }
}
