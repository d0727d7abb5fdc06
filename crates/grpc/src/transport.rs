//! Limits and pools that all calls share.

use std::sync::Arc;

use bytes::Bytes;

use crate::blocking::BlockingPool;
use crate::receive_budget::ReceiveBudget;
use crate::status::Status;
use crate::streams::StreamRegistry;

/// The reason why a message is not a valid request. The texts are those of grpc-go's protobuf
/// codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not protobuf.
    #[error("proto: cannot parse invalid wire-format data")]
    Format,
    /// A string field is not UTF-8.
    #[error("string field contains invalid UTF-8")]
    Utf8,
}

/// Settings of a [`Transport`].
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// The length of the longest accepted message, after decompression.
    pub message_bytes_max: usize,
    /// The length of the longest message that may be partially received outside of gRPC framing,
    /// such as JSON text. The receive budget has room for at least four of them.
    pub partial_bytes_max: usize,
    /// Rewrites a message that prost cannot decode into one that it can, given the path of the
    /// method. Called only after decoding has failed.
    pub repair: fn(path: &str, message: Bytes) -> Result<Bytes, DecodeError>,
    /// The text of the `ResourceExhausted` status when the receive budget is exceeded.
    pub budget_exceeded: &'static str,
    /// The status of calls that end because the server stops.
    pub stopped: Status,
}

/// Limits and pools that all calls share.
#[derive(Debug)]
pub struct Transport {
    /// The length of the longest accepted message, after decompression.
    pub(crate) message_bytes_max: usize,
    pub(crate) receive_budget: ReceiveBudget,
    pub(crate) blocking: BlockingPool,
    pub(crate) streams: Arc<StreamRegistry>,
    pub(crate) repair: fn(path: &str, message: Bytes) -> Result<Bytes, DecodeError>,
}

impl Transport {
    /// Creates the shared state of all calls.
    pub fn new(config: TransportConfig) -> Transport {
        let receive_budget = ReceiveBudget::new(config.partial_bytes_max, config.budget_exceeded);
        Transport {
            message_bytes_max: config.message_bytes_max,
            blocking: BlockingPool::new(receive_budget.clone(), config.stopped.clone()),
            receive_budget,
            streams: Arc::new(StreamRegistry::new(config.stopped)),
            repair: config.repair,
        }
    }

    /// The budget for partially received messages.
    pub fn receive_budget(&self) -> &ReceiveBudget {
        &self.receive_budget
    }

    /// The threads for long reads and compression.
    pub fn blocking(&self) -> &BlockingPool {
        &self.blocking
    }

    /// All open streams.
    pub fn streams(&self) -> &StreamRegistry {
        &self.streams
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::status::Code;

    /// The status of calls that end because the server stops.
    pub(crate) const STOPPED: Status =
        Status { code: Code::Unavailable, message: std::borrow::Cow::Borrowed("stopped") };

    /// A transport for messages up to a length.
    pub(crate) fn transport(message_bytes_max: usize) -> Arc<Transport> {
        Arc::new(Transport::new(TransportConfig {
            message_bytes_max,
            partial_bytes_max: 1,
            repair: |_, _| Err(DecodeError::Format),
            budget_exceeded: "too many requests",
            stopped: STOPPED,
        }))
    }
}
