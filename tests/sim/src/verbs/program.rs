//! A program of a world of verbs: its context, its memory, and which parts of it are in use.

use std::collections::BTreeMap;

use verbs_core::context::Context;
use verbs_core::keys::Region;
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::Access;

use super::datagrams::Mailbox;
use super::net::{BASE, Port};
use crate::rng::mix;

/// Bytes in a slot: the length of the longest message.
pub const SLOT: u64 = 8192;
/// Number of slots in an arena.
const SLOTS: u64 = 224;
const PAGE: u64 = 4096;
/// Bytes in an arena: the slots, a page that peers can only read, one that they cannot reach, and
/// a page without a region on each side.
const ARENA: u64 = SLOTS * SLOT + 4 * PAGE;
/// Bytes in a program's memory: an arena for peers that keep to the rules, and one for the others.
pub const MEMORY: usize = 2 * ARENA as usize;

/// The keys and free slots of an arena, and its protection domain.
pub struct Arena {
    pub pd: Id,
    /// A shared receive queue of the program's XRC domain.
    pub xrc_srq: Id,
    /// The key of the slots, with all rights.
    pub all: u32,
    /// The key of the page that peers can only read.
    pub constant: u32,
    /// The key of the page that peers cannot reach.
    pub local: u32,
    base: u64,
    free: Vec<u64>,
}

/// A program; see the module.
pub struct Program {
    pub context: Context,
    pub port: Port,
    pub arenas: [Arena; 2],
    pub send_cq: Id,
    pub recv_cq: Id,
    pub srq: Id,
    pub xrcd: Id,
    /// The program's queue pairs for datagrams.
    pub mailboxes: [Mailbox; 2],
    /// The receives in shared queues: slot and length by number.
    pub shared: BTreeMap<u64, (u64, u32)>,
}

/// Returns byte `at` of the data with this number.
pub fn data(number: u64, at: u64) -> u8 {
    mix(number.wrapping_mul(0x1_0001) + at / 8).to_le_bytes()[(at % 8) as usize]
}

impl Arena {
    fn new(context: &mut Context, index: u64, xrc: Xrc) -> Result<Arena, String> {
        let wrong = |error| format!("set-up: {error:?}");
        let pd = context.alloc_pd().map_err(wrong)?;
        let xrc_srq = context.create_xrc_srq(pd, xrc, 16, 2, 0).map_err(wrong)?;
        let base = BASE + index * ARENA + PAGE;
        let mut region = |start, length, access| {
            let iova = start;
            let region = Region {
                pd,
                start,
                length,
                iova,
                access,
            };
            context.register(region).map_err(wrong)
        };
        let slots = SLOTS * SLOT;
        Ok(Arena {
            pd,
            xrc_srq,
            all: region(
                base,
                slots,
                Access::REMOTE | Access::LOCAL_WRITE | Access::MW_BIND,
            )?,
            constant: region(base + slots, PAGE, Access::REMOTE_READ)?,
            local: region(base + slots + PAGE, PAGE, Access::LOCAL_WRITE)?,
            base,
            free: (0..SLOTS).map(|slot| base + slot * SLOT).collect(),
        })
    }

    /// Takes a free slot.
    pub fn take(&mut self) -> Option<u64> {
        self.free.pop()
    }

    /// Returns a slot.
    pub fn give(&mut self, slot: u64) {
        self.free.push(slot);
    }

    /// Returns the number of free slots.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns the address of the page that peers can only read.
    pub fn constant_start(&self) -> u64 {
        self.base + SLOTS * SLOT
    }

    /// Returns whether a place lies in the memory that peers can reach.
    pub fn holds(&self, address: u64, length: usize) -> bool {
        let end = address + length as u64;
        address >= self.base && end <= self.constant_start() + PAGE
    }
}

impl Program {
    /// Makes a program with its regions.
    pub fn new(port: Port) -> Result<Program, String> {
        let wrong = |error| format!("set-up: {error:?}");
        let mut context = Context::new((port.program as u32) << 16);
        let send_cq = context.create_cq(4096).map_err(wrong)?;
        let recv_cq = context.create_cq(4096).map_err(wrong)?;
        let xrcd = context.open_xrcd().map_err(wrong)?;
        let xrc = Xrc {
            domain: xrcd,
            cq: recv_cq,
        };
        let arenas = [
            Arena::new(&mut context, 0, xrc)?,
            Arena::new(&mut context, 1, xrc)?,
        ];
        let srq = context.create_srq(arenas[0].pd, 32, 2, 0).map_err(wrong)?;
        let pd = arenas[0].pd;
        let mailboxes = [
            Mailbox::new(&mut context, pd, port.program, 0)?,
            Mailbox::new(&mut context, pd, port.program, 1)?,
        ];
        let mut program = Program {
            context,
            port,
            arenas,
            send_cq,
            recv_cq,
            srq,
            xrcd,
            mailboxes,
            shared: BTreeMap::new(),
        };
        for arena in 0..2 {
            let start = program.arenas[arena].constant_start();
            program.fill(start, 0, PAGE);
        }
        Ok(program)
    }

    /// Fills memory with the data of this number.
    pub fn fill(&mut self, address: u64, number: u64, length: u64) {
        let at = (address - BASE) as usize;
        let mut net = self.port.net.borrow_mut();
        let memory = &mut net.programs[self.port.program].memory.bytes;
        for (byte, offset) in memory[at..at + length as usize].iter_mut().zip(0..) {
            *byte = data(number, offset);
        }
    }

    /// Returns whether memory holds the data of this number, from its byte `skip` on.
    pub fn holds(&self, address: u64, number: u64, skip: u64, length: u64) -> bool {
        let at = (address - BASE) as usize;
        let net = self.port.net.borrow();
        let memory = &net.programs[self.port.program].memory.bytes;
        let bytes = memory[at..at + length as usize].iter().zip(skip..);
        bytes
            .into_iter()
            .all(|(byte, at)| *byte == data(number, at))
    }

    /// Returns whether memory holds these bytes.
    pub fn has(&self, address: u64, bytes: &[u8]) -> bool {
        let at = (address - BASE) as usize;
        let net = self.port.net.borrow();
        let memory = &net.programs[self.port.program].memory.bytes;
        memory[at..at + bytes.len()] == *bytes
    }

    /// Stores a word.
    pub fn set_word(&mut self, address: u64, value: u64) {
        let at = (address - BASE) as usize;
        let mut net = self.port.net.borrow_mut();
        let memory = &mut net.programs[self.port.program].memory.bytes;
        memory[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// Loads a word.
    pub fn word(&self, address: u64) -> u64 {
        let at = (address - BASE) as usize;
        let net = self.port.net.borrow();
        let memory = &net.programs[self.port.program].memory.bytes;
        u64::from_ne_bytes(memory[at..at + 8].try_into().unwrap_or_default())
    }

    /// Returns whether all memory that no peer may write is unchanged.
    pub fn is_unharmed(&self) -> bool {
        let canaries = |arena: &Arena| {
            let net = self.port.net.borrow();
            let memory = &net.programs[self.port.program].memory.bytes;
            let slots_end = arena.constant_start();
            [arena.base - PAGE, slots_end + PAGE, slots_end + 2 * PAGE]
                .into_iter()
                .all(|page| {
                    let at = (page - BASE) as usize;
                    let bytes = &memory[at..at + PAGE as usize];
                    bytes.iter().all(|byte| *byte == super::CANARY)
                })
        };
        let constants = |arena: &Arena| self.holds(arena.constant_start(), 0, 0, PAGE);
        let arenas = &self.arenas;
        arenas
            .iter()
            .all(|arena| canaries(arena) && constants(arena))
    }
}
