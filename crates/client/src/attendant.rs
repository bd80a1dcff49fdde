//! The attendant: a thread that completes tasks when no caller does and work would be left undone.
//!
//! It sleeps until a caller wakes it for work. Callers that submit or wait complete tasks in passing; the attendant takes over
//! only when no caller has done so for a while. It runs until peers know that nothing more comes: the program may have let go
//! of the client, and no other thread would wait for that.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::client::Client;
use crate::inner::Inner;
use gristmill_lead::{HandOver, Leader};

/// Time without a look at the rings by any caller after which the attendant takes over: longer than a caller's own work between
/// two submits, shorter than a user notices.
const PATIENCE: Duration = Duration::from_micros(100);
/// Upper limit of the attendant's interval between two looks, which doubles while callers keep completing tasks.
const PATIENCE_MAX: Duration = Duration::from_millis(2);
/// The longest sleep on the bell: a missed wake-up is found after it.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Time that the first request of a task may lie in its ring while no caller looks. After the first request, running tasks are
/// an obligation by themselves; before it, a client without nested tasks need not pay for that.
const LISTEN: Duration = Duration::from_millis(20);

/// Runs until the client is over.
pub(crate) fn run(client: &Arc<Client>) {
    gristmill_sync::signals::block_all();
    while attend(client) {}
    let mut inner = client.lock();
    inner.port.inbound_results.close();
    if let Some(receiver) = &mut inner.port.receiver {
        receiver.close();
    }
}

/// Runs one round: parks, waits a while, or leads. Returns false when the client is over.
fn attend(client: &Arc<Client>) -> bool {
    let mut inner = client.lock();
    if inner.is_over() {
        return false;
    }
    let listens = inner.listens_for_first_request();
    if listens && inner.lead.leader() == Leader::Absent {
        inner.drain();
    }
    // If the attendant still counts as parked, no thread has woken it.
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
    // Tasks submitted in the meantime must not leave over a connection that is known to be broken.
    inner.drain();
    while inner.has_obligations() && inner.lead.try_take(Leader::Attendant) {
        inner.spread(false);
        inner.unload_idle();
        inner = client.lead_once(inner, SLEEP_MAX).0;
        let has_obligations = inner.has_obligations();
        let next = inner.lead.give_up(has_obligations);
        client.pass_on(&mut inner, next);
        if inner.is_over() {
            return false;
        }
        if next == HandOver::Caller {
            // The woken caller leads from now on, and learns of its task with one wake-up less.
            break;
        }
    }
    true
}

/// Sleeps until the attendant is woken for work.
fn park(client: &Client, mut inner: MutexGuard<'_, Inner>, listens: bool) {
    inner.unload_idle();
    inner.lead.park();
    inner.settle_arena();
    client.park_attendant(inner, if listens { LISTEN } else { SLEEP_MAX });
    client.arena().look();
}

/// Sleeps until no caller completes tasks any more, or a caller has led for long and completed nothing.
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
        // The attendant does not park, even without work or while a caller leads: callers would wake it again and again.
        patience = (patience * 2).min(PATIENCE_MAX);
    }
}
