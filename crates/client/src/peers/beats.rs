//! Signs of life: what is known of the other end by its beats, and when it counts as lost.

use gristmill_wire::peer::Beat;

/// Clocks of two machines, and the counters of cores, differ by less than this part of a time.
const DRIFT_SHARE: u64 = 100;

/// How often to beat, and how long silence may last. Times are monotonic nanoseconds of this side.
#[derive(Debug, Clone, Copy)]
pub struct Pulse {
    beat_ns: u64,
    expiry_ns: u64,
    /// When something came last.
    pub heard_at: u64,
    /// When the newest beat was sent that the other end has heard for sure.
    proven_at: u64,
    sent_at: u64,
    /// Since when there is a link.
    pub since_ns: u64,
    /// The other end's last beat.
    pub last: Beat,
    /// The other end's time in its last beat, and when that came.
    echo: (u64, u64),
    /// From a beat to its echo; the best one counts, others waited somewhere.
    pub round_trip_ns: u64,
    /// The other end's clock less this one's.
    offset_ns: i128,
}

impl Pulse {
    pub fn new(beat_ns: u64, expiry_ns: u64, now: u64) -> Self {
        Self {
            beat_ns,
            expiry_ns,
            heard_at: now,
            proven_at: now,
            sent_at: 0,
            since_ns: now,
            last: Beat::default(),
            echo: (0, 0),
            round_trip_ns: u64::MAX,
            offset_ns: 0,
        }
    }

    /// The beat to be sent now, if one is due.
    pub fn due(&mut self, now: u64) -> Option<Beat> {
        (now >= self.next_beat()).then(|| self.beat(now))
    }

    /// The beat to be sent now.
    pub fn beat(&mut self, now: u64) -> Beat {
        self.sent_at = now;
        let (echo_ns, came_at) = self.echo;
        Beat { sent_ns: now, echo_ns, held_ns: now - came_at, ..Beat::default() }
    }

    /// When the next beat is due.
    pub const fn next_beat(&self) -> u64 {
        if self.sent_at == 0 { 0 } else { self.sent_at.saturating_add(self.beat_ns) }
    }

    /// When silence has lasted too long.
    pub const fn expires_at(&self) -> u64 {
        self.heard_at.saturating_add(self.expiry_ns)
    }

    /// Until when the other end does not give this one up, whatever becomes of the connection: its silence began after it
    /// had sent an echo, which may be long before this side noticed.
    pub const fn proven_until(&self) -> u64 {
        self.proven_at.saturating_add(self.expiry_ns - self.expiry_ns / DRIFT_SHARE)
    }

    /// The longest silence allowed, seconds, for messages.
    #[expect(clippy::cast_precision_loss, reason = "for humans")]
    pub fn expiry_s(&self) -> f64 {
        self.expiry_ns as f64 / 1e9
    }

    /// Takes in a beat that came at `now`.
    pub fn take(&mut self, beat: &Beat, now: u64) {
        self.echo = (beat.sent_ns, now);
        self.last = *beat;
        if beat.echo_ns == 0 {
            return;
        }
        self.proven_at = self.proven_at.max(beat.echo_ns.min(now));
        let round_trip = now.saturating_sub(beat.echo_ns).saturating_sub(beat.held_ns);
        if round_trip <= self.round_trip_ns {
            self.round_trip_ns = round_trip;
            self.offset_ns =
                i128::from(beat.sent_ns) + i128::from(round_trip / 2) - i128::from(now);
        }
    }

    /// A time of the other end's clock, in this side's.
    pub fn own_ns(&self, peer_ns: u64) -> u64 {
        u64::try_from(i128::from(peer_ns) - self.offset_ns).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_that_do_not_agree_are_told_apart_by_an_echo() {
        let (mut here, mut there) = (Pulse::new(10, 100, 1), Pulse::new(10, 100, 1_000_001));
        let first = here.due(1_000).expect("the first beat is due at once");
        there.take(&first, 2_000_050);
        let second = there.due(2_000_080).expect("due");
        here.take(&second, 1_130);
        assert_eq!(here.round_trip_ns, 100);
        assert_eq!(here.own_ns(2_000_080), 1_080);
    }

    #[test]
    fn what_is_proven_ends_before_the_other_end_gives_up() {
        let (mut lease, mut client) = (Pulse::new(100, 1_000, 0), Pulse::new(100, 1_000, 0));
        assert_eq!(lease.proven_until(), 990);
        let beat = lease.due(300).expect("due");
        client.take(&beat, 340);
        client.heard_at = 340;
        // What the lease says from now on is lost, and the client goes on talking.
        for now in [350, 550, 750] {
            lease.take(&client.beat(now), now + 40);
            lease.heard_at = now + 40;
        }
        assert_eq!(lease.proven_until(), 300 + 990);
        assert!(
            lease.proven_until() < client.expires_at() && client.expires_at() < lease.expires_at()
        );
        let liar = Beat { sent_ns: 1, echo_ns: u64::MAX, ..Beat::default() };
        lease.take(&liar, 800);
        assert_eq!(lease.proven_until(), 800 + 990, "nobody has heard what was not said yet");
    }

    #[test]
    fn a_beat_is_due_once_in_its_time_and_silence_ends_it() {
        let mut pulse = Pulse::new(10, 100, 5);
        assert!(pulse.due(5).is_some() && pulse.due(14).is_none() && pulse.due(15).is_some());
        assert_eq!(pulse.expires_at(), 105);
    }
}
