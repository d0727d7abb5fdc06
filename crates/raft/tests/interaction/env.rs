//! The members of a script and the messages between them.

use raft::{Message, MessageType, Snapshot, describe, is_local_thread};

use types::MemberId;

use crate::node::Node;
use crate::output::Output;

/// The maximum number of rounds of `stabilize`.
const MAX_ROUNDS: usize = 1000;

#[derive(Default)]
pub(crate) struct InteractionEnv {
    pub(crate) nodes: Vec<Node>,
    /// Messages in flight, in the order they were sent.
    pub(crate) messages: Vec<Message>,
    pub(crate) output: Output,
}

/// A recipient whose messages are delivered or dropped.
pub(crate) struct Recipient {
    pub(crate) id: u64,
    pub(crate) drop: bool,
}

impl InteractionEnv {
    pub(crate) fn with_indent<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.output.take();
        let result = act(self);
        self.output.append_indented_to(before);
        result
    }

    /// Delivers or drops all messages to the recipients; returns their number.
    pub(crate) fn deliver(&mut self, kind: Option<MessageType>, to: &[Recipient]) -> usize {
        let mut count = 0;
        for recipient in to {
            let (taken, left) = std::mem::take(&mut self.messages)
                .into_iter()
                .partition(|message| is_for(message, recipient, kind));
            self.messages = left;
            count += Vec::len(&taken);
            for message in taken {
                self.deliver_one(message, recipient.drop);
            }
        }
        count
    }

    fn deliver_one(&mut self, message: Message, drop: bool) {
        let dropped = if drop { "dropped: " } else { "" };
        self.output.println(format!("{dropped}{}", describe::message(&message)));
        if drop {
            return;
        }
        let node = &mut self.nodes[index_of(message.to.0)];
        // A message that a member sends to itself through another one, such as a forwarded
        // proposal, comes from the network.
        let promise = message.kind.waits_for_storage() && message.from == message.to;
        let local = promise || is_local_thread(message.from);
        let result = if local { node.raw.step_local(message) } else { node.raw.step(message) };
        if let Err(error) = result {
            self.output.println(error.to_string());
        }
    }

    pub(crate) fn process_ready(&mut self, index: usize) -> Result<(), String> {
        let node = &mut self.nodes[index];
        let ready = node.raw.ready();
        self.output.print(describe::ready(&ready));
        if !node.config.async_storage_writes {
            node.process_append(ready.hard_state, &ready.entries, ready.snapshot)?;
            node.process_apply(&ready.committed_entries)?;
        }
        for message in ready.messages {
            match message.kind {
                MessageType::MsgStorageAppend => node.append_work.push_back(message),
                MessageType::MsgStorageApply => node.apply_work.push_back(message),
                _ => self.messages.push(message),
            }
        }
        if !node.config.async_storage_writes {
            node.raw.advance();
        }
        Ok(())
    }

    pub(crate) fn process_append_thread(&mut self, index: usize) -> Result<(), String> {
        let node = &mut self.nodes[index];
        let Some(mut work) = node.append_work.pop_front() else {
            self.output.print("no append work to perform");
            return Ok(());
        };
        let responses = std::mem::take(&mut work.responses);
        self.output.print(format!("Processing:\n{}\n", describe::message(&work)));
        let snapshot = work.snapshot.take().map(|snapshot| *snapshot);
        node.process_append(work.hard_state(), &work.entries, snapshot)?;
        self.send_responses(responses);
        Ok(())
    }

    pub(crate) fn process_apply_thread(&mut self, index: usize) -> Result<(), String> {
        let node = &mut self.nodes[index];
        let Some(mut work) = node.apply_work.pop_front() else {
            self.output.print("no apply work to perform");
            return Ok(());
        };
        let responses = std::mem::take(&mut work.responses);
        self.output.print(format!("Processing:\n{}\n", describe::message(&work)));
        node.process_apply(&work.entries)?;
        self.send_responses(responses);
        Ok(())
    }

    fn send_responses(&mut self, responses: Vec<Message>) {
        self.output.print("Responses:\n");
        for response in &responses {
            self.output.println(describe::message(response));
        }
        self.messages.extend(responses);
    }

    /// Lets the given members process their work and messages until nothing is left to do.
    pub(crate) fn stabilize(&mut self, indexes: &[usize]) -> Result<(), String> {
        for _ in 0..MAX_ROUNDS {
            if !self.stabilize_once(indexes)? {
                return Ok(());
            }
        }
        Err(format!("not stable after {MAX_ROUNDS} rounds"))
    }

    fn stabilize_once(&mut self, indexes: &[usize]) -> Result<bool, String> {
        let mut busy = false;
        for &index in indexes {
            if self.nodes[index].raw.has_ready() {
                self.output.print(format!("> {} handling Ready\n", index + 1));
                self.with_indent(|env| env.process_ready(index))?;
                busy = true;
            }
        }
        for &index in indexes {
            let recipient = Recipient { id: self.nodes[index].id(), drop: false };
            if self.messages.iter().any(|message| is_for(message, &recipient, None)) {
                self.output.print(format!("> {} receiving messages\n", recipient.id));
                self.with_indent(|env| env.deliver(None, &[recipient]));
                busy = true;
            }
        }
        for &index in indexes {
            if !self.nodes[index].append_work.is_empty() {
                self.output.print(format!("> {} processing append thread\n", index + 1));
                while !self.nodes[index].append_work.is_empty() {
                    self.with_indent(|env| env.process_append_thread(index))?;
                }
                busy = true;
            }
        }
        for &index in indexes {
            if !self.nodes[index].apply_work.is_empty() {
                self.output.print(format!("> {} processing apply thread\n", index + 1));
                while !self.nodes[index].apply_work.is_empty() {
                    self.with_indent(|env| env.process_apply_thread(index))?;
                }
                busy = true;
            }
        }
        Ok(busy)
    }

    /// Queues a snapshot as a leader would send it.
    pub(crate) fn send_snapshot(&mut self, from: usize, to: usize) {
        let node = &self.nodes[from].raw;
        let snapshot: Snapshot =
            raft::Storage::snapshot(node.storage()).expect("the snapshot is always available");
        let message = Message {
            from: MemberId(from as u64 + 1),
            term: node.basic_status().hard_state.term,
            snapshot: Some(Box::new(snapshot)),
            ..Message::new(MessageType::MsgSnap, MemberId(to as u64 + 1))
        };
        self.output.print(describe::message(&message));
        self.messages.push(message);
    }
}

fn is_for(message: &Message, recipient: &Recipient, kind: Option<MessageType>) -> bool {
    message.to.0 == recipient.id
        && !(recipient.drop && is_local(message))
        && kind.is_none_or(|kind| message.kind == kind)
}

/// Reports whether a message never leaves its member, so that it cannot be lost.
fn is_local(message: &Message) -> bool {
    message.from == message.to || is_local_thread(message.from) || is_local_thread(message.to)
}

/// Converts a member id, from one, to a position, from zero.
pub(crate) fn index_of(id: u64) -> usize {
    usize::try_from(id).expect("ids are small").checked_sub(1).expect("ids start at one")
}
