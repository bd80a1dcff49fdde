//! Where the names of addresses that are dialled lead: looked up by threads of their own, since a resolver may take longer
//! than a link may be silent.
//!
//! A name may lead to several addresses, of which some do not answer: a machine has an address that nobody listens at, or
//! none of its network's kind. Each failure has the next one tried; when all have failed the name is looked up again, and
//! until that has come to something those that are known are gone through once more. An address that has answered stays.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use gristmill_transport::{ChannelError, Waker, resolve};

/// Names that are looked up at a time: each takes a thread while the resolver takes its time.
const LOOKUPS_MAX: usize = 16;

/// What finds the addresses of a name; it may block.
pub(super) type Resolver = Arc<dyn Fn(&str) -> Result<Vec<SocketAddr>, ChannelError> + Send + Sync>;

type Found = Result<Vec<SocketAddr>, ChannelError>;

/// What is known of a name.
#[derive(Debug, Default)]
struct Name {
    known: Vec<SocketAddr>,
    /// Which of them is dialled.
    current: usize,
    is_looked_up: bool,
}

impl Name {
    /// Goes on with the address that was dialled last, if it is still one of them.
    fn take(&mut self, found: Vec<SocketAddr>) {
        let current = self.known.get(self.current);
        let place = current.and_then(|current| found.iter().position(|one| one == current));
        self.current = place.unwrap_or(0);
        self.known = found;
    }
}

/// The names of addresses that are dialled, by place.
pub(super) struct Names {
    resolver: Resolver,
    names: Vec<Name>,
    queue: VecDeque<(usize, String)>,
    running: usize,
    sender: Sender<(usize, Found)>,
    receiver: Receiver<(usize, Found)>,
    /// Woken when something was found.
    waker: Waker,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Names {
    /// So many, of which nothing is known.
    pub fn new(count: usize, waker: Waker) -> Self {
        Self::with(count, waker, Arc::new(resolve))
    }

    pub fn with(count: usize, waker: Waker, resolver: Resolver) -> Self {
        let (sender, receiver) = channel();
        let names = (0..count).map(|_| Name::default()).collect();
        Self { resolver, names, queue: VecDeque::new(), running: 0, sender, receiver, waker }
    }

    /// The address to dial at a place, whose name is `address`. None: it is looked up, and [`Self::news`] tells when to ask
    /// again.
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

    /// The address that was dialled at a place did not answer: another one is dialled next time.
    pub fn failed(&mut self, place: usize, address: &str) {
        let name = &mut self.names[place];
        name.current += 1;
        if name.current >= name.known.len() && !name.known.is_empty() {
            name.current = 0;
            self.look_up(place, address);
        }
    }

    /// What was found, or not, since it was asked last: places where something is to be dialled now, or not yet.
    pub fn news(&mut self) -> Vec<(usize, Result<(), ChannelError>)> {
        let mut news = Vec::new();
        while let Ok((place, found)) = self.receiver.try_recv() {
            self.running -= 1;
            let name = &mut self.names[place];
            name.is_looked_up = false;
            let was_known = !name.known.is_empty();
            let outcome = found.map(|found| name.take(found));
            // Whoever dials what was known has not waited.
            if !was_known {
                news.push((place, outcome));
            }
        }
        self.start();
        news
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
                // Who has asked may be gone.
                let _ = sender.send((place, resolver(&address)));
                waker.wake();
            };
            let builder = std::thread::Builder::new().name("gristmill-names".to_owned());
            if let Err(source) = builder.spawn(look_up) {
                let address = "the thread that looks its name up".to_owned();
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

    /// Names whose addresses are what the test says, when it does; and what wakes with them.
    fn names() -> (Names, Sender<Found>, Sleeper) {
        let (sender, receiver) = channel();
        let receiver = Mutex::new(receiver);
        let resolver = move |_: &str| {
            let receiver = receiver.lock().expect("nobody panics");
            receiver.recv().expect("the test says it")
        };
        let sleeper = Sleeper::new().expect("descriptors");
        (Names::with(1, sleeper.waker(), Arc::new(resolver)), sender, sleeper)
    }

    fn news(names: &mut Names, sleeper: &Sleeper) -> Vec<(usize, Result<(), ChannelError>)> {
        loop {
            let running = names.running;
            let news = names.news();
            if names.running < running {
                return news;
            }
            let _ = sleeper.sleep(&mut Vec::new(), None);
        }
    }

    #[test]
    fn a_slow_resolver_holds_nobody_up() {
        let (mut names, resolver, sleeper) = names();
        assert_eq!(names.next(0, "node:1"), None, "the resolver has not answered");
        assert!(names.news().is_empty());
        resolver.send(Ok(vec![address(1)])).expect("it waits");
        assert!(matches!(news(&mut names, &sleeper)[..], [(0, Ok(()))]));
        assert_eq!(names.next(0, "node:1"), Some(address(1)));
    }

    #[test]
    fn each_failure_has_the_next_address_dialled_and_the_last_one_a_new_look() {
        let (mut names, resolver, sleeper) = names();
        assert_eq!(names.next(0, "node:1"), None);
        resolver.send(Ok(vec![address(1), address(2)])).expect("it waits");
        let _ = news(&mut names, &sleeper);
        assert_eq!(names.next(0, "node:1"), Some(address(1)));
        names.failed(0, "node:1");
        assert_eq!(names.next(0, "node:1"), Some(address(2)));
        assert_eq!(names.next(0, "node:1"), Some(address(2)), "one that answers stays");
        names.failed(0, "node:1");
        assert_eq!(names.next(0, "node:1"), Some(address(1)), "while the name is looked up again");
        resolver.send(Ok(vec![address(3), address(1)])).expect("it waits");
        assert!(news(&mut names, &sleeper).is_empty(), "nobody waits for it");
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
            assert!(matches!(news(&mut names, &sleeper)[..], [(0, Err(_))]));
            names.failed(0, "node:1");
        }
    }
}
