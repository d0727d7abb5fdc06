//! Feature gates.
//!
//! ```text
//!     --feature-gates  AllAlpha=true,LeaseCheckpoint=false
//!     PriorityRequest alpha on   FastLeaseKeepAlive beta on (default)   LeaseCheckpoint alpha off
//! ```
//!
//! A gate has a name, a stage and a default. `AllAlpha` and `AllBeta` set every gate of their stage
//! that was not named in this or an earlier value of the flag. The gates are etcd's; a gate of
//! Bowline is a line in [`GATES`] and a variant of [`Gate`].

use std::collections::BTreeMap;
use std::fmt;

use gocompat::{parse_bool, quote};

/// The stage of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// May change or be removed; usually off.
    Alpha,
    /// Will stay; usually on.
    Beta,
}

impl Stage {
    /// Returns the name in metrics and help: `ALPHA`, `BETA`.
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
    /// A lease renewal does not wait for committed entries to be applied.
    FastLeaseKeepAlive,
    /// Compare hashes with the peers before serving.
    InitialCorruptCheck,
    /// Replicate the remaining TTL of leases.
    LeaseCheckpoint,
    /// Persist lease checkpoints.
    LeaseCheckpointPersist,
    /// Some requests overtake others when the applier is behind.
    PriorityRequest,
    /// Dial peers from an advertised address.
    SetMemberLocalAddr,
    /// A leader with a stalled disk transfers leadership. etcd has no such gate.
    StalledLeaderTransfer,
    /// Report as not serving while defragmenting.
    StopGrpcServiceOnDefrag,
    /// Read without a copy in a write transaction. Without effect here.
    TxnModeWriteWithSharedBuffer,
}

/// All gates, sorted by name, with stage and default.
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

/// The state of the feature gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// The gates that were set; the others have their default.
    chosen: BTreeMap<Gate, bool>,
}

/// A rejected value of `--feature-gates`. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// A name without `=true` or `=false`.
    #[error("missing bool value for {0}")]
    MissingValue(String),
    /// A value that is not a boolean.
    #[error(
        "invalid value of {name}={value}, err: strconv.ParseBool: parsing {}: invalid syntax",
        quote(value)
    )]
    InvalidValue {
        /// The gate.
        name: String,
        /// The value.
        value: String,
    },
    /// An unknown gate.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
}

impl FeatureGates {
    /// Returns whether a feature is enabled.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.chosen.get(&gate).copied().unwrap_or_else(|| default_of(gate))
    }

    /// Iterates over all gates, sorted by name: name, stage, and whether it is enabled.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        GATES.iter().map(|(gate, name, stage, _)| (*name, *stage, self.enabled(*gate)))
    }

    /// Applies another value of the flag. On an error, nothing changes.
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

    /// If `gate` stands for a stage, sets its gates that were not named.
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
    /// Prints the gates that were set, as a value of the flag.
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
    fn defaults_are_etcds_with_two_exceptions() {
        let open: Vec<_> = FeatureGates::default().list().filter(|(.., open)| *open).collect();
        // In etcd the first is off, and the third does not exist.
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
    fn gates_are_sorted_by_name() {
        assert!(GATES.is_sorted_by_key(|(_, name, ..)| *name));
        assert!(GATES.is_sorted_by_key(|(gate, ..)| *gate));
    }

    #[test]
    fn a_named_gate_overrides_its_stage() {
        let gates = gates("AllAlpha=true, LeaseCheckpoint = f");
        assert!(gates.enabled(Gate::PriorityRequest));
        assert!(!gates.enabled(Gate::LeaseCheckpoint));
        assert!(gates.enabled(Gate::FastLeaseKeepAlive));
    }

    #[test]
    fn all_beta_off_disables_gates_that_are_on_by_default() {
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
        gates.set("PriorityRequest=true").expect("a known gate");
        assert!(gates.enabled(Gate::LeaseCheckpoint) && gates.enabled(Gate::PriorityRequest));
    }

    #[test]
    fn errors_have_etcds_texts_and_change_nothing() {
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
    fn empty_parts_are_ignored() {
        assert_eq!(gates(",,"), FeatureGates::default());
    }
}
