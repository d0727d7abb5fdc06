//! The pipeline: sends each message as a request of its own, `POST /raft`. Used for peers whose
//! streams are down, and for remotes.

use std::sync::Arc;

use http::Method;
use prost::Message as _;
use proto::raftpb;
use raft::Message;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::reply::{ANSWER_BYTES_MAX, PostError, check_reply, on_failure};
use crate::client::RequestError;
use crate::peers::context::PeerContext;

/// The most concurrent requests. As in etcd.
const IN_FLIGHT_MAX: usize = 4;
/// The most queued messages. As in etcd.
pub(crate) const QUEUE_MAX: usize = 64;

/// The name of the pipeline in logs.
pub(crate) const NAME: &str = "pipeline";
const PATH: &str = "/raft";

/// Posts messages to one peer. Dropping it cancels the requests in flight.
#[derive(Debug)]
pub(crate) struct Pipeline {
    queue: mpsc::Sender<Message>,
    task: AbortHandle,
}

impl Pipeline {
    pub(crate) fn start(context: &Arc<PeerContext>, on: &net::Background) -> Pipeline {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let task = on.spawn(run(Arc::clone(context), waiting)).abort_handle();
        tracing::info!(
            local_member_id = %context.identity.member, remote_peer_id = %context.id,
            "started HTTP pipelining with remote peer"
        );
        Pipeline { queue, task }
    }

    /// Queues a message. Returns false if the queue is full.
    pub(crate) fn push(&self, message: Message) -> bool {
        self.queue.try_send(message).is_ok()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(context: Arc<PeerContext>, mut queue: mpsc::Receiver<Message>) {
    let limit = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut posts = JoinSet::new();
    loop {
        let permit = Arc::clone(&limit).acquire_owned().await;
        let Some(message) = queue.recv().await else { return };
        while posts.try_join_next().is_some() {}
        let context = Arc::clone(&context);
        posts.spawn(async move {
            deliver(&context, message).await;
            drop(permit);
        });
    }
}

async fn deliver(context: &PeerContext, message: Message) {
    let wire: raftpb::Message = message.into();
    let bytes = wire.encoded_len() as u64;
    match post(context, &wire).await {
        Ok(()) => {
            context.on_success();
            context.metrics.sent_bytes.inc_by(bytes);
        }
        Err(error) => {
            context.on_failure(NAME, "write", &error);
            context.local.report_unreachable(context.id);
            context.metrics.sent_failures.inc();
        }
    }
}

async fn post(context: &PeerContext, wire: &raftpb::Message) -> Result<(), PostError> {
    let url = context.picker.pick().ok_or(RequestError::NoUrl)?;
    let kind = Some("application/protobuf");
    let request = context.request(Method::POST, PATH, kind, wire.encode_to_vec().into());
    let time_limit = context.timing.read + context.timing.write;
    let response =
        timeout(time_limit, context.client.request(&url, request, ANSWER_BYTES_MAX)).await;
    let reply = response.unwrap_or(Err(RequestError::Timeout)).map_err(PostError::from);
    let accepted = reply.and_then(|reply| check_reply(context, &reply, &url, PATH));
    accepted.inspect_err(|error| on_failure(context, &url, error))
}
