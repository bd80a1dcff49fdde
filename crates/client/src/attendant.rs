//! The attendant: a thread that completes tasks when nobody else does and something would be left undone.
//!
//! It sleeps until told that there is something to do. Callers that submit or wait complete tasks as they go; only when
//! none has done so for a while does it take over. It stays until peers know that nothing more comes: the program may have
//! let go of the client, and nobody else would wait for that.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::client::Client;
use crate::inner::Inner;
use crate::lead::{HandOver, Leader};

/// How long callers may have neglected the rings before it takes over: longer than a caller's own work between two
/// submits, shorter than anyone notices.
const PATIENCE: Duration = Duration::from_micros(100);
/// While callers keep attending, its looks get rarer up to this.
const PATIENCE_MAX: Duration = Duration::from_millis(2);
/// The longest sleep on the bell: whatever was missed is found after it.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// How long the first request of a task may lie in its ring while no caller looks. After it, tasks that run are an
/// obligation by themselves; before it, a client without nested tasks need not pay for that.
const LISTEN: Duration = Duration::from_millis(20);

/// Runs until the client is over.
pub(crate) fn run(client: &Arc<Client>) {
    gristmill_sync::signals::block_all();
    while attend(client) {}
    let mut inner = client.lock();
    inner.lanes.homing.close();
    if let Some(taking) = &mut inner.lanes.taking {
        taking.close();
    }
}

/// One round: park, wait a while, or lead. False when the client is over.
fn attend(client: &Arc<Client>) -> bool {
    let mut inner = client.lock();
    if inner.is_over() {
        return false;
    }
    let listens = inner.listens_for_first_request();
    if listens && inner.lead.leader() == Leader::Nobody {
        inner.drain();
    }
    // Nobody told it anything if it still counts as parked.
    let is_left_out = inner.lead.leader() == Leader::Caller && inner.lead.is_parked();
    if !inner.has_obligations() || is_left_out {
        park(client, inner, listens);
        return true;
    }
    inner = be_patient(client, inner);
    if inner.lead.leader() == Leader::Caller {
        park(client, inner, listens);
        return true;
    }
    // Nothing that was submitted meanwhile is to leave over a connection that is known to be broken.
    inner.drain();
    while inner.has_obligations() && inner.lead.try_take(Leader::Attendant) {
        inner.spread();
        inner.unload_idle();
        inner = client.lead_once(inner, SLEEP_MAX).0;
        let has_obligations = inner.has_obligations();
        let next = inner.lead.give_up(has_obligations);
        client.pass_on(&mut inner, next);
        if inner.is_over() {
            return false;
        }
        if next == HandOver::Caller {
            // The caller that was woken leads from now on, and hears of its task by one wake-up less.
            break;
        }
    }
    true
}

/// Sleeps until it is told that something is to do.
fn park(client: &Client, mut inner: MutexGuard<'_, Inner>, listens: bool) {
    inner.unload_idle();
    inner.lead.park();
    inner.settle_arena();
    client.park_attendant(inner, if listens { LISTEN } else { SLEEP_MAX });
    client.arena().look();
}

/// Sleeps until no caller attends any more, or one has led for long without completing anything.
fn be_patient<'a>(client: &'a Client, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
    let mut patience = PATIENCE;
    loop {
        inner.lead.take_attended();
        drop(inner);
        std::thread::sleep(patience);
        inner = client.lock();
        let is_led = inner.lead.leader() == Leader::Caller && patience < PATIENCE_MAX;
        if !inner.lead.take_attended() && !is_led {
            return inner;
        }
        // Not parked even if nothing is to do at the moment, or a caller leads: whoever attends would have to wake it
        // again and again.
        patience = (patience * 2).min(PATIENCE_MAX);
    }
}
