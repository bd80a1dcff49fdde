//! Addresses that are dialled: when, with which lease, and how long after one did not answer.

/// Pause before an address is dialled again, and the longest that it grows to by doubling, nanoseconds.
const REDIAL_NS: (u64, u64) = (50_000_000, 2_000_000_000);

/// An address that is dialled.
#[derive(Debug)]
struct Dial {
    address: String,
    /// When to dial next; `u64::MAX`: a connection is there, or under way.
    next_at: u64,
    pause_ns: u64,
    lease: u64,
    /// It is dialled now: what comes of that is said, whatever becomes of the link before it.
    is_under_way: bool,
}

impl Dial {
    fn try_later(&mut self, now: u64) {
        self.is_under_way = false;
        self.next_at = now + self.pause_ns;
        self.pause_ns = (self.pause_ns * 2).min(REDIAL_NS.1);
    }
}

/// The addresses that are dialled, by place.
#[derive(Debug)]
pub struct Dials(Vec<Dial>);

impl Dials {
    /// All are due at once.
    #[must_use]
    pub fn new(addresses: &[String]) -> Self {
        let entry = |address: &String| Dial {
            address: address.clone(),
            next_at: 0,
            pause_ns: REDIAL_NS.0,
            lease: 0,
            is_under_way: false,
        };
        Self(addresses.iter().map(entry).collect())
    }

    /// An address that is to be dialled now, and the lease to go on with; 0 is none. Each is given once.
    pub fn next_due(&mut self, now: u64) -> Option<(usize, u64)> {
        let place = self.0.iter().position(|dial| dial.next_at <= now)?;
        let dial = &mut self.0[place];
        dial.next_at = u64::MAX;
        dial.is_under_way = true;
        Some((place, dial.lease))
    }

    /// When the next one is due; `u64::MAX` is never.
    #[must_use]
    pub fn next_at(&self) -> u64 {
        self.0.iter().map(|dial| dial.next_at).min().unwrap_or(u64::MAX)
    }

    /// The address at a place.
    #[must_use]
    pub fn address(&self, place: usize) -> &str {
        &self.0[place].address
    }

    /// Nothing came of it: another time.
    pub fn try_later(&mut self, place: usize, now: u64) {
        self.0[place].try_later(now);
    }

    /// It was not known where an address leads, and now is.
    pub fn try_now(&mut self, place: usize, now: u64) {
        self.0[place].is_under_way = false;
        self.0[place].next_at = now;
    }

    /// There is a connection to the address at a place, if it is one of these.
    pub fn met(&mut self, place: Option<usize>) {
        if let Some(place) = place {
            self.0[place].is_under_way = false;
        }
    }

    /// Notes that the address at a place, if any, has given a lease: with it the address is dialled when the link breaks.
    pub fn keep(&mut self, place: Option<usize>, lease: u64) {
        if let Some(place) = place {
            self.0[place].lease = lease;
            self.0[place].pause_ns = REDIAL_NS.0;
        }
    }

    /// Dials the address again that gave a lease: at once to go on with it, later if it is over; once at a time, or what is
    /// dialled in vain would have a good connection replaced.
    pub fn redial(&mut self, lease: u64, is_over: bool, now: u64) {
        if let Some(dial) = self.0.iter_mut().find(|dial| dial.lease == lease) {
            if is_over {
                dial.lease = 0;
            }
            match (dial.is_under_way, is_over) {
                (true, _) => {}
                (false, true) => dial.try_later(now),
                (false, false) => dial.next_at = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One address that was dialled at 0 and has given lease 7.
    fn linked() -> Dials {
        let mut dials = Dials::new(&["there".to_owned()]);
        assert_eq!(dials.next_due(0), Some((0, 0)));
        dials.met(Some(0));
        dials.keep(Some(0), 7);
        assert_eq!(dials.next_at(), u64::MAX, "there is a connection");
        dials
    }

    #[test]
    fn a_lease_goes_on_at_once_and_another_one_comes_later() {
        let mut dials = linked();
        dials.redial(7, false, 10);
        assert_eq!(dials.next_due(10), Some((0, 7)));
        dials.met(Some(0));
        dials.redial(7, true, 20);
        assert_eq!(dials.next_due(20), None);
        assert_eq!(dials.next_due(20 + REDIAL_NS.0), Some((0, 0)));
    }

    #[test]
    fn an_address_is_dialled_once_at_a_time() {
        let mut dials = linked();
        dials.redial(7, false, 10);
        assert_eq!(dials.next_due(10), Some((0, 7)));
        dials.redial(7, true, 20);
        assert_eq!(dials.next_at(), u64::MAX, "it is under way, if for a lease that is over");
        dials.try_later(0, 30);
        assert_eq!(dials.next_due(30 + REDIAL_NS.0), Some((0, 0)));
    }
}
