//! Linearizable reads, batched: one question to consensus answers all who asked before it was sent.
//!
//! ```text
//!   waiting  r4 r5          come while a round is under way; the next one is theirs
//!   round    r1 r2 r3       asked under ids 7 and, half a second later, 8; whichever is answered
//!     └─► index 120 ─► applied? tell them, or when it is
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use types::Index;

use crate::error::Error;
use crate::propose::stage_timings::{Marks, Moment};
use crate::read::applied_index::AppliedIndex;
use crate::sync::oneshot::Promise;

/// After this time the question is asked again: it, or its answer, may have been lost.
const RETRY: Duration = Duration::from_millis(500);

/// Who wants to read.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) promise: Promise<Result<(), Error>>,
    /// Where to note when there is an answer, if somebody wants to know.
    pub(crate) marks: Option<Arc<Marks>>,
}

impl Reader {
    fn note(&self, now: Duration) {
        self.marks.iter().for_each(|marks| marks.note(Moment::ReadConfirmed, now));
    }
}

/// The reads that wait for consensus.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    waiting: Vec<Reader>,
    round: Option<Round>,
}

#[derive(Debug)]
struct Round {
    readers: Vec<Reader>,
    /// The ids under which it was asked. Bounded by the time that a round may take.
    ids: Vec<u64>,
    began: Duration,
    asked: Duration,
}

impl Reads {
    /// Somebody wants to read.
    pub(crate) fn add(&mut self, reader: Reader) {
        self.waiting.push(reader);
    }

    /// The context of a question that is to be asked now, if one is.
    pub(crate) fn ask(&mut self, now: Duration, id: impl FnOnce() -> u64) -> Option<Bytes> {
        match &mut self.round {
            None if self.waiting.is_empty() => None,
            None => {
                let (readers, id) = (std::mem::take(&mut self.waiting), id());
                self.round = Some(Round { readers, ids: vec![id], began: now, asked: now });
                Some(context(id))
            }
            Some(round) if now >= round.asked + RETRY => Some(round.again(now, id())),
            Some(_) => None,
        }
    }

    /// Consensus answered. False if it was a question of long ago.
    pub(crate) fn answered(
        &mut self,
        context: &[u8],
        index: Index,
        applied: &AppliedIndex,
        now: Duration,
    ) -> bool {
        let id = <[u8; 8]>::try_from(context).map(u64::from_be_bytes);
        let is_ours = |round: &mut Round| id.is_ok_and(|id| round.ids.contains(&id));
        let Some(round) = self.round.take_if(is_ours) else { return false };
        for reader in round.readers {
            reader.note(now);
            applied.when(index, reader.promise);
        }
        true
    }

    /// Another member leads: whoever asked the old one has to ask again. If there was none, nobody was asked yet, and the new one is
    /// asked at once. Returns whether a round failed.
    pub(crate) fn leader_changed(&mut self, had_leader: bool) -> bool {
        match self.round.take() {
            Some(round) if had_leader => {
                round.fail(&Error::LeaderChanged);
                true
            }
            Some(round) => {
                self.waiting.splice(..0, round.readers);
                false
            }
            None => false,
        }
    }

    /// Gives up on a round that began at `until` or before. False if there is none.
    pub(crate) fn expire(&mut self, until: Duration) -> bool {
        let Some(round) = self.round.take_if(|round| round.began <= until) else { return false };
        round.fail(&Error::Timeout);
        true
    }
}

impl Round {
    fn again(&mut self, now: Duration, id: u64) -> Bytes {
        self.ids.push(id);
        self.asked = now;
        context(id)
    }

    fn fail(self, error: &Error) {
        self.readers.into_iter().for_each(|reader| reader.promise.keep(Err(error.clone())));
    }
}

fn context(id: u64) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::oneshot::{Waiting, promise};

    const ZERO: Duration = Duration::ZERO;

    fn reader(reads: &mut Reads) -> Waiting<Result<(), Error>> {
        let (promise, waiting) = promise();
        reads.add(Reader { promise, marks: None });
        waiting
    }

    #[test]
    fn those_who_come_during_a_round_wait_for_the_next() {
        let (mut reads, applied) = (Reads::default(), AppliedIndex::default());
        let first = reader(&mut reads);
        let asked = reads.ask(ZERO, || 7).unwrap();
        let second = reader(&mut reads);
        assert_eq!(reads.ask(ZERO, || 8), None, "one round at a time");
        assert!(reads.answered(&asked, Index(0), &applied, ZERO));
        assert_eq!(first.try_take(), Some(Ok(())));
        assert_eq!(second.try_take(), None);
        assert!(reads.ask(ZERO, || 8).is_some());
    }

    #[test]
    fn an_answer_waits_for_its_index() {
        let (mut reads, applied) = (Reads::default(), AppliedIndex::default());
        let waiting = reader(&mut reads);
        let asked = reads.ask(ZERO, || 1).unwrap();
        assert!(reads.answered(&asked, Index(5), &applied, ZERO));
        applied.advance(Index(4));
        assert_eq!(waiting.try_take(), None);
        applied.advance(Index(5));
        assert_eq!(waiting.try_take(), Some(Ok(())));
    }

    #[test]
    fn a_lost_question_is_asked_again_and_either_answer_counts() {
        for answer in [1, 2] {
            let (mut reads, applied) = (Reads::default(), AppliedIndex::default());
            let waiting = reader(&mut reads);
            reads.ask(ZERO, || 1).unwrap();
            assert_eq!(reads.ask(RETRY - Duration::from_millis(1), || 2), None);
            reads.ask(RETRY, || 2).unwrap();
            assert!(!reads.answered(&context(3), Index(0), &applied, ZERO), "nobody asked that");
            assert!(reads.answered(&context(answer), Index(0), &applied, ZERO));
            assert_eq!(waiting.try_take(), Some(Ok(())));
        }
    }

    #[test]
    fn a_new_leader_fails_the_round_but_not_those_who_have_not_asked() {
        let mut reads = Reads::default();
        let first = reader(&mut reads);
        reads.ask(ZERO, || 1).unwrap();
        let second = reader(&mut reads);
        assert!(reads.leader_changed(true));
        assert_eq!(first.try_take(), Some(Err(Error::LeaderChanged)));
        assert_eq!(second.try_take(), None);
    }

    #[test]
    fn those_who_found_no_leader_ask_the_first_one() {
        let (mut reads, applied) = (Reads::default(), AppliedIndex::default());
        let waiting = reader(&mut reads);
        reads.ask(ZERO, || 1).unwrap();
        assert!(!reads.leader_changed(false));
        let asked = reads.ask(ZERO, || 2).unwrap();
        assert!(reads.answered(&asked, Index(0), &applied, ZERO));
        assert_eq!(waiting.try_take(), Some(Ok(())));
    }

    #[test]
    fn a_round_has_its_time() {
        let mut reads = Reads::default();
        let waiting = reader(&mut reads);
        reads.ask(RETRY, || 1).unwrap();
        assert!(!reads.expire(ZERO));
        assert!(reads.expire(RETRY));
        assert_eq!(waiting.try_take(), Some(Err(Error::Timeout)));
    }
}
