//! Golden scripts for quorums: the committed index and the result of a vote.
//!
//! The configuration is given as `cfg=(1,2,3)`, with `cfgj=(…)` as the second half or `cfgj=zero`
//! for an empty one; indexes and votes follow in voter order, `_` for a missing one.

use std::collections::BTreeMap;

use raft::quorum::{JointConfig, MajorityConfig};
use testkit::script::{self, Case, Runner};
use types::{Index, MemberId};

#[test]
fn own_scripts_produce_their_traces() {
    let cases = run_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/quorum"));
    println!("{cases} cases of our own");
}

#[test]
fn etcds_scripts_produce_their_traces() {
    if let Some(dir) = script::published("quorum") {
        println!("{} published cases", run_dir(dir));
    }
}

fn run_dir(dir: impl AsRef<std::path::Path>) -> usize {
    Runner::from_env().run_dir(dir, || handle)
}

fn handle(case: &Case) -> String {
    case.allow(&["cfg", "cfgj", "idx", "votes"]);
    let voters = Voters::of(case);
    let values = if case.cmd == "vote" { "votes" } else { "idx" };
    let values: Vec<String> = case.values(values);
    let ids = voters.config.ids();
    if ids.len() != values.len() {
        return mismatch(&ids.into_iter().collect::<Vec<_>>(), case, &values);
    }
    match case.cmd.as_str() {
        "committed" => committed(&voters, &values, case),
        "vote" => vote(&voters, &values, case),
        _ => case.fail("unknown command"),
    }
}

struct Voters {
    config: JointConfig,
    /// The voters in the order given, without duplicates.
    order: Vec<MemberId>,
    joint: bool,
}

impl Voters {
    fn of(case: &Case) -> Voters {
        let incoming: Vec<MemberId> = case.values::<u64>("cfg").into_iter().map(MemberId).collect();
        let second: Vec<String> = case.values("cfgj");
        let id = |id: &String| MemberId(id.parse().unwrap_or_else(|_| case.fail("not an id")));
        let outgoing: Vec<MemberId> = match second.as_slice() {
            [zero] if zero == "zero" => Vec::new(),
            ids => ids.iter().map(id).collect(),
        };
        let mut order = Vec::new();
        for id in incoming.iter().chain(&outgoing) {
            if !order.contains(id) {
                order.push(*id);
            }
        }
        let config = JointConfig {
            incoming: incoming.into_iter().collect(),
            outgoing: outgoing.into_iter().collect(),
        };
        Voters { config, order, joint: case.arg("cfgj").is_some() }
    }

    /// Returns the given values by voter, without missing ones.
    fn by_voter<T>(&self, value: &[String], parse: impl Fn(&str) -> T) -> BTreeMap<MemberId, T> {
        let pairs = self.order.iter().zip(value).filter(|(_, value)| *value != "_");
        pairs.map(|(id, value)| (*id, parse(value))).collect()
    }

    /// Returns the configuration with the halves exchanged, which must not matter.
    fn swapped(&self) -> JointConfig {
        let JointConfig { incoming, outgoing } = self.config.clone();
        JointConfig { incoming: outgoing, outgoing: incoming }
    }
}

fn committed(voters: &Voters, values: &[String], case: &Case) -> String {
    let parse = |index: &str| Index(index.parse().unwrap_or_else(|_| case.fail("not an index")));
    let acked = voters.by_voter(values, parse);
    let lookup = |id: MemberId| acked.get(&id).copied();
    let index = voters.config.committed_index(lookup);
    let mut output = voters.config.describe(lookup);
    let mut check = |other: Index, how: &str| {
        if other != index {
            output.push_str(&format!("{} <-- {how}\n", shown(other)));
        }
    };
    if voters.joint {
        check(voters.swapped().committed_index(lookup), "via symmetry");
    } else {
        let only = &voters.config.incoming;
        check(by_counting(only, &acked), "via alternative computation");
        let with_itself = JointConfig { incoming: only.clone(), outgoing: only.clone() };
        check(with_itself.committed_index(lookup), "via self-joint quorum");
        for (id, acked_index) in &acked {
            // Lowering an index below the committed one changes nothing.
            if index > *acked_index {
                let lowered = |other: MemberId| {
                    if other == *id { Some(acked_index.prev()) } else { lookup(other) }
                };
                check(only.committed_index(lowered), "with a lower straggler");
            }
        }
    }
    format!("{output}{}\n", shown(index))
}

/// Computes the largest index acknowledged by more than half, by counting.
fn by_counting(config: &MajorityConfig, acked: &BTreeMap<MemberId, Index>) -> Index {
    if config.is_empty() {
        return Index::MAX;
    }
    let holders = |index: Index| {
        config.iter().filter(|id| acked.get(id).is_some_and(|acked| *acked >= index)).count()
    };
    let committed = acked.values().copied().filter(|index| holders(*index) > config.len() / 2);
    committed.max().unwrap_or_default()
}

fn vote(voters: &Voters, values: &[String], case: &Case) -> String {
    let votes = voters.by_voter(values, |value| match value {
        "y" => true,
        "n" => false,
        _ => case.fail("unknown vote"),
    });
    let lookup = |id: MemberId| votes.get(&id).copied();
    let result = voters.config.vote_result(lookup);
    let mut output = String::new();
    let other = voters.swapped().vote_result(lookup);
    if other != result {
        output.push_str(&format!("{} <-- via symmetry\n", other.as_str()));
    }
    format!("{output}{}\n", result.as_str())
}

fn mismatch(ids: &[MemberId], case: &Case, values: &[String]) -> String {
    let numbers: BTreeMap<&str, &str> = BTreeMap::from([("y", "2"), ("n", "1"), ("_", "0")]);
    let value = |value: &String| {
        let voted = case.cmd == "vote" || value == "_";
        if voted { numbers.get(value.as_str()).unwrap_or(&"?").to_string() } else { value.clone() }
    };
    let ids: Vec<_> = ids.iter().map(|id| format!("{}:{{}}", id.0)).collect();
    let value: Vec<_> = values.iter().map(value).collect();
    let (ids, value) = (ids.join(" "), value.join(" "));
    format!("error: mismatched input (explicit or _) for voters map[{ids}]: [{value}]")
}

fn shown(index: Index) -> String {
    if index == Index::MAX { "∞".to_owned() } else { index.to_string() }
}
