//! A directory: durable names, and pending name changes.
//!
//! ```text
//! durable    a.tmp → file 1   a → file 0
//! pending    #8 rename a.tmp → a    #9 link b → file 2
//! now        a → file 1   b → file 2
//! ```
//!
//! A power cut leaves the durable names with a prefix of the pending changes. So a rename shows the
//! old names or the new ones, and if it is lost, the replaced file is back.
//!
//! A rename between directories consists of two independent changes, a link and an unlink. Until
//! both directories are synced, a power cut may leave the file in both, as two copies, or in
//! neither. Real file systems guarantee more; durable state should not depend on that.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::contents::FileContents;
use super::locks::Locks;
use crate::Kind;

/// A file. It lives while a name, a pending change or a handle refers to it.
pub(super) type FileNode = Arc<Mutex<FileState>>;

/// A directory.
pub(super) type DirNode = Arc<Mutex<SimDirectory>>;

/// The state of a file.
#[derive(Debug, Default)]
pub(super) struct FileState {
    pub(super) contents: FileContents,
    pub(super) locks: Locks,
}

impl FileState {
    /// Creates an unlocked file.
    pub(super) fn new(contents: FileContents) -> FileState {
        FileState { contents, locks: Locks::default() }
    }
}

/// A directory entry.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    File(FileNode),
    Dir(DirNode),
}

impl Entry {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Entry::File(_) => Kind::File,
            Entry::Dir(_) => Kind::Dir,
        }
    }
}

/// Directory entries, sorted by name.
pub(super) type Names = BTreeMap<String, Entry>;

/// A directory of the tree.
#[derive(Debug, Default)]
pub(super) struct SimDirectory {
    now: Names,
    durable: Names,
    pending: Vec<NameChange>,
}

/// A name change with its stamp.
#[derive(Debug)]
pub(super) struct NameChange {
    pub(super) stamp: u64,
    op: NameOp,
}

#[derive(Debug)]
enum NameOp {
    Link { name: String, entry: Entry },
    Unlink { name: String },
    Rename { from: String, to: String },
}

impl NameOp {
    fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Link { name, entry } => {
                names.insert(name.clone(), entry.clone());
            }
            NameOp::Unlink { name } => {
                names.remove(name);
            }
            NameOp::Rename { from, to } => {
                if let Some(entry) = names.remove(from) {
                    names.insert(to.clone(), entry);
                }
            }
        }
    }
}

impl SimDirectory {
    /// Creates a directory whose names are all durable.
    pub(super) fn durable(names: Names) -> SimDirectory {
        SimDirectory { now: names.clone(), durable: names, pending: Vec::new() }
    }

    /// The current names.
    pub(super) fn names(&self) -> &Names {
        &self.now
    }

    /// Returns the entry with a name.
    pub(super) fn get(&self, name: &str) -> Option<Entry> {
        self.now.get(name).cloned()
    }

    /// Adds a name, replacing an existing entry.
    pub(super) fn link(&mut self, name: &str, entry: Entry, stamp: u64) {
        self.change(NameOp::Link { name: name.to_owned(), entry }, stamp);
    }

    /// Removes a name.
    pub(super) fn unlink(&mut self, name: &str, stamp: u64) {
        self.change(NameOp::Unlink { name: name.to_owned() }, stamp);
    }

    /// Renames an entry, replacing an existing one.
    pub(super) fn rename(&mut self, from: &str, to: &str, stamp: u64) {
        self.change(NameOp::Rename { from: from.to_owned(), to: to.to_owned() }, stamp);
    }

    /// Makes all names durable.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.op.apply(&mut self.durable);
        }
    }

    /// The pending changes, in order.
    pub(super) fn pending(&self) -> &[NameChange] {
        &self.pending
    }

    /// The durable names with the first `count` pending changes applied.
    pub(super) fn names_after(&self, count: usize) -> Names {
        let mut names = self.durable.clone();
        self.pending.iter().take(count).for_each(|change| change.op.apply(&mut names));
        names
    }

    fn change(&mut self, op: NameOp, stamp: u64) {
        op.apply(&mut self.now);
        self.pending.push(NameChange { stamp, op });
    }
}
