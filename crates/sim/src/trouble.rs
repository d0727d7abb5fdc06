//! What goes wrong, and when it is over.
//!
//! Each seed has a temper: which mishaps there are, and how often. Whatever happens to a member, its disk keeps what it was told to keep; so all of them may
//! be down at once, and nothing that was acknowledged may be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use env::{Fault, SeededRandom};
use types::MemberId;

use crate::network::Weather;
use crate::story::{Demand, World};

/// By how much a date is set back, at most: a quarter of an hour, more than a story takes.
const SET_BACK_MS_MAX: u64 = 15 * 60 * 1000;

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// A member is killed.
    Kill,
    /// It loses its power.
    PowerCut,
    /// It loses its power in the middle of a write.
    Crash,
    /// All lose it.
    Blackout,
    /// It is stopped in good order.
    Stop,
    /// It does nothing for a while.
    Pause,
    /// Its clock jumps ahead.
    Jump,
    /// Its date is set back.
    SetBack,
    /// Its disk does not answer.
    Stall,
    /// Its disk fails.
    DiskFault,
    /// Its disk is full.
    DiskFull,
    /// One hears nothing from another.
    OneWay,
    /// One hears from nobody, and nobody from it.
    Isolate,
    /// The members are split in two.
    Split,
    /// The network is bad.
    Weather,
    /// Leadership is to go to another.
    Transfer,
}

impl Mishap {
    /// All of them, in order.
    pub const ALL: [Mishap; 16] = [
        Mishap::Kill,
        Mishap::PowerCut,
        Mishap::Crash,
        Mishap::Blackout,
        Mishap::Stop,
        Mishap::Pause,
        Mishap::Jump,
        Mishap::SetBack,
        Mishap::Stall,
        Mishap::DiskFault,
        Mishap::DiskFull,
        Mishap::OneWay,
        Mishap::Isolate,
        Mishap::Split,
        Mishap::Weather,
        Mishap::Transfer,
    ];
}

/// What ends a mishap.
#[derive(Clone, Copy, Debug)]
enum Relief {
    Start(MemberId),
    Resume(MemberId),
    HealDisk(MemberId),
    HealNetwork,
    Calm,
}

/// What goes wrong.
#[derive(Debug)]
pub(crate) struct Trouble {
    random: SeededRandom,
    kinds: Vec<Mishap>,
    /// Out of this many steps, something goes wrong in one.
    every: u64,
    reliefs: BTreeMap<(u64, u64), Relief>,
    numbered: u64,
}

impl Trouble {
    pub(crate) fn new(seed: u64) -> Trouble {
        let mut random = SeededRandom::new(seed);
        let mut kinds: Vec<_> = Mishap::ALL.into_iter().filter(|_| random.chance(1, 2)).collect();
        if kinds.is_empty() {
            kinds = Mishap::ALL.to_vec();
        }
        let every = 40 + random.below(200);
        Trouble { random, kinds, every, reliefs: BTreeMap::new(), numbered: 0 }
    }

    fn any(&mut self) -> Option<Mishap> {
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

impl World {
    /// Something may go wrong.
    pub(crate) fn mishaps(&mut self) -> Demand {
        let (Some(mishap), Some(id)) = (self.trouble.any(), self.any_member()) else {
            return Ok(());
        };
        self.counts.mishaps[mishap as usize] += 1;
        self.note(|| format!("{mishap:?} {id}"));
        match mishap {
            Mishap::Kill => self.kill(id),
            Mishap::PowerCut => self.cut_power(id),
            Mishap::Crash => self.crash(id),
            Mishap::Blackout => {
                let ids: Vec<_> = self.cluster.sites.keys().copied().collect();
                ids.into_iter().for_each(|id| self.cut_power(id));
            }
            Mishap::Stop => return self.stop(id),
            Mishap::Pause => {
                self.cluster.site(id).is_paused = true;
                self.relieve_in(400, Relief::Resume(id));
            }
            Mishap::Jump => self.jump(id),
            Mishap::SetBack => {
                let by_ms = self.random.below(SET_BACK_MS_MAX);
                self.cluster.site(id).clock.set_back(by_ms);
            }
            Mishap::Stall => {
                self.cluster.site(id).stall();
                self.relieve_in(500, Relief::Resume(id));
            }
            Mishap::DiskFault => self.fail_disk(id),
            Mishap::DiskFull => self.fill_disk(id),
            Mishap::OneWay => self.cut_one_way(id),
            Mishap::Isolate => self.split(|other| other == id),
            Mishap::Split => {
                let coin = self.random.next();
                self.split(|other| (other.0 ^ coin).count_ones().is_multiple_of(2));
            }
            Mishap::Weather => self.change_weather(),
            Mishap::Transfer => self.transfer(id),
        }
        Ok(())
    }

    fn relieve_in(&mut self, steps_max: u64, relief: Relief) {
        let steps = 1 + self.random.below(steps_max);
        self.trouble.relieve_at(self.cluster.steps + steps, relief);
    }

    /// What is due to be over is.
    pub(crate) fn relieve(&mut self) -> Demand {
        let later = self.trouble.reliefs.split_off(&(self.cluster.steps + 1, 0));
        for relief in std::mem::replace(&mut self.trouble.reliefs, later).into_values() {
            self.end(relief)?;
        }
        Ok(())
    }

    fn end(&mut self, relief: Relief) -> Demand {
        match relief {
            Relief::Start(id) => return self.start(id),
            Relief::Resume(id) => {
                self.cluster.sites.get_mut(&id).into_iter().for_each(crate::Site::resume);
            }
            Relief::HealDisk(id) => {
                // One that has lost its power does not come back by itself.
                let site = self.cluster.sites.get_mut(&id).filter(|site| !site.is_off);
                site.into_iter().for_each(crate::Site::heal);
            }
            Relief::HealNetwork => self.cluster.network.heal(),
            Relief::Calm => self.cluster.network.set_weather(Weather::default()),
        }
        self.note(|| format!("over: {relief:?}"));
        Ok(())
    }

    fn kill(&mut self, id: MemberId) {
        let network = self.cluster.network.clone();
        self.lose(id);
        self.cluster.site(id).kill(&network);
        self.start_later(id);
    }

    fn cut_power(&mut self, id: MemberId) {
        self.lose_power(id);
        self.start_later(id);
    }

    /// The power goes at one of the next changes of its disk.
    fn crash(&mut self, id: MemberId) {
        let change = self.random.below(40);
        let site = self.cluster.site(id);
        site.disk.fail_change(change, Fault::Crash);
        site.make_faulty();
        site.is_off = true;
    }

    fn stop(&mut self, id: MemberId) -> Demand {
        let network = self.cluster.network.clone();
        let stopped = self.cluster.site(id).stop(&network);
        self.lose(id);
        let site = self.cluster.site(id);
        if let Some(server::StopReason::Fault(why)) = stopped
            && !site.excuses(&why)
        {
            return Err(format!("{id} could not stop: {why}"));
        }
        if site.is_off {
            self.lose_power(id);
        }
        self.start_later(id);
        Ok(())
    }

    fn jump(&mut self, id: MemberId) {
        let time = Duration::from_millis(self.random.below(6000));
        self.cluster.site(id).clock.advance(time);
        // So that no clock goes faster than that of clients.
        self.cluster.now += time;
    }

    fn fail_disk(&mut self, id: MemberId) {
        let change = self.random.below(60);
        let fault = if self.random.chance(1, 2) { Fault::Eio } else { Fault::Enospc };
        let goes_on = self.random.chance(1, 3);
        let site = self.cluster.site(id);
        site.make_faulty();
        match goes_on {
            true => site.disk.fail_from_change(change, fault),
            false => site.disk.fail_change(change, fault),
        }
        self.relieve_in(400, Relief::HealDisk(id));
    }

    fn fill_disk(&mut self, id: MemberId) {
        let capacity = (16 + self.random.below(64)) << 10;
        let site = self.cluster.site(id);
        site.make_faulty();
        site.disk.set_capacity(Some(capacity));
        self.relieve_in(400, Relief::HealDisk(id));
    }

    fn cut_one_way(&mut self, from: MemberId) {
        let Some(to) = self.any_member() else { return };
        self.cluster.network.cut(from, to);
        self.relieve_in(400, Relief::HealNetwork);
    }

    fn split(&mut self, is_here: impl Fn(MemberId) -> bool) {
        let ids: Vec<_> = self.cluster.sites.keys().copied().collect();
        for from in &ids {
            for to in ids.iter().filter(|to| is_here(**to) != is_here(*from)) {
                self.cluster.network.cut(*from, *to);
            }
        }
        self.relieve_in(500, Relief::HealNetwork);
    }

    fn change_weather(&mut self) {
        let (loss, doubling, delay) =
            (self.random.below(200), self.random.below(200), self.random.below(30));
        self.cluster.network.set_weather(Weather { loss, doubling, delay });
        self.relieve_in(600, Relief::Calm);
    }

    fn transfer(&mut self, to: MemberId) {
        if let Some(leader) = self.cluster.leader() {
            self.cluster.server(leader).transfer_leader(to);
        }
    }

    /// Everything is over, and nothing more goes wrong. Those that do not run are started.
    pub(crate) fn heal(&mut self) -> Demand {
        self.note(|| "all is healed".to_owned());
        self.trouble.reliefs.clear();
        self.cluster.network.heal();
        self.cluster.network.set_weather(Weather::default());
        let ids: Vec<_> = self.cluster.sites.keys().copied().collect();
        for id in ids {
            if self.cluster.site(id).is_off {
                self.lose_power(id);
            }
            let site = self.cluster.site(id);
            site.heal();
            site.resume();
            self.start(id)?;
        }
        Ok(())
    }
}
