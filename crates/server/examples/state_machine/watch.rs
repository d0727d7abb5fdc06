//! Streams of watchers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use auth::Error;
use bytes::{BufMut as _, Bytes, BytesMut};
use mvcc::watch::{CreateRequest, Filters, Next, Stream};
use prost::Message;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;

use crate::answer::Refused;
use crate::driver::{Answer, Driver, Frame, Numbered};

/// Streams by number.
#[derive(Default)]
pub(crate) struct Streams(Numbered<Stream>);

impl Driver {
    /// A request on a stream, which is opened if there is none by that number.
    pub(crate) fn watch(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let (number, payload) = split(&frame.payload)?;
        let request = pb::WatchRequest::decode(payload)?;
        let hub = &self.machine.hub;
        let stream = self
            .streams
            .0
            .entry(number)
            .or_insert_with(|| hub.stream(Arc::new(|| {}), Duration::ZERO, Duration::ZERO));
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => {
                let caller = if frame.user.is_empty() {
                    auth::AuthInfo::default()
                } else {
                    self.machine.auth.info_from_common_name(&frame.user)
                };
                match self.machine.auth.check_watch(&caller, &create) {
                    Err(error) if create.start_revision >= 0 => stream.refuse(reason(&error))?,
                    _ => drop(stream.create(&created(create))?),
                }
            }
            Some(RequestUnion::CancelRequest(cancel)) => stream.cancel(cancel.watch_id)?,
            Some(RequestUnion::ProgressRequest(_)) => drop(stream.request_progress()?),
            None => {}
        }
        Ok(Ok(Bytes::new()))
    }

    /// All that a stream has to say by now.
    pub(crate) fn drain(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let (number, _) = split(&frame.payload)?;
        let machine = &self.machine;
        let mut out = BytesMut::new();
        loop {
            while machine.hub.turn(&machine.store)? == Next::Again {}
            let Some(stream) = self.streams.0.get_mut(&number) else { break };
            let Some(response) = stream.next(&machine.store)? else { break };
            let mut message = BytesMut::new();
            response.encode(&pb::ResponseHeader::default(), &mut message);
            out.put_u32(u32::try_from(message.len())?);
            out.put_slice(&message);
        }
        Ok(Ok(out.freeze()))
    }
}

fn split(payload: &Bytes) -> anyhow::Result<(u32, Bytes)> {
    let number = payload.first_chunk().context("no number of a stream")?;
    Ok((u32::from_be_bytes(*number), payload.slice(4..)))
}

fn created(create: pb::WatchCreateRequest) -> CreateRequest {
    let has = |filter: FilterType| create.filters.contains(&i32::from(filter));
    CreateRequest {
        filters: Filters { no_put: has(FilterType::Noput), no_delete: has(FilterType::Nodelete) },
        key: create.key,
        range_end: create.range_end,
        start_revision: create.start_revision,
        watch_id: create.watch_id,
        progress_notify: create.progress_notify,
        prev_kv: create.prev_kv,
        fragment: create.fragment,
    }
}

/// As a gRPC error is printed, which is what etcd puts there.
fn reason(error: &Error) -> String {
    let Refused { code, text } = match error {
        Error::InvalidAuthToken | Error::AuthOldRevision | Error::UserEmpty => error.into(),
        _ => (&Error::PermissionDenied).into(),
    };
    let code = match code {
        3 => "InvalidArgument",
        7 => "PermissionDenied",
        _ => "Unauthenticated",
    };
    format!("rpc error: code = {code} desc = {text}")
}
