//! The plan against nodes that die, refuse, lie and forget.

use std::collections::BTreeMap;

use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest, PeerId};
use proptest::prelude::*;

use super::{Giver, Node, Spread, SpreadOptions, Step, Topology};

const SIZE: u64 = 4;
const NAME: BlobName = BlobName { digest: Digest([1; 32]), size: SIZE };

fn spread(fanout: u32, topology: Topology) -> Spread {
    let mut spread = Spread::new(SpreadOptions { fanout, topology });
    spread.hold(NAME);
    spread
}

fn need(spread: &mut Spread, node: u16) {
    spread.need(PeerId(node), NAME, 0, Shortfall::None);
}

fn givers(spread: &mut Spread) -> Vec<(u16, Option<u16>)> {
    let giver = |step| match step {
        Step::Give { node, .. } => (node.0, None),
        Step::Fetch { node, giver, .. } => (node.0, Some(giver.0)),
        other => panic!("no giver: {other:?}"),
    };
    spread.take_steps().into_iter().map(giver).collect()
}

#[test]
fn peers_make_a_tree_below_the_client() {
    let mut spread = spread(2, Topology::Peers);
    for node in 0..6 {
        spread.join(PeerId(node), Node::default());
        need(&mut spread, node);
    }
    let expected = [(0, None), (1, None), (2, Some(0)), (3, Some(0)), (4, Some(1)), (5, Some(1))];
    assert_eq!(givers(&mut spread), expected);
}

#[test]
fn who_has_all_of_it_is_asked_before_the_client() {
    let mut spread = spread(2, Topology::Peers);
    spread.join(PeerId(0), Node::default());
    need(&mut spread, 0);
    assert_eq!(spread.have(PeerId(0), NAME.digest), Some(Giver::Client));
    spread.join(PeerId(1), Node::default());
    need(&mut spread, 1);
    assert_eq!(givers(&mut spread), [(0, None), (1, Some(0))]);
}

#[test]
fn who_has_made_it_gives_it() {
    let mut spread = spread(2, Topology::Peers);
    spread.join(PeerId(0), Node { is_mute: true, ..Node::default() });
    spread.join(PeerId(1), Node::default());
    spread.made(PeerId(0), NAME.digest);
    need(&mut spread, 1);
    assert_eq!(givers(&mut spread), [(1, None)], "nobody knows where");
    spread.open(PeerId(0));
    spread.join(PeerId(2), Node::default());
    spread.made(PeerId(7), NAME.digest);
    need(&mut spread, 2);
    assert_eq!(givers(&mut spread), [(2, Some(0))]);
}

#[test]
fn the_client_gives_no_more_copies_than_it_has_to() {
    let mut spread = spread(1, Topology::Peers);
    for node in 0..3 {
        spread.join(PeerId(node), Node::default());
    }
    need(&mut spread, 0);
    need(&mut spread, 1);
    let _ = spread.have(PeerId(0), NAME.digest);
    // The first one gives to the second one, who can give it on; the client has nothing to do.
    need(&mut spread, 2);
    assert_eq!(givers(&mut spread), [(0, None), (1, Some(0)), (2, Some(1))]);
}

#[test]
fn those_that_have_it_or_are_getting_it_are_known_from_any_one_on() {
    let mut spread = spread(1, Topology::Peers);
    for node in 0..6 {
        spread.join(PeerId(node), Node::default());
    }
    [1, 3, 4].into_iter().for_each(|node| need(&mut spread, node));
    let _ = spread.have(PeerId(1), NAME.digest);
    let holders = |spread: &Spread, near| -> Vec<u16> {
        spread.holders(NAME.digest, PeerId(near)).map(|node| node.0).collect()
    };
    assert_eq!(holders(&spread, 3), [3, 4, 1]);
    assert_eq!(holders(&spread, 2), [3, 4, 1]);
    assert_eq!(holders(&spread, 0), [1, 3, 4]);
    spread.dropped(PeerId(1), NAME.digest);
    assert_eq!(holders(&spread, 5), [3, 4]);
}

#[test]
fn only_the_client_gives_if_that_is_wanted() {
    let mut spread = spread(2, Topology::Client);
    for node in 0..4 {
        spread.join(PeerId(node), Node::default());
        need(&mut spread, node);
    }
    assert_eq!(givers(&mut spread), [(0, None), (1, None)]);
    let _ = spread.have(PeerId(1), NAME.digest);
    assert_eq!(givers(&mut spread), [(2, None)]);
}

#[test]
fn a_group_gets_it_once_from_elsewhere() {
    let mut spread = spread(2, Topology::Groups);
    for node in 0..6 {
        let group = Some(if node < 3 { "a" } else { "b" }.to_owned());
        spread.join(PeerId(node), Node { group, ..Node::default() });
        need(&mut spread, node);
    }
    let expected = [(0, None), (1, Some(0)), (2, Some(0)), (3, None), (4, Some(3)), (5, Some(3))];
    assert_eq!(givers(&mut spread), expected);
    spread.leave(PeerId(0));
    let asked = [1, 2].map(|node| Step::Ask { node: PeerId(node), name: NAME });
    assert_eq!(spread.take_steps(), asked);
    spread.need(PeerId(1), NAME, 2, Shortfall::None);
    spread.need(PeerId(2), NAME, 1, Shortfall::None);
    let give = Step::Give { node: PeerId(1), digest: NAME.digest, offset: 2 };
    let fetch = Step::Fetch { node: PeerId(2), name: NAME, giver: PeerId(1) };
    assert_eq!(spread.take_steps(), [give, fetch]);
}

#[test]
fn nobody_asks_whom_he_cannot_reach() {
    let mut spread = spread(1, Topology::Peers);
    spread.join(PeerId(0), Node { is_local: true, ..Node::default() });
    spread.join(PeerId(1), Node::default());
    need(&mut spread, 0);
    need(&mut spread, 1);
    assert_eq!(givers(&mut spread), [(0, None)]);
    let _ = spread.have(PeerId(0), NAME.digest);
    assert_eq!(givers(&mut spread), [(1, None)]);
}

#[test]
fn wrong_bytes_of_a_node_come_from_the_client_and_those_of_the_client_are_refused() {
    let mut spread = spread(1, Topology::Peers);
    for node in 0..2 {
        spread.join(PeerId(node), Node::default());
        need(&mut spread, node);
    }
    let _ = spread.have(PeerId(0), NAME.digest);
    assert_eq!(givers(&mut spread), [(0, None), (1, Some(0))]);
    spread.need(PeerId(1), NAME, 0, Shortfall::Wrong);
    assert_eq!(givers(&mut spread), [(1, None)]);
    spread.need(PeerId(1), NAME, 0, Shortfall::Wrong);
    let refuse = Step::Refuse { node: PeerId(1), name: NAME };
    assert_eq!(spread.take_steps(), [refuse]);
}

#[test]
fn who_waits_for_what_no_task_needs_is_dismissed() {
    let mut spread = spread(1, Topology::Client);
    for node in 0..3 {
        spread.join(PeerId(node), Node::default());
    }
    need(&mut spread, 0);
    need(&mut spread, 1);
    assert_eq!(givers(&mut spread), [(0, None)]);
    spread.release(NAME.digest);
    need(&mut spread, 2);
    let dismissed = [1, 2].map(|node| Step::Dismiss { node: PeerId(node), name: NAME });
    assert_eq!(spread.take_steps(), dismissed);
    spread.audit();
    assert_eq!(spread.have(PeerId(0), NAME.digest), Some(Giver::Client), "that goes on");
    spread.hold(NAME);
    need(&mut spread, 1);
    assert_eq!(givers(&mut spread), [(1, None)]);
}

/// What a node does at a step of a random program.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// It gets some bytes, if its giver has them.
    Advance,
    /// It comes to need the blob, if it does not have it.
    Need,
    /// Its giver refuses.
    Fail,
    /// What it got turns out to be wrong.
    Find,
    /// It forgets the blob, if it has it.
    Drop,
    /// Its own task makes the blob.
    Make,
    /// It dies, and another one takes its place.
    Die,
    /// The client lets go of the blob.
    LetGo,
}

/// A node that needs the blob or has it.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    received: u64,
    giver: Option<Giver>,
    /// Some of its bytes came from a node.
    is_mixed: bool,
}

/// Nodes as they are, beside the plan.
struct Model {
    spread: Spread,
    nodes: BTreeMap<u16, Place>,
    /// The client has it.
    is_held: bool,
}

impl Model {
    fn obey(&mut self) {
        for step in self.spread.take_steps() {
            match step {
                Step::Give { node, offset, .. } => {
                    assert!(self.is_held, "it has it");
                    let place = self.nodes.get_mut(&node.0).expect("it asked");
                    assert_eq!(place.received, offset, "it goes on where it was");
                    place.giver = Some(Giver::Client);
                }
                Step::Fetch { node, giver, .. } => {
                    let place = self.nodes.get_mut(&node.0).expect("it asked");
                    place.giver = Some(Giver::Node(giver));
                }
                Step::Ask { node, .. } => self.ask(node.0, Shortfall::None),
                Step::Bring { .. } => {
                    assert!(!self.is_held, "it does not have it");
                    // Where nobody has it any more it is made anew.
                    self.is_held = true;
                    self.spread.hold(NAME);
                    self.obey();
                }
                Step::Dismiss { .. } => panic!("it is needed all the time"),
                Step::Refuse { .. } => panic!("the client gives what it has named"),
            }
        }
        self.spread.audit();
    }

    fn ask(&mut self, node: u16, shortfall: Shortfall) {
        let place = self.nodes.entry(node).or_default();
        place.giver = None;
        self.spread.need(PeerId(node), NAME, place.received, shortfall);
        self.obey();
    }

    fn has(&self, giver: Giver) -> u64 {
        match giver {
            Giver::Client if self.is_held => SIZE,
            Giver::Client => 0,
            Giver::Node(node) => self.nodes.get(&node.0).map_or(0, |place| place.received),
        }
    }

    fn advance(&mut self, node: u16) {
        let Some(place) = self.nodes.get(&node).copied() else { return };
        let Some(giver) = place.giver.filter(|&giver| self.has(giver) > place.received) else {
            return;
        };
        let next = self.nodes.get_mut(&node).expect("just looked up");
        next.received += 1;
        next.is_mixed |= giver != Giver::Client;
        if next.received == SIZE {
            next.giver = None;
            assert_eq!(self.spread.have(PeerId(node), NAME.digest), Some(giver));
            self.obey();
        }
    }

    fn act(&mut self, node: u16, act: Act, about: &Node) {
        let place = self.nodes.get(&node).copied();
        match (act, place) {
            (Act::Advance, _) => self.advance(node),
            (Act::Need, None) => self.ask(node, Shortfall::None),
            (Act::Fail, Some(Place { giver: Some(Giver::Node(_)), .. })) => {
                self.ask(node, Shortfall::Gone);
            }
            (Act::Find, Some(Place { giver: Some(_), is_mixed: true, .. })) => {
                self.nodes.insert(node, Place::default());
                self.ask(node, Shortfall::Wrong);
            }
            (Act::Drop, Some(Place { received: SIZE, .. })) => {
                self.nodes.remove(&node);
                self.spread.dropped(PeerId(node), NAME.digest);
                self.obey();
            }
            (Act::Make, _) => {
                self.nodes.insert(node, Place { received: SIZE, giver: None, is_mixed: false });
                self.spread.made(PeerId(node), NAME.digest);
                self.obey();
            }
            (Act::LetGo, _) => {
                // What it gives goes on.
                let gives = self.nodes.values().any(|place| place.giver == Some(Giver::Client));
                if self.is_held && !gives {
                    self.is_held = false;
                    self.spread.let_go(NAME.digest);
                    self.obey();
                }
            }
            (Act::Die, _) => {
                self.nodes.remove(&node);
                self.spread.leave(PeerId(node));
                self.obey();
                self.spread.join(PeerId(node), about.clone());
            }
            _ => {}
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => Just(Act::Advance),
        4 => Just(Act::Need),
        1 => Just(Act::Fail),
        1 => Just(Act::Find),
        1 => Just(Act::Drop),
        1 => Just(Act::Make),
        1 => Just(Act::LetGo),
        1 => Just(Act::Die),
    ]
}

proptest! {
    #[test]
    fn whoever_needs_it_gets_it(
        fanout in 1_u32..4,
        topology in prop_oneof![
            Just(Topology::Client), Just(Topology::Peers), Just(Topology::Groups),
        ],
        abouts in proptest::collection::vec((0_u8..4, proptest::bool::weighted(0.2)), 2..9),
        program in proptest::collection::vec((any::<proptest::sample::Index>(), act()), 0..200),
    ) {
        let about = |(group, is_local): &(u8, bool)| {
            let group = (*group > 0).then(|| group.to_string());
            Node { group, is_local: *is_local, ..Node::default() }
        };
        let abouts: Vec<Node> = abouts.iter().map(about).collect();
        let mut model = Model { spread: spread(fanout, topology), nodes: BTreeMap::new(), is_held: true };
        for (node, about) in (0..).zip(&abouts) {
            model.spread.join(PeerId(node), about.clone());
        }
        for (node, act) in program {
            let node = node.index(abouts.len());
            model.act(u16::try_from(node).expect("few nodes"), act, &abouts[node]);
        }
        // Nothing fails any more: a round a byte and a level is more than enough.
        for _ in 0..=SIZE * 10 {
            for node in 0..u16::try_from(abouts.len()).expect("few nodes") {
                model.advance(node);
            }
        }
        let is_there = model.nodes.values().all(|place| place.received == SIZE);
        prop_assert!(is_there, "{:?}", model.nodes);
    }
}
