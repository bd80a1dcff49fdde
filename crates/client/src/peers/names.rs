//! Addresses that the names of dialled addresses lead to. Threads of their own look the names up, because a resolver may take
//! longer than a link may be silent.
//!
//! A name may lead to several addresses, some of which do not answer: a machine may have an address at which no program
//! listens, or an address of a kind that its network does not have. After each failure the next address is tried. When all have
//! failed, the name is looked up again, and the known addresses are tried once more until the lookup ends. An address that has
//! answered stays.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use gristmill_transport::{ChannelError, Waker, resolve};

/// Number of names that are looked up at a time: each takes a thread for as long as the resolver works.
const LOOKUPS_MAX: usize = 16;

/// Function that finds the addresses of a name; it may block.
pub(super) type Resolver = Arc<dyn Fn(&str) -> Result<Vec<SocketAddr>, ChannelError> + Send + Sync>;

type Found = Result<Vec<SocketAddr>, ChannelError>;

/// State of a name.
#[derive(Debug, Default)]
struct Name {
    known: Vec<SocketAddr>,
    /// Index of the address that is dialled.
    current: usize,
    is_looked_up: bool,
}

impl Name {
    /// Replaces the known addresses, and goes on with the address that was dialled last if it is still one of them.
    fn take(&mut self, found: Vec<SocketAddr>) {
        let current = self.known.get(self.current);
        let place = current.and_then(|current| found.iter().position(|one| one == current));
        self.current = place.unwrap_or(0);
        self.known = found;
    }
}

/// The names of addresses that are dialled, by index.
pub(super) struct Names {
    resolver: Resolver,
    names: Vec<Name>,
    queue: VecDeque<(usize, String)>,
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
    /// Creates `count` names without known addresses.
    pub fn new(count: usize, waker: Waker) -> Self {
        Self::with(count, waker, Arc::new(resolve))
    }

    pub fn with(count: usize, waker: Waker, resolver: Resolver) -> Self {
        let (sender, receiver) = channel();
        let names = (0..count).map(|_| Name::default()).collect();
        Self { resolver, names, queue: VecDeque::new(), running: 0, sender, receiver, waker }
    }

    /// Returns the address to dial for the name at an index. Returns `None` while the name is looked up; [`Self::results`]
    /// tells when to call again.
    pub fn next(&mut self, place: usize, address: &str) -> Option<SocketAddr> {
        if let Ok(address) = address.parse() {
            return Some(address);
        }
        let name = &self.names[place];
        let found = name.known.get(name.current).copied();
        if found.is_none() {
            self.look_up(place, address);
        }
        found
    }

    /// Records that the address dialled last did not answer: another one is dialled next time.
    pub fn failed(&mut self, place: usize, address: &str) {
        let name = &mut self.names[place];
        name.current += 1;
        if name.current >= name.known.len() && !name.known.is_empty() {
            name.current = 0;
            self.look_up(place, address);
        }
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

    fn look_up(&mut self, place: usize, address: &str) {
        if !std::mem::replace(&mut self.names[place].is_looked_up, true) {
            self.queue.push_back((place, address.to_owned()));
            self.start();
        }
    }

    fn start(&mut self) {
        while self.running < LOOKUPS_MAX
            && let Some((place, address)) = self.queue.pop_front()
        {
            self.running += 1;
            let (resolver, sender) = (Arc::clone(&self.resolver), self.sender.clone());
            let waker = self.waker.clone();
            let look_up = move || {
                gristmill_sync::signals::block_all();
                // The receiver may be gone.
                let _ = sender.send((place, resolver(&address)));
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use gristmill_transport::Sleeper;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Returns names, the sender of the addresses that lookups find, and the sleeper that they wake.
    fn names() -> (Names, Sender<Found>, Sleeper) {
        let (sender, receiver) = channel();
        let receiver = Mutex::new(receiver);
        let resolver = move |_: &str| {
            let receiver = receiver.lock().expect("no thread panics");
            receiver.recv().expect("the test says it")
        };
        let sleeper = Sleeper::new().expect("descriptors");
        (Names::with(1, sleeper.waker(), Arc::new(resolver)), sender, sleeper)
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
        assert_eq!(names.next(0, "node:1"), None, "the resolver has not answered");
        assert!(names.results().is_empty());
        resolver.send(Ok(vec![address(1)])).expect("it waits");
        assert!(matches!(results(&mut names, &sleeper)[..], [(0, Ok(()))]));
        assert_eq!(names.next(0, "node:1"), Some(address(1)));
    }

    #[test]
    fn each_failure_has_the_next_address_dialled_and_the_last_one_a_new_look() {
        let (mut names, resolver, sleeper) = names();
        assert_eq!(names.next(0, "node:1"), None);
        resolver.send(Ok(vec![address(1), address(2)])).expect("it waits");
        let _ = results(&mut names, &sleeper);
        assert_eq!(names.next(0, "node:1"), Some(address(1)));
        names.failed(0, "node:1");
        assert_eq!(names.next(0, "node:1"), Some(address(2)));
        assert_eq!(names.next(0, "node:1"), Some(address(2)), "one that answers stays");
        names.failed(0, "node:1");
        assert_eq!(names.next(0, "node:1"), Some(address(1)), "while the name is looked up again");
        resolver.send(Ok(vec![address(3), address(1)])).expect("it waits");
        assert!(results(&mut names, &sleeper).is_empty(), "no node waits for it");
        assert_eq!(names.next(0, "node:1"), Some(address(1)));
    }

    #[test]
    fn a_name_that_leads_nowhere_is_told_and_looked_up_again() {
        let (mut names, resolver, sleeper) = names();
        for _ in 0..2 {
            assert_eq!(names.next(0, "node:1"), None);
            let source = std::io::ErrorKind::NotFound.into();
            let error = ChannelError::Unreachable { address: "node:1".to_owned(), source };
            resolver.send(Err(error)).expect("it waits");
            assert!(matches!(results(&mut names, &sleeper)[..], [(0, Err(_))]));
            names.failed(0, "node:1");
        }
    }
}
