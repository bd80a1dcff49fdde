//! What befalls a client and its peers, drawn.

use gristmill_wire::{Demand, WHOLE_GPU};
use proptest::prelude::*;

/// Peers that come and go.
pub const PEERS: u16 = 3;

#[derive(Debug, Clone)]
pub enum Event {
    Submit {
        parents: Vec<usize>,
        demand: Demand,
        budgets: (u16, u16),
        is_bulky: bool,
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
    /// A worker of some peer begins the first task that it can.
    Begin(usize),
    /// What runs somewhere ends.
    End {
        at: usize,
        how: How,
    },
    /// A peer gives something back of its own accord.
    GiveBack(usize),
    /// A peer does what it was asked to: to give back, not to start, to stop.
    Obey,
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
    let submit = (prop::collection::vec(some(), 0..3), demand(), (0u16..3, 0u16..3), any::<bool>());
    prop_oneof![
        6 => submit.prop_map(|(parents, demand, budgets, is_bulky)| {
            Event::Submit { parents, demand, budgets, is_bulky }
        }),
        2 => (some(), any::<bool>()).prop_map(|(task, stops)| Event::Cancel { task, stops }),
        2 => (peer(), 1u32..4).prop_map(|(peer, workers)| Event::Join { peer, workers }),
        1 => peer().prop_map(Event::Drain),
        1 => (peer(), any::<bool>()).prop_map(|(peer, is_full)| Event::Fill { peer, is_full }),
        1 => (peer(), 0usize..4).prop_map(|(peer, unsent)| Event::Lose { peer, unsent }),
        6 => some().prop_map(Event::Begin),
        6 => (some(), how).prop_map(|(at, how)| Event::End { at, how }),
        1 => some().prop_map(Event::GiveBack),
        3 => Just(Event::Obey),
        1 => (0u64..2_000_000).prop_map(Event::Pass),
    ]
}

/// Most tasks need a worker and nothing else.
fn demand() -> impl Strategy<Value = Demand> {
    let gpus = prop_oneof![Just(0), Just(400), Just(WHOLE_GPU)];
    let some = (0u16..3, gpus, 0u64..6);
    let some = some.prop_map(|(cores, gpus, memory)| Demand { cores, gpus, memory });
    prop_oneof![3 => Just(Demand::NONE), 1 => some]
}
