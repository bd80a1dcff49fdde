//! Behaviour that a user can name: the placement and the ends of tasks, the costs of a loss, the effects of a cancel.
#![expect(clippy::unwrap_used, reason = "a test that finds nothing to unwrap has failed")]

mod affording;
mod balancing;
mod batching;
mod cancelling;
mod children;
mod contexts;
mod demanding;
mod ending;
mod equipping;
mod fake;
mod faraway;
mod fleet;
mod fleet_checks;
mod fleet_events;
mod fleet_model;
mod following;
mod forgetting;
mod function_affinity;
mod holding;
mod losing;
mod model;
mod nearby;
mod nesting;
mod parting;
mod placing;
mod prioritizing;
mod promising;
mod raising;
mod raising_contexts;
mod returned_results;
mod sharing;
mod trusting;
