//! The history of a store, change by change, as watchers read it.

use std::ops::ControlFlow;

use backend::schema::{Bucket, revision};
use backend::{Read, ReadError};
use bytes::Bytes;
use types::Revision;

use crate::error::{Error, Fault};
use crate::event::Event;
use crate::hash::decode;
use crate::store::Store;
use crate::watch::{History, HistoryError};

impl History for Store {
    fn current(&self) -> i64 {
        Store::current(self)
    }

    fn compacted(&self) -> i64 {
        Store::compacted(self)
    }

    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        // Under the lock, so that the view still has every revision that is not compacted.
        let state = self.state();
        if from < state.compacted {
            return Err(HistoryError::Compacted(state.compacted));
        }
        if to < from {
            return Ok(());
        }
        let view = self.backend.view();
        drop(state);
        let first = revision::encode(Revision::new(from.max(0), 0));
        let end = revision::encode(Revision::new(to.saturating_add(1), 0));
        for item in view.range(Bucket::Key, &first, Some(&end)).map_err(ReadError::from)? {
            let item = item.map_err(ReadError::from)?;
            let key = decode(&item.key).map_err(to_read_error)?;
            let event = Event::from_stored(key.revision, key.tombstone, item.value.into_bytes())
                .ok_or_else(|| ReadError::malformed(Bucket::Key, &item.key, "not a KeyValue"))?;
            if f(event).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, HistoryError> {
        match Store::value_at(self, key, revision) {
            Ok(value) => Ok(value),
            Err(Error::Fault(fault)) => Err(to_read_error(fault).into()),
            // Compacted meanwhile: the event is delivered without `prev_kv`.
            Err(_) => Ok(None),
        }
    }
}

fn to_read_error(fault: Fault) -> ReadError {
    match fault {
        Fault::Read(error) => error,
        Fault::Missing(revision) => {
            let key = revision::encode(revision);
            ReadError::malformed(
                Bucket::Key,
                &key,
                "revision is in the index but not in the database",
            )
        }
        other => ReadError::malformed(Bucket::Key, &[], other.to_string()),
    }
}
