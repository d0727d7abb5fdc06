//! A watch stream that is read on demand.

use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use proto::mvccpb::Event;
use rpc::etcdserverpb::watch_client::WatchClient;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::TIMEOUT;

/// Bound on queued requests.
const REQUESTS_MAX: usize = 16;

/// A watch stream. Unread responses stay on the server, except for one HTTP/2 window.
#[derive(Debug)]
pub struct WatchStream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream {
    /// Opens a stream with one watcher, and waits until it is created.
    pub async fn open(
        mut client: WatchClient<Channel>,
        create: WatchCreateRequest,
    ) -> Result<WatchStream, Status> {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        requests.try_send(first).map_err(|_| Status::internal("the queue is empty"))?;
        let responses = client.watch(ReceiverStream::new(receiver)).await?.into_inner();
        let mut watching = WatchStream { requests, responses };
        let created = watching.next().await?;
        if !created.created || created.canceled {
            return Err(Status::failed_precondition(format!("refused: {created:?}")));
        }
        Ok(watching)
    }

    /// Sends a request on the stream.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn send(&self, request: RequestUnion) {
        let request = WatchRequest { request_union: Some(request) };
        self.requests.send(request).await.expect("an open stream");
    }

    /// Returns the next response. The end of the stream is an error, with status OK if the server
    /// sent none.
    pub async fn next(&mut self) -> Result<WatchResponse, Status> {
        match tokio::time::timeout(TIMEOUT, self.responses.message()).await {
            Ok(Ok(Some(response))) => Ok(response),
            Ok(Ok(None)) => Err(Status::ok("the stream ended")),
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::deadline_exceeded("timed out waiting for a watch response")),
        }
    }

    /// Waits for `count` events.
    pub async fn events(&mut self, count: usize) -> Result<Vec<Event>, Status> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            events.extend(self.next().await?.events);
        }
        Ok(events)
    }
}
