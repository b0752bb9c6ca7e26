//! Message-signalled interrupts by table (MSI-X): one kernel interrupt per table entry.

use alloc::vec::Vec;

use syscall::error::{EINVAL, EOPNOTSUPP, Error, Result};

use super::Function;
use super::protocol::{Feature, FeatureInfo};
use crate::irq::Interrupt;
use crate::mem::{Cache, Region};

/// Bytes of a table entry: message address (2 words), message data, control.
const ENTRY_BYTES: usize = 16;
/// Offset of the control word; its bit 0 masks the vector.
const ENTRY_CONTROL: usize = 12;

/// The interrupts of a function, one per vector. All are masked until [`unmask`](Self::unmask).
pub struct Vectors {
    table: Region,
    interrupts: Vec<Interrupt>,
}

impl Vectors {
    /// Turns MSI-X on with `count` vectors that interrupt `cpu`.
    ///
    /// Keep this order: set up, subscribe every interrupt's file, unmask, then look at the device
    /// once, because what happened before is not reported.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the function has no MSI-X or fewer vectors, or messages cannot name the
    /// processor; `EFAULT` when its table lies outside its BAR, `ENOSPC` when the processor has no
    /// free vectors; those of [`Function::map_bar`] and of the function's channel.
    pub fn set_up(function: &mut Function, cpu: u32, count: usize) -> Result<Self> {
        let FeatureInfo::MsiX {
            table_bar,
            table_offset,
            table_size,
            ..
        } = function.feature_info(Feature::MsiX)?
        else {
            return Err(Error::new(EINVAL));
        };
        if count > table_size.into() {
            return Err(Error::new(EOPNOTSUPP));
        }
        let bar = function.map_bar(table_bar.into(), Cache::Uncached)?;
        let table = bar.part(table_offset as usize, usize::from(table_size) * ENTRY_BYTES)?;
        for entry in 0..usize::from(table_size) {
            table.write(entry * ENTRY_BYTES + ENTRY_CONTROL, 1_u32)?;
        }
        let mut interrupts = Vec::with_capacity(count);
        for entry in 0..count {
            let interrupt = Interrupt::allocate(cpu)?;
            let message = interrupt.message();
            let place = entry * ENTRY_BYTES;
            table.write(place, message.address as u32)?;
            table.write(place + 4, (message.address >> 32) as u32)?;
            table.write(place + 8, message.data)?;
            interrupts.push(interrupt);
        }
        function.enable_feature(Feature::MsiX)?;
        Ok(Self { table, interrupts })
    }

    /// The interrupts by vector.
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// Lets all vectors through.
    ///
    /// # Errors
    /// None occurs: [`set_up`](Self::set_up) has checked that the table holds all of these words.
    pub fn unmask(&self) -> Result<()> {
        for entry in 0..self.interrupts.len() {
            self.table
                .write(entry * ENTRY_BYTES + ENTRY_CONTROL, 0_u32)?;
        }
        Ok(())
    }
}
