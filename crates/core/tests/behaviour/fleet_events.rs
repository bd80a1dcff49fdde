//! Random events of a client and its peers.

use gristmill_wire::{ResourceRequest, WHOLE_GPU};
use proptest::prelude::*;

/// Number of peers that come and go.
pub const PEERS: u16 = 3;

#[derive(Debug, Clone)]
pub enum Event {
    Submit {
        parents: Vec<usize>,
        demand: ResourceRequest,
        /// Context of the task; 0 is none.
        context: u32,
        budgets: (u16, u16),
        is_bulky: bool,
        priority: i32,
    },
    Cancel {
        task: usize,
        stops: bool,
    },
    Join {
        peer: u16,
        workers: u32,
    },
    Drain(u16),
    Fill {
        peer: u16,
        is_full: bool,
    },
    Lose {
        peer: u16,
        unsent: usize,
    },
    /// A worker of a peer begins the first task that it can run.
    Begin(usize),
    /// A running task ends.
    End {
        at: usize,
        how: How,
    },
    /// A peer returns a task of its own accord.
    GiveBack(usize),
    /// A peer reports, truly or not, that workers idle because of its floor.
    Vacant {
        peer: u16,
        context: u32,
        count: u32,
    },
    /// A peer carries out a request: to return a task, not to start it, or to stop it.
    AnswerRequests,
    Pass(u64),
}

#[derive(Debug, Clone, Copy)]
pub enum How {
    Returned,
    Raised,
    Died,
}

pub fn event() -> impl Strategy<Value = Event> {
    let peer = || 0..PEERS;
    let some = || 0usize..64;
    let how = prop_oneof![4 => Just(How::Returned), 1 => Just(How::Raised), 1 => Just(How::Died)];
    let parents = prop::collection::vec(some(), 0..3);
    let priority = prop_oneof![3 => Just(0), 1 => -1i32..3];
    let submit = (parents, demand(), (0u16..3, 0u16..3), any::<bool>(), priority);
    prop_oneof![
        6 => submit.prop_map(|(parents, (demand, context), budgets, is_bulky, priority)| {
            Event::Submit { parents, demand, context, budgets, is_bulky, priority }
        }),
        1 => (peer(), 0u32..3, 1u32..4)
            .prop_map(|(peer, context, count)| Event::Vacant { peer, context, count }),
        2 => (some(), any::<bool>()).prop_map(|(task, stops)| Event::Cancel { task, stops }),
        2 => (peer(), 1u32..4).prop_map(|(peer, workers)| Event::Join { peer, workers }),
        1 => peer().prop_map(Event::Drain),
        1 => (peer(), any::<bool>()).prop_map(|(peer, is_full)| Event::Fill { peer, is_full }),
        1 => (peer(), 0usize..4).prop_map(|(peer, unsent)| Event::Lose { peer, unsent }),
        6 => some().prop_map(Event::Begin),
        6 => (some(), how).prop_map(|(at, how)| Event::End { at, how }),
        1 => some().prop_map(Event::GiveBack),
        3 => Just(Event::AnswerRequests),
        1 => (0u64..2_000_000).prop_map(Event::Pass),
    ]
}

/// Generates demands. Most tasks need a worker and no other resource; those in contexts need no more than these do.
fn demand() -> impl Strategy<Value = (ResourceRequest, u32)> {
    let gpus = prop_oneof![Just(0), Just(400), Just(WHOLE_GPU)];
    let some = (0u16..3, gpus, 0u64..6);
    let some = some.prop_map(|(cores, gpus, memory)| ResourceRequest { cores, gpus, memory });
    prop_oneof![
        3 => Just((ResourceRequest::NONE, 0)),
        2 => (1u32..3).prop_map(|context| (ResourceRequest::NONE, context)),
        1 => some.prop_map(|demand| (demand, 0)),
    ]
}
