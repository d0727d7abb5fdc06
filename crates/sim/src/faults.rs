//! Fault injection: kills, power cuts, pauses, clock jumps, disk errors, partitions.
//!
//! A seed determines the kinds of faults that occur, and how often. Disks always keep synced data,
//! so all members may be down at once, and no acknowledged write may be lost.

use std::time::Duration;

use env::{Fault as DiskFault, SeededRandom};
use simkit::{EventQueue, NetworkConditions, RandomExt as _};
use types::MemberId;

use crate::scenario::{Checked, Simulation};

/// Maximum step of a wall clock backwards: a quarter of an hour, longer than a scenario.
const SET_BACK_MS_MAX: u64 = 15 * 60 * 1000;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A member is killed.
    Kill,
    /// A member loses power.
    PowerCut,
    /// A member loses power in the middle of a write.
    Crash,
    /// All members lose power.
    Blackout,
    /// A member is stopped in order.
    Stop,
    /// A member is paused.
    Pause,
    /// A member's clock jumps ahead.
    ClockJump,
    /// A member's wall clock is set back.
    ClockSetBack,
    /// A member's disk hangs: the log writer is blocked.
    Stall,
    /// A member's disk fails.
    DiskFault,
    /// A member's disk is full.
    DiskFull,
    /// A link is cut in one direction.
    OneWayCut,
    /// A member is isolated in both directions.
    Isolate,
    /// The members are partitioned into two groups.
    Partition,
    /// The network becomes unreliable.
    BadNetwork,
    /// Leadership is transferred.
    LeaderTransfer,
}

impl Fault {
    /// All kinds, in order.
    pub const ALL: [Fault; 16] = [
        Fault::Kill,
        Fault::PowerCut,
        Fault::Crash,
        Fault::Blackout,
        Fault::Stop,
        Fault::Pause,
        Fault::ClockJump,
        Fault::ClockSetBack,
        Fault::Stall,
        Fault::DiskFault,
        Fault::DiskFull,
        Fault::OneWayCut,
        Fault::Isolate,
        Fault::Partition,
        Fault::BadNetwork,
        Fault::LeaderTransfer,
    ];
}

/// The number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; Fault::ALL.len()]);

impl FaultCounts {
    fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Returns the number of faults of a kind.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}

impl std::ops::AddAssign for FaultCounts {
    fn add_assign(&mut self, other: FaultCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

/// An action that ends a fault.
#[derive(Clone, Copy, Debug)]
enum FaultEnd {
    /// Starts a stopped member.
    Start(MemberId),
    /// Ends the pause or stall of a member.
    Resume(MemberId),
    /// Repairs the disk of a member.
    HealDisk(MemberId),
    /// Restores all links.
    HealLinks,
    /// Makes the network reliable again.
    RestoreConditions,
}

/// Injects and ends faults.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    random: SeededRandom,
    kinds: Vec<Fault>,
    /// A fault occurs once in this many steps, on average.
    interval_steps: u64,
    /// Scheduled ends of faults, by step.
    ends: EventQueue<FaultEnd>,
}

impl FaultInjector {
    pub(crate) fn new(seed: u64) -> FaultInjector {
        let mut random = SeededRandom::new(seed);
        let mut kinds: Vec<_> = Fault::ALL.into_iter().filter(|_| random.chance(1, 2)).collect();
        if kinds.is_empty() {
            kinds = Fault::ALL.to_vec();
        }
        let interval_steps = 40 + random.below(200);
        FaultInjector { random, kinds, interval_steps, ends: EventQueue::default() }
    }

    /// Returns the fault of this step, if there is one.
    fn draw(&mut self) -> Option<Fault> {
        if !self.random.chance(1, self.interval_steps) {
            return None;
        }
        self.random.pick_any(&self.kinds)
    }

    /// Schedules the start of a member.
    pub(crate) fn start_at(&mut self, step: u64, id: MemberId) {
        self.ends.schedule(step, FaultEnd::Start(id));
    }
}

impl Simulation {
    /// Injects a fault, with some probability.
    pub(crate) fn inject_fault(&mut self) -> Checked {
        let (Some(fault), Some(id)) = (self.faults.draw(), self.any_member()) else {
            return Ok(());
        };
        self.fault_counts.count(fault);
        self.note(|| format!("{fault:?} {id}"));
        match fault {
            Fault::Kill => self.kill(id),
            Fault::PowerCut => self.cut_power(id),
            Fault::Crash => self.crash(id),
            Fault::Blackout => {
                let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
                ids.into_iter().for_each(|id| self.cut_power(id));
            }
            Fault::Stop => return self.stop(id),
            Fault::Pause => {
                self.cluster.node(id).is_paused = true;
                self.schedule_end(400, FaultEnd::Resume(id));
            }
            Fault::ClockJump => self.jump_clock(id),
            Fault::ClockSetBack => {
                let by_ms = self.random.below(SET_BACK_MS_MAX);
                self.cluster.node(id).clock.set_back(by_ms);
            }
            Fault::Stall => {
                self.cluster.node(id).stall();
                self.schedule_end(500, FaultEnd::Resume(id));
            }
            Fault::DiskFault => self.fail_disk(id),
            Fault::DiskFull => self.fill_disk(id),
            Fault::OneWayCut => self.cut_one_way(id),
            Fault::Isolate => self.partition(|other| other == id),
            Fault::Partition => {
                let mask = self.random.next();
                self.partition(|other| (other.0 ^ mask).count_ones().is_multiple_of(2));
            }
            Fault::BadNetwork => self.degrade_network(),
            Fault::LeaderTransfer => self.transfer_leader(id),
        }
        Ok(())
    }

    /// Schedules the end of a fault within `steps_max` steps.
    fn schedule_end(&mut self, steps_max: u64, end: FaultEnd) {
        let steps = 1 + self.random.below(steps_max);
        self.faults.ends.schedule(self.cluster.steps + steps, end);
    }

    /// Ends the faults that are due.
    pub(crate) fn end_due_faults(&mut self) -> Checked {
        for end in self.faults.ends.take_due(self.cluster.steps) {
            self.end_fault(end)?;
        }
        Ok(())
    }

    fn end_fault(&mut self, end: FaultEnd) -> Checked {
        match end {
            FaultEnd::Start(id) => return self.start(id),
            FaultEnd::Resume(id) => {
                self.cluster.nodes.get_mut(&id).into_iter().for_each(crate::Node::resume);
            }
            FaultEnd::HealDisk(id) => {
                // Healing the disk would cancel a pending power cut.
                let node = self.cluster.nodes.get_mut(&id);
                let node = node.filter(|node| !node.has_pending_power_cut);
                node.into_iter().for_each(crate::Node::heal);
            }
            FaultEnd::HealLinks => self.cluster.network.heal(),
            FaultEnd::RestoreConditions => {
                self.cluster.network.set_conditions(NetworkConditions::default());
            }
        }
        self.note(|| format!("fault ended: {end:?}"));
        Ok(())
    }

    /// Kills a member and restarts it later.
    fn kill(&mut self, id: MemberId) {
        let network = self.cluster.network.clone();
        self.disconnect_clients(id);
        self.cluster.node(id).kill(&network);
        self.start_later(id);
    }

    /// Cuts the power of a member and restarts it later.
    fn cut_power(&mut self, id: MemberId) {
        self.lose_power(id);
        self.start_later(id);
    }

    /// Cuts the power at one of the next changes to the disk.
    fn crash(&mut self, id: MemberId) {
        let change = self.random.below(40);
        let node = self.cluster.node(id);
        node.disk.fail_change(change, DiskFault::Crash);
        node.mark_faulty();
        node.has_pending_power_cut = true;
    }

    /// Stops a member in order and restarts it later.
    fn stop(&mut self, id: MemberId) -> Checked {
        let network = self.cluster.network.clone();
        let stopped = self.cluster.node(id).stop(&network);
        self.disconnect_clients(id);
        let node = self.cluster.node(id);
        if let Some(server::StopReason::Fault(error)) = stopped
            && !node.is_explained_by_disk_fault(&error)
        {
            return Err(format!("{id} failed to stop: {error}"));
        }
        if node.has_pending_power_cut {
            self.lose_power(id);
        }
        self.start_later(id);
        Ok(())
    }

    fn jump_clock(&mut self, id: MemberId) {
        let time = Duration::from_millis(self.random.below(6000));
        self.cluster.node(id).clock.advance(time);
        // No member's clock may run ahead of the clients' clock.
        self.cluster.now += time;
    }

    /// Makes one of the next changes to the disk fail, or all changes from it on.
    fn fail_disk(&mut self, id: MemberId) {
        let change = self.random.below(60);
        let fault = if self.random.chance(1, 2) { DiskFault::Eio } else { DiskFault::Enospc };
        let is_persistent = self.random.chance(1, 3);
        let node = self.cluster.node(id);
        node.mark_faulty();
        match is_persistent {
            true => node.disk.fail_from_change(change, fault),
            false => node.disk.fail_change(change, fault),
        }
        self.schedule_end(400, FaultEnd::HealDisk(id));
    }

    fn fill_disk(&mut self, id: MemberId) {
        let capacity = (16 + self.random.below(64)) << 10;
        let node = self.cluster.node(id);
        node.mark_faulty();
        node.disk.set_capacity(Some(capacity));
        self.schedule_end(400, FaultEnd::HealDisk(id));
    }

    fn cut_one_way(&mut self, from: MemberId) {
        let Some(to) = self.any_member() else { return };
        self.cluster.network.cut(from, to);
        self.schedule_end(400, FaultEnd::HealLinks);
    }

    fn partition(&mut self, is_in_group: impl Fn(MemberId) -> bool) {
        let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
        self.cluster.network.partition(&ids, is_in_group);
        self.schedule_end(500, FaultEnd::HealLinks);
    }

    fn degrade_network(&mut self) {
        let (loss, duplication, delay) =
            (self.random.below(200), self.random.below(200), self.random.below(30));
        let conditions = NetworkConditions { loss, duplication, delay, late: None };
        self.cluster.network.set_conditions(conditions);
        self.schedule_end(600, FaultEnd::RestoreConditions);
    }

    fn transfer_leader(&mut self, to: MemberId) {
        if let Some(leader) = self.cluster.leader() {
            self.cluster.server(leader).transfer_leader(to);
        }
    }

    /// Ends all faults and starts all stopped members.
    pub(crate) fn heal(&mut self) -> Checked {
        self.note(|| "all faults are healed".to_owned());
        self.faults.ends.clear();
        self.cluster.network.heal();
        self.cluster.network.set_conditions(NetworkConditions::default());
        let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
        for id in ids {
            if self.cluster.node(id).has_pending_power_cut {
                self.lose_power(id);
            }
            let node = self.cluster.node(id);
            node.heal();
            node.resume();
            self.start(id)?;
        }
        Ok(())
    }
}
