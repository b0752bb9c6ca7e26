//! A Xeon Phi x100 at the level of its registers, and a host that drives it with micd's own
//! backend: [`card`] and [`dma`] are the hardware, [`uos`] is what runs on it, [`host`] the host's
//! memory, [`wire`] a link of the other kind, [`fixture`] puts all together.
//!
//! Facts are those of the published drivers (see `micd::x100::registers`); what they leave open is
//! decided against the driver.

pub mod card;
pub mod dma;
pub mod fixture;
pub mod host;
pub mod uos;
pub mod wire;

#[cfg(test)]
mod tests;
