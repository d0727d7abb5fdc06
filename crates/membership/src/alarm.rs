//! Alarms: cluster-wide flags that a member raises and an operator clears.
//!
//! ```text
//!   bucket `alarm`   08 c5f7aed1e2b5e5dc8701 10 01   →  ""      NOSPACE, raised by member 87b9…
//!                                            10 02   →  ""      CORRUPT, of member 0
//! ```
//!
//! The key is the whole message. `server` enforces alarms: NOSPACE refuses requests that need
//! space, CORRUPT all requests about keys.

use std::collections::BTreeSet;

use backend::schema::{Bucket, keys};
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use parking_lot::RwLock;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};
use types::MemberId;

/// The raised alarms.
#[derive(Debug, Default)]
pub struct AlarmStore {
    raised: RwLock<BTreeSet<Alarm>>,
}

/// The kind and the member, which sort in this order.
type Alarm = (i32, MemberId);

impl AlarmStore {
    /// Reads the alarms from the database.
    pub fn restore(from: &impl Read) -> Result<AlarmStore, ReadError> {
        let alarms = AlarmStore::default();
        alarms.reload(from)?;
        Ok(alarms)
    }

    /// Reads the alarms again, after a snapshot replaced the database.
    pub fn reload(&self, from: &impl Read) -> Result<(), ReadError> {
        let items = from.all(Bucket::Alarm)?;
        let raised = items.map(|item| decode(&item?.key)).collect::<Result<_, ReadError>>()?;
        *self.raised.write() = raised;
        Ok(())
    }

    /// Executes a request and returns the alarms that it concerns.
    ///
    /// Compat: as in etcd, listing ignores the member, raising a raised alarm returns it again,
    /// alarms of kind NONE are neither raised nor cleared, and an unknown action does nothing.
    pub fn apply(&self, tx: &mut Tx<'_>, request: &AlarmRequest) -> Vec<AlarmMember> {
        let (member, alarm) = (MemberId(request.member_id), request.alarm);
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.get(alarm),
            Ok(AlarmAction::Activate) => self.activate(tx, member, alarm).into_iter().collect(),
            Ok(AlarmAction::Deactivate) => self.deactivate(tx, member, alarm).into_iter().collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Raises an alarm and returns it, also if it is raised already. Unknown kinds are stored for
    /// newer releases.
    pub fn activate(&self, tx: &mut Tx<'_>, member: MemberId, alarm: i32) -> Option<AlarmMember> {
        if alarm == i32::from(AlarmType::None) {
            return None;
        }
        let message = AlarmMember { member_id: member.0, alarm };
        if self.raised.write().insert((alarm, member)) {
            tx.put(Bucket::Alarm, keys::alarm(&message), Bytes::new())
                .expect("an alarm that is not NONE has 2 to 22 bytes");
            tracing::warn!(%member, alarm, "alarm raised");
        }
        Some(message)
    }

    /// Clears an alarm. Returns `None` if it was not raised.
    pub fn deactivate(&self, tx: &mut Tx<'_>, member: MemberId, alarm: i32) -> Option<AlarmMember> {
        if !self.raised.write().remove(&(alarm, member)) {
            return None;
        }
        let message = AlarmMember { member_id: member.0, alarm };
        tx.delete(Bucket::Alarm, keys::alarm(&message));
        tracing::info!(%member, alarm, "alarm cleared");
        Some(message)
    }

    /// Returns the alarms of a kind, or all for NONE.
    #[must_use]
    pub fn get(&self, alarm: i32) -> Vec<AlarmMember> {
        let all = alarm == i32::from(AlarmType::None);
        let raised = self.raised.read();
        let selected = raised.iter().filter(|(kind, _)| all || *kind == alarm);
        selected.map(|&(alarm, member)| AlarmMember { member_id: member.0, alarm }).collect()
    }

    /// Returns the alarm that refuses a request on keys: CORRUPT refuses all of them, NOSPACE those
    /// that need space.
    #[must_use]
    pub fn refusing(&self, needs_space: bool) -> Option<AlarmType> {
        let raised = self.raised.read();
        let is_raised = |alarm: &AlarmType| raised.iter().any(|(kind, _)| *kind == *alarm as i32);
        let candidates = [AlarmType::Corrupt, AlarmType::Nospace];
        candidates.into_iter().take(1 + usize::from(needs_space)).find(is_raised)
    }

    /// Returns whether any member has raised an alarm of a kind, or any alarm for NONE.
    #[must_use]
    pub fn is_active(&self, alarm: AlarmType) -> bool {
        let alarm = i32::from(alarm);
        let raised = self.raised.read();
        raised.iter().any(|(kind, _)| alarm == i32::from(AlarmType::None) || *kind == alarm)
    }
}

fn decode(key: &[u8]) -> Result<Alarm, ReadError> {
    let message = keys::decode_alarm(key)
        .ok_or_else(|| ReadError::malformed(Bucket::Alarm, key, "not an alarm"))?;
    Ok((message.alarm, MemberId(message.member_id)))
}
