//! Loss of peers.

use std::sync::Arc;

use gristmill_wire::{Attempt, Epoch, PeerId, TaskId};

use crate::list::List;
use crate::outcome::{LossCause, LossReport};
use crate::port::Port;
use crate::task::State;
use crate::{Core, Status, TaskContent};

impl Core {
    /// Removes a peer from which nothing more will come. A task that the peer had not answered may have started: it is
    /// charged a loss, unless it is among `unsent`, whose tasks never left. A peer that has answered everything causes no
    /// loss.
    pub fn peer_lost(
        &mut self,
        (peer, epoch): (PeerId, Epoch),
        report: LossReport,
        unsent: &[(TaskId, Attempt)],
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let place = self.joined_peer(peer).filter(|&place| self.peers.get(place).epoch == epoch);
        let has_dropped_floor = self.drop_peers_floors(peer);
        let Some(place) = place else {
            // A client that offers nothing has never joined.
            if has_dropped_floor {
                self.pump(port);
                self.wind_down(port);
            }
            return;
        };
        debug_assert!(report.cause == LossCause::Node, "a peer is lost as a whole");
        let report = Arc::new(report);
        self.peers.get_mut(place).is_draining = true;
        for &(task, attempt) in unsent.iter().rev() {
            self.return_unsent(peer, task, attempt, port);
        }
        let head = self.peers.get(place).in_flight.head;
        let mut lost: Vec<u32> = List::from(&self.tasks, head).collect();
        lost.iter().for_each(|&index| self.leave_peer(index));
        lost.append(&mut self.lose_stayed(place, port));
        self.forget_peer(place);
        // The tasks that are placed again go to the end of the queue, in order.
        for index in lost {
            if self.tasks[index].state != State::Loose {
                // A parent among the lost tasks ended without a result, and this task ended with it.
                continue;
            }
            if self.must_be_stopped(index) {
                self.finish(index, Status::Cancelled, TaskContent::Empty, port);
            } else {
                let _ = self.lost_at_peer(index, Arc::clone(&report), port);
            }
        }
        self.pump(port);
        self.wind_down(port);
    }

    /// Takes the tasks whose results stayed at a peer out of its list, makes their dependants wait again, and returns the
    /// tasks.
    fn lose_stayed(&mut self, place: usize, port: &mut impl Port) -> Vec<u32> {
        let head = self.peers.get(place).stayed.head;
        let stayed: Vec<u32> = List::from(&self.tasks, head).collect();
        stayed.iter().for_each(|&index| self.leave_stayed(index));
        stayed.iter().for_each(|&index| self.retract(index, port));
        stayed
    }

    /// Takes back a task that never left for its peer.
    fn return_unsent(
        &mut self,
        peer: PeerId,
        task: TaskId,
        attempt: Attempt,
        port: &mut impl Port,
    ) {
        if let Some(index) = self.find_delegated(peer, task, attempt) {
            self.leave_peer(index);
            let _is_requeued = self.return_from_peer(index, port);
        }
    }
}
