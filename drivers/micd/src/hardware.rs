//! The hardware of a function of any kind: its interrupts on this node, the peer's memory and
//! doorbell, and the bus addresses by which the peer reaches this node's memory. Links and queue
//! pairs are the matter of [`function`](crate::function).

use alloc::rc::Rc;
use core::cell::RefCell;

use hal::Result;
use hal::aperture::Aperture;
use hal::irq::Interrupt;
use hal::mem::Region;
use scif_core::CopyEngine;

/// The address of this node's memory on a peer's bus.
pub trait Bus {
    /// The bus address of the byte at this physical address; `None` when the peer cannot reach it.
    /// Bytes that are neighbours here are neighbours on the bus.
    fn address(&self, physical: u64) -> Option<u64>;
}

/// A bus on which addresses are physical ones.
pub struct Identical;

impl Bus for Identical {
    fn address(&self, physical: u64) -> Option<u64> {
        Some(physical)
    }
}

/// Rings a peer's doorbell.
pub trait Doorbell {
    /// Rings the doorbell. All earlier stores are visible to the peer when the doorbell arrives.
    /// Without a peer, nothing happens.
    fn ring(&self);
}

/// The hardware of one MIC function.
pub trait Hardware {
    /// The interrupts by which the peer's doorbells and changes of the link arrive. Subscribe them
    /// before [`start`](Self::start).
    fn interrupts(&self) -> &[Interrupt];

    /// Enables the interrupts.
    ///
    /// # Errors
    /// An error means that the interrupt table is not there.
    fn start(&mut self) -> Result<()>;

    /// The peer's memory, for the link that is about to be made; ask for it at each
    /// [`LinkStep::Attach`](crate::function::LinkStep::Attach). `is_mapped`: some program still
    /// maps it since an earlier link. A function that can do so cuts those mappings off; other
    /// functions make no link until the mappings end.
    ///
    /// # Errors
    /// `ENODEV` when the memory cannot be reached any more; `EAGAIN` when it cannot be reached
    /// now, which was logged; `ENOMEM`.
    fn aperture(&mut self, is_mapped: bool) -> Result<Aperture>;

    /// The address of our memory on the peer's bus.
    fn bus(&self) -> Rc<dyn Bus> {
        Rc::new(Identical)
    }

    /// The peer's doorbell.
    fn doorbell(&self) -> Rc<dyn Doorbell>;

    /// The DMA engine that copies to and from the peer's memory; `None` when the CPU copies.
    fn copy_engine(&self) -> Option<Rc<RefCell<dyn CopyEngine>>> {
        None
    }

    /// Memory behind the same bus as the peer's, whose content is unused. Copies are measured
    /// there, so that they do not touch the peer's memory. `None` when there is none.
    fn spare(&self) -> Option<Region> {
        None
    }

    /// Whether stores through the aperture may be gathered on their way, so that later ones
    /// overtake them.
    fn gathers_stores(&self) -> bool;
}
