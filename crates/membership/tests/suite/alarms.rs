//! Raising and clearing alarms.

use backend::schema::Bucket;
use backend::{Backend, Read as _};
use membership::AlarmStore;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};

use crate::database;

fn ask(
    backend: &Backend,
    alarms: &AlarmStore,
    action: AlarmAction,
    member_id: u64,
    alarm: AlarmType,
) -> Vec<AlarmMember> {
    let request = AlarmRequest { action: action.into(), member_id, alarm: alarm.into() };
    let mut tx = backend.begin();
    let answer = alarms.apply(&mut tx, &request);
    tx.commit().unwrap();
    answer
}

fn alarm(member_id: u64, alarm: AlarmType) -> AlarmMember {
    AlarmMember { member_id, alarm: alarm.into() }
}

#[test]
fn raising_a_raised_alarm_returns_it_again() {
    let (backend, alarms) = (database(), AlarmStore::default());
    let raised = vec![alarm(5, AlarmType::Nospace)];
    for _ in 0..2 {
        let answer = ask(&backend, &alarms, AlarmAction::Activate, 5, AlarmType::Nospace);
        assert_eq!(answer, raised);
    }
    let view = backend.view();
    let keys: Vec<Vec<u8>> =
        view.all(Bucket::Alarm).unwrap().map(|item| item.unwrap().key.to_vec()).collect();
    assert_eq!(keys, [b"\x08\x05\x10\x01"]);
    assert!(alarms.is_active(AlarmType::Nospace) && !alarms.is_active(AlarmType::Corrupt));
}

#[test]
fn a_corrupt_member_refuses_requests_before_a_full_one() {
    let (backend, alarms) = (database(), AlarmStore::default());
    assert_eq!((alarms.refusing(false), alarms.refusing(true)), (None, None));
    ask(&backend, &alarms, AlarmAction::Activate, 5, AlarmType::Nospace);
    let full = Some(AlarmType::Nospace);
    assert_eq!((alarms.refusing(false), alarms.refusing(true)), (None, full));
    ask(&backend, &alarms, AlarmAction::Activate, 6, AlarmType::Corrupt);
    let corrupt = Some(AlarmType::Corrupt);
    assert_eq!((alarms.refusing(false), alarms.refusing(true)), (corrupt, corrupt));
}

#[test]
fn clearing_a_cleared_alarm_returns_nothing() {
    let (backend, alarms) = (database(), AlarmStore::default());
    ask(&backend, &alarms, AlarmAction::Activate, 5, AlarmType::Nospace);
    let clear = || ask(&backend, &alarms, AlarmAction::Deactivate, 5, AlarmType::Nospace);
    assert_eq!(clear(), [alarm(5, AlarmType::Nospace)]);
    assert_eq!(clear(), []);
    assert_eq!(backend.view().all(Bucket::Alarm).unwrap().count(), 0);
    assert!(!alarms.is_active(AlarmType::None));
}

#[test]
fn clearing_an_alarm_leaves_those_of_other_members() {
    let (backend, alarms) = (database(), AlarmStore::default());
    ask(&backend, &alarms, AlarmAction::Activate, 5, AlarmType::Nospace);
    assert_eq!(ask(&backend, &alarms, AlarmAction::Deactivate, 6, AlarmType::Nospace), []);
    assert!(alarms.is_active(AlarmType::Nospace));
}

#[test]
fn alarms_are_listed_by_kind_for_all_members() {
    let (backend, alarms) = (database(), AlarmStore::default());
    ask(&backend, &alarms, AlarmAction::Activate, 0, AlarmType::Corrupt);
    ask(&backend, &alarms, AlarmAction::Activate, 6, AlarmType::Nospace);
    ask(&backend, &alarms, AlarmAction::Activate, 5, AlarmType::Nospace);
    let list = |kind| ask(&backend, &alarms, AlarmAction::Get, 77, kind);
    let full = [alarm(5, AlarmType::Nospace), alarm(6, AlarmType::Nospace)];
    assert_eq!(list(AlarmType::Nospace), full);
    assert_eq!(list(AlarmType::Corrupt), [alarm(0, AlarmType::Corrupt)]);
    assert_eq!(list(AlarmType::None).len(), 3);
}

#[test]
fn an_alarm_of_kind_none_is_not_raised() {
    let (backend, alarms) = (database(), AlarmStore::default());
    for action in [AlarmAction::Activate, AlarmAction::Deactivate] {
        assert_eq!(ask(&backend, &alarms, action, 0, AlarmType::None), []);
    }
    assert!(!alarms.is_active(AlarmType::None));
}

#[test]
fn an_unknown_kind_is_stored() {
    let (backend, alarms) = (database(), AlarmStore::default());
    let request = AlarmRequest { action: 1, member_id: u64::MAX, alarm: -7 };
    let mut tx = backend.begin();
    assert_eq!(alarms.apply(&mut tx, &request).len(), 1);
    tx.commit().unwrap();
    let again = AlarmStore::restore(&backend.view()).unwrap();
    assert_eq!(again.get(0), [AlarmMember { member_id: u64::MAX, alarm: -7 }]);
}

#[test]
fn an_unknown_action_does_nothing() {
    let (backend, alarms) = (database(), AlarmStore::default());
    let request = AlarmRequest { action: 9, member_id: 1, alarm: 1 };
    assert_eq!(alarms.apply(&mut backend.begin(), &request), []);
    assert!(!alarms.is_active(AlarmType::None));
}

#[test]
fn alarms_are_restored_and_a_damaged_key_is_an_error() {
    let (backend, alarms) = (database(), AlarmStore::default());
    ask(&backend, &alarms, AlarmAction::Activate, 5, AlarmType::Corrupt);
    let again = AlarmStore::restore(&backend.view()).unwrap();
    assert_eq!(again.get(0), alarms.get(0));
    let mut tx = backend.begin();
    tx.put(Bucket::Alarm, &b"\x08"[..], &b""[..]).unwrap();
    tx.commit().unwrap();
    let error = AlarmStore::restore(&backend.view()).unwrap_err();
    assert!(error.to_string().starts_with("bucket alarm, key "), "{error}");
}
