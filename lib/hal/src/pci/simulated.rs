//! A machine's configuration space in memory, so that pcid's logic is tested without a machine.

use alloc::collections::BTreeMap;
use core::cell::RefCell;

use super::protocol::Address;

/// 32-bit words of a simulated configuration space.
const WORDS: usize = 64;

/// One function: its registers, and which of their bits a write changes.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedFunction {
    /// Contents.
    pub words: [u32; WORDS],
    /// Writable bits.
    pub writable: [u32; WORDS],
}

impl Default for SimulatedFunction {
    fn default() -> Self {
        Self {
            words: [0; WORDS],
            writable: [0; WORDS],
        }
    }
}

impl SimulatedFunction {
    /// A function of a vendor and device with class, header type and a writable command register.
    pub fn new(vendor: u16, device: u16, class: [u8; 3], header_type: u8) -> Self {
        let mut function = Self::default();
        let [class, subclass, interface] = class.map(u32::from);
        function.words[0] = u32::from(device) << 16 | u32::from(vendor);
        function.words[2] = class << 24 | subclass << 16 | interface << 8 | 1;
        function.words[3] = u32::from(header_type) << 16;
        function.writable[1] = 0x0000_ffff;
        function.writable[15] = 0x0000_00ff;
        function
    }

    /// Sets a register and its writable bits; the offset is that of the register in bytes.
    pub fn register(mut self, offset: usize, value: u32, writable: u32) -> Self {
        self.words[offset / 4] = value;
        self.writable[offset / 4] = writable;
        self
    }
}

/// The functions by address.
#[derive(Default)]
pub struct SimulatedMachine {
    functions: RefCell<BTreeMap<Address, SimulatedFunction>>,
}

impl SimulatedMachine {
    /// Adds a function.
    pub fn with(self, address: Address, function: SimulatedFunction) -> Self {
        self.functions.borrow_mut().insert(address, function);
        self
    }

    pub(super) fn read(&self, address: Address, offset: u16) -> u32 {
        let functions = self.functions.borrow();
        let word =
            |function: &SimulatedFunction| function.words.get(usize::from(offset) / 4).copied();
        functions.get(&address).and_then(word).unwrap_or(u32::MAX)
    }

    pub(super) fn write(&self, address: Address, offset: u16, value: u32) {
        let mut functions = self.functions.borrow_mut();
        let Some(function) = functions.get_mut(&address) else {
            return;
        };
        let index = usize::from(offset) / 4;
        if let (Some(word), Some(mask)) =
            (function.words.get_mut(index), function.writable.get(index))
        {
            *word = (*word & !mask) | (value & mask);
        }
    }
}
