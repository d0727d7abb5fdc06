//! Feature gates: switches for what is young.
//!
//! ```text
//!     --feature-gates  AllAlpha=true,LeaseCheckpoint=false
//!     PriorityRequest  alpha  on     FastLeaseKeepAlive  beta  on (its default)     LeaseCheckpoint  alpha  off
//! ```
//!
//! A gate has a name, a stage and a default. `AllAlpha` and `AllBeta` switch every gate of their stage that was not named itself, in this
//! value of the flag or in an earlier one. The gates are etcd's; one of our own is another line of [`GATES`] and another variant of [`Gate`].

use std::collections::BTreeMap;
use std::fmt;

use gocompat::{parse_bool, quote};

/// How far along a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// May change or go away; off unless asked for.
    Alpha,
    /// Here to stay; usually on.
    Beta,
}

impl Stage {
    /// As in metrics and help: `ALPHA`, `BETA`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
        }
    }
}

/// A feature that can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// The default of all alpha gates.
    AllAlpha,
    /// The default of all beta gates.
    AllBeta,
    /// The leader compares hashes of compacted revisions with its followers.
    CompactHashCheck,
    /// A renewal does not wait for what is committed but not applied.
    FastLeaseKeepAlive,
    /// Compare with the other members before serving.
    InitialCorruptCheck,
    /// Tell the other members how long leases still have.
    LeaseCheckpoint,
    /// Keep what checkpoints tell.
    LeaseCheckpointPersist,
    /// Some requests may pass others when there is much to apply.
    PriorityRequest,
    /// Dial peers from an advertised address.
    SetMemberLocalAddr,
    /// A leader whose disk hangs hands leadership on. Etcd has no such gate.
    StalledLeaderTransfer,
    /// Tell clients not to come while defragmenting.
    StopGrpcServiceOnDefrag,
    /// Read without a copy in a transaction that writes.
    TxnModeWriteWithSharedBuffer,
}

/// Every gate there is, in the order of names: with its stage and default.
pub const GATES: [(Gate, &str, Stage, bool); 12] = [
    (Gate::AllAlpha, "AllAlpha", Stage::Alpha, false),
    (Gate::AllBeta, "AllBeta", Stage::Beta, false),
    (Gate::CompactHashCheck, "CompactHashCheck", Stage::Alpha, true),
    (Gate::FastLeaseKeepAlive, "FastLeaseKeepAlive", Stage::Beta, true),
    (Gate::InitialCorruptCheck, "InitialCorruptCheck", Stage::Alpha, false),
    (Gate::LeaseCheckpoint, "LeaseCheckpoint", Stage::Alpha, false),
    (Gate::LeaseCheckpointPersist, "LeaseCheckpointPersist", Stage::Alpha, false),
    (Gate::PriorityRequest, "PriorityRequest", Stage::Alpha, false),
    (Gate::SetMemberLocalAddr, "SetMemberLocalAddr", Stage::Alpha, false),
    (Gate::StalledLeaderTransfer, "StalledLeaderTransfer", Stage::Beta, true),
    (Gate::StopGrpcServiceOnDefrag, "StopGRPCServiceOnDefrag", Stage::Alpha, false),
    (Gate::TxnModeWriteWithSharedBuffer, "TxnModeWriteWithSharedBuffer", Stage::Beta, true),
];

/// Which gates are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// What was asked for; the rest is at its default.
    chosen: BTreeMap<Gate, bool>,
}

/// Why a value of `--feature-gates` was refused, in etcd's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// A name without `=true` or `=false`.
    #[error("missing bool value for {0}")]
    MissingValue(String),
    /// Neither true nor false.
    #[error(
        "invalid value of {name}={value}, err: strconv.ParseBool: parsing {}: invalid syntax",
        quote(value)
    )]
    InvalidValue {
        /// The gate.
        name: String,
        /// What it was set to.
        value: String,
    },
    /// No such gate.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
}

impl FeatureGates {
    /// Whether a gate is open.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.chosen.get(&gate).copied().unwrap_or_else(|| default_of(gate))
    }

    /// Every gate, in the order of names: name, stage, and whether it is open.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        GATES.iter().map(|(gate, name, stage, _)| (*name, *stage, self.enabled(*gate)))
    }

    /// Takes another value of the flag. Nothing changes if any part of it is refused.
    pub(crate) fn set(&mut self, text: &str) -> Result<(), GateError> {
        let mut wanted = BTreeMap::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = parse_pair(pair)?;
            wanted.insert(name, value);
        }
        let mut found = Vec::with_capacity(wanted.len());
        for (name, value) in wanted {
            let gate = GATES.iter().find(|(_, known, ..)| *known == name).map(|(gate, ..)| *gate);
            found.push((gate.ok_or_else(|| GateError::Unknown(name.to_owned()))?, value));
        }
        self.chosen.extend(found.iter().copied());
        for (gate, value) in found {
            self.switch_stage(gate, value);
        }
        Ok(())
    }

    /// If `gate` stands for a stage, switches those of it that were not named.
    fn switch_stage(&mut self, gate: Gate, value: bool) {
        let switched = match gate {
            Gate::AllAlpha => Stage::Alpha,
            Gate::AllBeta => Stage::Beta,
            _ => return,
        };
        for (gate, ..) in GATES.iter().filter(|(_, _, stage, _)| *stage == switched) {
            self.chosen.entry(*gate).or_insert(value);
        }
    }
}

impl fmt::Display for FeatureGates {
    /// What was asked for, as the flag would be written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> =
            self.chosen.iter().map(|(gate, value)| format!("{}={value}", name_of(*gate))).collect();
        f.write_str(&pairs.join(","))
    }
}

fn parse_pair(pair: &str) -> Result<(&str, bool), GateError> {
    let (name, value) = match pair.split_once('=') {
        Some((name, value)) => (name.trim(), value.trim()),
        None => return Err(GateError::MissingValue(pair.trim().to_owned())),
    };
    match parse_bool(value) {
        Some(value) => Ok((name, value)),
        None => Err(GateError::InvalidValue { name: name.to_owned(), value: value.to_owned() }),
    }
}

fn default_of(gate: Gate) -> bool {
    GATES.iter().any(|(known, _, _, default)| *known == gate && *default)
}

fn name_of(gate: Gate) -> &'static str {
    GATES.iter().find(|(known, ..)| *known == gate).map_or("", |(_, name, ..)| name)
}

#[cfg(test)]
mod tests {
    use super::{FeatureGates, GATES, Gate, Stage};

    fn gates(text: &str) -> FeatureGates {
        let mut gates = FeatureGates::default();
        gates.set(text).expect(text);
        gates
    }

    #[test]
    fn defaults_are_etcds_and_two_that_watch_over_the_cluster() {
        let open: Vec<_> = FeatureGates::default().list().filter(|(.., open)| *open).collect();
        // In etcd the first is closed, and the third is not there.
        assert_eq!(
            open,
            [
                ("CompactHashCheck", Stage::Alpha, true),
                ("FastLeaseKeepAlive", Stage::Beta, true),
                ("StalledLeaderTransfer", Stage::Beta, true),
                ("TxnModeWriteWithSharedBuffer", Stage::Beta, true)
            ]
        );
    }

    #[test]
    fn gates_are_listed_by_name() {
        assert!(GATES.is_sorted_by_key(|(_, name, ..)| *name));
        assert!(GATES.is_sorted_by_key(|(gate, ..)| *gate));
    }

    #[test]
    fn a_stage_is_switched_but_not_what_is_named() {
        let gates = gates("AllAlpha=true, LeaseCheckpoint = f");
        assert!(gates.enabled(Gate::PriorityRequest));
        assert!(!gates.enabled(Gate::LeaseCheckpoint));
        assert!(gates.enabled(Gate::FastLeaseKeepAlive));
    }

    #[test]
    fn all_beta_off_closes_what_is_open_by_default() {
        let gates = gates("AllBeta=false");
        assert!(!gates.enabled(Gate::FastLeaseKeepAlive));
        assert_eq!(
            gates.to_string(),
            "AllBeta=false,FastLeaseKeepAlive=false,StalledLeaderTransfer=false,TxnModeWriteWithSharedBuffer=false"
        );
    }

    #[test]
    fn a_later_value_adds_to_an_earlier_one() {
        let mut gates = gates("LeaseCheckpoint=true");
        gates.set("PriorityRequest=true").expect("sound");
        assert!(gates.enabled(Gate::LeaseCheckpoint) && gates.enabled(Gate::PriorityRequest));
    }

    #[test]
    fn refusals_are_in_etcds_words_and_change_nothing() {
        let cases = [
            ("X=true", "unrecognized feature gate: X"),
            ("LeaseCheckpoint", "missing bool value for LeaseCheckpoint"),
            (
                "LeaseCheckpoint=x",
                r#"invalid value of LeaseCheckpoint=x, err: strconv.ParseBool: parsing "x": invalid syntax"#,
            ),
            ("LeaseCheckpoint=true,X=true", "unrecognized feature gate: X"),
        ];
        for (text, error) in cases {
            let mut gates = FeatureGates::default();
            assert_eq!(gates.set(text).expect_err(text).to_string(), error);
            assert_eq!(gates, FeatureGates::default());
        }
    }

    #[test]
    fn nothing_between_commas_is_nothing() {
        assert_eq!(gates(",,"), FeatureGates::default());
    }
}
