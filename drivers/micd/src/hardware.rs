//! The hardware of a function, whatever its kind: its interrupts on this node, the peer's memory
//! and doorbell, and the bus addresses by which the peer reaches this node's memory. It has no
//! links and queue pairs; [`function`](crate::function) has.

use alloc::rc::Rc;
use core::cell::RefCell;

use hal::Result;
use hal::aperture::Aperture;
use hal::irq::Interrupt;
use hal::mem::Region;
use scif_core::CopyEngine;

/// The address of this node's memory on a peer's bus.
pub trait Bus {
    /// The bus address of a byte at this physical address; `None` when the peer cannot reach it.
    /// Neighbours are neighbours for the peer.
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
    /// Rings it. All earlier stores are visible to the peer when the doorbell arrives. Nothing
    /// happens when there is no peer.
    fn ring(&self);
}

/// The hardware of one MIC function.
pub trait Hardware {
    /// The interrupts by which the peer's doorbells and changes of the link arrive. To be
    /// subscribed before [`start`](Self::start).
    fn interrupts(&self) -> &[Interrupt];

    /// Lets interrupts through.
    ///
    /// # Errors
    /// The interrupt table is not there.
    fn start(&mut self) -> Result<()>;

    /// The peer's memory, for the link that is about to be made: to be asked for at each
    /// [`LinkStep::Attach`](crate::function::LinkStep::Attach). `is_mapped`: some program still has
    /// it mapped since an earlier link. A function that can cuts those mappings off; the others
    /// make no link before they end.
    ///
    /// # Errors
    /// `ENODEV` when it cannot be reached any more; `EAGAIN`: not now, which was logged; `ENOMEM`.
    fn aperture(&mut self, is_mapped: bool) -> Result<Aperture>;

    /// The address of our memory on the peer's bus.
    fn bus(&self) -> Rc<dyn Bus> {
        Rc::new(Identical)
    }

    /// The peer's doorbell.
    fn doorbell(&self) -> Rc<dyn Doorbell>;

    /// The DMA engine that copies to and from the peer's memory; `None`: the CPU copies.
    fn copy_engine(&self) -> Option<Rc<RefCell<dyn CopyEngine>>> {
        None
    }

    /// Memory behind the same bus as the peer's, whose content is unused: for measuring copies,
    /// which must not touch what is the peer's. `None` when there is none.
    fn spare(&self) -> Option<Region> {
        None
    }

    /// Whether stores through the aperture may be gathered on their way, so that later ones
    /// overtake them.
    fn gathers_stores(&self) -> bool;
}
