//! Size limits of gRPC messages.

use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use tonic::transport::Channel;

use crate::error::JoinError;
use crate::settings::Settings;

/// The longest response that is accepted by default: a list of some ten thousand members.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The longest request that is sent by default. As in etcd's client.
const REQUEST_BYTES_MAX: usize = 2 << 20;

/// Size limits of messages, in bytes.
#[derive(Clone, Copy)]
pub(super) struct MessageLimits {
    request: usize,
    answer: usize,
}

impl MessageLimits {
    /// Compat: as in etcd, the limits are compared only if both are set.
    pub(super) fn of(settings: &Settings) -> Result<MessageLimits, JoinError> {
        let request = settings.request_bytes_max;
        match (request, settings.answer_bytes_max) {
            (Some(request), Some(answer)) if request > answer => {
                Err(JoinError::Limits { request, answer })
            }
            (_, answer) => Ok(MessageLimits {
                request: request.unwrap_or(REQUEST_BYTES_MAX),
                answer: answer.unwrap_or(ANSWER_BYTES_MAX),
            }),
        }
    }

    pub(super) fn kv(self, channel: Channel) -> KvClient<Channel> {
        let kv = KvClient::new(channel).max_encoding_message_size(self.request);
        kv.max_decoding_message_size(self.answer)
    }

    pub(super) fn watch(self, channel: Channel) -> WatchClient<Channel> {
        let watch = WatchClient::new(channel).max_encoding_message_size(self.request);
        watch.max_decoding_message_size(self.answer)
    }

    pub(super) fn auth(self, channel: Channel) -> AuthClient<Channel> {
        let auth = AuthClient::new(channel).max_encoding_message_size(self.request);
        auth.max_decoding_message_size(self.answer)
    }
}
