//! Sleep of the threads of an engine: the token that the *leader* has, its hand-over, and the leader's naps.
//!
//! States, rules, races and models: `README.md`. A crate of its own, so that the model checker compiles little.
#![forbid(unsafe_code)]

mod nap;
mod token;

pub use nap::NapWord;
pub use token::{HandOver, Lead, Leader};
