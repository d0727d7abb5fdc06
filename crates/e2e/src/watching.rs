//! One watch stream, read at will.

use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use proto::mvccpb::Event;
use rpc::etcdserverpb::watch_client::WatchClient;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::PATIENCE;

/// Requests that may wait to be sent.
const REQUESTS_MAX: usize = 16;

/// A stream. What is not read stays with the server, but for what one window of the connection holds.
#[derive(Debug)]
pub struct Watching {
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

impl Watching {
    /// Opens a stream with one watcher, and waits for its confirmation.
    pub async fn open(
        mut client: WatchClient<Channel>,
        create: WatchCreateRequest,
    ) -> Result<Watching, Status> {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        requests.try_send(first).map_err(|_| Status::internal("there is room for one"))?;
        let answers = client.watch(ReceiverStream::new(receiver)).await?.into_inner();
        let mut watching = Watching { requests, answers };
        let created = watching.next().await?;
        if !created.created || created.canceled {
            return Err(Status::failed_precondition(format!("refused: {created:?}")));
        }
        Ok(watching)
    }

    /// Asks for something on the same stream.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn send(&self, request: RequestUnion) {
        let request = WatchRequest { request_union: Some(request) };
        self.requests.send(request).await.expect("the stream is open");
    }

    /// The next answer. The end of the stream is an error too, an odd one if the server gave none.
    pub async fn next(&mut self) -> Result<WatchResponse, Status> {
        match tokio::time::timeout(PATIENCE, self.answers.message()).await {
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) => Err(Status::ok("the stream ended")),
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::deadline_exceeded("nothing came for too long")),
        }
    }

    /// Waits for that many events.
    pub async fn events(&mut self, count: usize) -> Result<Vec<Event>, Status> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            events.extend(self.next().await?.events);
        }
        Ok(events)
    }
}
