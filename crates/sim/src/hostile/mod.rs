//! Peers that say whatever the protocol can say, to a real graph with real links: see [`Siege`]; and with
//! blobs: see [`DataSiege`] and [`LeaseSiege`]. Workers that ask for anything: see [`AskerSiege`].

mod asker;
mod contexts;
mod data;
mod engine;
mod holder;
mod honest;
mod lease;
#[cfg(test)]
mod leaving;
mod liar;
mod neighbours;
mod payloads;
mod siege;
mod wire;
mod workers;

pub use asker::{AskerReport, AskerSiege};
pub use data::DataSiege;
pub use lease::LeaseSiege;
pub use liar::Choices;
pub use siege::{Siege, SiegeReport};
