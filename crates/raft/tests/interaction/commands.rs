//! The commands of a script.

use bytes::Bytes;
use raft::{
    AnyConfChange, ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeV2, Config,
    MemoryStorage, MessageType, ReadOnlyOption, Snapshot, Storage, describe,
};
use testkit::script::Case;
use types::{Index, MemberId, Term};

use crate::changes;
use crate::env::{InteractionEnv, Recipient, index_of};
use crate::node::{Node, NodeStorage};

/// Runs one command and returns its output, followed by the error if it failed.
pub(crate) fn handle(env: &mut InteractionEnv, case: &Case) -> String {
    let result = dispatch(env, case);
    let quiet = env.output.is_quiet();
    let mut output = env.output.take();
    match result {
        Err(error) if quiet => return error,
        Err(error) => output.push_str(&error),
        Ok(()) => {}
    }
    if output.is_empty() { "ok".to_owned() } else { output }
}

fn dispatch(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    match case.cmd.as_str() {
        // A place for a breakpoint.
        "_breakpoint" => Ok(()),
        // add-nodes 3 voters=(1,2,3) learners=(4) index=2 content=foo prevote=true …
        "add-nodes" => add_nodes(env, case),
        // campaign 1
        "campaign" => {
            env.nodes[first(case)].raw.campaign();
            Ok(())
        }
        // compact 1 5
        "compact" => compact(env, case),
        // deliver-msgs 1 2 type=MsgApp drop=(3)
        "deliver-msgs" => deliver_messages(env, case),
        // forget-leader 1
        "forget-leader" => {
            env.nodes[first(case)].raw.forget_leader();
            Ok(())
        }
        // log-level none
        "log-level" => env.output.set_level(&case.position::<String>(0)),
        // process-ready 1 2
        "process-ready" => for_each(env, case, "handling Ready", InteractionEnv::process_ready),
        // process-append-thread 1
        "process-append-thread" => {
            let what = "processing append thread";
            for_each(env, case, what, InteractionEnv::process_append_thread)
        }
        // process-apply-thread 1
        "process-apply-thread" => {
            let what = "processing apply thread";
            for_each(env, case, what, InteractionEnv::process_apply_thread)
        }
        // propose 1 foo
        "propose" => propose(env, case),
        // propose-conf-change 1 v1=true transition=explicit, with changes as input: v1 l2 r3 u4
        "propose-conf-change" => propose_conf_change(env, case),
        // raft-log 1
        "raft-log" => raft_log(env, first(case)),
        // raft-state
        "raft-state" => raft_state(env),
        // read-index 1 context (not an etcd command)
        "read-index" => {
            let context = Bytes::from(case.position::<String>(1));
            env.nodes[first(case)].raw.read_index(context);
            Ok(())
        }
        // report-snapshot 1 2 failed=true (not an etcd command)
        "report-snapshot" => {
            let failed = boolean(case, "failed");
            let to = MemberId(case.position::<u64>(1));
            env.nodes[first(case)].raw.report_snapshot(to, !failed);
            Ok(())
        }
        // report-unreachable 1 2
        "report-unreachable" => {
            let unreachable = env.nodes[index_of(case.position::<u64>(1))].config.id;
            env.nodes[first(case)].raw.report_unreachable(unreachable);
            Ok(())
        }
        // send-snapshot 1 3
        "send-snapshot" => {
            env.send_snapshot(first(case), index_of(case.position::<u64>(1)));
            Ok(())
        }
        // set-randomized-election-timeout 1 timeout=5
        "set-randomized-election-timeout" => {
            let ticks = case.value::<u32>("timeout").unwrap_or_else(|| case.fail("needs timeout"));
            env.nodes[first(case)].raw.set_randomized_election_ticks(ticks);
            Ok(())
        }
        // stabilize 1 2 log-level=none
        "stabilize" => stabilize(env, case),
        // status 1
        "status" => {
            let progress = env.nodes[first(case)].raw.status().progress;
            env.output.print(progress.to_string());
            Ok(())
        }
        // tick-election 1
        "tick-election" => {
            let node = &mut env.nodes[first(case)];
            (0..node.config.election_ticks).for_each(|_| node.raw.tick());
            Ok(())
        }
        // tick-heartbeat 1
        "tick-heartbeat" => {
            let node = &mut env.nodes[first(case)];
            (0..node.config.heartbeat_ticks).for_each(|_| node.raw.tick());
            Ok(())
        }
        // transfer-leadership from=1 to=4
        "transfer-leadership" => transfer_leadership(env, case),
        _ => Err("unknown command".to_owned()),
    }
}

/// Returns a boolean argument, false if absent, in Go's spellings.
fn boolean(case: &Case, key: &str) -> bool {
    match case.value::<String>(key).as_deref() {
        None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
        Some(other) => case.fail(format_args!("{key}={other} is not a boolean")),
    }
}

/// Returns the member that the first argument names.
fn first(case: &Case) -> usize {
    index_of(case.position::<u64>(0))
}

/// Returns the members named by arguments without a value.
fn all(case: &Case) -> Vec<usize> {
    case.bare::<u64>().into_iter().map(index_of).collect()
}

fn for_each(
    env: &mut InteractionEnv,
    case: &Case,
    what: &str,
    mut act: impl FnMut(&mut InteractionEnv, usize) -> Result<(), String>,
) -> Result<(), String> {
    let indexes = all(case);
    for &index in &indexes {
        if indexes.len() == 1 {
            return act(env, index);
        }
        env.output.print(format!("> {} {what}\n", index + 1));
        env.with_indent(|env| act(env, index))?;
    }
    Ok(())
}

fn add_nodes(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    let (config, snapshot) = first_config(case)?;
    for _ in 0..case.position::<usize>(0) {
        let id = MemberId(env.nodes.len() as u64 + 1);
        let mut memory = MemoryStorage::new();
        let mut snapshot = snapshot.clone();
        if snapshot != Snapshot::default() {
            if snapshot.metadata.index <= Index(1) {
                return Err("index must be specified as > 1 due to bootstrap".to_owned());
            }
            snapshot.metadata.term = Term(1);
            memory.apply_snapshot(snapshot.clone()).map_err(|error| error.to_string())?;
        }
        let storage = NodeStorage { memory, history: vec![snapshot] };
        let config = Config { id, seed: id.0, ..config.clone() };
        env.nodes.push(Node::new(config, storage)?);
    }
    Ok(())
}

/// Parses the configuration and the initial state of `add-nodes`.
fn first_config(case: &Case) -> Result<(Config, Snapshot), String> {
    case.allow(&[
        "voters",
        "learners",
        "inflight",
        "index",
        "content",
        "async-storage-writes",
        "prevote",
        "checkquorum",
        "max-committed-size-per-ready",
        "disable-conf-change-validation",
        "read-only",
        "step-down-on-removal",
    ]);
    let flag = |key| boolean(case, key);
    let members = |key| case.values::<u64>(key).into_iter().map(MemberId).collect();
    let read_only_option = match case.value::<String>("read-only").as_deref() {
        None | Some("safe") => ReadOnlyOption::Safe,
        Some("lease-based") => ReadOnlyOption::LeaseBased,
        Some(other) => return Err(format!("invalid read-only option {other:?}")),
    };
    let mut snapshot = Snapshot::default();
    snapshot.metadata.conf_state.voters = members("voters");
    snapshot.metadata.conf_state.learners = members("learners");
    snapshot.metadata.index = Index(case.value::<u64>("index").unwrap_or(0));
    snapshot.data = Bytes::from(case.value::<String>("content").unwrap_or_default());
    let unlimited = usize::try_from(i32::MAX).expect("fits");
    let config = Config {
        election_ticks: 3,
        heartbeat_ticks: 1,
        max_message_bytes: u64::MAX,
        max_inflight_messages: case.value::<usize>("inflight").unwrap_or(unlimited),
        max_applying_bytes: case.value::<u64>("max-committed-size-per-ready").unwrap_or(0),
        applied: snapshot.metadata.index,
        async_storage_writes: flag("async-storage-writes"),
        pre_vote: flag("prevote"),
        check_quorum: flag("checkquorum"),
        disable_conf_change_validation: flag("disable-conf-change-validation"),
        step_down_on_removal: flag("step-down-on-removal"),
        read_only_option,
        keep_etcd_bugs: std::env::var_os("RAFT_ETCD_HOLES").is_some(),
        ..Config::new(MemberId(1))
    };
    Ok((config, snapshot))
}

fn compact(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    let to = Index(case.position::<u64>(1));
    let memory = &mut env.nodes[first(case)].raw.storage_mut().memory;
    memory.compact(to).map_err(|error| error.to_string())?;
    raft_log(env, first(case))
}

fn deliver_messages(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    case.allow(&["drop", "type"]);
    let kind = case.value::<String>("type").map(|name| {
        let named = |kind: &&MessageType| kind.as_str() == name;
        *MessageType::ALL.iter().find(named).unwrap_or_else(|| case.fail("unknown message type"))
    });
    let deliver = case.bare::<u64>();
    let drop = case.values::<u64>("drop");
    if drop.iter().any(|id| deliver.contains(id)) {
        case.fail("can't both deliver and drop messages to the same member");
    }
    let to_deliver = deliver.into_iter().map(|id| Recipient { id, drop: false });
    let to_drop = drop.into_iter().map(|id| Recipient { id, drop: true });
    if env.deliver(kind, &to_deliver.chain(to_drop).collect::<Vec<_>>()) == 0 {
        env.output.print("no messages\n");
    }
    Ok(())
}

fn propose(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    let data = Bytes::from(case.position::<String>(1));
    env.nodes[first(case)].raw.propose(data).map_err(|error| error.to_string())
}

fn propose_conf_change(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    let known = |key: &str| matches!(key, "v1" | "transition");
    if let Some(arg) = case.args.iter().find(|arg| !arg.vals.is_empty() && !known(&arg.key)) {
        return Err(format!("unknown command {}", arg.key));
    }
    let transition = match case.value::<String>("transition").as_deref() {
        None | Some("auto") => ConfChangeTransition::Auto,
        Some("implicit") => ConfChangeTransition::JointImplicit,
        Some("explicit") => ConfChangeTransition::JointExplicit,
        Some(other) => return Err(format!("unknown transition {other}")),
    };
    let changes = changes::parse(&case.input)?;
    let change: AnyConfChange = if boolean(case, "v1") {
        if changes.len() > 1 || transition != ConfChangeTransition::Auto {
            let error = "v1 conf change can only have one operation and no transition";
            return Err(error.to_owned());
        }
        let ConfChangeSingle { kind, node_id } = changes[0];
        ConfChange { kind, node_id, ..ConfChange::default() }.into()
    } else {
        ConfChangeV2 { transition, changes, ..ConfChangeV2::default() }.into()
    };
    let node = &mut env.nodes[first(case)].raw;
    node.propose_conf_change(change).map_err(|error| error.to_string())
}

fn raft_log(env: &mut InteractionEnv, index: usize) -> Result<(), String> {
    let memory = &env.nodes[index].raw.storage().memory;
    let (first, last) = (memory.first_index(), memory.last_index());
    if last < first {
        let text = format!("log is empty: first index={first}, last index={last}");
        env.output.print(text);
        return Ok(());
    }
    let entries = memory.entries(first, last.next(), u64::MAX);
    let entries = entries.map_err(|error| error.to_string())?;
    env.output.print(describe::entries(&entries));
    Ok(())
}

fn raft_state(env: &mut InteractionEnv) -> Result<(), String> {
    for node in &env.nodes {
        let status = node.raw.status();
        let basic = status.basic;
        let voter = status.config.voters.contains(basic.id);
        env.output.print(format!(
            "{}: {} {} Term:{} Lead:{}\n",
            basic.id.0,
            basic.soft_state.role.as_str(),
            if voter { "(Voter)" } else { "(Non-Voter)" },
            basic.hard_state.term,
            MemberId::to_wire(basic.soft_state.lead),
        ));
    }
    Ok(())
}

fn stabilize(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    case.allow(&["log-level"]);
    let level = env.output.level();
    if let Some(name) = case.value::<String>("log-level") {
        env.output.set_level(&name)?;
    }
    let named = all(case);
    let indexes = if named.is_empty() { (0..env.nodes.len()).collect() } else { named };
    let result = env.stabilize(&indexes);
    env.output.restore_level(level);
    result
}

fn transfer_leadership(env: &mut InteractionEnv, case: &Case) -> Result<(), String> {
    let member = |key| match case.value::<u64>(key) {
        Some(id) if (1..=env.nodes.len() as u64).contains(&id) => id,
        _ => case.fail(format_args!("expected valid {key:?} argument")),
    };
    let (from, to) = (member("from"), member("to"));
    env.nodes[index_of(from)].raw.transfer_leader(MemberId(to));
    Ok(())
}
