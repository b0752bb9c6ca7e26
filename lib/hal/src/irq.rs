//! Interrupts as files of the kernel's `irq` scheme.

use alloc::format;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_CREAT, O_RDONLY};
use syscall::error::{EEXIST, EINVAL, EIO, ENOENT, ENOSPC, EOPNOTSUPP, Error, Result};

use crate::directory;

/// Interrupt vector of IRQ number 0 on x86.
const VECTOR_BASE: u8 = 32;
/// Numbers below this one are legacy lines.
const FIRST_MESSAGE_IRQ: u8 = 16;
/// Most times that one acknowledgement reads the count of an interrupt that keeps coming.
const ACKNOWLEDGE_ROUNDS: usize = 8;

/// The message that a device writes to raise an interrupt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message {
    /// Where it writes.
    pub address: u64,
    /// The value that it writes.
    pub data: u32,
}

/// An open interrupt.
pub struct Interrupt {
    file: Fd,
    irq: u8,
    /// The processor that a message names.
    destination: u8,
}

/// The id of the boot processor, which takes the interrupts.
///
/// # Errors
/// `EACCES` for callers other than root; those of reading the file.
pub fn boot_cpu() -> Result<u32> {
    let file = Fd::open("/scheme/irq/bsp", O_CLOEXEC | O_RDONLY, 0)?;
    // The kernel stores 32 bits and says 8 bytes.
    let mut word = [0; 8];
    file.read(&mut word)?;
    Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

impl Interrupt {
    /// Reserves a free vector of a processor for a message-signalled interrupt.
    ///
    /// # Errors
    /// `ENOSPC` when none is free, `EACCES` for callers other than root, `EOPNOTSUPP` for a
    /// processor that messages cannot name: without interrupt remapping those from id 255 on.
    pub fn allocate(cpu: u32) -> Result<Self> {
        let destination = destination(cpu)?;
        let directory = format!("/scheme/irq/cpu-{cpu:02x}");
        for irq in free_numbers(&directory)? {
            let path = format!("{directory}/{irq}");
            match Fd::open(&path, O_CLOEXEC | O_CREAT, 0).map_err(Error::from) {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        irq,
                        destination,
                    });
                }
                // Another driver was faster, or the listing names numbers that do not exist.
                Err(Error {
                    errno: EEXIST | ENOENT,
                }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ENOSPC))
    }

    /// Opens a legacy interrupt line (0 to 15). Other devices may share it.
    ///
    /// # Errors
    /// `EINVAL` for a number above 15, `EACCES` for callers other than root.
    pub fn line(irq: u8) -> Result<Self> {
        if irq >= FIRST_MESSAGE_IRQ {
            return Err(Error::new(EINVAL));
        }
        let file = Fd::open(&format!("/scheme/irq/{irq}"), O_CLOEXEC, 0)?;
        Ok(Self {
            file,
            irq,
            destination: 0,
        })
    }

    /// The descriptor. Subscribe it for reading **before** the device is enabled.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }

    /// The kernel's number for it.
    pub fn number(&self) -> u8 {
        self.irq
    }

    /// The message with which a device raises it: fixed delivery, edge, to its processor.
    pub fn message(&self) -> Message {
        Message {
            address: 0xfee0_0000 | u64::from(self.destination) << 12,
            data: u32::from(VECTOR_BASE) + u32::from(self.irq),
        }
    }

    /// Acknowledges the interrupts since the last call, so that the next one can come. Returns
    /// whether there were any. Serve the device after this call, until nothing is left: several
    /// interrupts may have become one.
    ///
    /// The kernel never holds a message-signalled interrupt back, so there is nothing to
    /// acknowledge, and its event has already said that it came: the answer is `true` without a
    /// system call.
    ///
    /// # Errors
    /// `EIO` when the file stores something other than one count; those of reading and writing it.
    pub fn acknowledge(&self) -> Result<bool> {
        if self.irq >= FIRST_MESSAGE_IRQ {
            return Ok(true);
        }
        let mut any = false;
        for _ in 0..ACKNOWLEDGE_ROUNDS {
            let mut count = [0; 8];
            match self.file.read(&mut count)? {
                0 => break,
                8 => any = true,
                _ => return Err(Error::new(EIO)),
            }
            // 0: another interrupt came in between, so read again.
            if self.file.write(&count)? != 0 {
                break;
            }
        }
        Ok(any)
    }
}

/// A processor's number as a message has it: eight bits, of which all ones mean all processors.
fn destination(cpu: u32) -> Result<u8> {
    let number = u8::try_from(cpu).ok().filter(|number| *number != u8::MAX);
    number.ok_or(Error::new(EOPNOTSUPP))
}

/// The free interrupt numbers that a processor's directory lists.
fn free_numbers(directory: &str) -> Result<Vec<u8>> {
    let names = directory::names(directory)?;
    let numbers = names.iter().filter_map(|name| name.parse().ok());
    Ok(numbers
        .filter(|&number: &u8| number >= FIRST_MESSAGE_IRQ)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_a_message_cannot_name_is_refused() {
        assert_eq!(destination(0), Ok(0));
        assert_eq!(destination(254), Ok(254));
        for cpu in [255, 256, 0x1_0000, u32::MAX] {
            assert_eq!(destination(cpu), Err(Error::new(EOPNOTSUPP)), "{cpu}");
        }
    }
}
