//! Alarms: what a member tells all others is wrong with it, until somebody says that it is not.
//!
//! ```text
//!   bucket `alarm`   08 c5f7aed1e2b5e5dc8701 10 01   →  ""      NOSPACE, raised by member 87b9…
//!                                            10 02   →  ""      CORRUPT, by nobody in particular
//! ```
//!
//! The key is the whole message. What an alarm forbids is for `server` to see to: NOSPACE what would take room, CORRUPT
//! every change.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use backend::schema::{Bucket, keys};
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};
use types::MemberId;

/// The alarms that are raised.
#[derive(Debug, Default)]
pub struct AlarmStore {
    raised: RwLock<BTreeSet<Alarm>>,
}

/// Sorted by kind, then by member.
type Alarm = (i32, MemberId);

impl AlarmStore {
    /// The alarms that the database has.
    pub fn restore(from: &impl Read) -> Result<AlarmStore, ReadError> {
        let alarms = AlarmStore::default();
        alarms.reload(from)?;
        Ok(alarms)
    }

    /// Takes what the database says in place of all that was known: after a snapshot.
    pub fn reload(&self, from: &impl Read) -> Result<(), ReadError> {
        let items = from.all(Bucket::Alarm)?;
        let raised = items.map(|item| decode(&item?.key)).collect::<Result<_, ReadError>>()?;
        *self.write() = raised;
        Ok(())
    }

    /// Does what a request asks, and returns the alarms that it is about.
    ///
    /// Compat: as in etcd, a request to list alarms does not look at the member, raising one that is raised returns it again, and
    /// there is no alarm of the kind NONE to raise or clear. What is neither of the three is nothing.
    pub fn apply(&self, tx: &mut Tx<'_>, request: &AlarmRequest) -> Vec<AlarmMember> {
        let (member, alarm) = (MemberId(request.member_id), request.alarm);
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.get(alarm),
            Ok(AlarmAction::Activate) => self.activate(tx, member, alarm).into_iter().collect(),
            Ok(AlarmAction::Deactivate) => self.deactivate(tx, member, alarm).into_iter().collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Raises an alarm, whether it is raised or not. Kinds that are not known are kept for those who know them.
    pub fn activate(&self, tx: &mut Tx<'_>, member: MemberId, alarm: i32) -> Option<AlarmMember> {
        if alarm == i32::from(AlarmType::None) {
            return None;
        }
        let message = AlarmMember { member_id: member.0, alarm };
        if self.write().insert((alarm, member)) {
            tx.put(Bucket::Alarm, keys::alarm(&message), Bytes::new())
                .expect("an alarm that is not NONE has 2 to 22 bytes");
            tracing::warn!(%member, alarm, "alarm raised");
        }
        Some(message)
    }

    /// Clears an alarm. None if it was not raised.
    pub fn deactivate(&self, tx: &mut Tx<'_>, member: MemberId, alarm: i32) -> Option<AlarmMember> {
        if !self.write().remove(&(alarm, member)) {
            return None;
        }
        let message = AlarmMember { member_id: member.0, alarm };
        tx.delete(Bucket::Alarm, keys::alarm(&message));
        tracing::info!(%member, alarm, "alarm cleared");
        Some(message)
    }

    /// The alarms of a kind; of every kind for NONE.
    #[must_use]
    pub fn get(&self, alarm: i32) -> Vec<AlarmMember> {
        let all = alarm == i32::from(AlarmType::None);
        let raised = self.read();
        let asked = raised.iter().filter(|(kind, _)| all || *kind == alarm);
        asked.map(|&(alarm, member)| AlarmMember { member_id: member.0, alarm }).collect()
    }

    /// Whether any member has raised an alarm of a kind; of any kind for NONE.
    #[must_use]
    pub fn is_active(&self, alarm: AlarmType) -> bool {
        let alarm = i32::from(alarm);
        let raised = self.read();
        raised.iter().any(|(kind, _)| alarm == i32::from(AlarmType::None) || *kind == alarm)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeSet<Alarm>> {
        self.raised.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeSet<Alarm>> {
        self.raised.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode(key: &[u8]) -> Result<Alarm, ReadError> {
    let message = keys::decode_alarm(key)
        .ok_or_else(|| ReadError::malformed(Bucket::Alarm, key, "not an alarm"))?;
    Ok((message.alarm, MemberId(message.member_id)))
}
