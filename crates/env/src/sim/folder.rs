//! A folder: names that are durable, and changes of names that are not yet.
//!
//! ```text
//! durable    a.tmp → file 1   a → file 0
//! pending    #8 rename a.tmp → a    #9 link b → file 2
//! now        a → file 1   b → file 2
//! ```
//!
//! A power cut leaves the durable names with the first few of the pending changes. So a rename shows the old names or the new
//! ones, and where it is lost, the file that it replaced is back.
//!
//! A rename from one folder to another is two changes that know nothing of each other, a link and an unlink. Until both
//! folders are synced, a power cut may leave a file in both, as two copies, or in none. Real file systems are kinder;
//! nothing that has to survive should depend on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::contents::Contents;
use super::locks::Locks;
use crate::Kind;

/// A file. It lives while a name, a pending change or a handle leads to it.
pub(super) type FileNode = Arc<Mutex<FileState>>;

/// A folder.
pub(super) type FolderNode = Arc<Mutex<Folder>>;

/// What the disk knows of a file.
#[derive(Debug, Default)]
pub(super) struct FileState {
    pub(super) contents: Contents,
    pub(super) locks: Locks,
}

impl FileState {
    /// A file that nobody has locked.
    pub(super) fn new(contents: Contents) -> FileState {
        FileState { contents, locks: Locks::default() }
    }
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    File(FileNode),
    Dir(FolderNode),
}

impl Entry {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Entry::File(_) => Kind::File,
            Entry::Dir(_) => Kind::Dir,
        }
    }
}

/// Names, sorted.
pub(super) type Names = BTreeMap<String, Entry>;

/// A folder of the tree.
#[derive(Debug, Default)]
pub(super) struct Folder {
    now: Names,
    durable: Names,
    pending: Vec<Change>,
}

/// A change of names, with its number.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) stamp: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Link { name: String, entry: Entry },
    Unlink { name: String },
    Rename { from: String, to: String },
}

impl What {
    fn apply(&self, names: &mut Names) {
        match self {
            What::Link { name, entry } => {
                names.insert(name.clone(), entry.clone());
            }
            What::Unlink { name } => {
                names.remove(name);
            }
            What::Rename { from, to } => {
                if let Some(entry) = names.remove(from) {
                    names.insert(to.clone(), entry);
                }
            }
        }
    }
}

impl Folder {
    /// A folder whose names are all durable.
    pub(super) fn durable(names: Names) -> Folder {
        Folder { now: names.clone(), durable: names, pending: Vec::new() }
    }

    /// The names as they are seen.
    pub(super) fn names(&self) -> &Names {
        &self.now
    }

    /// What a name leads to.
    pub(super) fn get(&self, name: &str) -> Option<Entry> {
        self.now.get(name).cloned()
    }

    /// Gives a name to a file or folder, in place of whatever had it.
    pub(super) fn link(&mut self, name: &str, entry: Entry, stamp: u64) {
        self.change(What::Link { name: name.to_owned(), entry }, stamp);
    }

    /// Takes a name away.
    pub(super) fn unlink(&mut self, name: &str, stamp: u64) {
        self.change(What::Unlink { name: name.to_owned() }, stamp);
    }

    /// Gives another name, in place of whatever had it.
    pub(super) fn rename(&mut self, from: &str, to: &str, stamp: u64) {
        self.change(What::Rename { from: from.to_owned(), to: to.to_owned() }, stamp);
    }

    /// The names become durable as they are.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.what.apply(&mut self.durable);
        }
    }

    /// The changes that are not durable, in order.
    pub(super) fn pending(&self) -> &[Change] {
        &self.pending
    }

    /// The durable names with the first `count` of the pending changes.
    pub(super) fn names_after(&self, count: usize) -> Names {
        let mut names = self.durable.clone();
        self.pending.iter().take(count).for_each(|change| change.what.apply(&mut names));
        names
    }

    fn change(&mut self, what: What, stamp: u64) {
        what.apply(&mut self.now);
        self.pending.push(Change { stamp, what });
    }
}
