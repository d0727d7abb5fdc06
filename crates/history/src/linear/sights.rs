//! What was seen of a state, held against it; and what it depends on if they differ.

use super::conflict::Conflict;
use super::footprint::touches;
use super::script::{Sight, Who};
use super::search::{Failure, Search, Step};
use crate::log::Writer;
use crate::model::{Change, evaluate};
use crate::record::{Body, Kv, Request, Span, joined};
use crate::violation::{Rule, Violation};

impl Search<'_> {
    /// What watchers were told of the next revision is what it does. (Where it cannot be, a search without them follows.)
    pub(super) fn hear_watchers(&self, changes: &[Change]) -> Step {
        let revision = self.keys.revision() + 1;
        let mut watchers = self.given.watchers.iter();
        let Some(suspect) = watchers.position(|it| !it.agrees(revision, changes)) else {
            return Ok(());
        };
        let watcher = &self.given.watchers[suspect];
        let told = watcher.told(revision).iter().map(|event| &event.kv.key);
        let keys = told.chain(changes.iter().map(|change| &change.key));
        let spans: Vec<Span> = keys.map(|key| Span::one(key)).collect();
        let text = format!("{}: told otherwise of revision {revision}", watcher.request);
        let conflict = self.depends_on_keys(&spans, revision - 1);
        let violation = Violation::new(Rule::WrongEvent, text);
        Err(Failure { violation, conflict, suspect: Some(suspect) })
    }

    /// No key is put on a lease that ended on the way here.
    pub(super) fn check_leases(&self, writer: Writer, changes: &[Change]) -> Step {
        let leases = changes.iter().filter_map(|change| change.after.as_ref().map(|kv| kv.lease));
        let late = |lease: &i64| {
            self.ended.iter().any(|(ended, _)| ended == lease)
                && self.given.leases.lives_once(*lease)
        };
        let Some(lease) = leases.filter(|lease| *lease != 0).find(late) else { return Ok(()) };
        let revision = self.keys.revision() + 1;
        let text = format!(
            "revision {revision}, {}, puts a key on lease {lease}, whose end explained an earlier revision",
            self.describe(writer)
        );
        let violation = Violation::new(Rule::Lease, text);
        Err(Failure::new(violation, Conflict::everything()))
    }

    /// Compares what was seen of the newest state with it.
    pub(super) fn look(&self) -> Step {
        self.given.script.sights(self.keys.revision()).iter().try_for_each(|it| self.look_at(it))
    }

    fn look_at(&self, sight: &Sight<'_>) -> Step {
        if let Request::Revoke { lease } = *sight.request {
            return self.look_for_leftovers(sight, lease);
        }
        let (body, _) = evaluate(&self.keys, &sight.request).map_err(|refusal| {
            Failure::new(
                Violation::new(Rule::WrongAnswer, format!("should be refused: {refusal}")),
                self.depends_on(&sight.request, self.keys.revision()),
            )
        })?;
        if body == *sight.body {
            return Ok(());
        }
        Err(self.unlike(sight.who, &sight.request, &sight.body, &body, self.keys.revision()))
    }

    /// Whichever revision a revocation made, if any: afterwards the lease has no keys.
    fn look_for_leftovers(&self, sight: &Sight<'_>, lease: i64) -> Step {
        let kept: Vec<&Kv> = self.keys.attached(lease).map(|kv| &**kv).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let text = format!("{}; yet it still has {}", self.who(sight.who), joined(&kept, ", "));
        let violation = Violation::new(Rule::Lease, text);
        Err(Failure::new(violation, self.depends_on(&sight.request, self.keys.revision())))
    }

    /// Somebody was told something else than what was there.
    pub(super) fn unlike(
        &self,
        who: Who,
        request: &Request,
        got: &Body,
        expected: &Body,
        revision: i64,
    ) -> Failure {
        let inside = match who {
            Who::Operation(i) if self.given.history.operations[i].request != *request => {
                format!(" ({request})")
            }
            _ => String::new(),
        };
        let text = format!(
            "{}{inside}; at revision {revision} it should have been told: {expected}; it was told: {got}",
            self.who(who)
        );
        let rule = match who {
            Who::Operation(_) => Rule::WrongAnswer,
            Who::Final(_) => Rule::Durable,
        };
        let violation = Violation::new(rule, text);
        Failure::new(violation, self.depends_on(request, revision))
    }

    /// What an answer depends on, if all that was seen before `revision` fitted.
    pub(super) fn depends_on(&self, request: &Request, revision: i64) -> Conflict {
        self.depends_on_keys(&touches(request, self.given.leased), revision - 1)
    }

    /// What became of keys since they were last seen as a whole, at or before `revision`.
    fn depends_on_keys(&self, spans: &[Span], revision: i64) -> Conflict {
        let mut conflict = Conflict::default();
        spans.iter().for_each(|span| conflict.add(span, self.given.script.known(span, revision)));
        conflict
    }

    fn describe(&self, writer: Writer) -> String {
        match writer {
            Writer::Operation(i) => self.given.history.operations[i].to_string(),
            Writer::Expiry(lease) => format!("the expiry of lease {lease}"),
        }
    }

    fn who(&self, who: Who) -> String {
        match who {
            Who::Operation(i) => self.given.history.operations[i].to_string(),
            Who::Final(i) => {
                let last = &self.given.history.finals[i];
                format!("member {} at the end, at revision {}", last.member, last.revision)
            }
        }
    }
}
