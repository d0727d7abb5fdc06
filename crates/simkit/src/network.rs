//! An unreliable network: whether and when a message arrives, and which links are cut.

use std::collections::BTreeSet;

use env::SeededRandom;

use crate::RandomExt as _;

/// The quality of a network. Probabilities are in per mille; the unit of time is that of the
/// simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkConditions {
    /// Probability that a message is lost.
    pub loss: u64,
    /// Probability that a message is duplicated.
    pub duplication: u64,
    /// A message arrives after 1 to 1 + `delay` units of time, so messages overtake each other.
    pub delay: u64,
    /// Messages that take much longer, if there are any.
    pub late: Option<LateMessages>,
}

/// Messages that take much longer than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateMessages {
    /// Probability that a message is late, in per mille.
    pub share: u64,
    /// A late message takes up to this time longer.
    pub delay: u64,
}

impl NetworkConditions {
    /// Draws the copies of a message: the time after which each one arrives, or none if the message
    /// is lost. Only a message that `may_repeat` is duplicated.
    pub fn draw_copies(&self, random: &mut SeededRandom, may_repeat: bool) -> Vec<u64> {
        if random.per_mille(self.loss) {
            return Vec::new();
        }
        let copies = if may_repeat && random.per_mille(self.duplication) { 2 } else { 1 };
        (0..copies).map(|_| self.draw_delay(random)).collect()
    }

    /// Draws the time after which a message arrives.
    pub fn draw_delay(&self, random: &mut SeededRandom) -> u64 {
        let late = self.late.filter(|late| random.per_mille(late.share));
        let delay = 1 + random.below(self.delay + 1);
        delay + late.map_or(0, |late| random.below(late.delay))
    }
}

/// The links between members, each of which may be cut in one direction or both.
#[derive(Clone, Debug)]
pub struct Links<Id> {
    /// Links that are cut, as (from, to).
    cut: BTreeSet<(Id, Id)>,
}

impl<Id> Default for Links<Id> {
    fn default() -> Links<Id> {
        Links { cut: BTreeSet::new() }
    }
}

impl<Id: Copy + Ord> Links<Id> {
    /// Returns whether messages from one member to another are dropped.
    pub fn is_cut(&self, from: Id, to: Id) -> bool {
        self.cut.contains(&(from, to))
    }

    /// Cuts the link from one member to another.
    pub fn cut(&mut self, from: Id, to: Id) {
        self.cut.insert((from, to));
    }

    /// Cuts all links between the members for which `is_in_group` holds and the others, in both
    /// directions.
    pub fn partition(&mut self, members: &[Id], is_in_group: impl Fn(Id) -> bool) {
        for from in members {
            for to in members.iter().filter(|to| is_in_group(**to) != is_in_group(*from)) {
                self.cut(*from, *to);
            }
        }
    }

    /// Heals all links.
    pub fn heal(&mut self) {
        self.cut.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_lost_duplicated_and_delayed_as_configured() {
        let late = Some(LateMessages { share: 100, delay: 50 });
        let conditions = NetworkConditions { loss: 200, duplication: 300, delay: 4, late };
        let mut random = SeededRandom::new(1);
        let messages: Vec<_> =
            (0..10_000).map(|_| conditions.draw_copies(&mut random, true)).collect();
        let count = |copies| messages.iter().filter(|delays| delays.len() == copies).count();
        assert!((1_800..2_200).contains(&count(0)), "{} lost", count(0));
        assert!((2_200..2_600).contains(&count(2)), "{} duplicated", count(2));
        let delays: BTreeSet<u64> = messages.into_iter().flatten().collect();
        assert_eq!((delays.first(), delays.last()), (Some(&1), Some(&54)));
        let once = |random: &mut _| conditions.draw_copies(random, false).len() <= 1;
        assert!((0..1000).all(|_| once(&mut random)));
    }

    #[test]
    fn a_reliable_network_delivers_once_at_the_next_step() {
        let mut random = SeededRandom::new(1);
        let conditions = NetworkConditions::default();
        assert!((0..100).all(|_| conditions.draw_copies(&mut random, true) == [1]));
    }

    #[test]
    fn a_partition_cuts_both_directions_between_its_sides() {
        let mut links = Links::default();
        links.partition(&[1, 2, 3], |id| id == 2);
        assert!(links.is_cut(1, 2) && links.is_cut(2, 1) && links.is_cut(3, 2));
        assert!(!links.is_cut(1, 3) && !links.is_cut(3, 1));
        links.heal();
        links.cut(1, 2);
        assert!(links.is_cut(1, 2) && !links.is_cut(2, 1));
    }
}
