//! The bound on long responses of members that are being received.
//!
//! The length of a response is known when its first bytes arrive, so a read is sent before there is
//! room for a long response, with a limit on what is received:
//!
//! ```text
//!   room, and a slot is free ────────────────────────────────► read: any length
//!   otherwise ─► read: up to 64 KiB ── longer: 13 MB ──┐
//!                       │                              ▼
//!                       ▼                  wait for room, and for 13 MB ─► read: up to 13 MB
//!                   the response
//! ```
//!
//! The beginning of a response above the limit is dropped. Short responses therefore never wait
//! for long ones, and few reads at a time cost nothing extra. Responses that are received come on
//! top of those that clients have not read ([`SendBudget`]).
//!
//! A read whose slot is taken by a member that does not answer holds up no other read: those are
//! sent with a limit.

use grpc::Status;
use net::{COUNTED_BYTES_MIN, Runtimes, SendBudget};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Upstream;
use super::error::received_too_large;

/// The longest response that is received without a permit.
const SHORT_BYTES_MAX: usize = COUNTED_BYTES_MIN;
/// The bytes of long responses of known length that are received at a time. A longer one is
/// received alone.
const LONG_BYTES_MAX: usize = 64 << 20;
/// The unit of permits for bytes.
const UNIT_BYTES: usize = 64 << 10;
/// The part of a length by which a response may have grown when it is requested again.
const GROWTH: usize = 16;

/// The permits for long responses.
#[derive(Debug)]
pub(super) struct ReceivePermits {
    /// For responses of unknown length: two per core.
    slots: Semaphore,
    /// For responses of known length, in units of [`UNIT_BYTES`].
    units: Semaphore,
}

impl Default for ReceivePermits {
    fn default() -> Self {
        let slots = Semaphore::new(2 * Runtimes::count_default());
        ReceivePermits { slots, units: Semaphore::new(LONG_BYTES_MAX / UNIT_BYTES) }
    }
}

impl ReceivePermits {
    /// Returns a slot for a response of any length, if there is one at once.
    fn slot(&self, send_budget: &SendBudget) -> Option<SemaphorePermit<'_>> {
        if send_budget.has_room() { self.slots.try_acquire().ok() } else { None }
    }

    /// Waits until a response of this length may be received.
    async fn wait_for(&self, bytes: usize, send_budget: &SendBudget) -> SemaphorePermit<'_> {
        let units = bytes.div_ceil(UNIT_BYTES).clamp(1, LONG_BYTES_MAX / UNIT_BYTES);
        let units = u32::try_from(units).expect("the most units are few");
        loop {
            send_budget.wait_for_room().await;
            let permit = self.units.acquire_many(units).await;
            // Earlier responses may have used up the room meanwhile.
            if send_budget.has_room() {
                return permit.expect("the semaphore is never closed");
            }
        }
    }
}

impl Upstream {
    /// Makes a call that changes nothing, and whose response may be long. `call` is given the limit
    /// on its response, and may be called several times.
    pub(crate) async fn read<T, F: Future<Output = Result<T, Status>>>(
        &self,
        send_budget: &SendBudget,
        call: impl Fn(usize) -> F,
    ) -> Result<T, Status> {
        let (receiving, most) = (&self.shared.receiving, self.recv_bytes_max());
        if let Some(_slot) = receiving.slot(send_budget) {
            return call(most).await;
        }
        let (mut limit, mut _permit) = (SHORT_BYTES_MAX.min(most), None);
        loop {
            let result = call(limit).await;
            let status = result.as_ref().err();
            // Longer than the limit, so that the next one is higher, and the loop ends.
            let length = status.and_then(|status| received_too_large(status, limit));
            match length.filter(|_| limit < most) {
                None => return result,
                Some(length) => {
                    // Not while it waits: two such calls would wait for each other.
                    _permit = None;
                    limit = most.min(length.saturating_add(length / GROWTH));
                    _permit = Some(receiving.wait_for(limit, send_budget).await);
                }
            }
        }
    }

    /// Makes a call whose response may be long, and which must not be repeated.
    pub(crate) async fn call_once<T, F: Future<Output = Result<T, Status>>>(
        &self,
        send_budget: &SendBudget,
        call: F,
    ) -> Result<T, Status> {
        let slots = &self.shared.receiving.slots;
        let _slot = loop {
            send_budget.wait_for_room().await;
            let slot = slots.acquire().await;
            if send_budget.has_room() {
                break slot;
            }
        };
        call.await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use grpc::Code;
    use net::UNSENT_BYTES_MAX;

    use super::super::error::from_tonic;
    use super::super::tests::upstream;
    use super::*;

    /// A member whose response has a length. Records the limits of calls.
    struct Member {
        length: usize,
        limits: RefCell<Vec<usize>>,
    }

    impl Member {
        fn new(length: usize) -> Member {
            Member { length, limits: RefCell::default() }
        }

        async fn call(&self, limit: usize) -> Result<usize, Status> {
            self.limits.borrow_mut().push(limit);
            if self.length <= limit {
                return Ok(self.length);
            }
            let length = self.length;
            Err(from_tonic(tonic::Status::out_of_range(format!(
                "Error, decoded message length too large: found {length} bytes, the limit is: {limit} bytes"
            ))))
        }
    }

    #[tokio::test]
    async fn a_read_with_a_slot_is_made_once() {
        let (upstream, member) = (upstream(&["a:1"]), Member::new(10 << 20));
        let result = upstream.read(&SendBudget::default(), |limit| member.call(limit)).await;
        assert_eq!(result.unwrap(), 10 << 20);
        assert_eq!(*member.limits.borrow(), [upstream.recv_bytes_max()]);
    }

    #[tokio::test]
    async fn a_short_read_needs_neither_a_slot_nor_room() {
        let upstream = upstream(&["a:1"]);
        let budget = Arc::new(SendBudget::default());
        let unread = budget.charge(vec![0; UNSENT_BYTES_MAX].into());
        let short = Member::new(SHORT_BYTES_MAX);
        assert!(upstream.read(&budget, |limit| short.call(limit)).await.is_ok());
        assert_eq!(*short.limits.borrow(), [SHORT_BYTES_MAX]);

        let long = Member::new(SHORT_BYTES_MAX + 1);
        let mut cx = Context::from_waker(Waker::noop());
        let mut reading = pin!(upstream.read(&budget, |limit| long.call(limit)));
        assert!(reading.as_mut().poll(&mut cx).is_pending(), "there is no room");
        drop(unread);
        assert!(reading.await.is_ok());
        assert_eq!(long.limits.borrow().len(), 2);
    }

    #[tokio::test]
    async fn long_reads_are_bounded_by_their_bytes() {
        let (upstream, budget) = (upstream(&["a:1"]), SendBudget::default());
        let receiving = &upstream.shared.receiving;
        let slots = u32::try_from(receiving.slots.available_permits()).unwrap();
        let _no_slots = receiving.slots.acquire_many(slots).await.unwrap();
        let half = receiving.wait_for(LONG_BYTES_MAX / 2, &budget).await;
        let member = Member::new(LONG_BYTES_MAX);
        let mut cx = Context::from_waker(Waker::noop());
        let mut reading = pin!(upstream.read(&budget, |limit| member.call(limit)));
        assert!(reading.as_mut().poll(&mut cx).is_pending());
        assert_eq!(*member.limits.borrow(), [SHORT_BYTES_MAX], "it is not received yet");
        drop(half);
        assert_eq!(reading.as_mut().poll(&mut cx).map(Result::unwrap), Poll::Ready(LONG_BYTES_MAX));
    }

    #[tokio::test]
    async fn a_response_above_the_limit_of_the_proxy_is_an_error() {
        let upstream = upstream(&["a:1"]);
        upstream.shared.receiving.slots.forget_permits(usize::MAX);
        let member = Member::new(upstream.recv_bytes_max() + 1);
        let result = upstream.read(&SendBudget::default(), |limit| member.call(limit)).await;
        let (status, most) = (result.unwrap_err(), upstream.recv_bytes_max());
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.ends_with(&format!("({} vs. {most})", most + 1)), "{status}");
    }

    #[tokio::test]
    async fn a_request_that_a_member_refuses_as_too_large_is_not_repeated() {
        let upstream = upstream(&["a:1"]);
        upstream.shared.receiving.slots.forget_permits(usize::MAX);
        let refusal = "grpc: received message larger than max (2097152 vs. 1572864)";
        let calls = Cell::new(0);
        let refused = async |_| {
            calls.set(calls.get() + 1);
            assert!(calls.get() < 3, "the same request is sent again and again");
            Err::<(), _>(from_tonic(tonic::Status::resource_exhausted(refusal)))
        };
        let status = upstream.read(&SendBudget::default(), refused).await.unwrap_err();
        assert_eq!((status.code, &*status.message), (Code::ResourceExhausted, refusal));
        assert_eq!(calls.get(), 1);
    }
}
