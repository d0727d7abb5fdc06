//! `POST /raft`: a message.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use net::{Evicted, Permit};
use server::ReceiveError;

use super::Call;
use super::answer::{self, Answer};
use super::intake::{Body, ReadError};
use crate::codec::{MESSAGE_BYTES_MAX, cost};
use crate::metrics::UNKNOWN;

impl Call<'_> {
    pub(super) async fn pipeline(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        if let Err(error) = self.check(&parts.headers) {
            return self.incompatible(error);
        }
        self.add_remote(&parts.headers);
        let local_member_id = self.attached.identity.member;
        // The guest stays until the message has been handed on: until then it takes room.
        let (bytes, _guest) = match self.read_message(body).await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%local_member_id, remote = %self.connection.remote, %error, "failed to read Raft message");
                self.shared.metrics.received_failure(UNKNOWN);
                return self.bad("error reading raft message");
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
                self.signed(self.received(self.attached.local.receive(message)))
            }
            Err(error) => {
                tracing::warn!(%local_member_id, remote = %self.connection.remote, error, "failed to unmarshal Raft message");
                self.shared.metrics.received_failure(UNKNOWN);
                self.bad("error unmarshalling raft message")
            }
        }
    }

    /// All of a message. When all that are being read take too much, this may have to go.
    async fn read_message(&self, body: Incoming) -> Result<(Bytes, Permit), ReadError> {
        let exit = Arc::<Evicted>::default();
        let mut guest = self.shared.receiving.acquire(0, Arc::clone(&exit));
        let bytes_max = usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX);
        let body = Body::new(body, self.shared.timing.read);
        let bytes = tokio::select! {
            biased;
            () = exit.evicted() => Err(ReadError::Crowded),
            read = body.all(bytes_max, |length| guest.set_weight(length)) => read,
        };
        Ok((bytes?, guest))
    }

    fn received(&self, received: Result<(), ReceiveError>) -> Answer {
        match received {
            Ok(()) => answer::taken(),
            // Compat: etcd means to answer 403 to who was removed, or means somebody else, and does not: an interface is not met. Who was removed hears so when it
            // asks for a stream; and who got the wrong address would take a 403 for its own removal.
            Err(error) => {
                tracing::warn!(local_member_id = %self.attached.identity.member, %error, "failed to process Raft message");
                let text = "error processing raft message";
                // Compat: etcd drops the connection.
                answer::last(answer::error(StatusCode::INTERNAL_SERVER_ERROR, text))
            }
        }
    }

    /// By name only who is known: strangers could make up any number of them.
    pub(super) fn count_received(&self, from: types::MemberId, bytes: u64) {
        match self.shared.peers().get(from) {
            Some(peer) => peer.contact.counts.received_bytes.inc_by(bytes),
            None => self.shared.metrics.received_bytes(UNKNOWN, bytes),
        }
    }

    pub(super) fn bad(&self, text: impl std::fmt::Display) -> Answer {
        self.signed(answer::error(StatusCode::BAD_REQUEST, text))
    }
}
