//! Path lookup.
//!
//! Paths are resolved textually: `/a/./b/../c` and `a/c` are the same file, and there are no links.
//! The root always exists.

use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use super::directory::{DirNode, Entry};

/// The components of a path, from the root.
pub(super) fn names(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => {
                names.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

/// A name in an existing directory, whether or not it is in use.
#[derive(Debug)]
pub(super) struct NameSlot {
    pub(super) directory: DirNode,
    pub(super) name: String,
}

impl NameSlot {
    /// The entry with this name, if any.
    pub(super) fn entry(&self) -> Option<Entry> {
        self.directory.lock().get(&self.name)
    }

    /// The entry with this name. Fails if there is none.
    pub(super) fn existing(&self) -> io::Result<Entry> {
        self.entry().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Resolves the parent directory and the last name of a path. The root has no name.
pub(super) fn name_slot(root: &DirNode, path: &Path) -> io::Result<NameSlot> {
    let mut names = names(path);
    let name = names.pop().ok_or(io::ErrorKind::ResourceBusy)?;
    Ok(NameSlot { directory: descend(root, &names)?, name })
}

/// Resolves an existing directory.
pub(super) fn directory(root: &DirNode, path: &Path) -> io::Result<DirNode> {
    descend(root, &names(path))
}

/// Resolves a path to its entry, if it exists.
pub(super) fn entry(root: &DirNode, path: &Path) -> io::Result<Option<Entry>> {
    let names = names(path);
    let Some((name, above)) = names.split_last() else {
        return Ok(Some(Entry::Dir(Arc::clone(root))));
    };
    match descend(root, above) {
        Ok(directory) => Ok(directory.lock().get(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the subdirectory with a name.
pub(super) fn child(directory: &DirNode, name: &str) -> io::Result<DirNode> {
    match directory.lock().get(name) {
        Some(Entry::Dir(directory)) => Ok(directory),
        Some(Entry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

fn descend(root: &DirNode, names: &[String]) -> io::Result<DirNode> {
    names.iter().try_fold(Arc::clone(root), |directory, name| child(&directory, name))
}
