//! One life: random system calls of one process, half sensible and half hostile.
//!
//! Descriptors come from a pool that the life opens first, so most calls reach something. Pointers
//! lead into notes, into an arena whose mappings change, nowhere, into code, into the kernel's
//! half, across ends; lengths are small, huge or wrap. Root may do harm by right (stop the
//! machine, kill init, write to devices): what gives such power is not in its pool, and its words
//! never name a process's own handles.

use alloc::vec::Vec;

use runtime::{fd, path, probe, process, state, sys};
use scif_abi::call::{Call, MemoryCall};
use syscall::number::*;
use syscall::{
    CallFlags, Map, MapFlags, O_CREAT, O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_RDWR, PAGE_SIZE,
    UPPER_FDTBL_TAG,
};

use crate::choice::{CALL_NUMBERS, NAMES, PATHS, Random, SIZES};

/// Where a life reports: a word for each [`REPORTED`] calls.
pub const REPORT: usize = 900;
/// Calls between two words.
pub const REPORTED: u64 = 50;
/// Calls of a life.
const CALLS: u64 = 2000;
/// Bytes of memory that calls map, unmap and protect, and where it is: far from everything else.
pub const ARENA: usize = 32 * PAGE_SIZE;
const ARENA_AT: usize = 0x7000_0000_0000;
/// Bytes of memory that calls leave where it is: their arguments, and most of their results.
const NOTES: usize = 16 * PAGE_SIZE;
/// Beyond this many bytes a life maps no more: it must not use up the machine.
const MAPPED: usize = 16 << 20;
/// Numbers of descriptors that words name; the pool is among them.
const FDS: usize = 64;
/// Own handles of a process: `UPPER_FDTBL_TAG` and a small number.
const OWN: usize = 16;

struct Life {
    /// Every call is printed before it is made.
    traced: bool,
    random: Random,
    is_root: bool,
    arena: usize,
    notes: usize,
    mapped: usize,
    fds: Vec<usize>,
}

/// Lives, and returns the exit status.
pub fn live(seed: u64, traced: bool) -> i32 {
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
    let mut life = Life {
        traced,
        random: Random::new(seed),
        is_root: process::own_meta().euid == 0,
        arena: ARENA_AT,
        notes: 0,
        mapped: 0,
        fds: Vec::new(),
    };
    match map(sys::NO_FD, NOTES, 0, flags, 0) {
        Ok(notes) => life.notes = notes,
        Err(_) => return 3,
    }
    life.open_pool();
    for call in 1..=CALLS {
        if call % 64 == 1 {
            // The calls have unmapped it. If it cannot be had again, pointers lead nowhere.
            let _ = map(sys::NO_FD, ARENA, 0, flags | MapFlags::MAP_FIXED, ARENA_AT);
        }
        if call % 4 == 0 {
            life.scribble();
            life.scribble();
        }
        life.act();
        if call % REPORTED == 0 {
            let _ = fd::write(REPORT, &call.to_ne_bytes());
        }
    }
    0
}

fn map(fd: usize, size: usize, offset: usize, flags: MapFlags, at: usize) -> Result<usize, i32> {
    let map = Map {
        offset,
        size,
        flags,
        address: at,
    };
    let words = [fd, (&raw const map).addr(), size_of::<Map>(), 0, 0, 0];
    sys::demux(probe::syscall(SYS_FMAP, words)).map_err(|error| error.errno)
}

impl Life {
    fn open_pool(&mut self) {
        for path in PATHS {
            let flags = if self.random.rarely(4) {
                O_RDONLY
            } else {
                O_RDWR
            };
            let wait = if self.random.rarely(100) {
                0
            } else {
                O_NONBLOCK
            };
            if let Ok(fd) = path::open(path, flags | wait) {
                self.fds.push(fd);
                if path.ends_with("pipe") {
                    self.fds.extend(fd::dup(fd, b"write"));
                }
            }
        }
        for name in [&b"addrspace"[..], b"filetable", b"regs/int"] {
            self.fds.extend(fd::dup(state::thread_fd(), name));
        }
        // Others than itself only a process without rights may try to end.
        if !self.is_root {
            self.fds.extend(fd::dup(state::proc_fd(), b"fork"));
            self.fds.push(state::proc_fd());
            self.fds.push(state::thread_fd());
            self.fds.push(state::namespace_fd());
        }
    }

    /// A descriptor of the pool, or some other number.
    fn fd(&mut self) -> usize {
        if self.random.rarely(8) || self.fds.is_empty() {
            return self.random.below(FDS);
        }
        let index = self.random.below(self.fds.len());
        self.fds[index]
    }

    /// A pointer: mostly into the notes.
    fn pointer(&mut self) -> usize {
        let (arena, notes) = (self.arena, self.notes);
        match self.random.below(28) {
            0 => 0,
            1 => self.random.below(PAGE_SIZE),
            2 => arena + ARENA - self.random.below(64),
            3 => (live as *const () as usize) & !7,
            4 => (1 << 47) - self.random.below(3) * 8,
            5 => 0xFFFF_8000_0000_0000 + self.random.below(1 << 24),
            6 => usize::MAX - self.random.below(4096),
            7 => 1 << self.random.below(64),
            8 => arena + self.random.below(ARENA),
            9 => arena.wrapping_sub(self.random.below(64)),
            10..=13 => arena + self.random.below(ARENA / PAGE_SIZE) * PAGE_SIZE,
            14 | 15 => arena + self.random.below(512) * 8,
            16 => notes + NOTES - self.random.below(64),
            _ => notes + self.random.below(512) * 8,
        }
    }

    /// A word that means something, or is just off what does.
    fn word(&mut self) -> usize {
        let word = match self.random.below(14) {
            0 => 0,
            1 => self.random.below(8),
            2..=4 => self.fd(),
            5 | 6 => self.pointer(),
            7 | 8 => self.random.pick(&SIZES),
            9 => self.random.below(20) * PAGE_SIZE,
            10 => usize::MAX - self.random.below(4),
            11 => 1 << self.random.below(64),
            12 => self.random.next() & 0xFFFF_0000,
            _ => self.random.next(),
        };
        self.harmless(word)
    }

    /// Root's words never name the handles of the process, through which root may kill anybody.
    fn harmless(&self, word: usize) -> usize {
        let own = word & UPPER_FDTBL_TAG != 0 && word & !UPPER_FDTBL_TAG < OWN;
        if self.is_root && own { 0 } else { word }
    }

    /// Fills some of the notes with words, names and records.
    fn scribble(&mut self) {
        let at = self.notes + self.random.below(NOTES - 512);
        let bytes: Vec<u8> = match self.random.below(4) {
            0 => self.random.pick(NAMES).to_vec(),
            1 => self.random.pick(PATHS).as_bytes().to_vec(),
            _ => {
                let count = self.random.below(12);
                let words: Vec<usize> = (0..count).map(|_| self.word()).collect();
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            }
        };
        // Records are mostly looked for at the beginning.
        let at = match self.random.below(2) {
            0 => self.notes + self.random.below(16) * 8,
            _ => at,
        };
        for (index, byte) in bytes.into_iter().enumerate() {
            probe::poke(at + index, byte);
        }
    }

    /// One call, or a few that belong together.
    fn act(&mut self) {
        match self.random.below(16) {
            0 => self.open(),
            1 => self.name_call(),
            2 | 3 => self.scif_call(),
            4 => self.map_something(),
            5 => self.change_mapping(),
            6 => self.send_descriptor(),
            7 => self.watch(),
            8 => self.process_call(),
            9 | 10 => self.transfer(),
            11 => self.control(),
            _ => self.anything(),
        }
    }

    fn call(&mut self, number: usize, args: [usize; 6]) {
        let args = args.map(|word| self.harmless(word));
        if number == SYS_CLOSE && args[0] == REPORT {
            return;
        }
        if self.traced {
            runtime::eprintln!("call {number:#x} {args:x?}");
        }
        let answer = probe::syscall(number, args);
        if self.traced {
            runtime::eprintln!("  {:?}", sys::demux(answer));
        }
    }

    fn open(&mut self) {
        let path = self.random.pick(PATHS);
        let mut flags = self
            .random
            .pick(&[O_RDWR, O_RDONLY, O_RDWR | O_CREAT, O_DIRECTORY]);
        if !self.random.rarely(200) {
            flags |= O_NONBLOCK;
        }
        if self.fds.len() < FDS
            && let Ok(fd) = path::open(path, flags)
        {
            self.fds.push(fd);
        }
    }

    /// `dup`, `openat`, `unlinkat`, `frename` and `flink` with a name.
    fn name_call(&mut self) {
        let name = self.random.pick(NAMES);
        let at = self.notes + self.random.below(NOTES - 64);
        for (index, &byte) in name.iter().enumerate() {
            probe::poke(at + index, byte);
        }
        let (fd, target) = (self.fd(), self.random.below(FDS));
        let flags = self
            .random
            .pick(&[O_RDONLY, O_RDWR, O_RDWR | O_CREAT, O_DIRECTORY])
            | O_NONBLOCK;
        let len = name.len();
        match self.random.below(6) {
            0 => self.call(SYS_DUP_INTO, [fd, at, len, target, 0, 0]),
            1 => self.call(SYS_DUP2, [fd, target, at, len, 0, 0]),
            2 => self.call(SYS_OPENAT_INTO, [fd, at, len, flags, 0, target]),
            3 => self.call(SYS_UNLINKAT, [fd, at, len, 0, 0, 0]),
            4 => self.call(SYS_FRENAME, [fd, at, len, 0, 0, 0]),
            _ => self.call(SYS_FLINK, [fd, at, len, 0, 0, 0]),
        }
    }

    /// An operation of an endpoint or a memory handle, its words and its structure.
    fn scif_call(&mut self) {
        let number = match self.random.below(5) {
            0 => 80 + self.random.below(12),
            1 => 60 + self.random.below(12),
            2 => self.word(),
            _ => self.random.below(32),
        };
        let words = [number, self.word(), self.word()];
        let at = self.notes + PAGE_SIZE;
        for (index, byte) in words
            .map(usize::to_ne_bytes)
            .as_flattened()
            .iter()
            .enumerate()
        {
            probe::poke(at + index, *byte);
        }
        let size = match self.random.below(3) {
            0 => self
                .random
                .pick(&[size_of::<Call>(), size_of::<MemoryCall>()]),
            1 => self.random.pick(&[16, 24, 32, 40, 48, 64]),
            _ => self.random.pick(&SIZES),
        };
        let flags = self.random.pick(&[
            CallFlags::empty(),
            CallFlags::READ,
            CallFlags::WRITE,
            CallFlags::READ | CallFlags::WRITE,
            CallFlags::STD_FS,
        ]);
        let (fd, payload) = (self.fd(), self.pointer());
        let count = if self.random.rarely(8) {
            self.random.below(6)
        } else {
            words.len()
        };
        // Flags and the number of metadata words share an argument.
        self.call(SYS_CALL, [fd, payload, size, flags.bits() | count, at, 0]);
    }

    fn map_something(&mut self) {
        let size = match self.random.below(4) {
            0 => self.random.pick(&SIZES),
            _ => (1 + self.random.below(64)) * PAGE_SIZE,
        };
        if self.mapped.saturating_add(size) > MAPPED && size < 1 << 30 {
            return;
        }
        let mut flags = MapFlags::from_bits_truncate(self.random.below(8) << 16);
        flags |= self
            .random
            .pick(&[MapFlags::MAP_SHARED, MapFlags::MAP_PRIVATE]);
        let mut at = 0;
        if self.random.rarely(3) {
            flags |= self
                .random
                .pick(&[MapFlags::MAP_FIXED, MapFlags::MAP_FIXED_NOREPLACE]);
            at = self.page();
        }
        let offset = match self.random.below(4) {
            0 => self.word(),
            _ => self.random.below(32) * PAGE_SIZE,
        };
        let fd = if self.random.rarely(3) {
            sys::NO_FD
        } else {
            self.fd()
        };
        if let Ok(base) = map(fd, size, offset, flags, at) {
            self.mapped += size;
            if self.random.rarely(4) {
                self.call(SYS_FUNMAP, [base, size, 0, 0, 0, 0]);
            }
        }
    }

    /// A page of the arena, near it, or seldom somewhere else; not the program's own.
    fn page(&mut self) -> usize {
        match self.random.below(40) {
            0 => self.random.next() & !(PAGE_SIZE - 1),
            1 => ARENA_AT + ARENA + self.random.below(64) * PAGE_SIZE,
            _ => self.arena + self.random.below(ARENA / PAGE_SIZE) * PAGE_SIZE,
        }
    }

    fn change_mapping(&mut self) {
        let (at, to) = (self.page(), self.page());
        let size = match self.random.below(12) {
            0 => self.random.pick(&SIZES),
            _ => (1 + self.random.below(8)) * PAGE_SIZE,
        };
        // A range that reaches beyond the arena takes away what the program needs.
        let beyond = at < self.arena || at.saturating_add(size) > self.arena + ARENA;
        if beyond && !self.random.rarely(20) {
            return;
        }
        let flags = self.random.below(8) << 16 | self.random.below(8);
        match self.random.below(3) {
            0 => self.call(SYS_FUNMAP, [at, size, 0, 0, 0, 0]),
            1 => self.call(SYS_MPROTECT, [at, size, flags, 0, 0, 0]),
            _ => self.call(SYS_MREMAP, [at, size, to, size, flags, 0]),
        }
    }

    fn send_descriptor(&mut self) {
        let (fd, payload) = (self.fd(), self.notes + self.random.below(64) * 8);
        let mut flags = CallFlags::FD;
        // To receive from a pipe is to wait, whatever the pipe's flags say.
        flags |= if self.random.rarely(30) {
            CallFlags::READ
        } else {
            CallFlags::WRITE
        };
        if !self.random.rarely(3) {
            flags |= CallFlags::FD_CLONE;
        }
        let count = 1 + self.random.below(3);
        for index in 0..count {
            let word = self.fd();
            let word = self.harmless(word);
            for (byte, value) in word.to_ne_bytes().into_iter().enumerate() {
                probe::poke(payload + index * 8 + byte, value);
            }
        }
        let metadata = self.notes + 2 * PAGE_SIZE;
        let words = self.random.below(3);
        self.call(
            SYS_CALL,
            [fd, payload, count * 8, flags.bits() | words, metadata, 0],
        );
    }

    /// Asks for events, writes to queues, looks at what they say.
    fn watch(&mut self) {
        let (fd, queue) = (self.fd(), self.fd());
        let record = self.notes + 3 * PAGE_SIZE;
        let events = self.random.below(8);
        for (index, word) in [fd, events, self.random.next()].into_iter().enumerate() {
            for (byte, value) in word.to_ne_bytes().into_iter().enumerate() {
                probe::poke(record + index * 8 + byte, value);
            }
        }
        self.call(SYS_WRITE, [queue, record, 24, 0, 0, 0]);
        self.call(SYS_FEVENT, [fd, events, 0, 0, 0, 0]);
        self.call(SYS_READ, [queue, record, 240, 0, 0, 0]);
    }

    /// Handles of children, threads and address spaces, where a process without rights has them.
    fn process_call(&mut self) {
        let own = if self.is_root {
            self.fd()
        } else {
            self.random.pick(&[state::proc_fd(), state::thread_fd()])
        };
        let name = self.random.pick(&NAMES[6..24]);
        if self.fds.len() < FDS
            && !self.is_root
            && let Ok(fd) = fd::dup(own, name)
        {
            self.fds.push(fd);
        }
        let record = self.notes + 4 * PAGE_SIZE;
        let words = [
            self.random.below(6),
            self.word(),
            self.word(),
            self.page(),
            PAGE_SIZE,
            self.word(),
        ];
        for (index, byte) in words
            .map(usize::to_ne_bytes)
            .as_flattened()
            .iter()
            .enumerate()
        {
            probe::poke(record + index, *byte);
        }
        let (fd, size) = (self.fd(), 8 * self.random.below(30));
        self.call(SYS_WRITE, [fd, record, size, 0, 0, 0]);
    }

    fn transfer(&mut self) {
        let (fd, at, size) = (self.fd(), self.pointer(), self.random.pick(&SIZES));
        match self.random.below(4) {
            0 => self.call(SYS_READ, [fd, at, size, 0, 0, 0]),
            1 => self.call(SYS_WRITE, [fd, at, size, 0, 0, 0]),
            2 => {
                let (offset, flags) = (self.word(), self.word());
                self.call(SYS_READ2, [fd, at, size, offset, flags, 0]);
            }
            _ => {
                let (offset, flags) = (self.word(), self.word());
                self.call(SYS_WRITE2, [fd, at, size, offset, flags, 0]);
            }
        }
    }

    fn control(&mut self) {
        let (fd, argument) = (self.fd(), self.word());
        let command = match self.random.below(3) {
            0 => self.random.below(8),
            1 => self.random.below(1 << 12),
            _ => self.word(),
        };
        self.call(SYS_FCNTL, [fd, command, argument, 0, 0, 0]);
    }

    fn anything(&mut self) {
        let number = match self.random.below(60) {
            0 => self.random.next(),
            _ => self.random.pick(&CALL_NUMBERS),
        };
        let mut args: [usize; 6] = core::array::from_fn(|_| self.word());
        if !self.random.rarely(3) {
            args[0] = self.fd();
        }
        if !self.random.rarely(3) {
            args[1] = self.pointer();
            args[2] = self.random.pick(&SIZES);
        }
        match number {
            // Waits end a life early.
            SYS_NANOSLEEP | SYS_FUTEX if !self.random.rarely(2000) => return,
            // Its own code and stack must survive for the life to mean something.
            SYS_FUNMAP | SYS_MPROTECT | SYS_MREMAP | SYS_FMAP => return self.change_mapping(),
            _ => {}
        }
        self.call(number, args);
    }
}
