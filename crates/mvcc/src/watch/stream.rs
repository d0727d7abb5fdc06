//! The watch stream of a client: requests in, responses out.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::history::{History, HistoryError};
use super::hub::HubShared;
use super::hub_state::HubState;
use super::outbox::{EventBatch, Outbox, QueuedResponse, ResponseBody};
use super::request::{Busy, CreateRequest, Refusal};
use super::response::{NO_WATCH_ID, Response, WatchedEvent};
use super::watcher::Watcher;
use crate::event::Event;

/// The watchers of a client. Dropping it cancels them all.
pub struct Stream {
    shared: Arc<HubShared>,
    outbox: Arc<Outbox>,
    /// The remaining fragments of a response.
    pieces: VecDeque<Response>,
}

impl Stream {
    pub(super) fn new(shared: Arc<HubShared>, outbox: Arc<Outbox>) -> Stream {
        Stream { shared, outbox, pieces: VecDeque::new() }
    }

    /// Returns whether the stream accepts requests. If not, the client has to read responses first.
    /// Events never change this: only answers to requests count.
    #[must_use]
    pub fn accepts_requests(&self) -> bool {
        self.outbox.accepts()
    }

    /// Creates a watcher, and queues the answer, which precedes all events of the watcher. Returns
    /// the watch id, or `None` if the watcher was refused.
    ///
    /// The caller checks the permissions of the client, and calls [`Stream::refuse`] without them.
    /// Compat: etcd does so after refusing a negative start revision, and before all other checks.
    ///
    /// # Errors
    ///
    /// [`Busy`] if too many answers are unread. Nothing was done.
    pub fn create(&self, request: &CreateRequest) -> Result<Option<i64>, Busy> {
        self.check_accepts()?;
        let (created, slow) = self.shared.with(|state, notifications| {
            let watcher = self.admit(state, request);
            let (watch_id, what) = match &watcher {
                Ok(watcher) => (watcher.id, ResponseBody::Created),
                Err(refusal) => (NO_WATCH_ID, ResponseBody::Refused(refusal.to_string().into())),
            };
            notifications.add(&self.outbox, self.push(state, watch_id, what));
            let created = watcher.ok().map(|watcher| {
                state.insert(watcher);
                watch_id
            });
            (created, !state.unsynced.is_empty())
        });
        if slow {
            self.shared.wake();
        }
        Ok(created)
    }

    /// Refuses to create a watcher, for a reason that the caller found.
    ///
    /// # Errors
    ///
    /// [`Busy`] if too many answers are unread. Nothing was done.
    pub fn refuse(&self, reason: impl Into<Cow<'static, str>>) -> Result<(), Busy> {
        self.check_accepts()?;
        let body = ResponseBody::Refused(reason.into());
        self.shared.with(|state, notifications| {
            notifications.add(&self.outbox, self.push(state, NO_WATCH_ID, body));
        });
        Ok(())
    }

    /// Cancels a watcher. Its queued events precede the answer. An unknown id gets no answer.
    ///
    /// # Errors
    ///
    /// [`Busy`] if too many answers are unread. Nothing was done.
    pub fn cancel(&self, watch_id: i64) -> Result<(), Busy> {
        self.check_accepts()?;
        self.shared.with(|state, notifications| {
            let stream = state.stream(self.outbox.stream);
            if let Some(&slot) = stream.ids.get(&watch_id) {
                state.remove(slot);
            } else if !stream.ended.remove(&watch_id) {
                return;
            }
            notifications.add(&self.outbox, self.push(state, watch_id, ResponseBody::Canceled));
        });
        Ok(())
    }

    /// Requests the progress of all watchers of the stream. Returns whether there is an answer:
    /// only if there are watchers, and all are synced and have reached their start revision.
    ///
    /// # Errors
    ///
    /// [`Busy`] if too many answers are unread. Nothing was done.
    pub fn request_progress(&self) -> Result<bool, Busy> {
        self.check_accepts()?;
        Ok(self
            .shared
            .with(|state, notifications| state.answer_progress(self.outbox.stream, notifications)))
    }

    /// Returns the next response, if there is one. After a call of `notify`, read until there is
    /// none.
    ///
    /// # Errors
    ///
    /// If a previous value cannot be read because the database is damaged. The member has to stop.
    pub fn next(&mut self, history: &dyn History) -> Result<Option<Response>, HistoryError> {
        if let Some(piece) = self.pieces.pop_front() {
            return Ok(Some(piece));
        }
        let Some(popped) = self.outbox.pop() else { return Ok(None) };
        if popped.room {
            self.shared.has_room(self.outbox.stream);
        }
        let (response, fragment) = respond(popped.item, history)?;
        if !fragment {
            return Ok(Some(response));
        }
        self.pieces = response.split(self.shared.fragment_bytes).into();
        Ok(self.pieces.pop_front())
    }

    fn check_accepts(&self) -> Result<(), Busy> {
        if self.accepts_requests() { Ok(()) } else { Err(Busy) }
    }

    /// Checks a request. Returns the watcher with its id.
    fn admit(&self, state: &mut HubState, request: &CreateRequest) -> Result<Watcher, Refusal> {
        let mut watcher = Watcher::new(request, request.span()?, Arc::clone(&self.outbox));
        let stream = state.stream(self.outbox.stream);
        if watcher.id == 0 {
            watcher.id = stream.choose_id();
        } else if stream.has_id(watcher.id) {
            return Err(Refusal::DuplicateId);
        }
        if request.progress_notify {
            stream.progress.add(watcher.id);
        }
        Ok(watcher)
    }

    fn push(&self, state: &HubState, watch_id: i64, body: ResponseBody) -> bool {
        self.outbox.push(QueuedResponse { watch_id, revision: state.current, body })
    }

    /// Removes a bounded number of watchers. Returns false if none was left.
    fn remove_some(&self) -> bool {
        self.shared.with(|state, _| {
            let count = state.limits.drop_watchers;
            let ids = &state.stream(self.outbox.stream).ids;
            let slots: Vec<usize> = ids.values().copied().take(count).collect();
            slots.iter().for_each(|&slot| state.remove(slot));
            !slots.is_empty()
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // In steps, so that a publish does not wait for the removal of thousands of watchers.
        while self.remove_some() {}
        self.shared.with(|state, _| {
            let number = self.outbox.stream;
            if let Some(stream) = state.streams.remove(&number) {
                state.progress_due.remove(&(stream.progress.due(), number));
            }
        });
    }
}

/// Builds a response, and returns whether it may be split.
fn respond(item: QueuedResponse, history: &dyn History) -> Result<(Response, bool), HistoryError> {
    let mut response =
        Response { watch_id: item.watch_id, revision: item.revision, ..Response::default() };
    match item.body {
        ResponseBody::Created => response.created = true,
        ResponseBody::Refused(reason) => {
            response.created = true;
            response.canceled = true;
            response.cancel_reason = reason;
        }
        ResponseBody::Canceled => response.canceled = true,
        ResponseBody::Compacted(revision) => {
            response.canceled = true;
            response.compact_revision = revision;
        }
        ResponseBody::Progress { .. } => {}
        ResponseBody::Events { batch, prev_kv, fragment } => {
            response.events = watched(&batch, prev_kv, history)?;
            return Ok((response, fragment));
        }
    }
    Ok((response, false))
}

/// Returns the events of a batch, with their previous values if wanted.
fn watched(
    batch: &EventBatch,
    prev_kv: bool,
    history: &dyn History,
) -> Result<Vec<WatchedEvent>, HistoryError> {
    let watch = |event: &Event| {
        let prev_kv = if prev_kv { previous(event, history)? } else { None };
        Ok(WatchedEvent { event: event.clone(), prev_kv })
    };
    batch.iter().map(watch).collect()
}

/// Returns the `KeyValue` before an event, or `None` if the key did not exist or the revision is
/// compacted.
fn previous(event: &Event, history: &dyn History) -> Result<Option<Bytes>, HistoryError> {
    if event.created {
        return Ok(None);
    }
    match history.value_at(&event.key, event.revision.main - 1) {
        Err(HistoryError::Compacted(_)) => Ok(None),
        value => value,
    }
}
