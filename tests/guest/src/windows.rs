//! The other end for tests of registered memory: one connection, over which commands say what to
//! do with a piece of memory there. `scif-peer` serves it; tests use it through [`Remote`].

use alloc::string::String;
use alloc::vec;

use scif::{Endpoint, Memory, RecvFlags, SendFlags, View, raw};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::peer::{Peer, Request, WINDOWS};
use crate::{pattern, settled, text};

/// Bytes before and behind a range that must stay as they are.
pub const GUARD: usize = 64;
/// Their content.
pub const GUARD_BYTE: u8 = 0xa5;
/// Bytes that are made or compared at a time.
const PIECE: usize = 64 * 1024;

/// The order; the meaning of the numbers is that of the command.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Command {
    verb: U32,
    flags: U32,
    place: U64,
    length: U64,
    offset: I64,
    value: U64,
}

/// New memory of `length` bytes, ordinary if `value` is 1. The former is dropped.
const MEMORY: u32 = 1;
/// Registers `length` bytes at `place`, at `offset` if `value` has `SCIF_MAP_FIXED`. Answer: where.
const REGISTER: u32 = 2;
/// Unregisters.
const UNREGISTER: u32 = 3;
/// Fills `length` bytes at `place` with pattern `value`.
const FILL: u32 = 4;
/// Clears `length` bytes at `place` and puts guards around them.
const FRAME: u32 = 5;
/// Compares `length` bytes at `place` with pattern `value`, and the guards if `flags` is 1.
/// Answer: 0, or 1 + the first position that is wrong, counted from the first guard.
const COMPARE: u32 = 6;
/// Starts `scif_readfrom` (`value` 0) or `scif_writeto` (1) with `place` as local offset.
const TRANSFER: u32 = 7;
/// Waits until the word at `place` is `value`. Answer: 0, or 1 when it does not come.
const AWAIT: u32 = 8;
/// Stores `value` at `place`.
const STORE: u32 = 9;
/// Adds 1 to the word at `place`, `length` times.
const ADD: u32 = 10;
/// Keeps the memory when the connection ends, for the next one from the same node.
const KEEP: u32 = 11;
/// Takes the memory that a connection from the same node has kept.
const RECALL: u32 = 12;

/// Serves the commands of a connection until it ends. `kept` is memory that one connection from its
/// node has left for the next: nodes take turns with one peer.
pub fn serve(endpoint: &Endpoint, kept: &mut Option<Memory>) {
    let (mut memory, mut is_kept) = (None, false);
    let mut bytes = [0; size_of::<Command>()];
    while let Ok(count) = endpoint.recv(&mut bytes, RecvFlags::BLOCK) {
        let Some(command) = Command::read_from_bytes(&bytes)
            .ok()
            .filter(|_| count == bytes.len())
        else {
            break;
        };
        match command.verb.get() {
            KEEP => is_kept = true,
            RECALL => memory = kept.take(),
            _ => {}
        }
        let answer = match obey(endpoint, &mut memory, &command) {
            Ok(value) => value,
            Err(errno) => -i64::from(errno),
        };
        if endpoint
            .send(&answer.to_le_bytes(), SendFlags::BLOCK)
            .is_err()
        {
            break;
        }
    }
    if is_kept {
        *kept = memory;
    }
}

fn obey(endpoint: &Endpoint, memory: &mut Option<Memory>, command: &Command) -> raw::Result<i64> {
    let (place, length) = (command.place.get() as usize, command.length.get() as usize);
    let (offset, value) = (command.offset.get(), command.value.get());
    let (epd, flags) = (endpoint.fd(), command.flags.get());
    if command.verb.get() == MEMORY {
        *memory = None;
        let new = match value {
            1 => Memory::ordinary(length),
            _ => Memory::new(length),
        };
        *memory = Some(new.map_err(number)?);
        return Ok(0);
    }
    let memory = memory.as_ref().ok_or(syscall::error::EINVAL)?;
    match command.verb.get() {
        REGISTER => {
            let range = memory.range().part(place, length).map_err(number)?;
            raw::register(epd, range, offset, flags, value as u32)
        }
        UNREGISTER => raw::unregister(epd, offset, length as u64).map(|()| 0),
        FILL => fill(memory, place, length, value).map(|()| 0),
        FRAME => frame(memory, place, length).map(|()| 0),
        COMPARE => {
            let wrong = compare(memory, place, length, value, flags == 1)?;
            Ok(wrong.map_or(0, |position| 1 + position as i64))
        }
        TRANSFER if value == 0 => {
            raw::readfrom(epd, place as i64, length as u64, offset, flags).map(|()| 0)
        }
        TRANSFER => raw::writeto(epd, place as i64, length as u64, offset, flags).map(|()| 0),
        AWAIT => {
            let found = settled(|| memory.load_acquire_u64(place), &Ok(value));
            Ok(i64::from(found.map_err(number)? != value))
        }
        KEEP | RECALL => Ok(0),
        STORE => memory
            .store_release_u64(place, value)
            .map(|()| 0)
            .map_err(number),
        ADD => {
            for _ in 0..length {
                memory.fetch_add_u64(place, 1).map_err(number)?;
            }
            Ok(0)
        }
        _ => Err(syscall::error::EINVAL),
    }
}

fn number(error: runtime::Error) -> i32 {
    error.errno
}

/// Fills a range with a pattern.
///
/// # Errors
/// `EFAULT` when it is not inside.
pub fn fill(memory: &View, place: usize, length: usize, seed: u64) -> raw::Result<()> {
    let mut piece = vec![0; PIECE.min(length)];
    for at in (0..length).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(length - at)];
        pattern::fill(seed, at as u64, piece);
        memory.copy_in(place + at, piece).map_err(number)?;
    }
    Ok(())
}

/// Clears a range and puts guards around it.
///
/// # Errors
/// `EFAULT` when they are not inside.
pub fn frame(memory: &View, place: usize, length: usize) -> raw::Result<()> {
    let start = place.checked_sub(GUARD).ok_or(syscall::error::EFAULT)?;
    memory.fill(start, GUARD, GUARD_BYTE).map_err(number)?;
    memory.fill(place, length, 0).map_err(number)?;
    memory
        .fill(place + length, GUARD, GUARD_BYTE)
        .map_err(number)
}

/// The first position, counted from the first guard, at which a range does not hold its pattern,
/// or a guard has changed (if they are looked at).
///
/// # Errors
/// `EFAULT` when it is not inside.
pub fn compare(
    memory: &View,
    place: usize,
    length: usize,
    seed: u64,
    guards: bool,
) -> raw::Result<Option<u64>> {
    let mut guard = [0; GUARD];
    let changed = |guard: &[u8]| guard.iter().position(|byte| *byte != GUARD_BYTE);
    if guards {
        memory.copy_out(place - GUARD, &mut guard).map_err(number)?;
        if let Some(position) = changed(&guard) {
            return Ok(Some(position as u64));
        }
    }
    let mut piece = vec![0; PIECE.min(length)];
    for at in (0..length).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(length - at)];
        memory.copy_out(place + at, piece).map_err(number)?;
        if let Some(position) = pattern::mismatch(seed, at as u64, piece) {
            return Ok(Some(GUARD as u64 + position));
        }
    }
    if guards {
        memory
            .copy_out(place + length, &mut guard)
            .map_err(number)?;
        if let Some(position) = changed(&guard) {
            return Ok(Some((GUARD + length + position) as u64));
        }
    }
    Ok(None)
}

/// The peer's end of a connection, which follows orders.
pub struct Remote {
    /// The own end.
    pub endpoint: Endpoint,
}

impl Remote {
    /// A connection to a peer, which gets memory of `bytes` bytes.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn new(peer: &Peer, bytes: usize) -> Result<Self, String> {
        let remote = Self::connect(peer)?;
        remote.memory(bytes, false)?;
        Ok(remote)
    }

    /// A connection to a peer, which has the memory that one from this node [kept](Self::keep).
    ///
    /// # Errors
    /// A description of the failure.
    pub fn recall(peer: &Peer) -> Result<Self, String> {
        let remote = Self::connect(peer)?;
        let recalled = remote.on_range(RECALL, 0, 0, 0, 0);
        recalled.map_err(failed("recalling memory"))?;
        Ok(remote)
    }

    fn connect(peer: &Peer) -> Result<Self, String> {
        let request = Request {
            verb: WINDOWS.into(),
            ..Request::default()
        };
        let endpoint = peer.connect(&request)?;
        Ok(Self { endpoint })
    }

    /// Lets the peer keep its memory when this connection ends.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn keep(&self) -> Result<(), String> {
        let kept = self.on_range(KEEP, 0, 0, 0, 0);
        kept.map(|_| ()).map_err(failed("keeping memory"))
    }

    /// Gives the peer other memory.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn memory(&self, bytes: usize, ordinary: bool) -> Result<(), String> {
        self.set_up(bytes, ordinary)
            .map_err(failed("giving it memory"))
    }

    /// As [`memory`](Self::memory).
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn set_up(&self, bytes: usize, ordinary: bool) -> raw::Result<()> {
        self.ask(Command {
            verb: MEMORY.into(),
            length: (bytes as u64).into(),
            value: u64::from(ordinary).into(),
            ..Command::default()
        })
        .map(|_| ())
    }

    /// Registers a part of the peer's memory.
    ///
    /// # Errors
    /// The peer's error number; `EPIPE` when it does not answer.
    pub fn register(
        &self,
        place: usize,
        length: usize,
        offset: i64,
        protection: u32,
        flags: u32,
    ) -> raw::Result<i64> {
        self.ask(Command {
            verb: REGISTER.into(),
            flags: protection.into(),
            place: (place as u64).into(),
            length: (length as u64).into(),
            offset: offset.into(),
            value: u64::from(flags).into(),
        })
    }

    /// Unregisters windows of the peer.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn unregister(&self, offset: i64, length: usize) -> raw::Result<()> {
        self.ask(Command {
            verb: UNREGISTER.into(),
            length: (length as u64).into(),
            offset: offset.into(),
            ..Command::default()
        })
        .map(|_| ())
    }

    /// Fills a part of the peer's memory.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn fill(&self, place: usize, length: usize, seed: u64) -> Result<(), String> {
        self.put(place, length, seed).map_err(failed("filling"))
    }

    /// As [`fill`](Self::fill).
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn put(&self, place: usize, length: usize, seed: u64) -> raw::Result<()> {
        self.on_range(FILL, place, length, seed, 0).map(|_| ())
    }

    /// The first position, as [`compare`] counts, at which a part of the peer's memory does not
    /// hold its pattern.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn first_difference(
        &self,
        place: usize,
        length: usize,
        seed: u64,
    ) -> raw::Result<Option<u64>> {
        let position = self.on_range(COMPARE, place, length, seed, 0)?;
        Ok((position as u64).checked_sub(1))
    }

    /// Clears a part of the peer's memory and puts guards around it.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn frame(&self, place: usize, length: usize) -> Result<(), String> {
        let framed = self.on_range(FRAME, place, length, 0, 0);
        framed.map(|_| ()).map_err(failed("putting guards"))
    }

    /// Fails unless a part of the peer's memory holds its pattern, between whole guards if those
    /// are looked at.
    ///
    /// # Errors
    /// A description of the failure, or the place of the difference.
    pub fn compare(
        &self,
        place: usize,
        length: usize,
        seed: u64,
        guards: bool,
    ) -> Result<(), String> {
        let found = self.on_range(COMPARE, place, length, seed, u32::from(guards));
        match found.map_err(failed("comparing"))? {
            0 => Ok(()),
            position => Err(difference(position as u64 - 1, length)),
        }
    }

    /// Lets the peer start a transfer of its own.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn transfer(
        &self,
        write: bool,
        local: i64,
        length: usize,
        remote: i64,
        flags: u32,
    ) -> raw::Result<()> {
        self.ask(Command {
            verb: TRANSFER.into(),
            flags: flags.into(),
            place: (local as u64).into(),
            length: (length as u64).into(),
            offset: remote.into(),
            value: u64::from(write).into(),
        })
        .map(|_| ())
    }

    /// Lets the peer wait for a word in its memory.
    ///
    /// # Errors
    /// A description of the failure, or that nothing came.
    pub fn wait_for(&self, place: usize, value: u64) -> Result<(), String> {
        let waited = self.on_range(AWAIT, place, 0, value, 0);
        match waited.map_err(failed("waiting"))? {
            0 => Ok(()),
            _ => Err(alloc::format!("the peer waits for {value} in vain")),
        }
    }

    /// Lets the peer store a word.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn store(&self, place: usize, value: u64) -> Result<(), String> {
        let stored = self.on_range(STORE, place, 0, value, 0);
        stored.map(|_| ()).map_err(failed("storing"))
    }

    /// Lets the peer start to add to a word; [`added`](Self::added) waits until it has.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn start_adding(&self, place: usize, times: usize) -> Result<(), String> {
        let command = Command {
            verb: ADD.into(),
            place: (place as u64).into(),
            length: (times as u64).into(),
            ..Command::default()
        };
        self.say(command)
            .map_err(|errno| alloc::format!("the peer has gone, {errno}"))
    }

    /// See [`start_adding`](Self::start_adding).
    ///
    /// # Errors
    /// A description of the failure.
    pub fn added(&self) -> Result<(), String> {
        self.answer().map(|_| ()).map_err(text("adding"))
    }

    fn on_range(
        &self,
        verb: u32,
        place: usize,
        length: usize,
        value: u64,
        flags: u32,
    ) -> raw::Result<i64> {
        self.ask(Command {
            verb: verb.into(),
            flags: flags.into(),
            place: (place as u64).into(),
            length: (length as u64).into(),
            value: value.into(),
            ..Command::default()
        })
    }

    fn ask(&self, command: Command) -> raw::Result<i64> {
        self.say(command)?;
        self.answer()
    }

    fn say(&self, command: Command) -> raw::Result<()> {
        let sent = self.endpoint.send(command.as_bytes(), SendFlags::BLOCK);
        sent.map(|_| ()).map_err(scif::Error::errno)
    }

    fn answer(&self) -> raw::Result<i64> {
        let mut bytes = [0; size_of::<i64>()];
        let received = self.endpoint.recv(&mut bytes, RecvFlags::BLOCK);
        match received.map_err(scif::Error::errno)? {
            count if count < bytes.len() => Err(syscall::error::EPIPE),
            _ => match i64::from_le_bytes(bytes) {
                value @ 0.. => Ok(value),
                error => Err(-error as i32),
            },
        }
    }
}

/// The text for a command that the peer could not carry out.
fn failed(what: &'static str) -> impl Fn(i32) -> String {
    move |errno| alloc::format!("{what} at the peer failed with {errno}")
}

/// Says where a range is wrong, from a position of [`compare`].
pub fn difference(position: u64, length: usize) -> String {
    let at = position as i64 - GUARD as i64;
    match at {
        ..0 => alloc::format!("the guard {at} before the range has changed"),
        _ if at < length as i64 => alloc::format!("byte {at} of {length} is wrong"),
        _ => alloc::format!(
            "the guard {} behind the range has changed",
            at - length as i64
        ),
    }
}
