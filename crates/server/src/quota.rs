//! The quota of the database, and the cost of requests.
//!
//! ```text
//!   put          256 + key + value bytes   the overhead of a revision, and its content
//!   txn          the larger branch         over all puts, nested transactions included
//!   lease grant  64
//!   others       0                         always permitted, so that a full member can be emptied
//! ```

use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{LeaseGrantRequest, PutRequest, RequestOp, TxnRequest};

/// The default quota, in bytes.
pub const BYTES_DEFAULT: u64 = 2 << 30;
/// The largest recommended quota, in bytes. A larger one causes a warning.
pub const BYTES_MAX_SUGGESTED: u64 = 8 << 30;

/// The cost of a lease, in bytes.
const LEASE_GRANT_COST: u64 = 64;
/// The cost of a revision besides its key and value, in bytes.
const REVISION_COST: u64 = 256;

/// A request that needs space in the database.
pub trait QuotaCost {
    /// Returns the cost in bytes.
    #[must_use]
    fn cost(&self) -> u64;
}

impl QuotaCost for PutRequest {
    fn cost(&self) -> u64 {
        REVISION_COST + (self.key.len() + self.value.len()) as u64
    }
}

/// The cost of a transaction is that of its larger branch.
impl QuotaCost for TxnRequest {
    fn cost(&self) -> u64 {
        // Recursion is safe: see `proto::nested`.
        let branch = |operations: &[RequestOp]| operations.iter().map(operation_cost).sum();
        u64::max(branch(&self.success), branch(&self.failure))
    }
}

impl QuotaCost for LeaseGrantRequest {
    fn cost(&self) -> u64 {
        LEASE_GRANT_COST
    }
}

fn operation_cost(operation: &RequestOp) -> u64 {
    match &operation.request {
        Some(Request::RequestPut(request)) => request.cost(),
        Some(Request::RequestTxn(request)) => request.cost(),
        Some(Request::RequestRange(_) | Request::RequestDeleteRange(_)) | None => 0,
    }
}

/// The bound on the size of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    bytes_max: Option<u64>,
}

impl Quota {
    /// Interprets `--quota-backend-bytes`: 0 selects the default, a negative number no limit.
    #[must_use]
    pub fn new(configured: i64) -> Quota {
        let bytes_max = match u64::try_from(configured) {
            Ok(0) => Some(BYTES_DEFAULT),
            Ok(bytes) => Some(bytes),
            Err(_) => None,
        };
        Quota { bytes_max }
    }

    /// Returns the limit in bytes, if there is one.
    #[must_use]
    pub fn bytes_max(self) -> Option<u64> {
        self.bytes_max
    }

    /// Returns whether a database of a size has space for a request of a cost, both in bytes.
    #[must_use]
    pub fn is_available(self, size: u64, cost: u64) -> bool {
        let fits = |max| size.saturating_add(cost) < max;
        cost == 0 || self.bytes_max.is_none_or(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::etcdserverpb::{DeleteRangeRequest, RangeRequest};

    fn a_put(key: usize, value: usize) -> PutRequest {
        let (key, value) = (vec![b'k'; key].into(), vec![b'v'; value].into());
        PutRequest { key, value, ..PutRequest::default() }
    }

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    #[test]
    fn a_put_costs_its_bytes_and_an_overhead() {
        assert_eq!(a_put(3, 10).cost(), 269);
        assert_eq!(PutRequest::default().cost(), 256);
    }

    #[test]
    fn a_transaction_costs_its_larger_branch() {
        let small = op(Request::RequestPut(a_put(1, 1)));
        let large = op(Request::RequestPut(a_put(1, 1000)));
        let request = TxnRequest {
            success: vec![small.clone(), small],
            failure: vec![large],
            ..TxnRequest::default()
        };
        assert_eq!(request.cost(), 1257);
    }

    #[test]
    fn nested_transactions_count() {
        let inner = TxnRequest {
            failure: vec![op(Request::RequestPut(a_put(1, 1)))],
            ..TxnRequest::default()
        };
        let outer = TxnRequest {
            success: vec![op(Request::RequestPut(a_put(1, 2))), op(Request::RequestTxn(inner))],
            ..TxnRequest::default()
        };
        assert_eq!(outer.cost(), 259 + 258);
    }

    #[test]
    fn ranges_and_deletes_cost_nothing() {
        let request = TxnRequest {
            success: vec![
                op(Request::RequestRange(RangeRequest::default())),
                op(Request::RequestDeleteRange(DeleteRangeRequest::default())),
                RequestOp { request: None },
            ],
            ..TxnRequest::default()
        };
        assert_eq!(request.cost(), 0);
        assert!(Quota::new(1).is_available(u64::MAX, 0));
    }

    #[test]
    fn the_limit_itself_is_not_available() {
        let quota = Quota::new(1000);
        assert!(quota.is_available(743, 256));
        assert!(!quota.is_available(744, 256), "would reach the limit");
        assert!(!quota.is_available(u64::MAX, 256));
    }

    #[test]
    fn zero_selects_the_default_and_a_negative_number_no_limit() {
        assert_eq!(Quota::new(0).bytes_max(), Some(2_147_483_648));
        assert_eq!(Quota::new(-1).bytes_max(), None);
        assert!(Quota::new(-1).is_available(u64::MAX, u64::MAX));
        assert_eq!(BYTES_MAX_SUGGESTED, 8_589_934_592);
    }
}
