//! The program: it submits and cancels tasks, drops futures, extends its leases, and shuts down.

use gristmill_client::{BlobWork, LinkHome, LinkWork};
use gristmill_core::{CancelMode, CancelOutcome, Origin, Status};

use super::client::Client;
use super::handle::Handle;
use super::plan::ClusterPlan;
use crate::random::{SeededRandom, draw_grace};

impl Client {
    /// Does one step of the program; returns false if it has nothing to do.
    pub fn step(&mut self, plan: &ClusterPlan, random: &mut SeededRandom) -> bool {
        if self.waits() {
            return false;
        }
        match random.below(8) {
            0 => random.chance(plan.base.cancels) && self.cancel_some(random),
            1 => random.chance(plan.base.releases) && self.release_some(random),
            2 if plan.base.shuts_down && !self.is_closed && random.chance(3) => {
                let cancels = random.chance(50);
                self.submitted = plan.base.tasks;
                self.close(cancels);
                true
            }
            3 => self.spread(),
            4 if random.chance(plan.extends) => self.extend(plan, random),
            5 if plan.blobs.is_some() && self.waits_now(plan, random) => self.ask_some(random),
            _ => self.submit_some(plan, random),
        }
    }

    /// Returns whether the program waits for a node's reply to a cancellation.
    pub fn waits(&mut self) -> bool {
        self.asked = self.asked.filter(|&number| {
            self.handle.with(|engine| {
                let id = engine.port.world.ledger[number].id;
                id.is_some_and(|id| engine.core.is_withdrawn(id))
            })
        });
        self.asked.is_some()
    }

    fn spread(&self) -> bool {
        self.handle.with(|engine| {
            let now = engine.port.world.now;
            engine.core.spread(now, &mut engine.port);
            engine.core.audit_spread();
            engine.settle();
        });
        false
    }

    /// Asks all nodes for later ends of their leases, mostly when one drains, and not again before an answer can arrive.
    fn extend(&mut self, plan: &ClusterPlan, random: &mut SeededRandom) -> bool {
        let now = self.handle.now();
        if now < self.extends_at {
            return false;
        }
        let is_asked = self.handle.with(|engine| {
            let drains = engine.core.peer_stats().any(|peer| peer.is_draining);
            if !random.chance(if drains { 50 } else { 2 }) {
                return false;
            }
            engine.port.world.log(|| "extend".to_owned());
            engine.extend_peers(plan.request.duration_ns);
            engine.settle_and_flush();
            true
        });
        if is_asked {
            self.extends_at = now + plan.request.beat_ns;
        }
        is_asked
    }

    fn submit_some(&mut self, plan: &ClusterPlan, random: &mut SeededRandom) -> bool {
        if self.submitted >= plan.base.tasks {
            return false;
        }
        let admitted = self.handle.with(|engine| engine.core.admit(&Origin::External));
        if let Err(error) = admitted {
            if error.is_retryable() {
                return false;
            }
            self.submitted = plan.base.tasks;
            return true;
        }
        self.submitted += 1;
        self.handle.with(|engine| {
            let mut drive = engine.drive(&plan.base, random);
            let parents = drive.draw_parents();
            let submitted = drive.submit((Origin::External, None), parents);
            assert!(submitted.is_ok(), "an admitted task is accepted");
            if engine.tables().is_some() {
                engine.broadcast_blobs();
            }
            engine.settle();
        });
        true
    }

    /// Draws whether the program waits for a task now; at the end it always does.
    fn waits_now(&self, plan: &ClusterPlan, random: &mut SeededRandom) -> bool {
        self.submitted == plan.base.tasks || random.chance(20)
    }

    /// Waits for a task, so that its result is fetched to the client.
    fn ask_some(&self, random: &mut SeededRandom) -> bool {
        let Some(number) = self.draw_task(random) else { return false };
        self.handle.with(|engine| {
            let entry = &engine.port.world.ledger[number];
            let Some(id) = entry.id.filter(|_| !entry.is_released && entry.status.is_none()) else {
                return false;
            };
            let is_new = engine.port.asked.insert(id);
            if is_new {
                engine.port.world.log(|| format!("wait for {number}"));
            }
            engine.ask_for(&[id]);
            engine.settle_and_flush();
            is_new
        })
    }

    /// Shuts the client down.
    pub fn close(&mut self, cancels: bool) {
        self.is_closed = true;
        self.handle.with(|engine| {
            let world = &mut engine.port.world;
            world.log(|| format!("shut down, cancels: {cancels}"));
            if cancels {
                world.ledger.iter_mut().for_each(|entry| entry.may_cancel = true);
            }
            let now = world.now;
            engine.core.shut_down(cancels, now, &mut engine.port);
            if engine.tables().is_some() {
                engine.bring_all_home(None);
            }
            engine.settle_and_flush();
        });
    }

    fn cancel_some(&mut self, random: &mut SeededRandom) -> bool {
        let Some(number) = self.draw_task(random) else { return false };
        let grace_ns = random.chance(50).then(|| draw_grace(random, 1_000_000));
        let mode = if random.chance(50) {
            CancelMode::Unstarted
        } else {
            CancelMode::Running { grace_ns }
        };
        let outcome = cancel(&self.handle, number, mode);
        self.asked = (outcome == CancelOutcome::Asked).then_some(number);
        true
    }

    fn draw_task(&self, random: &mut SeededRandom) -> Option<usize> {
        let shared = self.handle.shared.borrow();
        let own: Vec<usize> = (0..shared.ledger.len())
            .filter(|&number| {
                shared.ledger[number].depth == 0 && shared.ledger[number].id.is_some()
            })
            .collect();
        (!own.is_empty()).then(|| own[random.index(own.len())])
    }

    fn release_some(&self, random: &mut SeededRandom) -> bool {
        let Some(number) = self.draw_task(random) else { return false };
        self.handle.with(|engine| {
            let entry = &mut engine.port.world.ledger[number];
            if !std::mem::replace(&mut entry.is_released, true) {
                let id = entry.id.expect("it was accepted");
                engine.release(id);
                engine.settle();
            }
        });
        true
    }

    /// Drops all futures.
    pub fn release_all(&self) {
        self.handle.with(|engine| {
            for number in 0..engine.port.world.ledger.len() {
                let entry = &mut engine.port.world.ledger[number];
                if entry.depth == 0 && !std::mem::replace(&mut entry.is_released, true) {
                    let id = entry.id.expect("it was accepted");
                    engine.release(id);
                }
            }
            engine.settle();
        });
    }
}

/// Requests the end of a task even if it runs.
pub(super) fn stop(handle: &Handle, number: usize) {
    let _ = cancel(handle, number, CancelMode::Running { grace_ns: None });
}

/// Cancels a task of an engine.
fn cancel(handle: &Handle, number: usize, mode: CancelMode) -> CancelOutcome {
    handle.with(|engine| {
        let world = &mut engine.port.world;
        let now = world.now;
        let entry = &mut world.ledger[number];
        let id = entry.id.expect("it was accepted");
        let before = (entry.may_cancel, entry.may_stop);
        let was_final = entry.status.is_some();
        entry.may_cancel = true;
        entry.may_stop |= mode != CancelMode::Unstarted;
        let outcome = engine.core.cancel(id, mode, now, &mut engine.port);
        let world = &mut engine.port.world;
        world.log(|| format!("cancel {number} {mode:?}: {outcome:?}"));
        let entry = &mut world.ledger[number];
        match outcome {
            CancelOutcome::Cancelled => assert_eq!(entry.status, Some(Status::Cancelled)),
            CancelOutcome::AlreadyRunning => (entry.may_cancel, entry.may_stop) = before,
            CancelOutcome::AlreadyFinal => {
                assert!(was_final || entry.is_released, "only a final task is final");
            }
            CancelOutcome::Requested | CancelOutcome::Asked => {}
        }
        engine.settle_and_flush();
        outcome
    })
}
