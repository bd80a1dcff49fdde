//! Measures what a scheduling decision costs with many nodes and a long queue: `cargo run --release -p gristmill-core
//! --example scheduling -- [PEERS] [QUEUED] [SAMPLES] [PLACES]`; one JSON line on stdout.
//!
//! A decision is all that the machine does when one of its peers has answered a task: the task's end, the choice of what
//! goes to which peer next, its placement, and when to look again. Every peer is full and has a hundred workers; they
//! answer in random order, each one of the hundred tasks that it was sent first. With PLACES each task fills so many
//! workers' places.
#![expect(clippy::print_stdout, reason = "a command talks to its terminal")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use gristmill_core::{
    Attempt, AttemptTimings, Config, ContextId, Core, Epoch, FunctionId, KillReason, Origin,
    Payload, PeerAnswer, PeerEnd, PeerId, PeerOffer, Port, RemoteDispatch, RingProgress, Sent,
    SlotId, Status, Submission, TakeBackResult, TaskId, TaskOptions, WorkerGrant,
};
use gristmill_wire::{ResourceRequest, Span};

const WORKERS: u32 = 100;
/// Decisions in one sample.
const SAMPLE: u64 = 10_000;

#[derive(Debug, Clone, Copy)]
struct Placement {
    peer: PeerId,
    task: TaskId,
    attempt: Attempt,
}

/// Links without bytes: remembers what was sent.
#[derive(Default)]
struct Links {
    sent: Vec<Placement>,
}

impl Port for Links {
    #[inline]
    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        black_box(dispatch.task.payload);
        self.sent.push(Placement { peer, task: dispatch.task.id, attempt: dispatch.task.attempt });
        Sent::Written(0)
    }
    fn send(&mut self, _: SlotId, _: gristmill_core::Dispatch<'_>) -> Sent {
        Sent::Full
    }
    fn take_back(&mut self, _: SlotId, _: &[u64], _: &mut Vec<TakeBackResult>) {}
    fn progress(&self, _: SlotId) -> RingProgress {
        RingProgress::default()
    }
    fn interrupt(&mut self, _: SlotId, _: u64) {}
    fn kill(&mut self, _: SlotId, _: KillReason) {}
    fn spawn(&mut self, _: SlotId, _: ContextId, _: WorkerGrant) {}
    fn retire(&mut self, _: SlotId) {}
    #[inline]
    fn finished(&mut self, task: TaskId, _: u64, status: Status) {
        black_box((task, status));
    }
}

/// A client with its nodes, and what each of them was sent, in order.
struct Cluster {
    core: Core,
    links: Links,
    nodes: Vec<VecDeque<Placement>>,
    random: u64,
    now: u64,
}

impl Cluster {
    fn new(peers: u16) -> Self {
        let config = Config { workers: 0, outstanding_max: u64::MAX, ..Config::default() };
        let (mut core, mut links) = (Core::new(config), Links::default());
        for peer in 0..peers {
            let offer = PeerOffer { memory: 1 << 40, ..PeerOffer::of_workers(WORKERS) };
            core.peer_joined(PeerId(peer), Epoch(1), offer, 1, &mut links);
        }
        let nodes = vec![VecDeque::new(); usize::from(peers)];
        Self { core, links, nodes, random: 88_172_645_463_325_252, now: 1_000 }
    }

    /// Fills the nodes up, and queues so many.
    fn fill(&mut self, queued: u64, options: Option<&TaskOptions>) {
        let mut handle = 0;
        while self.core.ready_len() < queued {
            let submission = Submission {
                function: FunctionId(0),
                payload: Payload::copy_from(&[1, 2, 3, 4, 5, 6, 7, 8]),
                handle,
                submitted_ticks: 100,
                parents: &[],
                options,
                origin: Origin::External,
            };
            let task = self.core.submit(submission, self.now, &mut self.links);
            black_box(task.unwrap_or_else(|error| panic!("{error}")));
            handle += 1;
        }
        self.deliver();
    }

    fn deliver(&mut self) {
        for placement in self.links.sent.drain(..) {
            self.nodes[usize::from(placement.peer.0)].push_back(placement);
        }
    }

    /// Draws a number below `bound`. Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (2003).
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let bound = u64::try_from(bound).unwrap_or(1).max(1);
        usize::try_from(self.random % bound).unwrap_or(0)
    }

    fn draw_answers(&mut self) -> Vec<Placement> {
        let answer = |_| {
            let node = self.below(self.nodes.len());
            let running = self.nodes[node].len().min(WORKERS as usize);
            let place = self.below(running);
            self.nodes[node].remove(place)
        };
        (0..SAMPLE).filter_map(answer).collect()
    }

    /// Nanoseconds of one decision, as the mean of many.
    fn sample(&mut self) -> f64 {
        let answers = self.draw_answers();
        let began = Instant::now();
        for &Placement { peer, task, attempt } in &answers {
            self.now += 1_000;
            let end = PeerEnd::Returned(Payload::copy_from(&[1, 2]));
            let timings = AttemptTimings::of_run(Span::from_ticks(1_000_000));
            let answer = PeerAnswer { task, attempt, end, timings };
            let outcome = self.core.peer_answered(peer, answer, self.now, &mut self.links);
            assert!(matches!(outcome, gristmill_core::AnswerOutcome::Finished(_)));
            black_box(self.core.next_wake(self.now));
        }
        let passed = began.elapsed();
        assert_eq!(self.links.sent.len(), answers.len(), "each answer leads to a placement");
        answers.iter().for_each(|answer| self.core.release(answer.task));
        self.deliver();
        let count = u32::try_from(answers.len()).unwrap_or(u32::MAX);
        passed.as_secs_f64() * 1e9 / f64::from(count)
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u64| {
        words.next().map_or(default, |word| word.parse().unwrap_or_else(|_| panic!("{word}?")))
    };
    let (peers, queued, samples) = (number(10_000), number(10_000_000), number(300));
    let peers = u16::try_from(peers).unwrap_or(u16::MAX);
    let places = u16::try_from(number(0)).unwrap_or(0);
    let demand = ResourceRequest { cores: places, ..ResourceRequest::NONE };
    let options = TaskOptions { demand, ..TaskOptions::default() };
    let mut cluster = Cluster::new(peers);
    cluster.fill(queued, (places > 0).then_some(&options));
    // Places and queue stay as they are: what is answered is submitted anew.
    let series: Vec<String> = (0..samples)
        .map(|_| {
            let nanoseconds = cluster.sample();
            cluster.fill(queued, (places > 0).then_some(&options));
            format!("{nanoseconds:.1}")
        })
        .collect();
    let workers = u64::from(peers) * u64::from(WORKERS);
    println!(
        "{{\"peers\":{peers},\"workers\":{workers},\"queued\":{queued},\"sample\":{SAMPLE},\"ns\":[{}]}}",
        series.join(",")
    );
}
