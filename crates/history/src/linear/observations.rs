//! Compares observations with the state that the search has built.

use super::conflict::Conflict;
use super::footprint::touches;
use super::revision_table::{Observation, Observer};
use super::search::{Failure, Search, StepResult};
use crate::log::RevisionWriter;
use crate::model::{Change, evaluate};
use crate::record::{Body, Kv, Request, Span, joined};
use crate::violation::{Rule, Violation};

impl Search<'_> {
    /// Checks that all watches delivered exactly these changes for the next revision.
    pub(super) fn check_watches(&self, changes: &[Change]) -> StepResult {
        let revision = self.keys.revision() + 1;
        let mut watches = self.input.watches.iter();
        let Some(contradicting_watch) = watches.position(|it| !it.agrees(revision, changes)) else {
            return Ok(());
        };
        let watch = &self.input.watches[contradicting_watch];
        let delivered = watch.events_at(revision).iter().map(|event| &event.kv.key);
        let keys = delivered.chain(changes.iter().map(|change| &change.key));
        let spans: Vec<Span> = keys.map(|key| Span::one(key)).collect();
        let text = format!("{}: delivered other events for revision {revision}", watch.request);
        let conflict = self.depends_on_keys(&spans, revision - 1);
        let violation = Violation::new(Rule::WrongEvent, text);
        Err(Failure { violation, conflict, contradicting_watch: Some(contradicting_watch) })
    }

    /// Checks that no key is attached to a lease that has ended earlier in this order.
    pub(super) fn check_leases(&self, writer: RevisionWriter, changes: &[Change]) -> StepResult {
        let leases = changes.iter().filter_map(|change| change.after.as_ref().map(|kv| kv.lease));
        let has_ended = |lease: &i64| {
            self.ended.iter().any(|(ended, _)| ended == lease)
                && self.input.leases.granted_at_most_once(*lease)
        };
        let Some(lease) = leases.filter(|lease| *lease != 0).find(has_ended) else { return Ok(()) };
        let revision = self.keys.revision() + 1;
        let text = format!(
            "revision {revision}, {}, puts a key on lease {lease}, which ended at an earlier revision",
            self.describe_writer(writer)
        );
        let violation = Violation::new(Rule::Lease, text);
        Err(Failure::new(violation, Conflict::everything()))
    }

    /// Checks all observations of the newest state.
    pub(super) fn check_observations(&self) -> StepResult {
        self.input
            .table
            .observations(self.keys.revision())
            .iter()
            .try_for_each(|it| self.check_observation(it))
    }

    fn check_observation(&self, observation: &Observation<'_>) -> StepResult {
        if let Request::Revoke { lease } = *observation.request {
            return self.check_revoked(observation, lease);
        }
        let (body, _) = evaluate(&self.keys, &observation.request).map_err(|refusal| {
            Failure::new(
                Violation::new(Rule::WrongAnswer, format!("should be refused: {refusal}")),
                self.depends_on(&observation.request, self.keys.revision()),
            )
        })?;
        if body == *observation.body {
            return Ok(());
        }
        Err(self.mismatch(
            observation.observer,
            &observation.request,
            &observation.body,
            &body,
            self.keys.revision(),
        ))
    }

    /// Checks that a revoked lease has no keys left, whichever revision the revocation made.
    fn check_revoked(&self, observation: &Observation<'_>, lease: i64) -> StepResult {
        let remaining: Vec<&Kv> = self.keys.attached(lease).map(|kv| &**kv).collect();
        if remaining.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{}; yet it still has {}",
            self.describe_observer(observation.observer),
            joined(&remaining, ", ")
        );
        let violation = Violation::new(Rule::Lease, text);
        Err(Failure::new(violation, self.depends_on(&observation.request, self.keys.revision())))
    }

    /// Builds the failure of a response that differs from the state.
    pub(super) fn mismatch(
        &self,
        observer: Observer,
        request: &Request,
        got: &Body,
        expected: &Body,
        revision: i64,
    ) -> Failure {
        let inside = match observer {
            Observer::Operation(i) if self.input.history.operations[i].request != *request => {
                format!(" ({request})")
            }
            _ => String::new(),
        };
        let text = format!(
            "{}{inside}; at revision {revision} expected: {expected}; got: {got}",
            self.describe_observer(observer)
        );
        let rule = match observer {
            Observer::Operation(_) => Rule::WrongAnswer,
            Observer::Final(_) => Rule::Durable,
        };
        let violation = Violation::new(rule, text);
        Failure::new(violation, self.depends_on(request, revision))
    }

    /// Returns the causes of a wrong response, given that all observations before `revision` are
    /// correct.
    pub(super) fn depends_on(&self, request: &Request, revision: i64) -> Conflict {
        self.depends_on_keys(&touches(request, self.input.leased), revision - 1)
    }

    /// Returns a conflict on the changes of keys since their last complete observation at or before
    /// `revision`.
    fn depends_on_keys(&self, spans: &[Span], revision: i64) -> Conflict {
        let mut conflict = Conflict::default();
        spans.iter().for_each(|span| {
            conflict.add_keys(span, self.input.table.last_observed(span, revision));
        });
        conflict
    }

    fn describe_writer(&self, writer: RevisionWriter) -> String {
        match writer {
            RevisionWriter::Operation(i) => self.input.history.operations[i].to_string(),
            RevisionWriter::Expiry(lease) => format!("the expiry of lease {lease}"),
        }
    }

    fn describe_observer(&self, observer: Observer) -> String {
        match observer {
            Observer::Operation(i) => self.input.history.operations[i].to_string(),
            Observer::Final(i) => {
                let last = &self.input.history.finals[i];
                format!("member {} at the end, at revision {}", last.member, last.revision)
            }
        }
    }
}
