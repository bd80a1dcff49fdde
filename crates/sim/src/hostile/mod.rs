//! Hostile peers and workers against a real graph with real links. [`Siege`] sends everything that the protocol can express;
//! [`DataSiege`] and [`LeaseSiege`] do so with blobs; in [`AskerSiege`] workers make arbitrary requests.

mod acts;
mod asker;
mod choices;
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
pub use choices::Choices;
pub use data::DataSiege;
pub use lease::LeaseSiege;
pub use siege::{Siege, SiegeReport};
