//! Heartbeats: the state that the other end reports in them, and the time when the other end counts as lost.

use gristmill_wire::peer::Heartbeat;

/// Bound on the drift of clocks: those of two machines, or the counters of two cores, drift by less than `1 / DRIFT_SHARE` of
/// a duration.
const DRIFT_SHARE: u64 = 100;

/// Liveness of a link, and the offset of the other end's clock. Times are monotonic nanoseconds of this side.
#[derive(Debug, Clone, Copy)]
pub struct LinkLiveness {
    beat_ns: u64,
    expiry_ns: u64,
    /// Time when something came last.
    pub heard_at: u64,
    /// Time when this side sent the newest heartbeat that the other end has certainly received.
    proven_at: u64,
    /// Time when this side sent the last heartbeat; 0 before the first, which is due at once.
    sent_at: u64,
    /// Time when the link was made.
    pub since_ns: u64,
    /// The other end's last heartbeat.
    pub last: Heartbeat,
    /// The other end's time in its last heartbeat, and the time when that heartbeat came.
    echo: (u64, u64),
    /// Shortest measured time from a heartbeat to its echo, without the time that the other end held it; `u64::MAX` before the
    /// first. Longer ones waited somewhere.
    pub round_trip_ns: u64,
    /// The other end's clock minus this side's.
    offset_ns: i128,
}

impl LinkLiveness {
    pub fn new(beat_ns: u64, expiry_ns: u64, now: u64) -> Self {
        Self {
            beat_ns,
            expiry_ns,
            heard_at: now,
            proven_at: now,
            sent_at: 0,
            since_ns: now,
            last: Heartbeat::default(),
            echo: (0, 0),
            round_trip_ns: u64::MAX,
            offset_ns: 0,
        }
    }

    /// Returns the heartbeat to send now, if one is due.
    pub fn due(&mut self, now: u64) -> Option<Heartbeat> {
        (now >= self.next_beat()).then(|| self.beat(now))
    }

    /// Returns a heartbeat to send now, due or not.
    pub fn beat(&mut self, now: u64) -> Heartbeat {
        self.sent_at = now;
        let (echo_ns, came_at) = self.echo;
        Heartbeat { sent_ns: now, echo_ns, held_ns: now - came_at, ..Heartbeat::default() }
    }

    /// Returns the time when the next heartbeat is due.
    pub const fn next_beat(&self) -> u64 {
        if self.sent_at == 0 { 0 } else { self.sent_at.saturating_add(self.beat_ns) }
    }

    /// Returns the time when the silence has lasted too long.
    pub const fn expires_at(&self) -> u64 {
        self.heard_at.saturating_add(self.expiry_ns)
    }

    /// Returns the time until which the other end does not give this side up, even if the connection breaks. The other end has
    /// heard this side after `proven_at`, and counts its silence from then at the earliest; this side may notice a broken
    /// connection only long afterwards.
    pub const fn proven_until(&self) -> u64 {
        self.proven_at.saturating_add(self.expiry_ns - self.expiry_ns / DRIFT_SHARE)
    }

    /// Returns the longest silence allowed, in seconds, for messages.
    #[expect(clippy::cast_precision_loss, reason = "for humans")]
    pub fn expiry_s(&self) -> f64 {
        self.expiry_ns as f64 / 1e9
    }

    /// Processes a heartbeat that came at `now`.
    pub fn take(&mut self, beat: &Heartbeat, now: u64) {
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

    /// Converts a time of the other end's clock to this side's clock.
    pub fn own_ns(&self, peer_ns: u64) -> u64 {
        u64::try_from(i128::from(peer_ns) - self.offset_ns).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_that_do_not_agree_are_told_apart_by_an_echo() {
        let (mut here, mut there) =
            (LinkLiveness::new(10, 100, 1), LinkLiveness::new(10, 100, 1_000_001));
        let first = here.due(1_000).expect("the first heartbeat is due at once");
        there.take(&first, 2_000_050);
        let second = there.due(2_000_080).expect("due");
        here.take(&second, 1_130);
        assert_eq!(here.round_trip_ns, 100);
        assert_eq!(here.own_ns(2_000_080), 1_080);
    }

    #[test]
    fn what_is_proven_ends_before_the_other_end_gives_up() {
        let (mut lease, mut client) =
            (LinkLiveness::new(100, 1_000, 0), LinkLiveness::new(100, 1_000, 0));
        assert_eq!(lease.proven_until(), 990);
        let beat = lease.due(300).expect("due");
        client.take(&beat, 340);
        client.heard_at = 340;
        // From now on the lease's messages are lost, and the client's still arrive.
        for now in [350, 550, 750] {
            lease.take(&client.beat(now), now + 40);
            lease.heard_at = now + 40;
        }
        assert_eq!(lease.proven_until(), 300 + 990);
        assert!(
            lease.proven_until() < client.expires_at() && client.expires_at() < lease.expires_at()
        );
        let liar = Heartbeat { sent_ns: 1, echo_ns: u64::MAX, ..Heartbeat::default() };
        lease.take(&liar, 800);
        assert_eq!(lease.proven_until(), 800 + 990, "the peer has not heard an unsent heartbeat");
    }

    #[test]
    fn a_beat_is_due_once_in_its_time_and_silence_ends_it() {
        let mut pulse = LinkLiveness::new(10, 100, 5);
        assert!(pulse.due(5).is_some() && pulse.due(14).is_none() && pulse.due(15).is_some());
        assert_eq!(pulse.expires_at(), 105);
    }
}
