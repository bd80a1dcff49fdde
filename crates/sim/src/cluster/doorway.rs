//! Where a process meets others: dials, connections that come in, and conversations that begin. The real reception does the
//! same with sockets.

use gristmill_client::{Dials, Host, Talk, Trouble, Turn};

use super::channel::{SimChannel, SimMeeting, Step};
use super::network::{Air, Side, look};

/// How long a conversation may take to begin, nanoseconds, as in the real reception.
const MEETING_NS: u64 = 10_000_000_000;

/// The meetings of a process.
pub(crate) struct Doorway {
    air: Air,
    side: Side,
    /// The nodes with which it may have lines.
    nodes: Vec<usize>,
    /// Which node each dialled address is, or is dialled from.
    dialled: Vec<usize>,
    pub dials: Dials,
    talks: Vec<Talk<SimMeeting>>,
}

impl Doorway {
    pub fn new(air: &Air, side: Side, nodes: Vec<usize>, dialled: Vec<usize>) -> Self {
        let addresses: Vec<String> = dialled.iter().map(|node| format!("node {node}")).collect();
        let dials = Dials::new(&addresses);
        Self { air: air.clone(), side, nodes, dialled, dials, talks: Vec::new() }
    }

    fn arrivals(&self) -> Vec<usize> {
        let air = look(&self.air);
        self.nodes.iter().flat_map(|&node| air.arrivals(node, self.side)).collect()
    }

    /// Whether there is something to attend to.
    pub fn is_due(&self, now: u64) -> bool {
        self.dials.next_at() <= now
            || self.talks.iter().any(|talk| talk.meeting.is_due(now))
            || !self.arrivals().is_empty()
    }

    /// When there is, whatever comes.
    pub fn next_wake(&self) -> Option<u64> {
        let talks = self.talks.iter().map(|talk| talk.meeting.deadline_ns);
        let wake = talks.chain([self.dials.next_at()]).min();
        wake.filter(|&wake| wake != u64::MAX)
    }

    /// Goes on with everything as far as it goes without waiting.
    pub fn attend(&mut self, host: &mut impl Host<SimMeeting>, now: u64) {
        for line in self.arrivals() {
            look(&self.air).accept(line);
            self.enter(line, None, 0, now);
        }
        while let Some((place, lease)) = self.dials.next_due(now) {
            let line = look(&self.air).dial(self.dialled[place], self.side);
            self.enter(line, Some(place), lease, now);
        }
        for talk in std::mem::take(&mut self.talks) {
            if let Some(talk) = self.go_on(talk, host, now) {
                self.talks.push(talk);
            }
        }
    }

    fn enter(&mut self, line: usize, dial: Option<usize>, lease: u64, now: u64) {
        let channel = SimChannel::new(&self.air, line, self.side);
        let meeting = SimMeeting::new(channel, now + MEETING_NS);
        self.talks.push(Talk { meeting, dial, lease, theirs: None });
    }

    /// Goes on with one conversation; gives it back while it waits.
    fn go_on(
        &mut self,
        mut talk: Talk<SimMeeting>,
        host: &mut impl Host<SimMeeting>,
        now: u64,
    ) -> Option<Talk<SimMeeting>> {
        let dial = talk.dial;
        loop {
            let turn = match talk.meeting.progress(now) {
                Step::Waiting => return Some(talk),
                Step::Open => {
                    host.open(&mut talk);
                    continue;
                }
                Step::Said(kind, body) => host.said(talk, (kind, &body), now),
                Step::Failed(text) => Turn::Failed(Box::new(talk), Trouble::passing(text)),
            };
            match turn {
                Turn::On(going_on) => talk = *going_on,
                Turn::Done => {
                    self.dials.met(dial);
                    return None;
                }
                Turn::Failed(talk, trouble) => {
                    if let Some(place) = dial {
                        self.dials.failed(place, &trouble, now);
                    }
                    host.failed(talk.name(), dial, &trouble, now);
                    return None;
                }
            }
        }
    }
}
