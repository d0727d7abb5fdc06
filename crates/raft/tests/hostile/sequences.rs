//! Any messages in any order, to a member in any situation.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use raft::{ConfChangeV2, Message, describe};
use types::MemberId;

use super::member::{Member, Setup, Situation};
use super::{arbitrary, shaped};

/// Something happens to the member.
#[derive(Clone, Debug)]
enum Op {
    Step(Box<Message>),
    Tick,
    /// Time enough for an election.
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
    /// Some storage work is done, by one thread or the other.
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

/// The member under attack, and its twin that never sees what the member refuses.
struct Twins {
    attacked: Member,
    spared: Member,
}

impl Twins {
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
                member.work_backwards();
            }),
            Op::Settle => self.each(Member::settle),
            Op::Compact => self.each(Member::compact),
        }
        Ok(())
    }

    fn each(&mut self, act: impl Fn(&mut Member)) {
        act(&mut self.attacked);
        act(&mut self.spared);
    }

    fn both<T>(&mut self, act: impl Fn(&mut Member) -> T) -> (T, T) {
        (act(&mut self.attacked), act(&mut self.spared))
    }

    fn step(&mut self, message: Message) -> Result<(), TestCaseError> {
        let before = self.attacked.view();
        match self.attacked.step(message.clone()) {
            Ok(()) => prop_assert_eq!(self.spared.step(message), Ok(())),
            Err(error) => {
                prop_assert_eq!(self.attacked.view(), before, "changed, but said: {}", error);
            }
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.attacked.view(), self.spared.view());
        Ok(())
    }

    /// Life goes on: elections, storage, a restart.
    fn live_on(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..3 {
            self.apply(Op::ManyTicks)?;
            self.apply(Op::TakeReady)?;
            self.apply(Op::Settle)?;
            self.apply(Op::Propose(Bytes::from_static(b"put b")))?;
            self.compare()?;
        }
        self.apply(Op::Compact)?;
        self.apply(Op::Settle)?;
        self.attacked.restart();
        self.compare()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_shrink_iters: 5000, ..Default::default() })]

    #[test]
    fn no_message_stops_a_member_and_refused_ones_leave_no_trace(
        setup in setup(),
        ops in vec(op(), 1..40),
    ) {
        let mut twins = Twins { attacked: Member::new(&setup), spared: Member::new(&setup) };
        twins.compare()?;
        for op in ops {
            twins.apply(op)?;
            twins.compare()?;
            // A crash at any moment leaves something to start from.
            twins.attacked.restart();
        }
        twins.live_on()?;
    }

    /// Logs show what came in before anything is known about it.
    #[test]
    fn any_message_can_be_described(message in arbitrary::message()) {
        let text = describe::message(&message);
        prop_assert!(text.contains(message.kind.as_str()));
    }
}
