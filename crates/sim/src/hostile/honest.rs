//! A peer that keeps to the protocol: it answers each task with the task's arguments, and expects the same for its own tasks.

use std::collections::{BTreeMap, VecDeque};

use gristmill_client::Link;
use gristmill_core::{Attempt, FunctionId, TaskId};
use gristmill_wire::peer::{
    AnswerMessage, Control, Definition, EndKind, Heartbeat, MessageKind, Messages, Parted,
    TaskMessage,
};
use gristmill_wire::{Span, WorkerState};

/// Definition of its function.
const DEFINITION: &[u8] = b"give back";

/// The honest peer's end of its link.
pub(super) struct Honest {
    pub link: Link,
    /// Tasks that it has received and not answered.
    given: VecDeque<(TaskId, Attempt, Vec<u8>)>,
    /// Its own tasks, each with true once it is answered.
    own: BTreeMap<TaskId, bool>,
    /// Number of own tasks whose worker died.
    pub lost: usize,
    chunk: Vec<u8>,
    clock: u64,
    /// The engine's time in its last heartbeat, which the next ones echo.
    heard: u64,
}

impl Honest {
    pub fn new(link: Link) -> Self {
        let (given, own) = (VecDeque::new(), BTreeMap::new());
        Self { link, given, own, lost: 0, chunk: Vec::new(), clock: 0, heard: 0 }
    }

    /// Returns whether the peer has nothing to do and waits for nothing.
    pub fn is_idle(&self) -> bool {
        self.given.is_empty() && self.own.values().all(|&is_answered| is_answered)
    }

    /// Sends a task of its own.
    pub fn submit(&mut self) {
        let function = FunctionId(0);
        if self.own.is_empty() {
            let definition = DEFINITION;
            Definition { function, definition, name: b"f" }.write(&mut self.link.out);
        }
        let place = u32::try_from(self.own.len()).expect("few tasks");
        let task = TaskId::new(place, 1);
        self.own.insert(task, false);
        self.send(task, Attempt(0));
    }

    fn send(&mut self, task: TaskId, attempt: Attempt) {
        let name = (task, FunctionId(0), attempt);
        TaskMessage::write(&mut self.link.out, name, None, (0, false), |out| {
            Parted::put_plain(out, &task.word().to_le_bytes());
        });
    }

    /// Reads all messages, answers one task, and sends a heartbeat.
    pub fn turn(&mut self) {
        self.clock += 1_000;
        let mut chunk = std::mem::take(&mut self.chunk);
        while self.link.receive(&mut chunk).expect("the engine keeps to the protocol") {
            for message in Messages::new(&chunk) {
                let (kind, body) = message.expect("the engine sends messages");
                self.take(kind, body);
            }
        }
        self.chunk = chunk;
        if let Some((task, attempt, bytes)) = self.given.pop_front() {
            self.answer((task, attempt), EndKind::Returned, &bytes);
        }
        let beat = Heartbeat {
            sent_ns: self.clock,
            echo_ns: self.heard,
            workers: 2,
            ..Heartbeat::default()
        };
        beat.write(&mut self.link.out);
        let _ = self.link.flush();
    }

    fn answer(&mut self, (task, attempt): (TaskId, Attempt), end: EndKind, bytes: &[u8]) {
        let span = Span::from_ticks(1_000);
        let message = AnswerMessage {
            task,
            attempt,
            end,
            started_ns: self.clock,
            claimed_before: span,
            ran: span,
            published_after: span,
            worker_state: WorkerState::Hot,
            payload: Parted::default(),
            loss: None,
        };
        message.write(&mut self.link.out, |out| Parted::put_plain(out, bytes));
    }

    fn take(&mut self, kind: MessageKind, body: &[u8]) {
        match kind {
            MessageKind::Task => {
                let task = TaskMessage::read(body).expect("the engine sends tasks");
                self.given.push_back((task.task, task.attempt, task.payload.bytes.to_vec()));
            }
            MessageKind::Answer => self.take_answer(body),
            MessageKind::Heartbeat => {
                self.heard = Heartbeat::read(body).expect("the engine sends heartbeats").sent_ns;
            }
            MessageKind::Define
            | MessageKind::DefineContext
            | MessageKind::ForgetContext
            | MessageKind::ForgetFunction
            | MessageKind::ContextState => {}
            other => {
                let control = Control::read(other, body).expect("the engine sends messages");
                self.handle(control.expect("nothing else is said to it"));
            }
        }
    }

    fn take_answer(&mut self, body: &[u8]) {
        let answer = AnswerMessage::read(body).expect("the engine sends answers");
        let AnswerMessage { task, attempt, .. } = answer;
        let is_answered = self.own.get_mut(&task).expect("it has sent it");
        assert!(!*is_answered, "{task} was answered twice");
        match answer.end {
            EndKind::Returned => {
                assert_eq!(answer.payload.bytes, task.word().to_le_bytes(), "a wrong result");
                *is_answered = true;
            }
            EndKind::Lost => {
                *is_answered = true;
                self.lost += 1;
            }
            EndKind::Unstarted => self.send(task, Attempt(attempt.0.wrapping_add(1))),
            other => panic!("{task} ended as {other:?}, which no request caused"),
        }
    }

    /// Returns a task unstarted if it is not answered yet; returns false if it was.
    fn give_back(&mut self, task: TaskId, attempt: Attempt) -> bool {
        let place = self.given.iter().position(|one| (one.0, one.1) == (task, attempt));
        let is_there = place.and_then(|place| self.given.remove(place)).is_some();
        if is_there {
            self.answer((task, attempt), EndKind::Unstarted, &[]);
        }
        is_there
    }

    fn handle(&mut self, control: Control) {
        match control {
            Control::Withdraw { task, attempt } => {
                if !self.give_back(task, attempt) {
                    Control::Kept { task, attempt }.write(&mut self.link.out);
                }
            }
            Control::Stop { task, attempt, .. } => drop(self.give_back(task, attempt)),
            Control::Recall { count } => {
                for _ in 0..count {
                    let Some((task, attempt, _)) = self.given.pop_back() else { break };
                    self.answer((task, attempt), EndKind::Unstarted, &[]);
                }
                Control::Recalled.write(&mut self.link.out);
            }
            Control::Want { .. } | Control::Floor { .. } => {}
            other => panic!("an honest peer gave no cause for {other:?}"),
        }
    }
}
