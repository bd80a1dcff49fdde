//! Where connections begin: an address at which others join, addresses that are dialled, and the meetings under way.
//!
//! It sleeps, accepts, dials and goes on with meetings; what is said in them is up to its host. Addresses are dialled
//! again, with growing pauses, until a meeting there has come to something, or never will.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use gristmill_transport::{
    Accepted, ChannelError, Connector, Handshake, Identity, Interest, Listener, Sleeper, Waker,
};
use gristmill_wire::peer::{Greeting, MessageKind};

use super::dials::Dials;
use super::meeting::{Conversation, Meeting, Step};
use super::names::Names;
use super::trouble::Trouble;

/// How long a meeting may take, from the first packet to the lease.
const MEETING_NS: u64 = 10_000_000_000;
/// The longest sleep.
const SLEEP_MAX_NS: u64 = 1_000_000_000;
/// The token of the listener; meetings have their numbers.
const LISTENER: u64 = u64::MAX - 1;

/// A meeting, and what was said in it.
#[derive(Debug)]
pub struct Talk<M = Meeting> {
    /// The connection.
    pub meeting: M,
    /// Which address was dialled; none: the other end dialled.
    pub dial: Option<usize>,
    /// The lease that is asked for, or gone on with; 0 is none yet.
    pub lease: u64,
    /// What the other end said of itself.
    pub theirs: Option<Greeting>,
}

impl<M: Conversation> Talk<M> {
    /// What the other end is called.
    #[must_use]
    pub fn name(&self) -> &str {
        let said = self.theirs.as_ref().map(|theirs| theirs.name.as_str());
        said.filter(|name| !name.is_empty()).unwrap_or_else(|| self.meeting.peer())
    }
}

/// How a meeting goes on.
#[derive(Debug)]
pub enum Turn<M = Meeting> {
    /// It goes on.
    On(Box<Talk<M>>),
    /// It has become something else.
    Done,
    /// It is over.
    Failed(Box<Talk<M>>, Trouble),
}

/// Whose meetings they are.
pub trait Host<M = Meeting> {
    /// The other end has proved who it is.
    fn open(&mut self, talk: &mut Talk<M>);

    /// It says something, at `now`.
    fn said(&mut self, talk: Talk<M>, said: (MessageKind, &[u8]), now: u64) -> Turn<M>;

    /// A meeting, or a try to have one, came to nothing: with whom, and which address was dialled, if one was.
    fn failed(&mut self, whom: &str, dial: Option<usize>, trouble: &Trouble, now: u64);
}

/// Connections that begin.
#[derive(Debug)]
pub struct Reception {
    connector: Connector,
    listener: Option<Listener>,
    sleeper: Sleeper,
    meetings: HashMap<u64, Talk>,
    next_token: u64,
    /// The addresses that are dialled.
    pub dials: Dials,
    names: Names,
    /// As many meetings are under way as may be.
    is_full: bool,
}

impl Reception {
    /// Listens, and will dial.
    ///
    /// # Errors
    /// Nobody can listen there, or the system has no descriptors left.
    pub fn new(
        identity: Identity,
        listen: Option<SocketAddr>,
        dial: &[String],
    ) -> Result<Self, ReceptionError> {
        let listener = match listen {
            Some(address) => Some(Listener::bind(address, identity.clone())?),
            None => None,
        };
        let sleeper = Sleeper::new()?;
        if let Some(listener) = &listener {
            sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable)?;
        }
        Ok(Self {
            connector: Connector::new(identity),
            listener,
            names: Names::new(dial.len(), sleeper.waker()),
            sleeper,
            meetings: HashMap::new(),
            next_token: 0,
            dials: Dials::new(dial),
            is_full: false,
        })
    }

    /// Where others join, if they may.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    /// What ends a sleep.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    /// Goes on with everything as far as it goes without waiting.
    pub fn attend(&mut self, host: &mut impl Host, now: u64) {
        self.accept(host, now);
        self.dial(host, now);
        self.meet(host, now);
    }

    /// Sleeps until something is to be attended to, or at most until `wake`.
    pub fn sleep(&self, now: u64, wake: u64) {
        let meetings = self.meetings.values().map(|talk| talk.meeting.deadline_ns());
        let wake = meetings.min().unwrap_or(u64::MAX).min(self.dials.next_at()).min(wake);
        let limit = wake.clamp(now, now + SLEEP_MAX_NS) - now;
        // What it would say is found by looking.
        let _ = self.sleeper.sleep(&mut Vec::new(), Some(Duration::from_nanos(limit)));
    }

    /// Meets nobody any more: whoever was met learns that nothing comes of it.
    pub fn close(&mut self) {
        self.meetings.drain().for_each(|(_, talk)| talk.meeting.close());
    }

    fn accept(&mut self, host: &mut impl Host, now: u64) {
        if self.is_full {
            self.hear_listener(true);
        }
        while let Some(listener) = &self.listener {
            match listener.accept(now + MEETING_NS) {
                Ok(Accepted::Peer(handshake)) => self.enter(handshake, None, 0, now),
                Ok(Accepted::Nobody) => return,
                // Until one of them is over there is nothing to hear.
                Ok(Accepted::Full) => return self.hear_listener(false),
                Err(error @ ChannelError::Deaf { .. }) => {
                    let trouble = Trouble::passing(error.to_string());
                    return host.failed("the address where others join", None, &trouble, now);
                }
                Err(error) => {
                    host.failed("whoever joins", None, &Trouble::passing(error.to_string()), now);
                }
            }
        }
    }

    /// Has the sleeper look at the address where others join, or not.
    fn hear_listener(&mut self, hears: bool) {
        let Some(listener) = &self.listener else { return };
        self.is_full = !hears;
        // Where it cannot be watched it is looked at with everything else, a second later at most.
        let _ = if hears {
            self.sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable)
        } else {
            self.sleeper.unwatch(listener.descriptor())
        };
    }

    fn dial(&mut self, host: &mut impl Host, now: u64) {
        for (place, found) in self.names.news() {
            match found {
                Ok(()) => self.dials.try_now(place, now),
                Err(error) => self.dial_failed(place, &error, host, now),
            }
        }
        while let Some((place, lease)) = self.dials.next_due(now) {
            let address = self.names.next(place, self.dials.address(place));
            // It goes on when its name was looked up.
            let Some(address) = address else { continue };
            match self.connector.connect(address, now + MEETING_NS) {
                Ok(handshake) => self.enter(handshake, Some(place), lease, now),
                Err(error) => self.dial_failed(place, &error, host, now),
            }
        }
    }

    fn dial_failed(&mut self, place: usize, error: &ChannelError, host: &mut impl Host, now: u64) {
        let trouble = Trouble::of_channel(error, true);
        self.failed_at(place, &trouble, now);
        host.failed(self.dials.address(place), Some(place), &trouble, now);
    }

    /// Nothing came of an address: another one, if there are several, another time, unless that would be the same.
    fn failed_at(&mut self, place: usize, trouble: &Trouble, now: u64) {
        self.names.failed(place, self.dials.address(place));
        self.dials.failed(place, trouble, now);
    }

    fn enter(&mut self, handshake: Handshake, dial: Option<usize>, lease: u64, now: u64) {
        let meeting = Meeting::new(handshake, dial.is_some(), now + MEETING_NS);
        let talk = Talk { meeting, dial, lease, theirs: None };
        let token = self.next_token;
        self.next_token += 1;
        self.watch(token, &talk.meeting);
        self.meetings.insert(token, talk);
    }

    fn watch(&self, token: u64, meeting: &Meeting) {
        if let Some(descriptor) = meeting.descriptor() {
            // One that cannot be watched ends with its deadline.
            let _ = self.sleeper.watch(descriptor, token, meeting.interest());
        }
    }

    fn meet(&mut self, host: &mut impl Host, now: u64) {
        let tokens: Vec<u64> = self.meetings.keys().copied().collect();
        for token in tokens {
            let Some(talk) = self.meetings.remove(&token) else { continue };
            if let Some(talk) = self.go_on(talk, host, now) {
                self.watch(token, &talk.meeting);
                self.meetings.insert(token, talk);
            }
        }
    }

    /// Goes on with one meeting; gives it back while it waits.
    fn go_on(&mut self, mut talk: Talk, host: &mut impl Host, now: u64) -> Option<Talk> {
        let dial = talk.dial;
        loop {
            let turn = match talk.meeting.progress(now) {
                Step::Waiting => return Some(talk),
                Step::Open => {
                    host.open(&mut talk);
                    continue;
                }
                Step::Said(kind, body) => {
                    self.unwatch(&talk.meeting);
                    host.said(talk, (kind, &body), now)
                }
                Step::Failed(trouble) => Turn::Failed(Box::new(talk), trouble),
            };
            match turn {
                Turn::On(going_on) => talk = *going_on,
                Turn::Done => {
                    self.dials.met(dial);
                    return None;
                }
                Turn::Failed(talk, trouble) => {
                    if let Some(place) = dial {
                        self.failed_at(place, &trouble, now);
                    }
                    host.failed(talk.name(), dial, &trouble, now);
                    return None;
                }
            }
        }
    }

    /// A connection that becomes a link is watched by whoever looks after that.
    fn unwatch(&self, meeting: &Meeting) {
        if let Some(descriptor) = meeting.descriptor() {
            let _ = self.sleeper.unwatch(descriptor);
        }
    }
}

/// Why there is no reception.
#[derive(Debug, thiserror::Error)]
pub enum ReceptionError {
    /// Nobody can join there.
    #[error(transparent)]
    Listen(#[from] ChannelError),
    /// No random numbers, descriptors or threads.
    #[error("connections cannot be looked after: {0}")]
    System(#[from] std::io::Error),
}

impl ReceptionError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Listen(_) => "reception_listen",
            Self::System(_) => "reception_system",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr, TcpListener};
    use std::sync::Arc;

    use gristmill_transport::Fleet;

    use super::*;

    /// A host to whom nobody comes.
    struct Nobody;

    impl Host for Nobody {
        fn open(&mut self, _: &mut Talk) {}

        fn said(&mut self, talk: Talk, _: (MessageKind, &[u8]), _: u64) -> Turn {
            Turn::Failed(Box::new(talk), Trouble::passing(""))
        }

        fn failed(&mut self, _: &str, _: Option<usize>, _: &Trouble, _: u64) {}
    }

    #[test]
    fn a_name_is_dialled_where_somebody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it can be");
        let there = listener.local_addr().expect("it is bound");
        let deaf = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), there.port());
        let identity = Identity::of_client(&Fleet::generate().expect("random numbers").client);
        let dial = [format!("node:{}", there.port())];
        let mut reception = Reception::new(identity, None, &dial).expect("descriptors");
        let waker = reception.sleeper.waker();
        reception.names = Names::with(1, waker, Arc::new(move |_: &str| Ok(vec![deaf, there])));
        let mut now = 1;
        while listener.accept().is_err() {
            reception.attend(&mut Nobody, now);
            now = reception.dials.next_at().clamp(now, now + SLEEP_MAX_NS);
            reception.sleep(now, now + 1_000_000);
        }
    }
}
