//! Addresses that the dialled hosts have. Threads of their own look names up, because a resolver may take longer than a link
//! may be silent.
//!
//! A host may have several texts `host:port`, and each of its names may lead to several addresses. Some of these may not
//! answer: a machine may have an address at which no program or another program listens, or an address of a kind that its
//! network does not have. After each failure the next address is tried. When all have failed, names are looked up again, and
//! the known addresses are tried once more until the lookup ends. An address that has answered stays.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use gristmill_transport::{ChannelError, Waker, numeric, resolve};
use gristmill_wire::cut_text;

use super::handshake_failure::HandshakeFailure;

/// Number of names that are looked up at a time: each takes a thread for as long as the resolver works.
const LOOKUPS_MAX: usize = 16;
/// Number of addresses of a host that are tried; a name service may give any number.
const ADDRESSES_MAX: usize = 32;
/// Length of the failure of one of several addresses, bytes; the other end may have said it.
const TEXT_MAX: usize = 1 << 10;

/// Function that finds the addresses of a text `host:port`; it may block.
pub(super) type Resolver = Arc<dyn Fn(&str) -> Result<Vec<SocketAddr>, ChannelError> + Send + Sync>;

type Found = Result<Vec<SocketAddr>, ChannelError>;

/// Step after a failure at an address of a host.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum NextAddress {
    /// Another address is dialled at once. The text says how each address has failed so far.
    Another(String),
    /// All addresses have failed. The failure is that of all of them. It is final only if those of all addresses are and none
    /// of them has ever answered: an address may lead to another program while the host itself is out of reach for a while.
    Exhausted(HandshakeFailure),
}

/// An address of a host.
#[derive(Debug)]
struct Known {
    address: SocketAddr,
    /// Last failure since a connection to the host existed.
    failure: Option<HandshakeFailure>,
}

impl Known {
    const fn new(address: SocketAddr) -> Self {
        Self { address, failure: None }
    }

    /// Returns the last failure in words, with the address.
    fn in_words(&self) -> Option<String> {
        let text = cut_text(&self.failure.as_ref()?.text, TEXT_MAX);
        let address = self.address.to_string();
        Some(if text.contains(&address) { text.to_owned() } else { format!("{address}: {text}") })
    }
}

/// State of a host.
#[derive(Debug)]
struct Name {
    /// Its texts, `host:port`.
    texts: Vec<String>,
    known: Vec<Known>,
    /// Index of the address that is dialled.
    current: usize,
    is_looked_up: bool,
    /// True once one of its addresses has answered: the host exists, and may come back.
    has_answered: bool,
}

impl Name {
    /// Creates a host whose numeric addresses are known.
    fn new(texts: &[String]) -> Self {
        let known = texts.iter().filter_map(|text| numeric(text)).map(Known::new).collect();
        Self { texts: texts.to_vec(), known, current: 0, is_looked_up: false, has_answered: false }
    }

    /// Replaces the known addresses, and goes on with the address that was dialled last if it is still one of them.
    fn take(&mut self, found: Vec<SocketAddr>) {
        let current = self.known.get(self.current).map(|known| known.address);
        let mut before = std::mem::take(&mut self.known);
        for address in found {
            if self.known.len() < ADDRESSES_MAX
                && self.known.iter().all(|known| known.address != address)
            {
                let same = before.iter_mut().find(|known| known.address == address);
                let failure = same.and_then(|known| known.failure.take());
                self.known.push(Known { address, failure });
            }
        }
        self.current =
            self.known.iter().position(|known| Some(known.address) == current).unwrap_or(0);
    }

    /// Returns true if some of its addresses must be looked up.
    fn has_names(&self) -> bool {
        self.texts.iter().any(|text| numeric(text).is_none())
    }

    /// Returns how its addresses have failed.
    fn in_words(&self) -> String {
        let texts: Vec<_> = self.known.iter().filter_map(Known::in_words).collect();
        texts.join("; ")
    }

    /// Records that the current address has failed, and turns to the next one.
    fn failed(&mut self, failure: &HandshakeFailure) -> NextAddress {
        let is_only = self.known.len() < 2;
        let Some(current) = self.known.get_mut(self.current).filter(|_| !is_only) else {
            return NextAddress::Exhausted(failure.clone());
        };
        current.failure = Some(failure.clone());
        self.current += 1;
        if self.current < self.known.len() {
            return NextAddress::Another(self.in_words());
        }
        self.current = 0;
        let mut failures = self.known.iter().map(|known| known.failure.as_ref());
        let is_final =
            !self.has_answered && failures.all(|failure| failure.is_some_and(|one| one.is_final));
        NextAddress::Exhausted(HandshakeFailure { text: self.in_words(), is_final })
    }
}

/// The hosts that are dialled, by index.
pub(super) struct Names {
    resolver: Resolver,
    names: Vec<Name>,
    queue: VecDeque<usize>,
    running: usize,
    sender: Sender<(usize, Found)>,
    receiver: Receiver<(usize, Found)>,
    /// Waker that is called when a lookup has ended.
    waker: Waker,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Names {
    /// Creates the state of hosts, each with its texts `host:port`. Only their numeric addresses are known.
    pub fn new(hosts: &[Vec<String>], waker: Waker) -> Self {
        Self::with(hosts, waker, Arc::new(resolve))
    }

    pub fn with(hosts: &[Vec<String>], waker: Waker, resolver: Resolver) -> Self {
        let (sender, receiver) = channel();
        let names = hosts.iter().map(|texts| Name::new(texts)).collect();
        Self { resolver, names, queue: VecDeque::new(), running: 0, sender, receiver, waker }
    }

    /// Returns the address to dial for the host at an index. Returns `None` while its names are looked up;
    /// [`Self::results`] tells when to call again.
    pub fn next(&mut self, place: usize) -> Option<SocketAddr> {
        let name = &self.names[place];
        let found = name.known.get(name.current).map(|known| known.address);
        if found.is_none() {
            self.look_up(place);
        }
        found
    }

    /// Records that the address dialled last has failed.
    pub fn failed(&mut self, place: usize, failure: &HandshakeFailure) -> NextAddress {
        let name = &mut self.names[place];
        let next = name.failed(failure);
        // Without a known address the next dial looks names up, after its pause.
        let is_round_over = matches!(next, NextAddress::Exhausted(_)) && !name.known.is_empty();
        if is_round_over && name.has_names() {
            self.look_up(place);
        }
        next
    }

    /// Records that the address dialled last has answered.
    pub fn met(&mut self, place: usize) {
        let name = &mut self.names[place];
        name.has_answered = true;
        name.known.iter_mut().for_each(|known| known.failure = None);
    }

    /// Returns the lookups that ended since the last call and that a dial waits for: indices to dial now, or errors.
    pub fn results(&mut self) -> Vec<(usize, Result<(), ChannelError>)> {
        let mut results = Vec::new();
        while let Ok((place, found)) = self.receiver.try_recv() {
            self.running -= 1;
            let name = &mut self.names[place];
            name.is_looked_up = false;
            let was_known = !name.known.is_empty();
            let outcome = found.map(|found| name.take(found));
            // A dial to a known address has not waited.
            if !was_known {
                results.push((place, outcome));
            }
        }
        self.start();
        results
    }

    fn look_up(&mut self, place: usize) {
        if !std::mem::replace(&mut self.names[place].is_looked_up, true) {
            self.queue.push_back(place);
            self.start();
        }
    }

    fn start(&mut self) {
        while self.running < LOOKUPS_MAX
            && let Some(place) = self.queue.pop_front()
        {
            self.running += 1;
            let (resolver, sender) = (Arc::clone(&self.resolver), self.sender.clone());
            let (waker, texts) = (self.waker.clone(), self.names[place].texts.clone());
            let look_up = move || {
                gristmill_sync::signals::block_all();
                // The receiver may be gone.
                let _ = sender.send((place, resolve_all(&texts, &*resolver)));
                waker.wake();
            };
            let builder = std::thread::Builder::new().name("gristmill-names".to_owned());
            if let Err(source) = builder.spawn(look_up) {
                let address = "the thread that looks up its name".to_owned();
                let error = ChannelError::Unreachable { address, source };
                let _ = self.sender.send((place, Err(error)));
                self.waker.wake();
            }
        }
    }
}

/// Returns the addresses of all texts that have some, or the last error.
fn resolve_all(texts: &[String], resolver: &dyn Fn(&str) -> Found) -> Found {
    let mut all = Vec::new();
    let mut last = None;
    for text in texts {
        match resolver(text) {
            Ok(found) => all.extend(found),
            Err(error) => last = Some(error),
        }
    }
    last.filter(|_| all.is_empty()).map_or(Ok(all), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use gristmill_transport::Sleeper;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn passing(text: &str) -> HandshakeFailure {
        HandshakeFailure::passing(text)
    }

    /// Returns one host, the sender of the addresses that lookups find, and the sleeper that they wake.
    fn names() -> (Names, Sender<Found>, Sleeper) {
        let (sender, receiver) = channel();
        let receiver = Mutex::new(receiver);
        let resolver = move |_: &str| {
            let receiver = receiver.lock().expect("no thread panics");
            receiver.recv().expect("the test says it")
        };
        let sleeper = Sleeper::new().expect("descriptors");
        let hosts = [vec!["node:1".to_owned()]];
        (Names::with(&hosts, sleeper.waker(), Arc::new(resolver)), sender, sleeper)
    }

    /// Returns a host with these numeric addresses.
    fn numeric_host(ports: &[u16]) -> Names {
        let sleeper = Sleeper::new().expect("descriptors");
        let texts = ports.iter().map(|&port| address(port).to_string()).collect();
        Names::new(&[texts], sleeper.waker())
    }

    fn results(names: &mut Names, sleeper: &Sleeper) -> Vec<(usize, Result<(), ChannelError>)> {
        loop {
            let running = names.running;
            let results = names.results();
            if names.running < running {
                return results;
            }
            let _ = sleeper.sleep(&mut Vec::new(), None);
        }
    }

    #[test]
    fn a_slow_resolver_delays_no_other_name() {
        let (mut names, resolver, sleeper) = names();
        assert_eq!(names.next(0), None, "the resolver has not answered");
        assert!(names.results().is_empty());
        resolver.send(Ok(vec![address(1)])).expect("it waits");
        assert!(matches!(results(&mut names, &sleeper)[..], [(0, Ok(()))]));
        assert_eq!(names.next(0), Some(address(1)));
    }

    #[test]
    fn each_failure_has_the_next_address_dialled_and_the_last_one_a_new_look() {
        let (mut names, resolver, sleeper) = names();
        assert_eq!(names.next(0), None);
        resolver.send(Ok(vec![address(1), address(2), address(1)])).expect("it waits");
        let _ = results(&mut names, &sleeper);
        assert_eq!(names.next(0), Some(address(1)));
        let refused = names.failed(0, &passing("refused"));
        assert_eq!(refused, NextAddress::Another("127.0.0.1:1: refused".to_owned()));
        assert_eq!(names.next(0), Some(address(2)));
        assert_eq!(names.next(0), Some(address(2)), "one that answers stays");
        let both = "127.0.0.1:1: refused; no route to 127.0.0.1:2";
        let exhausted = names.failed(0, &passing("no route to 127.0.0.1:2"));
        assert_eq!(exhausted, NextAddress::Exhausted(passing(both)));
        assert_eq!(names.next(0), Some(address(1)), "while the name is looked up again");
        resolver.send(Ok(vec![address(3), address(1)])).expect("it waits");
        assert!(results(&mut names, &sleeper).is_empty(), "no node waits for it");
        assert_eq!(names.next(0), Some(address(1)));
    }

    #[test]
    fn a_name_that_leads_nowhere_is_told_and_looked_up_again() {
        let (mut names, resolver, sleeper) = names();
        for _ in 0..2 {
            assert_eq!(names.next(0), None);
            let source = std::io::ErrorKind::NotFound.into();
            let error = ChannelError::Unreachable { address: "node:1".to_owned(), source };
            resolver.send(Err(error)).expect("it waits");
            assert!(matches!(results(&mut names, &sleeper)[..], [(0, Err(_))]));
            assert_eq!(names.failed(0, &passing("x")), NextAddress::Exhausted(passing("x")));
        }
    }

    /// Returns the failure of a host with two addresses that fail one after the other.
    fn round(names: &mut Names, failures: [&HandshakeFailure; 2]) -> HandshakeFailure {
        assert!(matches!(names.failed(0, failures[0]), NextAddress::Another(_)));
        let NextAddress::Exhausted(failure) = names.failed(0, failures[1]) else {
            panic!("there are two addresses");
        };
        failure
    }

    #[test]
    fn strangers_are_final_only_at_all_addresses() {
        let mut names = numeric_host(&[1, 2]);
        let (stranger, refused) = (HandshakeFailure::lasting("another key"), passing("refused"));
        for _ in 0..2 {
            let failure = round(&mut names, [&stranger, &refused]);
            assert!(!failure.is_final, "the second address may be the host's, and answer later");
            assert_eq!(failure.text, "127.0.0.1:1: another key; 127.0.0.1:2: refused");
        }
        let failure = round(&mut names, [&stranger, &stranger]);
        assert!(failure.is_final);
        assert_eq!(failure.text, "127.0.0.1:1: another key; 127.0.0.1:2: another key");
    }

    #[test]
    fn a_host_that_has_answered_is_not_given_up_for_strangers() {
        let mut names = numeric_host(&[1, 2]);
        let stranger = HandshakeFailure::lasting("another key");
        assert!(matches!(names.failed(0, &stranger), NextAddress::Another(_)));
        assert_eq!(names.next(0), Some(address(2)));
        names.met(0);
        let failure = names.failed(0, &passing("lost"));
        assert!(matches!(failure, NextAddress::Exhausted(failure) if !failure.is_final));
        for second in [passing("refused"), stranger.clone()] {
            assert!(!round(&mut names, [&stranger, &second]).is_final, "{}", second.text);
        }
    }

    #[test]
    fn a_single_address_fails_as_it_is() {
        let mut names = numeric_host(&[1]);
        let stranger = HandshakeFailure::lasting("another key");
        assert_eq!(names.failed(0, &stranger), NextAddress::Exhausted(stranger));
        assert_eq!(names.next(0), Some(address(1)));
    }

    #[test]
    fn no_more_addresses_are_tried_than_a_host_can_have() {
        let (mut names, resolver, sleeper) = names();
        assert_eq!(names.next(0), None);
        resolver.send(Ok((1..1000).map(address).collect())).expect("it waits");
        let _ = results(&mut names, &sleeper);
        let tried = std::iter::repeat_with(|| names.failed(0, &passing("refused")))
            .take_while(|next| matches!(next, NextAddress::Another(_)));
        assert_eq!(tried.count() + 1, ADDRESSES_MAX);
    }
}
