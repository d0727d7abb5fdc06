//! Faults: their injection and their end.
//!
//! Each seed has a profile: which faults occur, and how often. Disks always keep synced data, so
//! all members may be down at once, and no acknowledged write may be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use env::{Fault as DiskFault, SeededRandom};
use types::MemberId;

use crate::network::NetworkConditions;
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
    Jump,
    /// A member's wall clock is set back.
    SetBack,
    /// A member's disk does not answer.
    Stall,
    /// A member's disk fails.
    DiskFault,
    /// A member's disk is full.
    DiskFull,
    /// A link is cut in one direction.
    OneWay,
    /// A member is isolated in both directions.
    Isolate,
    /// The members are partitioned into two groups.
    Split,
    /// The network becomes unreliable.
    BadNetwork,
    /// Leadership is transferred.
    Transfer,
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
        Fault::Jump,
        Fault::SetBack,
        Fault::Stall,
        Fault::DiskFault,
        Fault::DiskFull,
        Fault::OneWay,
        Fault::Isolate,
        Fault::Split,
        Fault::BadNetwork,
        Fault::Transfer,
    ];
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
enum Relief {
    Start(MemberId),
    Resume(MemberId),
    HealDisk(MemberId),
    HealNetwork,
    Calm,
}

/// Injects and ends faults.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    random: SeededRandom,
    kinds: Vec<Fault>,
    /// A fault occurs once in this many steps, on average.
    every: u64,
    reliefs: BTreeMap<(u64, u64), Relief>,
    numbered: u64,
}

impl FaultInjector {
    pub(crate) fn new(seed: u64) -> FaultInjector {
        let mut random = SeededRandom::new(seed);
        let mut kinds: Vec<_> = Fault::ALL.into_iter().filter(|_| random.chance(1, 2)).collect();
        if kinds.is_empty() {
            kinds = Fault::ALL.to_vec();
        }
        let every = 40 + random.below(200);
        FaultInjector { random, kinds, every, reliefs: BTreeMap::new(), numbered: 0 }
    }

    fn any(&mut self) -> Option<Fault> {
        if !self.random.chance(1, self.every) {
            return None;
        }
        let place = usize::try_from(self.random.below(self.kinds.len() as u64)).unwrap_or(0);
        self.kinds.get(place).copied()
    }

    fn relieve_at(&mut self, step: u64, relief: Relief) {
        self.numbered += 1;
        self.reliefs.insert((step, self.numbered), relief);
    }

    pub(crate) fn start_at(&mut self, step: u64, id: MemberId) {
        self.relieve_at(step, Relief::Start(id));
    }
}

impl Simulation {
    /// Injects a fault, with some probability.
    pub(crate) fn faults(&mut self) -> Checked {
        let (Some(mishap), Some(id)) = (self.trouble.any(), self.any_member()) else {
            return Ok(());
        };
        self.counts.faults[mishap as usize] += 1;
        self.note(|| format!("{mishap:?} {id}"));
        match mishap {
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
                self.relieve_in(400, Relief::Resume(id));
            }
            Fault::Jump => self.jump(id),
            Fault::SetBack => {
                let by_ms = self.random.below(SET_BACK_MS_MAX);
                self.cluster.node(id).clock.set_back(by_ms);
            }
            Fault::Stall => {
                self.cluster.node(id).stall();
                self.relieve_in(500, Relief::Resume(id));
            }
            Fault::DiskFault => self.fail_disk(id),
            Fault::DiskFull => self.fill_disk(id),
            Fault::OneWay => self.cut_one_way(id),
            Fault::Isolate => self.split(|other| other == id),
            Fault::Split => {
                let coin = self.random.next();
                self.split(|other| (other.0 ^ coin).count_ones().is_multiple_of(2));
            }
            Fault::BadNetwork => self.change_conditions(),
            Fault::Transfer => self.transfer(id),
        }
        Ok(())
    }

    fn relieve_in(&mut self, steps_max: u64, relief: Relief) {
        let steps = 1 + self.random.below(steps_max);
        self.trouble.relieve_at(self.cluster.steps + steps, relief);
    }

    /// Ends the faults that are due.
    pub(crate) fn relieve(&mut self) -> Checked {
        let later = self.trouble.reliefs.split_off(&(self.cluster.steps + 1, 0));
        for relief in std::mem::replace(&mut self.trouble.reliefs, later).into_values() {
            self.end(relief)?;
        }
        Ok(())
    }

    fn end(&mut self, relief: Relief) -> Checked {
        match relief {
            Relief::Start(id) => return self.start(id),
            Relief::Resume(id) => {
                self.cluster.nodes.get_mut(&id).into_iter().for_each(crate::Node::resume);
            }
            Relief::HealDisk(id) => {
                // A member without power is restarted elsewhere.
                let node = self.cluster.nodes.get_mut(&id).filter(|node| !node.is_off);
                node.into_iter().for_each(crate::Node::heal);
            }
            Relief::HealNetwork => self.cluster.network.heal(),
            Relief::Calm => self.cluster.network.set_weather(NetworkConditions::default()),
        }
        self.note(|| format!("over: {relief:?}"));
        Ok(())
    }

    fn kill(&mut self, id: MemberId) {
        let network = self.cluster.network.clone();
        self.lose(id);
        self.cluster.node(id).kill(&network);
        self.start_later(id);
    }

    fn cut_power(&mut self, id: MemberId) {
        self.lose_power(id);
        self.start_later(id);
    }

    /// Cuts the power at one of the next changes to the disk.
    fn crash(&mut self, id: MemberId) {
        let change = self.random.below(40);
        let node = self.cluster.node(id);
        node.disk.fail_change(change, DiskFault::Crash);
        node.make_faulty();
        node.is_off = true;
    }

    fn stop(&mut self, id: MemberId) -> Checked {
        let network = self.cluster.network.clone();
        let stopped = self.cluster.node(id).stop(&network);
        self.lose(id);
        let node = self.cluster.node(id);
        if let Some(server::StopReason::Fault(why)) = stopped
            && !node.excuses(&why)
        {
            return Err(format!("{id} could not stop: {why}"));
        }
        if node.is_off {
            self.lose_power(id);
        }
        self.start_later(id);
        Ok(())
    }

    fn jump(&mut self, id: MemberId) {
        let time = Duration::from_millis(self.random.below(6000));
        self.cluster.node(id).clock.advance(time);
        // Keeps the clock from running faster than the clients' clock.
        self.cluster.now += time;
    }

    fn fail_disk(&mut self, id: MemberId) {
        let change = self.random.below(60);
        let fault = if self.random.chance(1, 2) { DiskFault::Eio } else { DiskFault::Enospc };
        let goes_on = self.random.chance(1, 3);
        let node = self.cluster.node(id);
        node.make_faulty();
        match goes_on {
            true => node.disk.fail_from_change(change, fault),
            false => node.disk.fail_change(change, fault),
        }
        self.relieve_in(400, Relief::HealDisk(id));
    }

    fn fill_disk(&mut self, id: MemberId) {
        let capacity = (16 + self.random.below(64)) << 10;
        let node = self.cluster.node(id);
        node.make_faulty();
        node.disk.set_capacity(Some(capacity));
        self.relieve_in(400, Relief::HealDisk(id));
    }

    fn cut_one_way(&mut self, from: MemberId) {
        let Some(to) = self.any_member() else { return };
        self.cluster.network.cut(from, to);
        self.relieve_in(400, Relief::HealNetwork);
    }

    fn split(&mut self, is_here: impl Fn(MemberId) -> bool) {
        let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
        for from in &ids {
            for to in ids.iter().filter(|to| is_here(**to) != is_here(*from)) {
                self.cluster.network.cut(*from, *to);
            }
        }
        self.relieve_in(500, Relief::HealNetwork);
    }

    fn change_conditions(&mut self) {
        let (loss, doubling, delay) =
            (self.random.below(200), self.random.below(200), self.random.below(30));
        self.cluster.network.set_weather(NetworkConditions { loss, doubling, delay });
        self.relieve_in(600, Relief::Calm);
    }

    fn transfer(&mut self, to: MemberId) {
        if let Some(leader) = self.cluster.leader() {
            self.cluster.server(leader).transfer_leader(to);
        }
    }

    /// Ends all faults and starts all stopped members.
    pub(crate) fn heal(&mut self) -> Checked {
        self.note(|| "all faults are healed".to_owned());
        self.trouble.reliefs.clear();
        self.cluster.network.heal();
        self.cluster.network.set_weather(NetworkConditions::default());
        let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
        for id in ids {
            if self.cluster.node(id).is_off {
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
