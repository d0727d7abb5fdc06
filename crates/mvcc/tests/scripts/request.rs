//! The requests of a script, as text.
//!
//! ```text
//!   put a 1 lease=7 prev-kv             ignore-value, ignore-lease
//!   delete a..c prev-kv                 a: one key, a..c: before c, a..: to the end, ..: all keys
//!   range a..c rev=3 limit=2            sort=mod order=descend min-mod=2 keys-only count-only
//!
//!   txn                                 one line per comparison and operation
//!   if version a > 0                    value, version, create, mod, lease; =, !=, <, >
//!   then put a 2
//!   else range b
//!   then txn                            the lines of a nested transaction are indented
//!     then delete c
//! ```

use bytes::Bytes;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

/// A command split into words: `name=value` is an option, anything else is positional or a flag.
pub(crate) struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Words<'a> {
        Words { words: line.split_whitespace().collect() }
    }

    /// Returns the word at a position, or an empty one.
    pub(crate) fn at(&self, position: usize) -> &'a str {
        let mut plain = self.words.iter().filter(|word| !word.contains('=') || word.len() < 3);
        plain.nth(position).copied().unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.words.contains(&name)
    }

    pub(crate) fn option(&self, name: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn number(&self, name: &str) -> i64 {
        self.option(name).map_or(0, |value| value.parse().unwrap())
    }
}

/// Parses `a`, `a..c`, `a..` or `..` into a key and a range end.
pub(crate) fn span(text: &str) -> (Bytes, Bytes) {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    match text.split_once("..") {
        None => (bytes(text), Bytes::new()),
        Some((from, to)) => {
            let or_zero = |text: &str| bytes(if text.is_empty() { "\0" } else { text });
            (or_zero(from), or_zero(to))
        }
    }
}

pub(crate) fn put(words: &Words<'_>) -> PutRequest {
    let value = if words.flag("ignore-value") { "" } else { words.at(2) };
    PutRequest {
        key: span(words.at(1)).0,
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease: words.number("lease"),
        prev_kv: words.flag("prev-kv"),
        ignore_value: words.flag("ignore-value"),
        ignore_lease: words.flag("ignore-lease"),
    }
}

pub(crate) fn delete(words: &Words<'_>) -> DeleteRangeRequest {
    let (key, range_end) = span(words.at(1));
    DeleteRangeRequest { key, range_end, prev_kv: words.flag("prev-kv") }
}

pub(crate) fn range(words: &Words<'_>) -> RangeRequest {
    let (key, range_end) = span(words.at(1));
    let order = match words.option("order").unwrap_or("none") {
        "ascend" => SortOrder::Ascend,
        "descend" => SortOrder::Descend,
        _ => SortOrder::None,
    };
    let target = match words.option("sort").unwrap_or("key") {
        "version" => SortTarget::Version,
        "create" => SortTarget::Create,
        "mod" => SortTarget::Mod,
        "value" => SortTarget::Value,
        _ => SortTarget::Key,
    };
    RangeRequest {
        key,
        range_end,
        limit: words.number("limit"),
        revision: words.number("rev"),
        sort_order: order.into(),
        sort_target: target.into(),
        keys_only: words.flag("keys-only"),
        count_only: words.flag("count-only"),
        min_mod_revision: words.number("min-mod"),
        max_mod_revision: words.number("max-mod"),
        min_create_revision: words.number("min-create"),
        max_create_revision: words.number("max-create"),
        ..RangeRequest::default()
    }
}

pub(crate) fn txn(lines: &[&str]) -> TxnRequest {
    let mut txn = TxnRequest::default();
    let mut rest = lines;
    while let [line, after @ ..] = rest {
        let nested = after.iter().take_while(|line| line.starts_with("  ")).count();
        let block: Vec<&str> = after[..nested].iter().map(|line| &line[2..]).collect();
        rest = &after[nested..];
        let (branch, operation) = line.split_once(' ').unwrap();
        match branch {
            "if" => txn.compare.push(compare(&Words::new(operation))),
            "then" => txn.success.push(op(operation, &block)),
            _ => txn.failure.push(op(operation, &block)),
        }
    }
    txn
}

fn op(line: &str, block: &[&str]) -> RequestOp {
    let words = Words::new(line);
    let request = match words.at(0) {
        "put" => Request::RequestPut(put(&words)),
        "delete" => Request::RequestDeleteRange(delete(&words)),
        "range" => Request::RequestRange(range(&words)),
        "txn" => Request::RequestTxn(txn(block)),
        other => panic!("no such operation: {other}"),
    };
    RequestOp { request: Some(request) }
}

fn compare(words: &Words<'_>) -> Compare {
    let (key, range_end) = span(words.at(1));
    let result = match words.at(2) {
        "=" => CompareResult::Equal,
        "!=" => CompareResult::NotEqual,
        "<" => CompareResult::Less,
        _ => CompareResult::Greater,
    };
    let operand = words.at(3);
    let number = || operand.parse().unwrap();
    let (target, union) = match words.at(0) {
        "version" => (CompareTarget::Version, TargetUnion::Version(number())),
        "create" => (CompareTarget::Create, TargetUnion::CreateRevision(number())),
        "mod" => (CompareTarget::Mod, TargetUnion::ModRevision(number())),
        "lease" => (CompareTarget::Lease, TargetUnion::Lease(number())),
        _ => {
            let value = Bytes::copy_from_slice(operand.as_bytes());
            (CompareTarget::Value, TargetUnion::Value(value))
        }
    };
    Compare {
        result: result.into(),
        target: target.into(),
        key,
        range_end,
        target_union: Some(union),
    }
}
