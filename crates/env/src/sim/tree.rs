//! From paths to files and folders.
//!
//! Paths are taken apart by their text: `/a/./b/../c` and `a/c` are the same file, and there are no links. The root always exists.

use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use super::folder::{Entry, FolderNode};
use super::lock;

/// The names along a path, from the root.
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

/// A name in a folder that exists, whether or not anything has the name.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: FolderNode,
    pub(super) name: String,
}

impl Place {
    /// What has the name.
    pub(super) fn entry(&self) -> Option<Entry> {
        lock(&self.folder).get(&self.name)
    }

    /// What has the name, which something must.
    pub(super) fn existing(&self) -> io::Result<Entry> {
        self.entry().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The folder that holds the last name of a path. The root has no name.
pub(super) fn place(root: &FolderNode, path: &Path) -> io::Result<Place> {
    let mut names = names(path);
    let name = names.pop().ok_or(io::ErrorKind::ResourceBusy)?;
    Ok(Place { folder: descend(root, &names)?, name })
}

/// A folder that exists.
pub(super) fn folder(root: &FolderNode, path: &Path) -> io::Result<FolderNode> {
    descend(root, &names(path))
}

/// What is at a path, if anything is.
pub(super) fn entry(root: &FolderNode, path: &Path) -> io::Result<Option<Entry>> {
    let names = names(path);
    let Some((name, above)) = names.split_last() else {
        return Ok(Some(Entry::Dir(Arc::clone(root))));
    };
    match descend(root, above) {
        Ok(folder) => Ok(lock(&folder).get(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The folder that a name in a folder leads to.
pub(super) fn child(folder: &FolderNode, name: &str) -> io::Result<FolderNode> {
    match lock(folder).get(name) {
        Some(Entry::Dir(folder)) => Ok(folder),
        Some(Entry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

fn descend(root: &FolderNode, names: &[String]) -> io::Result<FolderNode> {
    names.iter().try_fold(Arc::clone(root), |folder, name| child(&folder, name))
}
