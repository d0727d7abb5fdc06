//! Arbitrary messages in arbitrary order, to a member in any situation.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use raft::{ConfChangeV2, Message, describe};
use types::MemberId;

use super::member::{Member, Setup, Situation};
use super::{arbitrary, shaped};

/// An operation on the member.
#[derive(Clone, Debug)]
enum Op {
    Step(Box<Message>),
    Tick,
    /// Enough ticks for an election.
    ManyTicks,
    Campaign,
    Propose(Bytes),
    ProposeConfChange(ConfChangeV2),
    ReadIndex,
    TransferLeader(MemberId),
    ForgetLeader,
    ReportUnreachable(MemberId),
    ReportSnapshot(MemberId, bool),
    TakeReady,
    /// Some storage work, writes or applications first.
    Write,
    Apply,
    Settle,
    Compact,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => shaped::message().prop_map(|message| Op::Step(Box::new(message))),
        2 => Just(Op::Tick),
        1 => Just(Op::ManyTicks),
        1 => Just(Op::Campaign),
        2 => arbitrary::bytes(0..40).prop_map(Op::Propose),
        1 => shaped::conf_change().prop_map(Op::ProposeConfChange),
        1 => Just(Op::ReadIndex),
        1 => arbitrary::member().prop_map(Op::TransferLeader),
        1 => Just(Op::ForgetLeader),
        1 => arbitrary::member().prop_map(Op::ReportUnreachable),
        1 => (arbitrary::member(), any::<bool>()).prop_map(|(id, ok)| Op::ReportSnapshot(id, ok)),
        3 => Just(Op::TakeReady),
        3 => Just(Op::Write),
        3 => Just(Op::Apply),
        3 => Just(Op::Settle),
        1 => Just(Op::Compact),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    (select(Situation::ALL), any::<[bool; 6]>()).prop_map(|(situation, options)| {
        let [async_storage_writes, pre_vote, check_quorum, lease, tight, step_down] = options;
        Setup {
            situation,
            async_storage_writes,
            pre_vote,
            check_quorum,
            lease_reads: lease,
            tight_limits: tight,
            step_down_on_removal: step_down,
        }
    })
}

/// The member under test, and a control member that never sees refused messages.
struct MemberPair {
    tested: Member,
    control: Member,
}

impl MemberPair {
    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Step(message) => return self.step(*message),
            Op::Propose(data) => {
                let taken = self.both(|member| member.node.propose(data.clone()));
                prop_assert_eq!(taken.0, taken.1);
            }
            Op::ProposeConfChange(change) => {
                let taken = self.both(|member| member.node.propose_conf_change(change.clone()));
                prop_assert_eq!(taken.0, taken.1);
            }
            Op::TakeReady => {
                let ready = self.both(Member::take_ready);
                prop_assert_eq!(ready.0, ready.1);
            }
            Op::Tick => self.each(|member| member.node.tick()),
            Op::ManyTicks => self.each(|member| (0..25).for_each(|_| member.node.tick())),
            Op::Campaign => self.each(|member| member.node.campaign()),
            Op::ReadIndex => {
                self.each(|member| member.node.read_index(Bytes::from_static(b"r")));
            }
            Op::TransferLeader(to) => self.each(|member| member.node.transfer_leader(to)),
            Op::ForgetLeader => self.each(|member| member.node.forget_leader()),
            Op::ReportUnreachable(id) => {
                self.each(|member| member.node.report_unreachable(id));
            }
            Op::ReportSnapshot(id, arrived) => {
                self.each(|member| member.node.report_snapshot(id, arrived));
            }
            Op::Write => self.each(|member| {
                member.work();
            }),
            Op::Apply => self.each(|member| {
                member.work_apply_first();
            }),
            Op::Settle => self.each(Member::settle),
            Op::Compact => self.each(Member::compact),
        }
        Ok(())
    }

    fn each(&mut self, act: impl Fn(&mut Member)) {
        act(&mut self.tested);
        act(&mut self.control);
    }

    fn both<T>(&mut self, act: impl Fn(&mut Member) -> T) -> (T, T) {
        (act(&mut self.tested), act(&mut self.control))
    }

    fn step(&mut self, message: Message) -> Result<(), TestCaseError> {
        let before = self.tested.view();
        match self.tested.step(message.clone()) {
            Ok(()) => prop_assert_eq!(self.control.step(message), Ok(())),
            Err(error) => {
                prop_assert_eq!(self.tested.view(), before, "refused but changed: {}", error);
            }
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.tested.view(), self.control.view());
        Ok(())
    }

    /// Continues with elections, storage work and a restart.
    fn continue_running(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..3 {
            self.apply(Op::ManyTicks)?;
            self.apply(Op::TakeReady)?;
            self.apply(Op::Settle)?;
            self.apply(Op::Propose(Bytes::from_static(b"put b")))?;
            self.compare()?;
        }
        self.apply(Op::Compact)?;
        self.apply(Op::Settle)?;
        self.tested.restart();
        self.compare()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_shrink_iters: 5000, ..Default::default() })]

    #[test]
    fn no_message_causes_a_panic_and_refused_messages_change_nothing(
        setup in setup(),
        ops in vec(op(), 1..40),
    ) {
        let mut pair = MemberPair { tested: Member::new(&setup), control: Member::new(&setup) };
        pair.compare()?;
        for op in ops {
            pair.apply(op)?;
            pair.compare()?;
            // A crash at any time leaves a valid storage.
            pair.tested.restart();
        }
        pair.continue_running()?;
    }

    /// Logs print messages before they are validated.
    #[test]
    fn any_message_can_be_described(message in arbitrary::message()) {
        let text = describe::message(&message);
        prop_assert!(text.contains(message.kind.as_str()));
    }
}
