//! Peers that say whatever the protocol can say, to a real graph with real links: see [`Siege`]; and with
//! blobs: see [`DataSiege`].

mod data;
mod engine;
mod holder;
mod honest;
#[cfg(test)]
mod leaving;
mod liar;
mod siege;
mod wire;
mod workers;

pub use data::DataSiege;
pub use liar::Choices;
pub use siege::{Siege, SiegeReport};
