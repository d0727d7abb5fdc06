//! How much room requests are expected to take, and whether there is that much.
//!
//! ```text
//!   put          256 + key + value        what keeps a revision costs, and what is in it
//!   txn          the dearer branch        over all puts, also those of transactions within
//!   lease grant  64
//!   others       0                        and always find room: a full member can be emptied
//! ```

use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{PutRequest, RequestOp, TxnRequest};

/// The size that the database may reach if nobody says otherwise.
pub const BYTES_DEFAULT: u64 = 2 << 30;
/// The largest size that is recommended. A larger one is taken, with a warning.
pub const BYTES_MAX_SUGGESTED: u64 = 8 << 30;

/// What a lease takes.
pub const LEASE_GRANT: u64 = 64;
/// What a revision takes besides key and value.
const REVISION: u64 = 256;

/// What a put takes.
#[must_use]
pub fn put(request: &PutRequest) -> u64 {
    REVISION + (request.key.len() + request.value.len()) as u64
}

/// What a transaction takes, whichever way it goes.
#[must_use]
pub fn txn(request: &TxnRequest) -> u64 {
    // As deep as requests are nested, which decoding has bounded.
    let branch = |operations: &[RequestOp]| operations.iter().map(operation).sum();
    u64::max(branch(&request.success), branch(&request.failure))
}

fn operation(operation: &RequestOp) -> u64 {
    match &operation.request {
        Some(Request::RequestPut(request)) => put(request),
        Some(Request::RequestTxn(request)) => txn(request),
        Some(Request::RequestRange(_) | Request::RequestDeleteRange(_)) | None => 0,
    }
}

/// The size that the database may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    bytes_max: Option<u64>,
}

impl Quota {
    /// As it is configured: 0 is the default, and what is negative is no limit.
    #[must_use]
    pub fn new(configured: i64) -> Quota {
        let bytes_max = match u64::try_from(configured) {
            Ok(0) => Some(BYTES_DEFAULT),
            Ok(bytes) => Some(bytes),
            Err(_) => None,
        };
        Quota { bytes_max }
    }

    /// The limit. None if there is none.
    #[must_use]
    pub fn bytes_max(self) -> Option<u64> {
        self.bytes_max
    }

    /// Whether a database of this size has room for what costs so much.
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
    fn a_put_costs_more_than_its_bytes() {
        assert_eq!(put(&a_put(3, 10)), 269);
        assert_eq!(put(&PutRequest::default()), 256);
    }

    #[test]
    fn a_transaction_costs_its_dearer_branch() {
        let small = op(Request::RequestPut(a_put(1, 1)));
        let large = op(Request::RequestPut(a_put(1, 1000)));
        let request = TxnRequest {
            success: vec![small.clone(), small],
            failure: vec![large],
            ..TxnRequest::default()
        };
        assert_eq!(txn(&request), 1257);
    }

    #[test]
    fn transactions_within_count() {
        let inner = TxnRequest {
            failure: vec![op(Request::RequestPut(a_put(1, 1)))],
            ..TxnRequest::default()
        };
        let outer = TxnRequest {
            success: vec![op(Request::RequestPut(a_put(1, 2))), op(Request::RequestTxn(inner))],
            ..TxnRequest::default()
        };
        assert_eq!(txn(&outer), 259 + 258);
    }

    #[test]
    fn what_takes_no_room_costs_nothing() {
        let request = TxnRequest {
            success: vec![
                op(Request::RequestRange(RangeRequest::default())),
                op(Request::RequestDeleteRange(DeleteRangeRequest::default())),
                RequestOp { request: None },
            ],
            ..TxnRequest::default()
        };
        assert_eq!(txn(&request), 0);
        assert!(Quota::new(1).is_available(u64::MAX, 0));
    }

    #[test]
    fn room_ends_just_before_the_limit() {
        let quota = Quota::new(1000);
        assert!(quota.is_available(743, 256));
        assert!(!quota.is_available(744, 256), "the limit itself is not reached");
        assert!(!quota.is_available(u64::MAX, 256));
    }

    #[test]
    fn zero_is_the_default_and_negative_is_none() {
        assert_eq!(Quota::new(0).bytes_max(), Some(2_147_483_648));
        assert_eq!(Quota::new(-1).bytes_max(), None);
        assert!(Quota::new(-1).is_available(u64::MAX, u64::MAX));
        assert_eq!(BYTES_MAX_SUGGESTED, 8_589_934_592);
    }
}
