//! Linearizable reads: a read asks for a read index and waits until the local member has applied it.

pub(crate) mod applied_index;
pub(crate) mod read_index;
