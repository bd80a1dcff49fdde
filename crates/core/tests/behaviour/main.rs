//! What a user can name: where tasks go, how they end, what a loss costs, what a cancel does.
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
mod holding;
mod homing;
mod losing;
mod model;
mod nearby;
mod nesting;
mod parting;
mod placing;
mod promising;
mod staying;
mod trusting;
