//! Hashes large results while they come home, so that no node can have other bytes taken for those of a name.
//!
//! A thread of its own, since a gigabyte takes a second or less to hash, which no small task should wait for. It is started
//! with the first large result; where no thread can be had, whoever takes the bytes hashes them. It never holds the
//! engine's lock. What the bytes should hash to is not its business.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gristmill_shm::BlockPart;
use gristmill_store::Verifier;
use gristmill_transport::Waker;
use gristmill_wire::Digest;

/// Bytes of one result that are hashed before others have their turn.
const TURN: u64 = 4 << 20;

/// A result whose bytes come.
#[derive(Debug)]
struct Arrival {
    part: BlockPart,
    received: u64,
    verifier: Verifier,
}

/// Results whose bytes come, by numbers that are never used again.
#[derive(Debug, Default)]
struct Arrivals(HashMap<u64, Arrival>);

#[derive(Debug)]
enum Order {
    /// So many bytes of a result are in a block now.
    Follow(u64, BlockPart, u64),
    /// Nobody waits for a result any more.
    Forget(u64),
}

/// What all bytes of a result hash to.
pub(super) type Finding = (u64, Digest);

impl Arrivals {
    fn obey(&mut self, order: Order) {
        match order {
            Order::Follow(key, part, received) => {
                let new = || Arrival { part, received, verifier: Verifier::default() };
                self.0.entry(key).or_insert_with(new).received = received;
            }
            Order::Forget(key) => drop(self.0.remove(&key)),
        }
    }

    /// Hashes some bytes of each; says what those hash to that are whole, and whether there is more to do at once.
    fn attend(&mut self) -> (Vec<Finding>, bool) {
        let (mut findings, mut is_busy) = (Vec::new(), false);
        self.0.retain(|&key, Arrival { part, received, verifier }| {
            verifier.follow(part, (*received).min(verifier.hashed() + TURN));
            is_busy |= verifier.hashed() < *received;
            let is_whole = verifier.hashed() == part.range().size;
            if is_whole {
                findings.push((key, verifier.digest()));
            }
            !is_whole
        });
        (findings, is_busy)
    }
}

#[derive(Debug, Default)]
struct Notes {
    orders: Vec<Order>,
    findings: Vec<Finding>,
    is_over: bool,
}

/// What the engine and its inspector leave for each other.
#[derive(Debug)]
struct Board {
    notes: Mutex<Notes>,
    /// Told of orders.
    inspector: Condvar,
    /// Wakes whoever takes the findings.
    engine: Waker,
}

impl Board {
    fn look(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn inspect(&self) {
        gristmill_sync::signals::block_all();
        let (mut arrivals, mut is_busy) = (Arrivals::default(), false);
        loop {
            let mut notes = self.look();
            while notes.orders.is_empty() && !is_busy && !notes.is_over {
                notes = self.inspector.wait(notes).unwrap_or_else(PoisonError::into_inner);
            }
            if notes.is_over {
                return;
            }
            let orders = std::mem::take(&mut notes.orders);
            drop(notes);
            orders.into_iter().for_each(|order| arrivals.obey(order));
            let findings;
            (findings, is_busy) = arrivals.attend();
            if !findings.is_empty() {
                self.look().findings.extend(findings);
                self.engine.wake();
            }
        }
    }
}

/// The engine's end of an inspector. Its end is the thread's.
#[derive(Debug, Default)]
pub(super) struct Inspector {
    thread: Option<Arc<Board>>,
    /// What is hashed without one.
    here: Arrivals,
    findings: Vec<Finding>,
    next: u64,
}

impl Inspector {
    /// A number for a result that is about to come. `engine` wakes whoever asks for findings; without it nobody sleeps.
    pub fn enter(&mut self, engine: Option<Waker>) -> u64 {
        if self.thread.is_none() && self.here.0.is_empty() {
            self.thread = engine.and_then(start);
        }
        self.next += 1;
        self.next
    }

    /// So many bytes of a result are in its block.
    pub fn follow(&mut self, key: u64, part: &BlockPart, received: u64) {
        self.order(Order::Follow(key, part.clone(), received));
    }

    /// Nobody waits for a result any more. What was found before may still be told.
    pub fn forget(&mut self, key: u64) {
        self.order(Order::Forget(key));
    }

    fn order(&mut self, order: Order) {
        if let Some(board) = &self.thread {
            board.look().orders.push(order);
            board.inspector.notify_one();
            return;
        }
        self.here.obey(order);
        let mut is_busy = true;
        while is_busy {
            let findings;
            (findings, is_busy) = self.here.attend();
            self.findings.extend(findings);
        }
    }

    /// Whether something was found since this was asked for last.
    pub fn has_findings(&self) -> bool {
        let has_any = |board: &Arc<Board>| !board.look().findings.is_empty();
        !self.findings.is_empty() || self.thread.as_ref().is_some_and(has_any)
    }

    /// What was found.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        let mut findings = std::mem::take(&mut self.findings);
        if let Some(board) = &self.thread {
            findings.append(&mut board.look().findings);
        }
        findings
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        if let Some(board) = &self.thread {
            board.look().is_over = true;
            board.inspector.notify_one();
        }
    }
}

/// Starts the thread, if one can be had.
fn start(engine: Waker) -> Option<Arc<Board>> {
    let (notes, inspector) = (Mutex::default(), Condvar::new());
    let board = Arc::new(Board { notes, inspector, engine });
    let its = Arc::clone(&board);
    let builder = std::thread::Builder::new().name("gristmill-inspector".to_owned());
    builder.stack_size(256 << 10).spawn(move || its.inspect()).ok()?;
    Some(board)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;
    use gristmill_store::digest_of;
    use gristmill_transport::Sleeper;

    fn block(size: usize) -> BlockPart {
        let bytes: Vec<u8> = (0..size).map(|place| place.to_le_bytes()[0]).collect();
        ClientArena::create(0).expect("an arena").store(&bytes).expect("a block")
    }

    /// A result that comes in two halves, and one that nobody waits for in the end.
    fn inspect(inspector: &mut Inspector, engine: Option<Waker>, mut rest: impl FnMut()) {
        let part = block(5 << 20);
        let [key, other] = [(); 2].map(|()| inspector.enter(engine.clone()));
        inspector.follow(key, &part, 2 << 20);
        inspector.follow(other, &part, 2 << 20);
        inspector.forget(other);
        assert!(!inspector.has_findings(), "not all is there");
        inspector.follow(key, &part, 5 << 20);
        while !inspector.has_findings() {
            rest();
        }
        assert_eq!(inspector.take_findings(), [(key, digest_of(&part))]);
        assert!(!inspector.has_findings());
    }

    #[test]
    fn results_are_hashed_beside_the_engine_which_is_woken() {
        let sleeper = Sleeper::new().expect("descriptors");
        let mut inspector = Inspector::default();
        inspect(&mut inspector, Some(sleeper.waker()), || {
            let _ = sleeper.sleep(&mut Vec::new(), None).expect("nothing fails");
        });
        assert!(inspector.thread.is_some() && inspector.here.0.is_empty());
    }

    #[test]
    fn results_are_hashed_at_once_where_nobody_sleeps() {
        let mut inspector = Inspector::default();
        inspect(&mut inspector, None, || panic!("it is found at once"));
        assert!(inspector.here.0.is_empty());
    }
}
