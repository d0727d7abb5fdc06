//! Golden scripts: commands for a lessor with the trace that they must give.
//!
//! Each file of `testdata` is one behavior, written to be read. `BOWLINE_REWRITE=1` writes the
//! actual trace into the files.
//!
//! | command | effect |
//! | --- | --- |
//! | `options checkpoint interval=300 ttl-min=2` | an empty lessor with these settings |
//! | `grant 7 ttl=60`, `revoke 7`, `checkpoint 7 remaining=25` | entries of the log |
//! | `attach 7 foo`, `detach 7 foo` | what a put or delete does |
//! | `promote extend=1`, `demote`, `renew 7` | operations of the leader |
//! | `advance 59.5` | lets seconds pass |
//! | `turn` | finds expired leases and due checkpoints |
//! | `ttl 7`, `keys 7`, `lease-of foo`, `leases` | queries |
//! | `records` | the bucket `lease`: ID, TTL and RemainingTTL |
//! | `restart` | a new lessor that restores the database |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::sync::Arc;
use std::time::Duration;

use backend::schema::Bucket;
use backend::schema::version::Version;
use backend::{Backend, Read as _, Tx};
use bytes::Bytes;
use env::{SimClock, SimDisk};
use lease::{Checkpoint, Config, Lessor, Renewal};
use prost::Message as _;
use proto::leasepb;
use testkit::script::{self, Case};
use types::LeaseId;

/// Checkpoints are persisted from 3.6 on.
const CLUSTER_VERSION: Option<Version> = Some(Version::new(3, 7));

#[test]
fn lease_scripts_give_the_expected_traces() {
    script::run_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"), || {
        let mut fixture = Fixture::new(Config::default());
        move |case: &Case| fixture.run(case)
    });
}

/// A lessor with its database and a clock that the script moves.
struct Fixture {
    backend: Backend,
    config: Config,
    lessor: Lessor,
    now: Duration,
}

impl Fixture {
    fn new(config: Config) -> Fixture {
        let (disk, clock) = (Arc::new(SimDisk::new(0)), Arc::new(SimClock::default()));
        let backend =
            Backend::open(disk, clock, "db".as_ref(), backend::Config::default()).unwrap();
        Fixture { backend, config, lessor: Lessor::new(config), now: Duration::from_secs(1000) }
    }

    fn run(&mut self, case: &Case) -> String {
        let id = || LeaseId(case.position(0));
        let key = |at: usize| case.position::<String>(at);
        let lessor = &self.lessor;
        match case.cmd.as_str() {
            "options" => return self.set_options(case),
            "advance" => {
                self.now += Duration::from_secs_f64(case.position(0));
                return format!("second {}", (self.now.as_secs_f64() - 1000.0));
            }
            "restart" => {
                self.lessor = Lessor::new(self.config);
                self.lessor.restore(&self.backend.view()).unwrap();
            }
            "grant" => {
                let ttl = case.value("ttl").unwrap();
                let granted = self.apply(|tx| lessor.grant(tx, id(), ttl, self.now));
                return granted.map_or_else(error, |ttl| format!("ttl {ttl}"));
            }
            "revoke" => {
                let keys = self.apply(|tx| lessor.revoke(tx, id()));
                return keys.map_or_else(error, |keys| format!("delete {}", list(&keys)));
            }
            "checkpoint" => {
                let remaining_ttl = case.value("remaining").unwrap();
                let checkpoint = Checkpoint { id: id(), remaining_ttl };
                self.apply(|tx| lessor.checkpoint(tx, checkpoint, CLUSTER_VERSION, self.now));
            }
            "attach" if !lessor.attach(id(), key(1).as_bytes()) => {
                return "error: no such lease".to_owned();
            }
            "attach" => {}
            "detach" => lessor.detach(id(), key(1).as_bytes()),
            "promote" => {
                let extend = case.value("extend").unwrap_or_default();
                lessor.promote(Duration::from_secs(extend), self.now);
            }
            "demote" => lessor.demote(),
            "renew" => return lessor.renew(id(), self.now).map_or_else(error, renewal),
            "turn" => return self.turn(),
            "ttl" => return self.time_to_live(id()),
            "keys" => return lessor.keys_of(id()).map_or("none".to_owned(), |keys| list(&keys)),
            "lease-of" => {
                let lease = lessor.lease_of(key(0).as_bytes());
                return lease.map_or("none".to_owned(), |lease| lease.0.to_string());
            }
            "leases" => return ids(&lessor.leases()),
            "records" => return self.records(),
            other => case.fail(format_args!("no such command: {other}")),
        }
        "ok".to_owned()
    }

    /// Applies an entry of the log.
    fn apply<T>(&self, entry: impl FnOnce(&mut Tx<'_>) -> T) -> T {
        let mut tx = self.backend.begin();
        let result = entry(&mut tx);
        tx.commit().unwrap();
        result
    }

    fn set_options(&mut self, case: &Case) -> String {
        let defaults = Config::default();
        let interval = case.value("interval").map(Duration::from_secs);
        *self = Fixture::new(Config {
            checkpoint: case.flag("checkpoint"),
            checkpoint_interval: interval.unwrap_or(defaults.checkpoint_interval),
            ttl_min_seconds: case.value("ttl-min").unwrap_or(defaults.ttl_min_seconds),
            ..defaults
        });
        "ok".to_owned()
    }

    fn turn(&self) -> String {
        let turn = self.lessor.turn(self.now);
        let checkpoints = turn.checkpoints.iter();
        let checkpoints: Vec<String> = checkpoints
            .map(|Checkpoint { id, remaining_ttl }| {
                format!("\ncheckpoint {} {remaining_ttl}", id.0)
            })
            .collect();
        format!("expired {}{}", ids(&turn.expired), checkpoints.concat())
    }

    fn time_to_live(&self, id: LeaseId) -> String {
        let Some(ttl) = self.lessor.time_to_live(id, self.now) else {
            return "no such lease".to_owned();
        };
        let remaining = ttl.remaining.map_or("unknown".to_owned(), |left| left.to_string());
        format!("granted {}, remaining {remaining}", ttl.granted)
    }

    fn records(&self) -> String {
        let view = self.backend.view();
        let records = view.all(Bucket::Lease).unwrap().map(|item| {
            let record = leasepb::Lease::decode(item.unwrap().value.as_ref()).unwrap();
            format!("ID {} TTL {} RemainingTTL {}", record.id, record.ttl, record.remaining_ttl)
        });
        let records: Vec<String> = records.collect();
        if records.is_empty() { "none".to_owned() } else { records.join("\n") }
    }
}

fn error(error: impl std::fmt::Display) -> String {
    format!("error: {error}")
}

fn renewal(renewal: Renewal) -> String {
    match renewal {
        Renewal::Renewed { ttl } => format!("renewed, ttl {ttl}"),
        Renewal::ClearCheckpoint => "propose a checkpoint of zero first".to_owned(),
        Renewal::AwaitRevoke => "expired, wait for the revoke".to_owned(),
    }
}

fn ids(ids: &[LeaseId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(" ") }
}

fn list(keys: &[Bytes]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| key.escape_ascii().to_string()).collect();
    if keys.is_empty() { "none".to_owned() } else { keys.join(" ") }
}
