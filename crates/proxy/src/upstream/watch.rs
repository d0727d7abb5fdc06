//! Watches of the proxy itself, with one watcher each.

use std::future::ready;

use futures_util::StreamExt as _;
use futures_util::stream;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use tonic::{Request, Status, Streaming};

use super::Upstream;

impl Upstream {
    /// Opens a stream with one watcher. Dropping the stream ends it.
    pub(crate) async fn open_watch(
        &self,
        request: Request<WatchCreateRequest>,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let request = request.map(|create| {
            let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
            // Keeps the stream open: its end would end the watch.
            stream::once(ready(first)).chain(stream::pending())
        });
        Ok(self.watch().watch(request).await?.into_inner())
    }
}
