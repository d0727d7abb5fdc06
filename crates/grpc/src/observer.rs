//! Hooks by which an application counts, times and traces its calls.
//!
//! ```text
//!   unary    received ─► start ─► handled ─► replied ─► finish
//!   stream   start ─► (received | sent)* ─► finish
//! ```

use std::sync::Arc;

use bytes::Bytes;
use net::Connection;

use crate::reply::Summary;
use crate::status::{Code, Status};

/// Observes one call. Dropping an observer before `finish` means that the client has disconnected.
pub trait Observer: Send + 'static {
    /// Counts the messages of a stream.
    type Counter: MessageCounter;

    /// Returns a counter for the messages of the call.
    fn counter(&self) -> Arc<Self::Counter>;

    /// Counts the bytes of the request of a unary call.
    fn received_bytes(&self, bytes: usize);

    /// Starts the call. A unary call starts once its request is decoded; a stream starts before
    /// anything is read.
    fn start(&mut self);

    /// Ends the handler of a unary call.
    fn handled(&mut self, code: Code);

    /// Reports the encoded request of a unary call, and the summary and length of its reply, unless
    /// the call failed.
    fn replied(
        &mut self,
        connection: &Connection,
        request: &Bytes,
        reply: Option<(Summary, usize)>,
    );

    /// Ends the call.
    fn finish(self, status: &Status);
}

/// Counts the messages of a stream, in both directions.
pub trait MessageCounter: Send + Sync + 'static {
    /// Counts a received message, or the end of the client's messages.
    fn received(&self);

    /// Counts the bytes of a received message.
    fn received_bytes(&self, bytes: usize);

    /// Counts a sent message of a length in bytes.
    fn sent(&self, bytes: usize);
}

#[cfg(test)]
pub(crate) mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Records the codes that streams end with.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Codes(pub(crate) Arc<Mutex<Vec<Code>>>);

    /// Observes one stream.
    #[derive(Debug)]
    pub(crate) struct CodeObserver {
        codes: Option<Codes>,
    }

    impl Codes {
        pub(crate) fn observer(&self) -> CodeObserver {
            CodeObserver { codes: Some(self.clone()) }
        }

        pub(crate) fn count(&self, code: Code) -> usize {
            self.0.lock().iter().filter(|ended| **ended == code).count()
        }
    }

    impl Observer for CodeObserver {
        type Counter = ();

        fn counter(&self) -> Arc<()> {
            Arc::default()
        }

        fn received_bytes(&self, _: usize) {}

        fn start(&mut self) {}

        fn handled(&mut self, _: Code) {}

        fn replied(&mut self, _: &Connection, _: &Bytes, _: Option<(Summary, usize)>) {}

        fn finish(mut self, status: &Status) {
            self.codes.take().into_iter().for_each(|codes| codes.0.lock().push(status.code));
        }
    }

    impl Drop for CodeObserver {
        fn drop(&mut self) {
            self.codes.take().into_iter().for_each(|codes| codes.0.lock().push(Code::Canceled));
        }
    }

    impl MessageCounter for () {
        fn received(&self) {}

        fn received_bytes(&self, _: usize) {}

        fn sent(&self, _: usize) {}
    }
}
