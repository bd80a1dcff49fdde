//! The sleep of a leader: if it expects an arrival over links soon, it polls the links and stays *hot*; otherwise it sleeps.
//!
//! A wake-up costs more than all the work on a small task on its way to a node and back, because a core that went idle comes
//! back slowly. So if its recent waits were short, a leader polls before it sleeps. It does not poll if workers use every core,
//! or if results come in a stream, where many results share a wake-up. Source: rFaaS, section 3.3 (invocations that find a
//! poller are hot).

use std::time::{Duration, Instant};

use gristmill_shm::Bounds;
use gristmill_sync::futex::Woken;
use gristmill_transport::{Ready, Sleeper, WakeReason};

use crate::client::Client;
use crate::inner::{Inner, LockFreeState};

/// Bounds of the polling time. If arrivals come less often than twice in the longest time, the leader sleeps: a wake-up costs
/// little compared with the wait.
pub(crate) const LOOKS: Bounds =
    Bounds { shortest: Duration::ZERO, longest: Duration::from_micros(500) };
/// Number of tasks in flight above which results come in a stream.
const STREAM: u64 = 8;
/// Time between two looks that is exceeded only if other code ran on this core between them.
const TAKEN: Duration = Duration::from_micros(20);

impl Inner {
    /// Returns the time to poll links before the next sleep; zero if there are none.
    pub fn look_length(&self, cores: usize) -> Duration {
        let has_room = || self.core.load().busy < cores && self.core.in_flight() <= STREAM;
        let looks = self.port.links.is_used() && has_room();
        if looks { self.gaps.window() } else { Duration::ZERO }
    }
}

impl Client {
    /// Sleeps on the bell, and on links if there may be some, after a look at the links for `window`. Replaces the content of
    /// `ready` by the links that are ready.
    pub(crate) fn sleep_as_leader(
        &self,
        (left, window): (Duration, Duration),
        mut still_empty: impl FnMut() -> bool,
        ready: &mut Vec<Ready>,
    ) -> Woken {
        let LockFreeState { segment, mode, sleeper, .. } = self.shared();
        let Some(sleeper) = sleeper else {
            return segment.client_bell().sleep(*mode, still_empty, Some(left));
        };
        look(sleeper, window.min(left), &mut still_empty);
        // The sleep is level-triggered: a link that is ready already ends it at once.
        let sleep = |left| sleeper.sleep(ready, left);
        match segment.client_bell().sleep_elsewhere(*mode, still_empty, Some(left), sleep) {
            None => Woken::Changed,
            Some(Ok(WakeReason::Interrupted)) => Woken::Interrupted,
            Some(Ok(WakeReason::TimedOut)) => Woken::TimedOut,
            Some(Ok(_) | Err(_)) => Woken::Notified,
        }
    }
}

/// Polls until something has arrived, the time is over, or other code had this core for a while and needs it more.
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

    /// A time longer than any test may take: the test hangs if nothing ends the look.
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
