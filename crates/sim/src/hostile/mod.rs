//! Peers that say whatever the protocol can say, to a real graph with real links: see [`Siege`].

mod engine;
mod honest;
#[cfg(test)]
mod leaving;
mod liar;
mod siege;
mod wire;
mod workers;

pub use liar::Choices;
pub use siege::{Siege, SiegeReport};
