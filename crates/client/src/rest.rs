//! How whoever leads rests: where something is expected soon over links it looks for that, and is *hot* meanwhile; else it
//! sleeps.
//!
//! To be woken costs more than all that a small task is done to on its way to a node and back, since a core that went idle
//! comes back slowly. So who led lately for a short time only looks on before it sleeps (rFaaS, section 3.3: invocations
//! that find a poller are hot). It does not where workers have every core, or where results come in a stream, whose
//! wake-ups many of them share.

use std::time::{Duration, Instant};

use gristmill_shm::Bounds;
use gristmill_sync::futex::Woken;
use gristmill_transport::{Ready, Rest, Sleeper};

use crate::client::Client;
use crate::inner::{Inner, Shared};

/// What comes more rarely than twice in the longest of these is slept for: a wake-up is little beside it.
pub(crate) const LOOKS: Bounds =
    Bounds { shortest: Duration::ZERO, longest: Duration::from_micros(500) };
/// With more in flight results come in a stream.
const STREAM: u64 = 8;
/// Two looks are further apart than this only where something else ran between them.
const TAKEN: Duration = Duration::from_micros(20);

impl Inner {
    /// For how long links are looked at before the next sleep; zero where there are none.
    pub fn look_length(&self, cores: usize) -> Duration {
        let has_room = || self.core.load().busy < cores && self.core.in_flight() <= STREAM;
        let looks = self.lanes.links.is_used() && has_room();
        if looks { self.gaps.window() } else { Duration::ZERO }
    }
}

impl Client {
    /// Rests on the bell, and on links where there may be some: which have something is in the place of what `ready` held.
    /// These are looked at for `window` first.
    pub(crate) fn rest(
        &self,
        (left, window): (Duration, Duration),
        mut still_empty: impl FnMut() -> bool,
        ready: &mut Vec<Ready>,
    ) -> Woken {
        let Shared { segment, mode, sleeper, .. } = self.shared();
        let Some(sleeper) = sleeper else {
            return segment.client_bell().sleep(*mode, still_empty, Some(left));
        };
        look(sleeper, window.min(left), &mut still_empty);
        // Level-triggered: what is there already ends the sleep at once.
        let sleep = |left| sleeper.sleep(ready, left);
        match segment.client_bell().sleep_elsewhere(*mode, still_empty, Some(left), sleep) {
            None => Woken::Changed,
            Some(Ok(Rest::Interrupted)) => Woken::Interrupted,
            Some(Ok(Rest::TimedOut)) => Woken::TimedOut,
            Some(Ok(_) | Err(_)) => Woken::Notified,
        }
    }
}

/// Looks until something is there, the time is over, or something else had this core for a while, which needs it more.
fn look(sleeper: &Sleeper, window: Duration, mut still_empty: impl FnMut() -> bool) {
    let (begun, mut last) = (Instant::now(), Duration::ZERO);
    while last < window && still_empty() && !sleeper.is_called() && !sleeper.is_ready() {
        let now = begun.elapsed();
        if now - last > TAKEN {
            return;
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any test may take: it hangs if nothing ends the look.
    const FOR_EVER: Duration = Duration::MAX;

    #[test]
    fn a_look_ends_with_what_is_there_already() {
        let sleeper = Sleeper::new().expect("descriptors");
        look(&sleeper, FOR_EVER, || false);
        sleeper.waker().wake();
        look(&sleeper, FOR_EVER, || true);
        sleeper.forget_calls();
        let (one, other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        sleeper.watch(&one, 0, gristmill_transport::Interest::Readable).expect("a socket");
        drop(other);
        look(&sleeper, FOR_EVER, || true);
    }

    #[test]
    fn a_look_ends_with_its_window_or_where_its_core_was_taken() {
        let sleeper = Sleeper::new().expect("descriptors");
        let mut looks = 0;
        look(&sleeper, Duration::ZERO, || panic!("there is no time to look"));
        look(&sleeper, Duration::from_micros(1), || {
            looks += 1;
            true
        });
        assert!(looks > 0);
        look(&sleeper, FOR_EVER, || {
            std::thread::sleep(TAKEN);
            true
        });
    }
}
