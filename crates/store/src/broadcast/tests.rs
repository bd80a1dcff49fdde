//! Tests of the plan against nodes that die, refuse, lie and forget.

use std::collections::BTreeMap;

use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest, PeerId};
use proptest::prelude::*;

use super::{
    BroadcastAction, BroadcastNode, BroadcastOptions, BroadcastPlan, BroadcastSource,
    BroadcastTopology,
};

const SIZE: u64 = 4;
const NAME: BlobName = BlobName { digest: Digest([1; 32]), size: SIZE };

fn plan(fanout: u32, topology: BroadcastTopology) -> BroadcastPlan {
    let mut plan = BroadcastPlan::new(BroadcastOptions { fanout, topology });
    plan.hold(NAME);
    plan
}

fn need(plan: &mut BroadcastPlan, node: u16) {
    plan.need(PeerId(node), NAME, 0, Shortfall::None);
}

fn sources(plan: &mut BroadcastPlan) -> Vec<(u16, Option<u16>)> {
    let source = |step| match step {
        BroadcastAction::Give { node, .. } => (node.0, None),
        BroadcastAction::Fetch { node, source, .. } => (node.0, Some(source.0)),
        other => panic!("no source: {other:?}"),
    };
    plan.take_steps().into_iter().map(source).collect()
}

#[test]
fn peers_make_a_tree_below_the_client() {
    let mut plan = plan(2, BroadcastTopology::Peers);
    for node in 0..6 {
        plan.join(PeerId(node), BroadcastNode::default());
        need(&mut plan, node);
    }
    let expected = [(0, None), (1, None), (2, Some(0)), (3, Some(0)), (4, Some(1)), (5, Some(1))];
    assert_eq!(sources(&mut plan), expected);
}

#[test]
fn who_has_all_of_it_is_asked_before_the_client() {
    let mut plan = plan(2, BroadcastTopology::Peers);
    plan.join(PeerId(0), BroadcastNode::default());
    need(&mut plan, 0);
    assert_eq!(plan.have(PeerId(0), NAME.digest), Some(BroadcastSource::Client));
    plan.join(PeerId(1), BroadcastNode::default());
    need(&mut plan, 1);
    assert_eq!(sources(&mut plan), [(0, None), (1, Some(0))]);
}

#[test]
fn who_has_made_it_gives_it() {
    let mut plan = plan(2, BroadcastTopology::Peers);
    plan.join(PeerId(0), BroadcastNode { is_mute: true, ..BroadcastNode::default() });
    plan.join(PeerId(1), BroadcastNode::default());
    plan.made(PeerId(0), NAME.digest);
    need(&mut plan, 1);
    // Node 0 is mute, so the client gives.
    assert_eq!(sources(&mut plan), [(1, None)], "no node knows where it is");
    plan.open(PeerId(0));
    plan.join(PeerId(2), BroadcastNode::default());
    // The plan ignores node 7, which has not joined.
    plan.made(PeerId(7), NAME.digest);
    need(&mut plan, 2);
    assert_eq!(sources(&mut plan), [(2, Some(0))]);
}

#[test]
fn the_client_gives_no_more_copies_than_it_has_to() {
    let mut plan = plan(1, BroadcastTopology::Peers);
    for node in 0..3 {
        plan.join(PeerId(node), BroadcastNode::default());
    }
    need(&mut plan, 0);
    need(&mut plan, 1);
    let _ = plan.have(PeerId(0), NAME.digest);
    // Node 0 serves node 1, which can serve others; the client has nothing to do.
    need(&mut plan, 2);
    assert_eq!(sources(&mut plan), [(0, None), (1, Some(0)), (2, Some(1))]);
}

#[test]
fn those_that_have_it_or_are_getting_it_are_known_from_any_one_on() {
    let mut plan = plan(1, BroadcastTopology::Peers);
    for node in 0..6 {
        plan.join(PeerId(node), BroadcastNode::default());
    }
    [1, 3, 4].into_iter().for_each(|node| need(&mut plan, node));
    let _ = plan.have(PeerId(1), NAME.digest);
    let holders = |plan: &BroadcastPlan, near| -> Vec<u16> {
        plan.holders(NAME.digest, PeerId(near)).map(|node| node.0).collect()
    };
    assert_eq!(holders(&plan, 3), [3, 4, 1]);
    assert_eq!(holders(&plan, 2), [3, 4, 1]);
    assert_eq!(holders(&plan, 0), [1, 3, 4]);
    plan.dropped(PeerId(1), NAME.digest);
    assert_eq!(holders(&plan, 5), [3, 4]);
}

#[test]
fn only_the_client_gives_if_that_is_wanted() {
    let mut plan = plan(2, BroadcastTopology::Client);
    for node in 0..4 {
        plan.join(PeerId(node), BroadcastNode::default());
        need(&mut plan, node);
    }
    assert_eq!(sources(&mut plan), [(0, None), (1, None)]);
    let _ = plan.have(PeerId(1), NAME.digest);
    assert_eq!(sources(&mut plan), [(2, None)]);
}

#[test]
fn a_group_gets_it_once_from_elsewhere() {
    let mut plan = plan(2, BroadcastTopology::Groups);
    for node in 0..6 {
        let group = Some(if node < 3 { "a" } else { "b" }.to_owned());
        plan.join(PeerId(node), BroadcastNode { group, ..BroadcastNode::default() });
        need(&mut plan, node);
    }
    let expected = [(0, None), (1, Some(0)), (2, Some(0)), (3, None), (4, Some(3)), (5, Some(3))];
    assert_eq!(sources(&mut plan), expected);
    plan.leave(PeerId(0));
    let asked = [1, 2].map(|node| BroadcastAction::RequestNeeds { node: PeerId(node), name: NAME });
    assert_eq!(plan.take_steps(), asked);
    plan.need(PeerId(1), NAME, 2, Shortfall::None);
    plan.need(PeerId(2), NAME, 1, Shortfall::None);
    let give = BroadcastAction::Give { node: PeerId(1), digest: NAME.digest, offset: 2 };
    let fetch = BroadcastAction::Fetch { node: PeerId(2), name: NAME, source: PeerId(1) };
    assert_eq!(plan.take_steps(), [give, fetch]);
}

#[test]
fn no_node_asks_a_node_that_it_cannot_reach() {
    let mut plan = plan(1, BroadcastTopology::Peers);
    plan.join(PeerId(0), BroadcastNode { is_local: true, ..BroadcastNode::default() });
    plan.join(PeerId(1), BroadcastNode::default());
    need(&mut plan, 0);
    need(&mut plan, 1);
    assert_eq!(sources(&mut plan), [(0, None)]);
    let _ = plan.have(PeerId(0), NAME.digest);
    assert_eq!(sources(&mut plan), [(1, None)]);
}

#[test]
fn wrong_bytes_of_a_node_come_from_the_client_and_those_of_the_client_are_refused() {
    let mut plan = plan(1, BroadcastTopology::Peers);
    for node in 0..2 {
        plan.join(PeerId(node), BroadcastNode::default());
        need(&mut plan, node);
    }
    let _ = plan.have(PeerId(0), NAME.digest);
    assert_eq!(sources(&mut plan), [(0, None), (1, Some(0))]);
    plan.need(PeerId(1), NAME, 0, Shortfall::Wrong);
    assert_eq!(sources(&mut plan), [(1, None)]);
    plan.need(PeerId(1), NAME, 0, Shortfall::Wrong);
    let refuse = BroadcastAction::Refuse { node: PeerId(1), name: NAME };
    assert_eq!(plan.take_steps(), [refuse]);
}

#[test]
fn who_waits_for_what_no_task_needs_is_dismissed() {
    let mut plan = plan(1, BroadcastTopology::Client);
    for node in 0..3 {
        plan.join(PeerId(node), BroadcastNode::default());
    }
    need(&mut plan, 0);
    need(&mut plan, 1);
    assert_eq!(sources(&mut plan), [(0, None)]);
    plan.release(NAME.digest);
    need(&mut plan, 2);
    let dismissed = [1, 2].map(|node| BroadcastAction::Dismiss { node: PeerId(node), name: NAME });
    assert_eq!(plan.take_steps(), dismissed);
    plan.audit();
    assert_eq!(plan.have(PeerId(0), NAME.digest), Some(BroadcastSource::Client), "that goes on");
    plan.hold(NAME);
    need(&mut plan, 1);
    assert_eq!(sources(&mut plan), [(1, None)]);
}

/// An event of a random program. `LetGo` happens at the client, all others at one node.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The node gets some bytes, if its source has them.
    Advance,
    /// The node requests the blob, if it does not have it.
    Need,
    /// The node's source refuses.
    Fail,
    /// The node finds that the bytes it got are wrong. This happens only while it receives, and if some of the bytes came
    /// from another node.
    Find,
    /// The node forgets the blob, if it has it.
    Drop,
    /// A task of the node produces the blob.
    Make,
    /// The node dies, and another one takes its number.
    Die,
    /// The client drops the blob.
    LetGo,
}

/// A node that needs or has the blob.
#[derive(Debug, Clone, Copy, Default)]
struct NodeState {
    received: u64,
    source: Option<BroadcastSource>,
    /// True if some of its bytes came from a node.
    is_mixed: bool,
}

/// The real state of the nodes, which the plan only knows from their reports.
struct Model {
    plan: BroadcastPlan,
    nodes: BTreeMap<u16, NodeState>,
    /// True if the client has the blob.
    is_held: bool,
}

impl Model {
    fn apply_actions(&mut self) {
        for step in self.plan.take_steps() {
            match step {
                BroadcastAction::Give { node, offset, .. } => {
                    assert!(self.is_held, "it has it");
                    let state = self.nodes.get_mut(&node.0).expect("it asked");
                    assert_eq!(state.received, offset, "it goes on where it was");
                    state.source = Some(BroadcastSource::Client);
                }
                BroadcastAction::Fetch { node, source, .. } => {
                    let state = self.nodes.get_mut(&node.0).expect("it asked");
                    state.source = Some(BroadcastSource::Node(source));
                }
                BroadcastAction::RequestNeeds { node, .. } => {
                    self.report_need(node.0, Shortfall::None)
                }
                BroadcastAction::Bring { .. } => {
                    assert!(!self.is_held, "it does not have it");
                    // If no node has the blob any more, a task produces it again.
                    self.is_held = true;
                    self.plan.hold(NAME);
                    self.apply_actions();
                }
                BroadcastAction::Dismiss { .. } => panic!("it is needed all the time"),
                BroadcastAction::Refuse { .. } => {
                    panic!("the client sends the blobs that it has named")
                }
            }
        }
        self.plan.audit();
    }

    fn report_need(&mut self, node: u16, shortfall: Shortfall) {
        let state = self.nodes.entry(node).or_default();
        state.source = None;
        self.plan.need(PeerId(node), NAME, state.received, shortfall);
        self.apply_actions();
    }

    fn has(&self, source: BroadcastSource) -> u64 {
        match source {
            BroadcastSource::Client if self.is_held => SIZE,
            BroadcastSource::Client => 0,
            BroadcastSource::Node(node) => {
                self.nodes.get(&node.0).map_or(0, |state| state.received)
            }
        }
    }

    fn advance(&mut self, node: u16) {
        let Some(state) = self.nodes.get(&node).copied() else { return };
        let Some(source) = state.source.filter(|&source| self.has(source) > state.received) else {
            return;
        };
        let next = self.nodes.get_mut(&node).expect("just looked up");
        next.received += 1;
        next.is_mixed |= source != BroadcastSource::Client;
        if next.received == SIZE {
            next.source = None;
            assert_eq!(self.plan.have(PeerId(node), NAME.digest), Some(source));
            self.apply_actions();
        }
    }

    fn act(&mut self, node: u16, act: Act, about: &BroadcastNode) {
        let state = self.nodes.get(&node).copied();
        match (act, state) {
            (Act::Advance, _) => self.advance(node),
            (Act::Need, None) => self.report_need(node, Shortfall::None),
            (Act::Fail, Some(NodeState { source: Some(BroadcastSource::Node(_)), .. })) => {
                self.report_need(node, Shortfall::Gone);
            }
            (Act::Find, Some(NodeState { source: Some(_), is_mixed: true, .. })) => {
                self.nodes.insert(node, NodeState::default());
                self.report_need(node, Shortfall::Wrong);
            }
            (Act::Drop, Some(NodeState { received: SIZE, .. })) => {
                self.nodes.remove(&node);
                self.plan.dropped(PeerId(node), NAME.digest);
                self.apply_actions();
            }
            (Act::Make, _) => {
                self.nodes
                    .insert(node, NodeState { received: SIZE, source: None, is_mixed: false });
                self.plan.made(PeerId(node), NAME.digest);
                self.apply_actions();
            }
            (Act::LetGo, _) => {
                // The client keeps the blob while it sends it.
                let gives =
                    self.nodes.values().any(|state| state.source == Some(BroadcastSource::Client));
                if self.is_held && !gives {
                    self.is_held = false;
                    self.plan.let_go(NAME.digest);
                    self.apply_actions();
                }
            }
            (Act::Die, _) => {
                self.nodes.remove(&node);
                self.plan.leave(PeerId(node));
                self.apply_actions();
                self.plan.join(PeerId(node), about.clone());
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
    fn a_node_that_needs_it_gets_it(
        fanout in 1_u32..4,
        topology in prop_oneof![
            Just(BroadcastTopology::Client), Just(BroadcastTopology::Peers), Just(BroadcastTopology::Groups),
        ],
        abouts in proptest::collection::vec((0_u8..4, proptest::bool::weighted(0.2)), 2..9),
        program in proptest::collection::vec((any::<proptest::sample::Index>(), act()), 0..200),
    ) {
        let about = |(group, is_local): &(u8, bool)| {
            let group = (*group > 0).then(|| group.to_string());
            BroadcastNode { group, is_local: *is_local, ..BroadcastNode::default() }
        };
        let abouts: Vec<BroadcastNode> = abouts.iter().map(about).collect();
        let mut model = Model { plan: plan(fanout, topology), nodes: BTreeMap::new(), is_held: true };
        for (node, about) in (0..).zip(&abouts) {
            model.plan.join(PeerId(node), about.clone());
        }
        for (node, act) in program {
            let node = node.index(abouts.len());
            model.act(u16::try_from(node).expect("few nodes"), act, &abouts[node]);
        }
        // Nothing fails any more: one round per byte and per level of the tree is more than enough.
        for _ in 0..=SIZE * 10 {
            for node in 0..u16::try_from(abouts.len()).expect("few nodes") {
                model.advance(node);
            }
        }
        let is_there = model.nodes.values().all(|state| state.received == SIZE);
        prop_assert!(is_there, "{:?}", model.nodes);
    }
}
