//! Choices drawn from a seeded generator.

use env::SeededRandom;

/// Returns a generator for a seed. Unlike [`SeededRandom::new`] it scrambles the seed first, so
/// that seeds which differ by the increment of the generator share no numbers.
pub fn scrambled(seed: u64) -> SeededRandom {
    const SALT: u64 = 0x5eed_0fb0_3711_4e00;
    const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
    let scrambled = SeededRandom::new((seed ^ SALT).wrapping_sub(INCREMENT)).next();
    SeededRandom::new(scrambled)
}

/// Random choices. Each call draws exactly one number, unless it says otherwise.
pub trait RandomExt {
    /// Returns a number from `low` to `high`, inclusive.
    fn between(&mut self, low: u64, high: u64) -> u64;

    /// Returns true with this probability in per mille.
    fn per_mille(&mut self, probability: u64) -> bool;

    /// Returns true or false with equal probability.
    fn flip(&mut self) -> bool {
        self.per_mille(500)
    }

    /// Returns a position in a list of this length, which must not be 0.
    fn position(&mut self, len: usize) -> usize;

    /// Returns one of several choices; there must be at least one.
    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.position(choices.len())]
    }

    /// Returns one of several choices, or none and draws nothing if there are none.
    fn pick_any<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        (!choices.is_empty()).then(|| self.pick(choices))
    }

    /// Returns one of several choices with a probability in proportion to its weight.
    fn pick_weighted<T: Copy>(&mut self, choices: &[(T, u64)]) -> T;
}

impl RandomExt for SeededRandom {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn per_mille(&mut self, probability: u64) -> bool {
        self.chance(probability, 1000)
    }

    fn position(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("a number below a usize fits in a usize")
    }

    fn pick_weighted<T: Copy>(&mut self, choices: &[(T, u64)]) -> T {
        let mut rest = self.below(choices.iter().map(|(_, weight)| weight).sum());
        let is_picked = |&&(_, weight): &&(T, u64)| {
            let is_picked = rest < weight;
            rest = rest.saturating_sub(weight);
            is_picked
        };
        choices.iter().find(is_picked).expect("the drawn number is below the sum of weights").0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stay_in_their_bounds_and_all_occur() {
        let mut random = scrambled(1);
        let mut seen = [0; 4];
        for _ in 0..1000 {
            seen[usize::try_from(random.between(1, 3)).unwrap()] += 1;
            assert!(random.position(2) < 2);
        }
        assert!(seen[0] == 0 && seen[1..].iter().all(|count| *count > 200), "{seen:?}");
        assert!(random.per_mille(1000) && !random.per_mille(0));
        assert_eq!(random.pick_any::<u8>(&[]), None);
        assert_eq!(random.pick(&[7]), 7);
    }

    #[test]
    fn weights_are_respected() {
        let mut random = scrambled(2);
        let picks: Vec<char> =
            (0..1000).map(|_| random.pick_weighted(&[('a', 3), ('b', 0), ('c', 1)])).collect();
        let count = |letter| picks.iter().filter(|pick| **pick == letter).count();
        assert!((650..850).contains(&count('a')), "{}", count('a'));
        assert_eq!((count('b'), count('a') + count('c')), (0, 1000));
    }

    #[test]
    fn seeds_one_increment_apart_share_no_numbers() {
        const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
        let numbers = |seed| {
            let mut random = scrambled(seed);
            [(); 100].map(|()| random.next())
        };
        let first = numbers(1);
        assert!(numbers(1 + INCREMENT).iter().all(|number| !first.contains(number)));
    }
}
