//! Rebuilds a configuration from the lists in a snapshot.

use types::{Index, MemberId};

use crate::conf::{ConfChangeSingle, ConfChangeType, ConfState};
use crate::tracker::ProgressTracker;

use super::{ChangedConfig, Changer, ConfChangeError};

/// Rebuilds the configuration that `state` describes, on top of an empty tracker.
///
/// Applies the conf changes that could have led there, so that the same rules are enforced. For
/// `voters=(1 3)&&(1 2) learners=(4) learners_next=(2)`:
///
/// ```text
/// add 1 and 2 one by one                                 voters=(1 2)
/// enter joint: remove 1 2, add 1 3, learners 4 and 2     voters=(1 3)&&(1 2) …
/// ```
///
/// # Errors
///
/// Returns an error if no sequence of changes leads to such a configuration.
pub fn restore(
    mut tracker: ProgressTracker,
    last_index: Index,
    state: &ConfState,
) -> Result<ChangedConfig, ConfChangeError> {
    let step = |tracker: &mut ProgressTracker, changed: ChangedConfig| {
        (tracker.config, tracker.progress) = changed;
    };
    let incoming = incoming_changes(state);
    let one_by_one = if state.voters_outgoing.is_empty() {
        incoming.clone()
    } else {
        changes(ConfChangeType::AddNode, &state.voters_outgoing).collect()
    };
    for change in one_by_one {
        let changed = Changer { tracker: &tracker, last_index }.simple(&[change])?;
        step(&mut tracker, changed);
    }
    if !state.voters_outgoing.is_empty() {
        let changed =
            Changer { tracker: &tracker, last_index }.enter_joint(state.auto_leave, &incoming)?;
        step(&mut tracker, changed);
    }
    if !tracker.conf_state().is_equivalent(state) {
        return Err(ConfChangeError::NotEquivalent(format!("{state:?}")));
    }
    Ok((tracker.config, tracker.progress))
}

/// Returns the changes that turn the outgoing half into the incoming one.
fn incoming_changes(state: &ConfState) -> Vec<ConfChangeSingle> {
    use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode};
    changes(RemoveNode, &state.voters_outgoing)
        .chain(changes(AddNode, &state.voters))
        .chain(changes(AddLearnerNode, &state.learners))
        .chain(changes(AddLearnerNode, &state.learners_next))
        .collect()
}

fn changes(kind: ConfChangeType, ids: &[MemberId]) -> impl Iterator<Item = ConfChangeSingle> + '_ {
    ids.iter().map(move |&node_id| ConfChangeSingle { kind, node_id })
}
