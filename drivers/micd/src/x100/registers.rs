//! The registers of the Xeon Phi coprocessor x100, in groups. All are 32 bits wide, at these
//! offsets of the register BAR; the other BAR has the card's memory.
//!
//! The facts are from the published drivers, Intel's MPSS 3 (`include/mic/micsboxdefine.h`,
//! `micdboxdefine.h`, `mic_sbox_md.h`, `mic_dma_md.h`, `micscif_smpt.h`; `host/uos_download.c`)
//! and Linux 4.x (`drivers/misc/mic/host/mic_x100.h`, `drivers/dma/mic_x100_dma.h`). Statements
//! marked *assumed* are no facts: the drivers rely on them, or they are the weakest behaviour that
//! would explain the drivers' code.

use alloc::format;
use alloc::string::String;

use hal::mmio::Mmio;

// PCI --------------------------------------------------------------------------------------------

/// Vendor of all cards.
pub const VENDOR: u16 = 0x8086;
/// First and last device number; all cards in between are driven alike.
pub const DEVICES: core::ops::RangeInclusive<u16> = 0x2250..=0x225e;
/// The BAR with the card's memory: the offset is the card's physical address.
pub const APERTURE_BAR: usize = 0;
/// The BAR with the registers below.
pub const REGISTERS_BAR: usize = 4;
/// Bytes of registers: DBOX and SBOX, 64 KiB each.
pub const REGISTERS_BYTES: usize = 0x2_0000;
/// The value of every register of a card that is gone, or in the middle of a reset.
pub const ALL_ONES: u32 = u32::MAX;

/// The start of the SBOX.
const SBOX: usize = 0x1_0000;

// SMPT -------------------------------------------------------------------------------------------

/// Entries of the system memory page table.
pub const SMPT_ENTRIES: usize = 32;
/// Bits of an address within one entry's memory: 16 GiB.
pub const SMPT_SHIFT: u32 = 34;
/// Card address of the memory that entry 0 shows; the other entries follow.
pub const SMPT_WINDOW: u64 = 0x80_0000_0000;

/// The register of an entry.
pub const fn smpt(entry: usize) -> usize {
    SBOX + 0x3100 + 4 * entry
}

/// The register's value for host memory from `page << SMPT_SHIFT` on. Bit 0 would turn snooping
/// off; caches of the host are always snooped.
pub const fn smpt_value(page: u64) -> u32 {
    (page << 2) as u32
}

// Interrupts -------------------------------------------------------------------------------------

/// Causes of interrupts of the host: bits of the next three registers.
pub const SICR0: usize = SBOX + 0x9004;
/// Writing ones enables them.
pub const SICE0: usize = SBOX + 0x900c;
/// Writing ones disables them.
pub const SICC0: usize = SBOX + 0x9010;
/// Interrupts that clear their cause by themselves. That needs several vectors, so it is not used
/// here.
pub const SIAC0: usize = SBOX + 0x9014;
/// Causes that raise vector 0; the registers of the other vectors follow.
pub const MXAR0: usize = SBOX + 0x9044;
/// Clears pending MSI-X bits, on A steppings after each service.
pub const MSIXPBACR: usize = SBOX + 0x9084;

/// Cause: the card rang doorbell `n` of 4.
pub const fn cause_doorbell(n: u32) -> u32 {
    1 << n
}
/// Cause: DMA channel `n` of 8.
pub const fn cause_dma(n: usize) -> u32 {
    1 << (8 + n)
}
/// All causes that the driver enables: doorbells 0 to 3 and DMA channels 0 to 7.
pub const CAUSES: u32 = 0xff0f;

/// Doorbells from the card to the host.
pub const DOORBELLS: usize = 4;
/// The register of doorbell `n`: the card sets [`SDBIC_REQUEST`] and may add a value.
pub const fn sdbic(n: usize) -> usize {
    SBOX + 0xcc90 + 4 * n
}
/// The doorbell with which the card reports its state.
pub const SDBIC1: usize = sdbic(1);
/// Bit of a doorbell register that interrupts the host.
pub const SDBIC_REQUEST: u32 = 1 << 31;
/// Bit that is set while the doorbell is on its way.
pub const SDBIC_STATUS: u32 = 1 << 30;

/// Interrupts from the host to the card, of each of the two kinds below.
pub const CARD_INTERRUPTS: usize = 8;
/// Interrupt `n`, 0 to 7: any write interrupts the card. `n` does not include the base (17) of the
/// card's own interrupt numbers.
pub const fn rdmasr(n: usize) -> usize {
    SBOX + 0xb180 + 4 * n
}
/// Interrupt `n`, lower word: read, set [`ICR_SEND`], write back.
pub const fn apicicr(n: usize) -> usize {
    SBOX + 0xa9d0 + 8 * n
}
/// Bit that sends the interrupt.
pub const ICR_SEND: u32 = 1 << 13;
/// The interrupt that asks the card's system to shut down.
pub const SHUTDOWN_INTERRUPT: usize = 1;
/// The interrupt that starts the bootstrap.
pub const BOOT_INTERRUPT: usize = 7;
/// The lower word of [`BOOT_INTERRUPT`].
pub const APICICR7: usize = apicicr(BOOT_INTERRUPT);
/// The upper word of [`BOOT_INTERRUPT`]: the card's processor to interrupt.
pub const APICICR7_HIGH: usize = APICICR7 + 4;
/// The vector that the bootstrap waits for.
pub const BOOT_VECTOR: u32 = 229;

// Others -----------------------------------------------------------------------------------------

/// Reset control.
pub const RGCR: usize = SBOX + 0x4010;
/// Bit that resets the card.
pub const RGCR_RESET: u32 = 1;
/// Temperature: bit 31 valid, bits 30:22 °C of the hottest sensor (*assumed*, from MPSS 3).
pub const THERMAL_STATUS: usize = SBOX + 0x1018;
/// The progress of the card's firmware: two ASCII characters, the lower byte first. In the DBOX.
pub const POSTCODE: usize = 0x242c;
/// POST codes that report a failed reset.
pub const POST_FAILED: [u32; 2] = [
    u32::from_le_bytes(*b"F2\0\0"),
    u32::from_le_bytes(*b"F4\0\0"),
];

// Scratchpads ------------------------------------------------------------------------------------

/// A scratchpad, 0 to 15.
pub const fn scratch(n: usize) -> usize {
    SBOX + 0xab20 + 4 * n
}
/// Scratchpad 0, bits 31:3: memory size in KiB; bits 2:1: how much of it the card uses (0 all, 1 a
/// half, 2 a third, 3 a fourth).
pub const MEMORY_SIZE: usize = scratch(0);
/// Scratchpad 2: whether the bootstrap waits for an image, and the address where it expects it.
pub const DOWNLOAD: usize = scratch(2);
/// Bit of [`DOWNLOAD`]: the bootstrap waits.
pub const DOWNLOAD_READY: u32 = 1;
/// Bits of [`DOWNLOAD`]: the load address, a multiple of 4 KiB.
pub const DOWNLOAD_ADDRESS: u32 = 0xffff_f000;
/// Scratchpad 5: size of the image in bytes.
pub const IMAGE_BYTES: usize = scratch(5);
/// Scratchpad 7, bits 9:0: fuse revision.
pub const FUSES: usize = scratch(7);
/// Scratchpad 13: stepping and more.
pub const IDENTITY: usize = scratch(13);
/// Scratchpads 14 and 15: the address of the device page, for the card's system. This is the lower
/// half.
pub const PAGE_LOW: usize = scratch(14);
/// The upper half; see [`PAGE_LOW`].
pub const PAGE_HIGH: usize = scratch(15);

/// The processor on which the bootstrap runs, from [`DOWNLOAD`].
pub const fn boot_processor(download: u32) -> u32 {
    download >> 1 & 0x1ff
}

// DMA --------------------------------------------------------------------------------------------

/// Channels of a card.
pub const CHANNELS: usize = 8;
/// Channels of the host: the first ones.
pub const HOST_CHANNELS: usize = 4;
/// Configuration of all channels.
pub const DCR: usize = SBOX + 0xa280;
/// Bit of [`DCR`]: channel `n` is the host's.
pub const fn dcr_owner(n: usize) -> u32 {
    1 << (2 * n)
}
/// Bit of [`DCR`]: channel `n` is enabled.
pub const fn dcr_enable(n: usize) -> u32 {
    2 << (2 * n)
}

/// The register of channel `n` at this offset within the channel.
pub const fn channel(n: usize, register: usize) -> usize {
    SBOX + 0xa000 + 0x40 * n + register
}
/// Interrupt control of a channel.
pub const DCAR: usize = 0x00;
/// Bit of [`DCAR`]: no interrupts to the host.
pub const DCAR_MASK_HOST: u32 = 1 << 25;
/// Index behind the last descriptor. The driver writes it, never the same value twice in a row.
pub const DHPR: usize = 0x04;
/// Index of the next descriptor to execute.
pub const DTPR: usize = 0x08;
/// Address of the ring, lower half.
pub const DRAR_LOW: usize = 0x14;
/// Address of the ring, the rest, and the size of the ring.
pub const DRAR_HIGH: usize = 0x18;
/// Completed descriptors and state.
pub const DSTAT: usize = 0x20;
/// Bits of [`DSTAT`]: completed descriptors. Both published drivers use the number as an index of
/// the ring, so it must wrap around with the ring (*assumed*).
pub const DSTAT_COUNT: u32 = 0x1_ffff;
/// Bit of [`DSTAT`]: the channel stands still after an error. The state is a number of four bits,
/// 31:28, and 2 is the state that matters; as the mainline driver does, only its bit is tested.
pub const DSTAT_QUIESCED: u32 = 1 << 29;
/// The address to which the channel itself stores [`DSTAT`], lower half: 4 bytes.
pub const DSTATWB_LOW: usize = 0x24;
/// The upper half; see [`DSTATWB_LOW`].
pub const DSTATWB_HIGH: usize = 0x28;
/// Bit of the stored word: an error.
pub const DSTATWB_ERROR: u32 = 1 << 31;
/// Errors of the channel; not 0 after an error. Disabling the channel clears it (*assumed*).
pub const DCHERR: usize = 0x2c;
/// Errors that are not reported.
pub const DCHERRMSK: usize = 0x30;

/// [`DRAR_HIGH`] for a ring of this number of descriptors in host memory at this card address.
pub const fn drar_high(address: u64, descriptors: u32) -> u32 {
    const SYSTEM: u32 = 1 << 26;
    let within = (address >> 32 & 0x3) as u32;
    let entry = (address >> SMPT_SHIFT & 0x1f) as u32;
    SYSTEM | entry << 21 | descriptors << 4 | within
}

/// Bytes of a descriptor: two words of 64 bits.
pub const DESCRIPTOR_BYTES: usize = 16;
/// Addresses and length of a copy are multiples of this.
pub const DMA_ALIGN: u64 = 64;
/// Most bytes of one copy on a channel of the host.
pub const HOST_COPY_BYTES: u32 = 512 << 10;
/// The bits of a card address.
pub const ADDRESS: u64 = (1 << 40) - 1;
/// Place of a descriptor's type, in its second word.
pub const TYPE_SHIFT: u32 = 60;
/// Copies memory.
pub const TYPE_COPY: u64 = 1;
/// Stores eight bytes once everything before it is done.
pub const TYPE_STATUS: u64 = 2;
/// Place of a copy's length, in units of [`DMA_ALIGN`], in its first word.
pub const LENGTH_SHIFT: u32 = 46;
/// Bit of a status descriptor's second word: interrupt when done.
pub const STATUS_INTERRUPT: u64 = 1 << 59;

/// The words of a copy. Addresses are the card's.
pub const fn copy_descriptor(from: u64, to: u64, bytes: u64) -> [u64; 2] {
    let length = bytes / DMA_ALIGN;
    [from | length << LENGTH_SHIFT, TYPE_COPY << TYPE_SHIFT | to]
}

/// The words of a status descriptor.
pub const fn status_descriptor(value: u64, to: u64, interrupts: bool) -> [u64; 2] {
    let interrupt = if interrupts { STATUS_INTERRUPT } else { 0 };
    [value, TYPE_STATUS << TYPE_SHIFT | interrupt | to]
}

/// A register's name in messages, with its offset in the BAR.
pub fn name(offset: usize) -> String {
    let word = match offset {
        SICR0 => "SICR0",
        SDBIC1 => "SDBIC1",
        RGCR => "RGCR",
        POSTCODE => "POSTCODE",
        DOWNLOAD => "SCRATCH2",
        IDENTITY => "SCRATCH13",
        _ => "a register",
    };
    format!("{word} (BAR 4 + {offset:#x})")
}

/// Resets a card, in the order of the published drivers. No register may be touched during the
/// second after that.
pub fn write_reset(registers: &dyn Mmio) {
    registers.write32(DOWNLOAD, 0);
    registers.write32(PAGE_LOW, 0);
    registers.write32(SDBIC1, 0);
    registers.write32(SICC0, CAUSES);
    let control = match registers.read32(RGCR) {
        ALL_ONES => 0,
        control => control,
    };
    registers.write32(RGCR, control | RGCR_RESET);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_offsets() {
        assert_eq!(name(SDBIC1), "SDBIC1 (BAR 4 + 0x1cc94)");
        assert_eq!(name(DOWNLOAD), "SCRATCH2 (BAR 4 + 0x1ab28)");
    }

    #[test]
    fn values_are_those_of_the_document() {
        assert_eq!(APICICR7, 0x1_aa08);
        assert_eq!(POST_FAILED, [12870, 13382]);
        assert_eq!(smpt_value(3), 12);
        assert_eq!(boot_processor(0x0400_0000 | 5 << 1 | 1), 5);
        assert_eq!(drar_high(0x84_0000_1000, 64), 1 << 26 | 1 << 21 | 64 << 4);
        assert_eq!(copy_descriptor(64, 128, 256), [64 | 4 << 46, 1 << 60 | 128]);
        assert_eq!(status_descriptor(7, 8, true), [7, 2 << 60 | 1 << 59 | 8]);
    }
}
