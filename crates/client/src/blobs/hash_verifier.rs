//! Hash verifier: hashes large results while they arrive, so that a node cannot send other bytes than it named.
//!
//! It is a thread of its own, because hashing a gigabyte takes up to a second, and no small task should wait for that. It is
//! started with the first large result. If no thread can be started, the thread that stores the bytes hashes them. The
//! verifier never holds the engine's lock. The engine compares the hashes with the names.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gristmill_shm::BlockPart;
use gristmill_store::Verifier;
use gristmill_transport::Waker;
use gristmill_wire::Digest;

/// Bytes of one result that are hashed before other results have their turn.
const TURN: u64 = 4 << 20;

/// Result whose bytes are arriving.
#[derive(Debug)]
struct Arrival {
    part: BlockPart,
    received: u64,
    verifier: Verifier,
}

/// Results whose bytes are arriving, by keys that are never used again.
#[derive(Debug, Default)]
struct Arrivals(HashMap<u64, Arrival>);

#[derive(Debug)]
enum VerifierCommand {
    /// The block of a result has this many bytes now.
    Follow(u64, BlockPart, u64),
    /// No answer waits for a result any more.
    Forget(u64),
}

/// Key of a result, and the hash of all its bytes.
pub(super) type HashResult = (u64, Digest);

impl Arrivals {
    fn apply(&mut self, command: VerifierCommand) {
        match command {
            VerifierCommand::Follow(key, part, received) => {
                let new = || Arrival { part, received, verifier: Verifier::default() };
                self.0.entry(key).or_insert_with(new).received = received;
            }
            VerifierCommand::Forget(key) => drop(self.0.remove(&key)),
        }
    }

    /// Hashes some bytes of each result. Returns the hashes of the complete results, and true if there is more to do at once.
    fn attend(&mut self) -> (Vec<HashResult>, bool) {
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
    commands: Vec<VerifierCommand>,
    findings: Vec<HashResult>,
    is_over: bool,
}

/// Mailbox between the engine and its hash verifier.
#[derive(Debug)]
struct VerifierMailbox {
    notes: Mutex<Notes>,
    /// Signals new commands to the verifier's thread.
    verifier: Condvar,
    /// Wakes the thread that takes the findings.
    engine: Waker,
}

impl VerifierMailbox {
    fn look(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the verifier's thread.
    fn inspect(&self) {
        gristmill_sync::signals::block_all();
        let (mut arrivals, mut is_busy) = (Arrivals::default(), false);
        loop {
            let mut notes = self.look();
            while notes.commands.is_empty() && !is_busy && !notes.is_over {
                notes = self.verifier.wait(notes).unwrap_or_else(PoisonError::into_inner);
            }
            if notes.is_over {
                return;
            }
            let commands = std::mem::take(&mut notes.commands);
            drop(notes);
            commands.into_iter().for_each(|command| arrivals.apply(command));
            let findings;
            (findings, is_busy) = arrivals.attend();
            if !findings.is_empty() {
                self.look().findings.extend(findings);
                self.engine.wake();
            }
        }
    }
}

/// Engine's end of a hash verifier. Dropping it ends the thread.
#[derive(Debug, Default)]
pub(super) struct HashVerifier {
    thread: Option<Arc<VerifierMailbox>>,
    /// Results that are hashed without a thread.
    here: Arrivals,
    findings: Vec<HashResult>,
    next: u64,
}

impl HashVerifier {
    /// Returns the key of a result that is about to arrive, and starts the thread if there is none. `engine` wakes the thread
    /// that takes the findings. Without `engine` that thread never sleeps, and no verifier thread is started.
    pub fn enter(&mut self, engine: Option<Waker>) -> u64 {
        if self.thread.is_none() && self.here.0.is_empty() {
            self.thread = engine.and_then(start);
        }
        self.next += 1;
        self.next
    }

    /// Notes that the block of a result has `received` bytes now.
    pub fn follow(&mut self, key: u64, part: &BlockPart, received: u64) {
        self.send(VerifierCommand::Follow(key, part.clone(), received));
    }

    /// Forgets a result that no answer waits for any more. A finding from before may still be returned.
    pub fn forget(&mut self, key: u64) {
        self.send(VerifierCommand::Forget(key));
    }

    fn send(&mut self, command: VerifierCommand) {
        if let Some(mailbox) = &self.thread {
            mailbox.look().commands.push(command);
            mailbox.verifier.notify_one();
            return;
        }
        self.here.apply(command);
        let mut is_busy = true;
        while is_busy {
            let findings;
            (findings, is_busy) = self.here.attend();
            self.findings.extend(findings);
        }
    }

    /// Returns true if there are findings that were not taken.
    pub fn has_findings(&self) -> bool {
        let has_any = |mailbox: &Arc<VerifierMailbox>| !mailbox.look().findings.is_empty();
        !self.findings.is_empty() || self.thread.as_ref().is_some_and(has_any)
    }

    /// Returns the findings since the last call.
    pub fn take_findings(&mut self) -> Vec<HashResult> {
        let mut findings = std::mem::take(&mut self.findings);
        if let Some(mailbox) = &self.thread {
            findings.append(&mut mailbox.look().findings);
        }
        findings
    }
}

impl Drop for HashVerifier {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.thread {
            mailbox.look().is_over = true;
            mailbox.verifier.notify_one();
        }
    }
}

/// Starts the thread. Returns `None` if the system has no threads left.
fn start(engine: Waker) -> Option<Arc<VerifierMailbox>> {
    let (notes, verifier) = (Mutex::default(), Condvar::new());
    let mailbox = Arc::new(VerifierMailbox { notes, verifier, engine });
    let its = Arc::clone(&mailbox);
    let builder = std::thread::Builder::new().name("gristmill-verifier".to_owned());
    builder.stack_size(256 << 10).spawn(move || its.inspect()).ok()?;
    Some(mailbox)
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

    /// Hashes a result that arrives in two halves, and another one that is forgotten before its end.
    fn inspect(verifier: &mut HashVerifier, engine: Option<Waker>, mut rest: impl FnMut()) {
        let part = block(5 << 20);
        let [key, other] = [(); 2].map(|()| verifier.enter(engine.clone()));
        verifier.follow(key, &part, 2 << 20);
        verifier.follow(other, &part, 2 << 20);
        verifier.forget(other);
        assert!(!verifier.has_findings(), "not all is there");
        verifier.follow(key, &part, 5 << 20);
        while !verifier.has_findings() {
            rest();
        }
        assert_eq!(verifier.take_findings(), [(key, digest_of(&part))]);
        assert!(!verifier.has_findings());
    }

    #[test]
    fn results_are_hashed_beside_the_engine_which_is_woken() {
        let sleeper = Sleeper::new().expect("descriptors");
        let mut verifier = HashVerifier::default();
        inspect(&mut verifier, Some(sleeper.waker()), || {
            let _ = sleeper.sleep(&mut Vec::new(), None).expect("nothing fails");
        });
        assert!(verifier.thread.is_some() && verifier.here.0.is_empty());
    }

    #[test]
    fn results_are_hashed_at_once_without_a_sleeper() {
        let mut verifier = HashVerifier::default();
        inspect(&mut verifier, None, || panic!("it is found at once"));
        assert!(verifier.here.0.is_empty());
    }
}
