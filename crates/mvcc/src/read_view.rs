//! A view of the store at one revision, for readers and for the writer.
//!
//! A reader's view is at the current revision, with values from the backend. A write transaction's
//! view includes its own changes: the index has them already, and values come from the backend
//! transaction.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use backend::{Read, Value};
use bytes::Bytes;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::{Compare, RangeRequest};
use types::Revision;

use crate::error::{Error, Fault};
use crate::index::{KeyMeta, KeySelector, TreeIndex};
use crate::kv::KeyValueRef;
use crate::range::RangeQuery;
use crate::response::{Kvs, RangeResult};
use crate::value_reader::{ValueReader, parse_stored, read_stored};

/// The operand of a comparison, or zero if it is missing or of another type.
macro_rules! number {
    ($with:expr, $kind:ident) => {
        match $with {
            Some(TargetUnion::$kind(number)) => *number,
            _ => 0,
        }
    };
}

/// The index, the values, and the range of revisions that can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadView<'a, R> {
    pub(crate) index: &'a TreeIndex,
    pub(crate) values: &'a R,
    pub(crate) current: i64,
    pub(crate) compacted: i64,
}

impl<'a, R: Read> ReadView<'a, R> {
    pub(crate) fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        let query = RangeQuery::new(request, self.current, self.compacted)?;
        Ok(query.load(query.select(self.index), self.values)?)
    }

    /// Returns the encoded `KeyValue` of a key, and its revision.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<(Revision, Value<'a>)>, Fault> {
        let Some(KeyMeta { modified, .. }) = self.index.get(key, self.current) else {
            return Ok(None);
        };
        Ok(Some((modified, read_stored(modified, self.values)?)))
    }

    /// Returns the encoded `KeyValue`s of a range.
    pub(crate) fn all(&self, key: &[u8], end: &[u8], field: u8) -> Result<Kvs, Fault> {
        let (mut kvs, mut values) = (Kvs::new(field), ValueReader::new(self.values));
        self.for_each(key, end, |_, found| {
            kvs.push(&values.stored(found.modified)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(kvs)
    }

    /// Returns the keys of a range.
    pub(crate) fn keys(&self, key: &[u8], end: &[u8]) -> Vec<Bytes> {
        let mut keys = Vec::new();
        let all = self.index.visit(KeySelector::new(key, end), self.current, |key, _| {
            keys.push(Bytes::copy_from_slice(key));
            ControlFlow::Continue(())
        });
        debug_assert_eq!(all, ControlFlow::Continue(()));
        keys
    }

    /// Evaluates a comparison for every key of a range. A key that does not exist compares as zero.
    pub(crate) fn compare(&self, compare: &Compare) -> Result<bool, Fault> {
        let (mut holds, mut any) = (true, false);
        let mut values = ValueReader::new(self.values);
        self.for_each(&compare.key, &compare.range_end, |_, found| {
            any = true;
            holds = compare_one(compare, found, &mut values)?;
            Ok(if holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let value = compare.target == CompareTarget::Value as i32;
        // Compat: as in etcd, a comparison with the value of a key that does not exist is false,
        // even for the empty value and for "not equal".
        Ok(if any { holds } else { !value && holds_for(compare, &KeyValueRef::default()) })
    }

    fn for_each(
        &self,
        key: &[u8],
        end: &[u8],
        mut f: impl FnMut(&[u8], KeyMeta) -> Result<ControlFlow<()>, Fault>,
    ) -> Result<(), Fault> {
        let mut failed = Ok(());
        let _ = self.index.visit(KeySelector::new(key, end), self.current, |key, found| {
            f(key, found).unwrap_or_else(|fault| {
                failed = Err(fault);
                ControlFlow::Break(())
            })
        });
        failed
    }
}

/// Evaluates a comparison for one key.
fn compare_one(
    compare: &Compare,
    found: KeyMeta,
    values: &mut ValueReader<'_, impl Read>,
) -> Result<bool, Fault> {
    let target = CompareTarget::try_from(compare.target);
    if matches!(target, Ok(CompareTarget::Value | CompareTarget::Lease)) {
        let stored = values.stored(found.modified)?;
        return Ok(holds_for(compare, &parse_stored(found.modified, &stored)?));
    }
    let KeyMeta { modified, created: create_revision, version } = found;
    let mod_revision = modified.main;
    let kv = KeyValueRef { create_revision, mod_revision, version, ..KeyValueRef::default() };
    Ok(holds_for(compare, &kv))
}

/// Compat: as in etcd, a missing operand or one of another type counts as zero, an unknown target
/// compares as equal, and an unknown operator always holds.
fn holds_for(compare: &Compare, kv: &KeyValueRef<'_>) -> bool {
    let with = compare.target_union.as_ref();
    let ordering = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Version) => kv.version.cmp(&number!(with, Version)),
        Ok(CompareTarget::Create) => kv.create_revision.cmp(&number!(with, CreateRevision)),
        Ok(CompareTarget::Mod) => kv.mod_revision.cmp(&number!(with, ModRevision)),
        Ok(CompareTarget::Lease) => kv.lease.cmp(&number!(with, Lease)),
        Ok(CompareTarget::Value) => match with {
            Some(TargetUnion::Value(value)) => kv.value.cmp(value),
            _ => kv.value.cmp(&[]),
        },
        Err(_unknown) => Ordering::Equal,
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_unknown) => true,
    }
}
