//! Invariants of the cluster as a whole, at any time and at the end.

use gristmill_agent::LeaseEngine;
use gristmill_core::SlotState;

use super::handle::{Handle, SLACK_NS};
use super::network::look;
use super::node::{Condition, Node};
use super::run::{ClusterReport, SimCluster};

/// Time in which everything must end once all faults are over, nanoseconds: dials that are 10 s late, leases that expire,
/// workers that fail to start again and again with pauses of 5 s.
const PATIENCE_NS: u64 = 120_000_000_000;

impl SimCluster {
    /// Asserts what must hold at any time: shares of a node, the ends of leases, and that everything ends in time.
    pub(super) fn check_time(&mut self) {
        let now = self.now();
        for (place, node) in self.nodes.iter().enumerate() {
            let capacity = self.plan.nodes[place].workers as usize;
            assert!(node.used_workers() <= capacity, "node {place} has given more than it has");
            if node.runs() && now > node.troubled_at + SLACK_NS {
                for handle in node.engines.borrow().iter().filter(|one| one.is_alive()) {
                    check_lease(handle);
                }
            }
        }
        let silences = self.shared.borrow().silences;
        assert!(
            self.faults.is_troubled || silences == 0,
            "a link was silent, and nothing has happened"
        );
        let is_well = self.faults.left == 0 && self.next_recovery().is_none();
        if !is_well {
            self.busy_at = now;
        }
        let is_late = now >= self.busy_at + PATIENCE_NS;
        assert!(!is_late, "all is well, and it does not come to an end: {}", self.describe());
    }

    /// Describes the state of all engines, for the message of a failure.
    pub(super) fn describe(&self) -> String {
        let of_engine = |handle: &Handle| {
            let state = handle.with(|engine| {
                let peers: Vec<_> = engine.core.peer_stats().collect();
                let stats = engine.core.stats();
                let counts = (stats.outstanding, stats.blocked, engine.core.record_count());
                let left = engine.leftovers();
                format!("{counts:?} {} inbound tasks {peers:?} {left:?}", engine.inbound.count())
            });
            format!("  {} {:?}: {state}\n", handle.who, *handle.life.borrow())
        };
        let of_node = |node: &Node| {
            let engines: String = node.engines.borrow().iter().map(of_engine).collect();
            format!("node {} {:?}\n{engines}", node.place, node.condition)
        };
        let nodes: String = self.nodes.iter().map(of_node).collect();
        format!("{:?}\n{}{nodes}", self.client.condition, of_engine(&self.client.handle))
    }

    /// Asserts that leases which report that they have drained hold no tasks that the client waits for.
    pub(super) fn check_drained(&self, place: usize) {
        if self.client.condition == Condition::Gone {
            return;
        }
        let leases = self.nodes[place].engines.borrow();
        let drained = leases.iter().filter(|one| one.is_alive() && one.is_drained());
        let lines: Vec<usize> = drained.flat_map(Handle::lines).collect();
        self.client.handle.with(|engine| {
            for peer in engine.core.peer_stats() {
                let is_there =
                    engine.port.line_of(peer.peer).is_some_and(|line| lines.contains(&line));
                assert!(
                    !is_there || peer.in_flight == 0,
                    "a drained lease takes tasks with it: {peer:?}"
                );
            }
        });
    }

    /// Asserts that no lease of a draining node takes tasks again.
    pub(super) fn check_draining(&self, place: usize) {
        let leases = self.nodes[place].engines.borrow();
        let mut living = leases.iter().filter(|one| one.is_alive());
        let all_drain = living.all(|one| one.with(|engine| engine.inbound.is_draining));
        assert!(all_drain, "a lease takes tasks although its node drains");
    }

    /// Asserts that the bytes which nodes report as fetched from each other were received over wires, and that no more was
    /// passed on than was fetched.
    pub(super) fn check_traffic(&mut self) {
        let traffic = self.client.handle.with(|engine| engine.port.links.blob_traffic());
        let heard = look(&self.air).heard_bytes;
        assert!(traffic.fetched <= heard, "{} bytes are said to be {}", heard, traffic.fetched);
        assert!(traffic.passed_on <= traffic.fetched, "more was passed on than came: {traffic:?}");
        self.blob_bytes = [traffic.given, traffic.fetched];
    }

    /// Asserts that nothing is left at the end, and returns the report.
    pub(super) fn check_end(&mut self) -> ClusterReport {
        let shared = self.shared.borrow();
        let client_died = !self.client.has_left;
        let mut report = ClusterReport { steps: self.steps, ..ClusterReport::default() };
        for (number, entry) in shared.ledger.iter().enumerate() {
            assert!(entry.running == 0, "task {number} runs on");
            if entry.is_clients() {
                assert!(client_died || entry.status.is_some(), "task {number} has no final state");
                report.placements += entry.placements.len() as u64;
                report.repeated += u64::from(entry.starts > 1);
                report.made_again += u64::from(entry.has_made_again());
                if let Some(status) = entry.status {
                    report.finished[status as usize] += 1;
                }
            }
        }
        report.lost_links = shared.lost.len() as u64;
        report.blob_bytes = self.blob_bytes;
        drop(shared);
        if !client_died {
            self.client.handle.with(|engine| {
                let stats = engine.core.stats();
                assert!(stats.slots.iter().all(|slot| slot.state == SlotState::Absent));
                assert_eq!(stats.finished.iter().sum::<u64>(), stats.submitted, "each ends once");
            });
        }
        report.trace = self.shared.borrow_mut().trace.take().unwrap_or_default();
        report
    }
}

/// Asserts that a lease whose client was silent for too long is over, once its agent had time to notice.
fn check_lease(handle: &Handle) {
    handle.with(|engine| {
        let now = engine.port.world.now;
        for peer in engine.port.links.peers() {
            let Some(link) = engine.port.links.get(peer) else { continue };
            let is_heard = now < link.heartbeat.expires_at().saturating_add(SLACK_NS);
            assert!(is_heard, "a lease goes on whose client is silent");
        }
    });
}
