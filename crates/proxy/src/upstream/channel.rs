//! The service under the gRPC stubs: sends a request to the next endpoint that is connected.
//!
//! A call waits for a dial only if no endpoint is connected, and then for the first dial that
//! succeeds. As in grpc-go, a host that cannot be reached delays no call while another serves.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;

use super::endpoint::DialUrgency;
use super::error::{broken, not_connected};
use super::{Endpoint, Upstream};

/// A handle for calls, which take turns over the endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    upstream: Upstream,
}

impl Channel {
    pub(super) fn new(upstream: Upstream) -> Channel {
        Channel { upstream }
    }

    /// Sends a request to the first endpoint in turn that is connected. Endpoints that are not are
    /// dialed in the background, for later calls.
    async fn send(self, mut request: Request<Body>) -> Result<Response<ResponseBody>, Status> {
        let (endpoints, first) = (self.upstream.endpoints(), self.upstream.next_turn());
        let (endpoints, runtime) = (&*endpoints, &self.upstream.shared.runtime);
        let count = endpoints.len();
        let in_turn = || (0..count).map(move |at| &endpoints[first.wrapping_add(at) % count]);
        let mut reason = "no endpoints".to_owned();
        for endpoint in endpoints {
            endpoint.dial(runtime, DialUrgency::Background);
        }
        for endpoint in in_turn() {
            let Some(connection) = endpoint.connection() else { continue };
            match endpoint.send(connection, request).await {
                Ok(sent) => return finish(sent),
                Err(unsent) => (request, reason) = (unsent.request, unsent.reason),
            }
        }
        let connect =
            |endpoint| async move { (endpoint, Endpoint::connect(endpoint, runtime).await) };
        let mut connecting: FuturesUnordered<_> = in_turn().map(connect).collect();
        while let Some((endpoint, connected)) = connecting.next().await {
            match connected {
                Ok(connection) => match endpoint.send(connection, request).await {
                    Ok(sent) => return finish(sent),
                    Err(unsent) => (request, reason) = (unsent.request, unsent.reason),
                },
                Err(why) => reason = why,
            }
        }
        Err(not_connected(&reason))
    }
}

/// Converts the result of a request that was sent, and must not be sent again.
fn finish(
    sent: Result<Response<Incoming>, hyper::Error>,
) -> Result<Response<ResponseBody>, Status> {
    match sent {
        Ok(response) => Ok(response.map(ResponseBody)),
        Err(error) => Err(broken(&error)),
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<ResponseBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// The body of a response, whose errors have grpc-go's code.
#[derive(Debug)]
pub(crate) struct ResponseBody(Incoming);

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.0).poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map_err(|error| broken(&error))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
