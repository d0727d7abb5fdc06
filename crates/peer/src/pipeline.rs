//! Messages without a stream: each is a request of its own, `POST /raft`. It is the way to members whose streams are not up, and to those that are not known as members yet.

use std::sync::Arc;

use http::Method;
use prost::Message as _;
use proto::raftpb;
use raft::Message;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::client::CallError;
use crate::contact::Contact;
use crate::post::{ANSWER_BYTES_MAX, PostError, judge, regret};

/// Requests at a time, as many as in etcd.
const AT_ONCE_MAX: usize = 4;
/// Messages that may wait, as many as in etcd.
pub(crate) const QUEUE_MAX: usize = 64;

/// Its name in logs.
pub(crate) const NAME: &str = "pipeline";
const PATH: &str = "/raft";

/// Posts messages to one member. Dropping it ends what is under way.
#[derive(Debug)]
pub(crate) struct Pipeline {
    queue: mpsc::Sender<Message>,
    task: AbortHandle,
}

impl Pipeline {
    pub(crate) fn start(contact: &Arc<Contact>, on: &net::Background) -> Pipeline {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let task = on.spawn(run(Arc::clone(contact), waiting)).abort_handle();
        tracing::info!(
            local_member_id = %contact.identity.member, remote_peer_id = %contact.id,
            "started HTTP pipelining with remote peer"
        );
        Pipeline { queue, task }
    }

    /// Takes a message. False if too many wait.
    pub(crate) fn push(&self, message: Message) -> bool {
        self.queue.try_send(message).is_ok()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(contact: Arc<Contact>, mut queue: mpsc::Receiver<Message>) {
    let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let mut posts = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let Some(message) = queue.recv().await else { return };
        while posts.try_join_next().is_some() {}
        let contact = Arc::clone(&contact);
        posts.spawn(async move {
            deliver(&contact, message).await;
            drop(place);
        });
    }
}

async fn deliver(contact: &Contact, message: Message) {
    let wire: raftpb::Message = message.into();
    let bytes = wire.encoded_len() as u64;
    match post(contact, &wire).await {
        Ok(()) => {
            contact.worked();
            contact.counts.sent_bytes.inc_by(bytes);
        }
        Err(error) => {
            contact.failed(NAME, "write", &error);
            contact.local.report_unreachable(contact.id);
            contact.counts.sent_failures.inc();
        }
    }
}

async fn post(contact: &Contact, wire: &raftpb::Message) -> Result<(), PostError> {
    let url = contact.picker.pick().ok_or(CallError::NoUrl)?;
    let kind = Some("application/protobuf");
    let request = contact.request(Method::POST, PATH, kind, wire.encode_to_vec().into());
    let patience = contact.timing.read + contact.timing.write;
    let asked = timeout(patience, contact.client.ask(&url, request, ANSWER_BYTES_MAX)).await;
    let reply = asked.unwrap_or(Err(CallError::Late)).map_err(PostError::from);
    let taken = reply.and_then(|reply| judge(contact, &reply, &url, PATH));
    taken.inspect_err(|error| regret(contact, &url, error))
}
