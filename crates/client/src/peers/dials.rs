//! Schedule of the hosts that are dialled: times, leases, pauses after failures, and hosts that are given up. A host is known
//! by its first address.

use super::handshake_failure::HandshakeFailure;

/// Pause before an address is dialled again, and the longest pause after doubling, nanoseconds.
const REDIAL_NS: (u64, u64) = (50_000_000, 2_000_000_000);

/// An address that is dialled.
#[derive(Debug)]
struct Dial {
    address: String,
    /// Time of the next dial; `u64::MAX` while a connection exists or is under way.
    next_at: u64,
    pause_ns: u64,
    lease: u64,
    /// True while it is dialled: the outcome is reported even if the previous link ends meanwhile.
    is_under_way: bool,
    /// True if the address is never dialled again.
    is_given_up: bool,
}

impl Dial {
    fn try_later(&mut self, now: u64) {
        self.is_under_way = false;
        if self.is_given_up {
            return;
        }
        self.next_at = now + self.pause_ns;
        self.pause_ns = (self.pause_ns * 2).min(REDIAL_NS.1);
    }

    const fn give_up(&mut self) {
        self.is_given_up = true;
        self.next_at = u64::MAX;
    }
}

/// Action for an address whose link is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redial {
    /// The lease goes on: the address is dialled at once.
    Resume,
    /// The lease is over: the address is dialled later, for another lease.
    Anew,
    /// The address is not dialled any more, because it would fail again.
    Never,
}

/// The addresses that are dialled, by index.
#[derive(Debug)]
pub struct Dials(Vec<Dial>);

impl Dials {
    /// Creates the schedule, in which all addresses are due at once.
    #[must_use]
    pub fn new(hosts: &[Vec<String>]) -> Self {
        let entry = |texts: &Vec<String>| Dial {
            address: texts.first().cloned().unwrap_or_default(),
            next_at: 0,
            pause_ns: REDIAL_NS.0,
            lease: 0,
            is_under_way: false,
            is_given_up: false,
        };
        Self(hosts.iter().map(entry).collect())
    }

    /// Returns the index of an address to dial now, and the lease to resume, where 0 is none. Each due address is returned
    /// once.
    pub fn next_due(&mut self, now: u64) -> Option<(usize, u64)> {
        let place = self.0.iter().position(|dial| dial.next_at <= now)?;
        let dial = &mut self.0[place];
        dial.next_at = u64::MAX;
        dial.is_under_way = true;
        Some((place, dial.lease))
    }

    /// Returns the time when the next address is due; `u64::MAX` is never.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        self.0.iter().map(|dial| dial.next_at).min().unwrap_or(u64::MAX)
    }

    /// Returns the address at an index.
    #[must_use]
    pub fn address(&self, place: usize) -> &str {
        &self.0[place].address
    }

    /// Schedules another dial after a pause.
    pub fn try_later(&mut self, place: usize, now: u64) {
        self.0[place].try_later(now);
    }

    /// Handles a failed handshake at an index: schedules another dial, or gives the address up if the failure is final.
    pub fn failed(&mut self, place: usize, failure: &HandshakeFailure, now: u64) {
        if failure.is_final { self.give_up(place) } else { self.try_later(place, now) }
    }

    /// Schedules a dial at once, because the name of the address was resolved.
    pub fn try_now(&mut self, place: usize, now: u64) {
        let dial = &mut self.0[place];
        dial.is_under_way = false;
        if !dial.is_given_up {
            dial.next_at = now;
        }
    }

    /// Records that there is a connection to the address at an index, if it is one of these.
    pub fn met(&mut self, place: Option<usize>) {
        if let Some(place) = place {
            self.0[place].is_under_way = false;
        }
    }

    /// Records the lease that the address at an index has given, if it is one of these: the next dial resumes this lease.
    pub fn keep(&mut self, place: Option<usize>, lease: u64) {
        if let Some(place) = place {
            self.0[place].lease = lease;
            self.0[place].pause_ns = REDIAL_NS.0;
        }
    }

    /// Schedules another dial of the address that gave a lease, or gives the address up. An address that is being dialled is
    /// not scheduled again: a second connection would replace a good one.
    pub fn redial(&mut self, lease: u64, redial: Redial, now: u64) {
        if let Some(dial) = self.0.iter_mut().find(|dial| dial.lease == lease) {
            if redial != Redial::Resume {
                dial.lease = 0;
            }
            match (dial.is_under_way, redial) {
                (_, Redial::Never) => dial.give_up(),
                (true, _) => {}
                (false, Redial::Anew) => dial.try_later(now),
                (false, Redial::Resume) => dial.next_at = now,
            }
        }
    }

    /// Stops dialling the address at an index.
    pub fn give_up(&mut self, place: usize) {
        self.0[place].give_up();
    }

    /// Stops dialling all addresses.
    pub fn give_all_up(&mut self) {
        self.0.iter_mut().for_each(Dial::give_up);
    }

    /// Returns true if there were addresses and all of them are given up.
    #[must_use]
    pub fn are_given_up(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|dial| dial.is_given_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the schedule of one address that was dialled at 0 and has given lease 7.
    fn linked() -> Dials {
        let mut dials = Dials::new(&[vec!["there".to_owned()]]);
        assert_eq!(dials.next_due(0), Some((0, 0)));
        dials.met(Some(0));
        dials.keep(Some(0), 7);
        assert_eq!(dials.next_at(), u64::MAX, "there is a connection");
        dials
    }

    #[test]
    fn a_lease_goes_on_at_once_and_another_one_comes_later() {
        let mut dials = linked();
        dials.redial(7, Redial::Resume, 10);
        assert_eq!(dials.next_due(10), Some((0, 7)));
        dials.met(Some(0));
        dials.redial(7, Redial::Anew, 20);
        assert_eq!(dials.next_due(20), None);
        assert_eq!(dials.next_due(20 + REDIAL_NS.0), Some((0, 0)));
    }

    #[test]
    fn an_address_is_dialled_once_at_a_time() {
        let mut dials = linked();
        dials.redial(7, Redial::Resume, 10);
        assert_eq!(dials.next_due(10), Some((0, 7)));
        dials.redial(7, Redial::Anew, 20);
        assert_eq!(dials.next_at(), u64::MAX, "it is under way, if for a lease that is over");
        dials.try_later(0, 30);
        assert_eq!(dials.next_due(30 + REDIAL_NS.0), Some((0, 0)));
    }

    #[test]
    fn a_meeting_that_would_always_fail_is_tried_once() {
        let mut dials = Dials::new(&[vec!["a".to_owned()], vec!["b".to_owned()]]);
        assert_eq!((dials.next_due(0), dials.next_due(0)), (Some((0, 0)), Some((1, 0))));
        dials.failed(0, &HandshakeFailure::passing("no process listens there"), 0);
        dials.failed(1, &HandshakeFailure::lasting("another key"), 0);
        assert_eq!(dials.next_at(), REDIAL_NS.0);
        assert!(!dials.are_given_up(), "the first one is tried again");
        dials.failed(0, &HandshakeFailure::lasting("another key"), 1);
        assert!(dials.are_given_up());
    }

    #[test]
    fn an_address_that_is_given_up_is_dialled_no_more() {
        let mut dials = linked();
        assert!(!dials.are_given_up());
        dials.redial(7, Redial::Resume, 10);
        assert_eq!(dials.next_due(10), Some((0, 7)));
        dials.redial(7, Redial::Never, 20);
        dials.try_later(0, 30);
        assert_eq!(dials.next_at(), u64::MAX, "the earlier attempt changes nothing");
        assert!(dials.are_given_up());
        assert!(!Dials::new(&[]).are_given_up(), "there was none");
    }
}
