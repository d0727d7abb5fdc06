//! `POST /raft`: receives one message.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use net::{Evicted, Permit};
use server::ReceiveError;

use super::Call;
use super::body_reader::{BodyReader, ReadError};
use super::responses::{self, HandlerResponse};
use crate::codec::{MESSAGE_BYTES_MAX, cost};
use crate::metrics::UNKNOWN;

impl Call<'_> {
    pub(super) async fn pipeline(&self, request: Request<Incoming>) -> HandlerResponse {
        let (parts, body) = request.into_parts();
        if let Err(error) = self.check(&parts.headers) {
            return self.incompatible(error);
        }
        self.add_remote(&parts.headers);
        let local_member_id = self.attached.identity.member;
        // Held until the message is handed on: until then its bytes count.
        let (bytes, _permit) = match self.read_message(body).await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%local_member_id, remote = %self.connection.remote, %error, "failed to read Raft message");
                self.shared.metrics.received_failure(UNKNOWN);
                return self.bad_request("error reading raft message");
            }
        };
        let length = bytes.len() as u64;
        let message = cost::decode(bytes, MESSAGE_BYTES_MAX).map_err(|error| error.to_string());
        let message = message.and_then(|message| {
            raft::Message::try_from(message).map_err(|error| error.to_string())
        });
        match message {
            Ok(message) => {
                self.count_received(message.from, length);
                self.with_cluster_id(self.received(self.attached.local.receive(message)))
            }
            Err(error) => {
                tracing::warn!(%local_member_id, remote = %self.connection.remote, error, "failed to unmarshal Raft message");
                self.shared.metrics.received_failure(UNKNOWN);
                self.bad_request("error unmarshalling raft message")
            }
        }
    }

    /// Reads a whole message. It is evicted if too many bytes are in reception.
    async fn read_message(&self, body: Incoming) -> Result<(Bytes, Permit), ReadError> {
        let evicted = Arc::<Evicted>::default();
        let mut permit = self.shared.receiving.acquire(0, Arc::clone(&evicted));
        let bytes_max = usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX);
        let body = BodyReader::new(body, self.shared.timing.read);
        let bytes = tokio::select! {
            biased;
            () = evicted.evicted() => Err(ReadError::Evicted),
            read = body.read_all(bytes_max, |length| permit.set_weight(length)) => read,
        };
        Ok((bytes?, permit))
    }

    fn received(&self, received: Result<(), ReceiveError>) -> HandlerResponse {
        match received {
            Ok(()) => responses::no_content(),
            // Compat: etcd intends to answer 403 to removed members and to messages for another
            // member, but does not, because an interface is not satisfied. A removed member learns
            // it when it requests a stream; a member at a wrong address would take a 403 for its
            // own removal.
            Err(error) => {
                tracing::warn!(local_member_id = %self.attached.identity.member, %error, "failed to process Raft message");
                let text = "error processing raft message";
                // Compat: etcd closes the connection.
                responses::closing(responses::error(StatusCode::INTERNAL_SERVER_ERROR, text))
            }
        }
    }

    /// Counts received bytes. Unknown senders share one label, because they can claim any id.
    pub(super) fn count_received(&self, from: types::MemberId, bytes: u64) {
        match self.shared.peers().get(from) {
            Some(peer) => peer.context.metrics.received_bytes.inc_by(bytes),
            None => self.shared.metrics.received_bytes(UNKNOWN, bytes),
        }
    }

    pub(super) fn bad_request(&self, text: impl std::fmt::Display) -> HandlerResponse {
        self.with_cluster_id(responses::error(StatusCode::BAD_REQUEST, text))
    }
}
