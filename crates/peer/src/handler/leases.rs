//! `/leases` and `/leases/internal`: lease requests that followers forward to the leader.

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
use super::body_reader::{BodyReader, ReadError};
use super::responses::{self, HandlerResponse};
use crate::rpc::LEASE_TIMEOUT;

/// The size limit of a request body. As in etcd.
const REQUEST_BYTES_MAX: usize = 64 << 10;

impl Call<'_> {
    pub(super) async fn renew(&self, request: Request<Incoming>) -> HandlerResponse {
        let request: pb::LeaseKeepAliveRequest = match self.lease_request(request).await {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        match self.attached.local.renew(LeaseId(request.id)).await {
            Ok(ttl) => {
                let answer = pb::LeaseKeepAliveResponse { header: None, id: request.id, ttl };
                responses::protobuf(answer.encode_to_vec())
            }
            Err(error) => refused(&error, StatusCode::BAD_REQUEST),
        }
    }

    pub(super) async fn lease(&self, request: Request<Incoming>) -> HandlerResponse {
        let request: leasepb::LeaseInternalRequest = match self.lease_request(request).await {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        // Compat: etcd panics in the handler if the request is empty.
        let request = request.lease_time_to_live_request.unwrap_or_default();
        match self.attached.local.lease(request).await {
            Ok(answer) => {
                let answer =
                    leasepb::LeaseInternalResponse { lease_time_to_live_response: Some(answer) };
                responses::protobuf(answer.encode_to_vec())
            }
            Err(error) => refused(&error, StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    async fn lease_request<T: Message + Default>(
        &self,
        request: Request<Incoming>,
    ) -> Result<T, HandlerResponse> {
        let body = BodyReader::new(request.into_body(), self.shared.timing.read);
        let body: Bytes = match body.read_short(REQUEST_BYTES_MAX).await {
            Ok(body) => body,
            Err(ReadError::TooLong) => return Err(responses::too_large("request body too large")),
            Err(_) => return Err(responses::error(StatusCode::BAD_REQUEST, "error reading body")),
        };
        let bad = |_| responses::error(StatusCode::BAD_REQUEST, "error unmarshalling request");
        T::decode(body).map_err(bad)
    }
}

fn refused(error: &Error, otherwise: StatusCode) -> HandlerResponse {
    match error {
        Error::Renew(RenewError::NotFound) => responses::error(StatusCode::NOT_FOUND, error),
        Error::TimeoutWaitAppliedIndex => {
            responses::error(StatusCode::REQUEST_TIMEOUT, LEASE_TIMEOUT)
        }
        error => responses::error(otherwise, error),
    }
}
