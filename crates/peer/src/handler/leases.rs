//! `/leases` and `/leases/internal`: what followers ask the leader on behalf of clients.

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use lease::RenewError;
use prost::Message;
use proto::etcdserverpb as pb;
use proto::leasepb;
use server::Error;
use types::LeaseId;

use super::Call;
use super::answer::{self, Answer};
use super::intake::{Body, ReadError};
use crate::questions::LEASE_TIMEOUT;

/// The body of a request, at most as in etcd.
const REQUEST_BYTES_MAX: usize = 64 << 10;

impl Call<'_> {
    pub(super) async fn renew(&self, request: Request<Incoming>) -> Answer {
        let request: pb::LeaseKeepAliveRequest = match self.lease_request(request).await {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        match self.attached.local.renew(LeaseId(request.id)).await {
            Ok(ttl) => {
                let answer = pb::LeaseKeepAliveResponse { header: None, id: request.id, ttl };
                answer::protobuf(answer.encode_to_vec())
            }
            Err(error) => refused(&error, StatusCode::BAD_REQUEST),
        }
    }

    pub(super) async fn lease(&self, request: Request<Incoming>) -> Answer {
        let request: leasepb::LeaseInternalRequest = match self.lease_request(request).await {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        // Compat: etcd crashes the request if there is nothing in it.
        let request = request.lease_time_to_live_request.unwrap_or_default();
        match self.attached.local.lease(request).await {
            Ok(answer) => {
                let answer =
                    leasepb::LeaseInternalResponse { lease_time_to_live_response: Some(answer) };
                answer::protobuf(answer.encode_to_vec())
            }
            Err(error) => refused(&error, StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    async fn lease_request<T: Message + Default>(
        &self,
        request: Request<Incoming>,
    ) -> Result<T, Answer> {
        let body = Body::new(request.into_body(), self.shared.timing.read);
        let body: Bytes = match body.short(REQUEST_BYTES_MAX).await {
            Ok(body) => body,
            Err(ReadError::TooLong) => return Err(answer::too_large("request body too large")),
            Err(_) => return Err(answer::error(StatusCode::BAD_REQUEST, "error reading body")),
        };
        let bad = |_| answer::error(StatusCode::BAD_REQUEST, "error unmarshalling request");
        T::decode(body).map_err(bad)
    }
}

fn refused(error: &Error, otherwise: StatusCode) -> Answer {
    match error {
        Error::Renew(RenewError::NotFound) => answer::error(StatusCode::NOT_FOUND, error),
        Error::TimeoutWaitAppliedIndex => answer::error(StatusCode::REQUEST_TIMEOUT, LEASE_TIMEOUT),
        error => answer::error(otherwise, error),
    }
}
