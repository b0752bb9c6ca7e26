//! Calls of simulated programs. Each makes steps until it ends or has to wait.

use conformance::errno::{self, Errno};
use conformance::st::call::{Call, NOTHING, Reply};
use sim::st::ends::Failed;
use st_core::combination::Combination;
use st_core::header::{HEADER_BYTES, Header, PAYLOAD_BYTES};
use st_core::region::{NotMapped, names_mapped};
use zerocopy::{FromBytes, IntoBytes};

use super::rounds::KINDS;
use super::{Outcome, Simulated, err, number, ok, with};

/// Parts of a repeating call to do in one step.
const TURNS: u64 = 64;

/// A call under way.
pub struct Job {
    pub side: usize,
    pub call: Call,
    /// The connection that it uses.
    pub connection: Option<usize>,
    /// Number of steps for which it has slept.
    pub sleeps: Option<usize>,
    pub is_dead: bool,
    /// Number of repetitions that are done, and the stage of the present one.
    pub done: u64,
    pub stage: u64,
    sum: u64,
    /// Requests that its end had made before.
    pub requests: Option<u64>,
}

impl Job {
    pub fn new(side: usize, call: &Call, connection: Option<usize>) -> Job {
        Job {
            side,
            call: *call,
            connection,
            sleeps: None,
            is_dead: false,
            done: 0,
            stage: 0,
            sum: 0,
            requests: None,
        }
    }

    /// How far the call has got.
    pub const fn progress(&self) -> (u64, u64) {
        (self.done, self.stage)
    }
}

type Bytes = [u8; PAYLOAD_BYTES];

/// The header with a number.
fn header_of(number: u64) -> Bytes {
    let words = [
        number,
        number.wrapping_mul(3),
        !number,
        number.wrapping_mul(5).wrapping_add(7),
    ];
    let mut header = [0; PAYLOAD_BYTES];
    header.copy_from_slice(words.as_bytes());
    header
}

/// The number of a header; -1 if the header is damaged.
pub(super) fn number_of(header: &Bytes) -> i64 {
    let number = header
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word));
    match header_of(number) == *header {
        true => number as i64,
        false => -1,
    }
}

/// The places of the agents' loops of puts.
const PLACES: u64 = 8;
const PLACE: u64 = 64 * 1024 + 64;

/// The length of the put with a number: 1 byte to 64 KiB.
fn length_of(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ mixed >> 31;
    1 + (mixed & ((1 << ((mixed >> 59) % 17)) - 1))
}

fn put_of(number: u64) -> (u64, Vec<u8>) {
    let from = number % 65_521;
    let byte = |at: u64| (at * 31 + (at >> 8) * 7) as u8;
    let bytes = (from..from + length_of(number)).map(byte).collect();
    (number % PLACES * PLACE + number % 64, bytes)
}

/// The result of a part of a call: its value, or why it cannot continue.
pub type Part<T = ()> = Result<T, Failed>;

impl Simulated {
    /// Makes steps of a call. Returns `None` if it waits or has more to do.
    pub(super) fn go_on(&mut self, job: &mut Job) -> Outcome {
        let call = job.call;
        let many = match call {
            Call::Pushes { count, .. }
            | Call::Pulls { count, .. }
            | Call::PutLoop { count, .. }
            | Call::GetLoop { count, .. }
            | Call::Maps { count, .. }
            | Call::Fetches { count, .. }
            | Call::Adds { count, .. } => count,
            Call::Rounds { count, .. } => KINDS * count,
            Call::Storm { .. } | Call::Calm { .. } => u64::MAX,
            _ => {
                let outcome = self.once(job.side, &call);
                if outcome.is_none() && job.connection.is_some() && !self.looks(job) {
                    job.sleeps = Some(0);
                }
                return outcome;
            }
        };
        for _ in 0..TURNS {
            if job.done == many {
                return Some(self.ended(job, Errno(0)));
            }
            match self.turn(job) {
                Ok(()) => job.done += 1,
                Err(Failed::Waits) => {
                    job.sleeps = (!self.looks(job)).then_some(0);
                    return None;
                }
                Err(Failed::Dead) => {
                    job.is_dead = true;
                    return None;
                }
                Err(failed) => {
                    let errno = number(failed).unwrap_or(errno::EAGAIN);
                    return Some(self.ended(job, errno));
                }
            }
        }
        None
    }

    fn ended(&self, job: &Job, errno: Errno) -> Reply {
        let result = match job.call {
            Call::Fetches { .. } => job.sum,
            Call::Adds { .. } => 0,
            _ => job.done,
        };
        let extra = match job.call {
            Call::Fetches { .. } => vec![job.done as i64, errno.0.into()],
            // The rounds take no time.
            Call::Rounds { .. } => vec![self.requests_of(job) as i64, 0, errno.0.into()],
            _ => vec![errno.0.into()],
        };
        Reply {
            result: Ok(result as i64),
            extra,
        }
    }

    /// The connection and the channel of a handle.
    pub(super) fn place(&self, side: usize, handle: u64) -> Option<(usize, u32)> {
        let handle = self.programs[side].handles.get(&handle)?;
        Some((handle.connection, handle.channel))
    }

    /// Makes another repetition of a repeating call.
    fn turn(&mut self, job: &mut Job) -> Part {
        let side = job.side;
        let handle = job.call.words().first().copied().unwrap_or(NOTHING);
        let place = self.place(side, handle).or(match job.call {
            Call::Adds { .. } => Some((0, 0)),
            _ => None,
        });
        let (connection, channel) = place.ok_or(Failed::Invalid)?;
        let done = job.done;
        match job.call {
            Call::Pushes { first, .. } => self.push(side, handle, Some(first + done), None),
            Call::Pulls { first, .. } => {
                let ends = &mut self.connections[connection].ends;
                same(number_of(&ends.pull(side, channel)?), first + done)
            }
            Call::PutLoop { first, remote, .. } => {
                let number = first + done;
                if job.stage == 0 {
                    let (ahead, bytes) = put_of(number);
                    self.push(side, handle, Some(number), Some((&bytes, remote + ahead)))?;
                    job.stage = 1;
                }
                if done % PLACES == PLACES - 1 {
                    self.connections[connection].ends.pull(side, channel)?;
                }
                job.stage = 0;
                Ok(())
            }
            Call::GetLoop { first, local, .. } => {
                let number = first + done;
                if job.stage == 0 {
                    let header = self.connections[connection].ends.pull(side, channel)?;
                    same(number_of(&header), number)?;
                    let (ahead, bytes) = put_of(number);
                    let found = self.read(side, local + ahead, bytes.len() as u64);
                    if found != bytes {
                        return Err(Failed::OtherLevel);
                    }
                    self.write(side, local + ahead, &vec![0xee; bytes.len()]);
                    job.stage = 1;
                }
                if done % PLACES == PLACES - 1 {
                    self.push(side, handle, Some(number), None)?;
                }
                job.stage = 0;
                Ok(())
            }
            Call::Storm {
                local,
                remote,
                length,
                header,
                ..
            } => {
                self.write(side, local, &done.to_le_bytes());
                let bytes = self.read(side, local, length);
                let header = (header == 1).then_some(done);
                self.push(side, handle, header, Some((&bytes, remote)))
            }
            Call::Calm { local, .. } => {
                let header = self.connections[connection].ends.pull(side, channel)?;
                same(number_of(&header), done)?;
                match self.word(side, local) >= done {
                    true => Ok(()),
                    false => Err(Failed::OtherLevel),
                }
            }
            Call::Maps { length, .. } => {
                self.map(side, handle, 0, length)?;
                let at = self.unmap(side, handle).ok_or(Failed::Invalid)?;
                self.programs[side].memory.free(at);
                Ok(())
            }
            Call::Fetches {
                ahead,
                flags,
                local,
                ..
            } => {
                let header = Header {
                    operation: 0x15 << 11 | flags as u16,
                    buffer: (ahead >> 12) as u32,
                    offset: (ahead & 0xfff) as u32,
                    ..Header::default()
                };
                let ends = &mut self.connections[connection].ends;
                let came = ends.transmit(side, channel, &header, None, &[0; 8])?;
                self.write(side, local, &came);
                job.sum = job.sum.wrapping_add(self.word(side, local));
                Ok(())
            }
            Call::Rounds { .. } => self.round(job),
            Call::Adds { address, .. } => {
                let value = self.word(side, address) + 1;
                self.write(side, address, &value.to_le_bytes());
                Ok(())
            }
            _ => Err(Failed::Invalid),
        }
    }

    pub(super) fn push(
        &mut self,
        side: usize,
        handle: u64,
        header: Option<u64>,
        data: Option<(&[u8], u64)>,
    ) -> Part {
        let (connection, channel) = self.place(side, handle).ok_or(Failed::Invalid)?;
        let header = header.map(header_of);
        let ends = &mut self.connections[connection].ends;
        ends.push(side, channel, header.as_ref(), data)
    }

    fn map(&mut self, side: usize, number: u64, address: u64, length: u64) -> Part<u64> {
        let (connection, channel) = self.place(side, number).ok_or(Failed::Invalid)?;
        let memory = &mut self.programs[side].memory;
        let at = match address {
            0 => memory.allocate(length),
            address => address,
        };
        let content = self.read(side, at, length);
        let ends = &mut self.connections[connection].ends;
        let offset = ends.map(side, channel, at, content)?;
        // Mapping enters the system, so earlier stores are visible when it returns.
        ends.deliver_stores(side);
        if let Some(handle) = self.programs[side].handles.get_mut(&number) {
            handle.mapped = Some((at, length, offset));
        }
        Ok(at)
    }

    /// The result of a call on a handle; `None` if it waits and its socket allows that.
    fn outcome(&mut self, side: usize, handle: u64, part: Part<Vec<i64>>) -> Outcome {
        match part {
            Ok(extra) => with(extra),
            Err(failed) => match number(failed) {
                Some(errno) => err(errno),
                None => {
                    let socket = self.programs[side].handles.get(&handle)?.socket;
                    let waits = self.programs[side].sockets.get(&socket)?.waits;
                    (!waits).then(|| err(errno::EAGAIN))?
                }
            },
        }
    }

    /// Makes a call of `st.h`, or one on memory.
    pub(super) fn transfer(&mut self, side: usize, call: &Call) -> Outcome {
        match *call {
            Call::Allocate { length, .. } => {
                let at = self.programs[side].memory.allocate(length);
                return Some(Reply::plain(Ok(at as i64)));
            }
            Call::Fill {
                address,
                length,
                seed,
            } => {
                let bytes = super::memory::pattern(length, seed);
                self.write(side, address, &bytes);
                return ok();
            }
            Call::Set {
                address,
                length,
                value,
            } => {
                self.write(side, address, &vec![value as u8; length as usize]);
                return ok();
            }
            Call::Same {
                address,
                length,
                value,
            } => return self.same(side, address, length, value),
            Call::Check {
                address,
                length,
                seed,
            } => return self.compare(side, address, length, seed),
            Call::Load { address } => return with(vec![self.word(side, address) as i64]),
            Call::Store { address, value } => {
                self.write(side, address, &value.to_le_bytes());
                return ok();
            }
            _ => {}
        }
        let handle = call.words().first().copied()?;
        let closed = |program: &super::Program| {
            let handle = program.handles.get(&handle)?;
            Some(!program.sockets.contains_key(&handle.socket))
        };
        match closed(&self.programs[side]) {
            Some(false) => {}
            Some(true) => return err(errno::EBADF),
            None => return err(errno::EINVAL),
        }
        let part = self.call_on(side, handle, call);
        self.outcome(side, handle, part)
    }

    fn call_on(&mut self, side: usize, handle: u64, call: &Call) -> Part<Vec<i64>> {
        let (connection, channel) = self.place(side, handle).ok_or(Failed::Invalid)?;
        match *call {
            Call::Push {
                header,
                local,
                remote,
                length,
                ..
            } => {
                let header = (header != NOTHING).then_some(header);
                combined(header.is_some(), local, remote, length)?;
                let bytes = match length {
                    0 => Vec::new(),
                    length => self.read(side, local, length),
                };
                let data = (length > 0).then_some((&bytes[..], remote));
                if header.is_some() || data.is_some() {
                    self.push(side, handle, header, data)?;
                }
                Ok(Vec::new())
            }
            Call::Pull {
                header,
                local,
                remote,
                length,
                ..
            } => {
                combined(header == 1, local, remote, length)?;
                let ends = &mut self.connections[connection].ends;
                if length > 0 {
                    ends.await_memory(side, channel)?;
                }
                let number = match header {
                    1 => number_of(&ends.pull(side, channel)?),
                    _ => -1,
                };
                if length > 0 {
                    let bytes = ends.get(side, channel, remote, length as usize)?;
                    self.write(side, local, &bytes);
                }
                Ok(vec![number])
            }
            Call::Fence { .. } => {
                self.connections[connection].ends.fence(side)?;
                Ok(Vec::new())
            }
            Call::Map {
                address, length, ..
            } => Ok(vec![self.map(side, handle, address, length)? as i64]),
            Call::Unmap {
                address, length, ..
            } => {
                let handles = &self.programs[side].handles;
                let mapped = handles.get(&handle).and_then(|handle| handle.mapped);
                let mapped = mapped.map(|(at, length, _)| (at, length));
                names_mapped(mapped, address, length as i64).map_err(|error| match error {
                    NotMapped::Nothing => Failed::NoSuchAddress,
                    NotMapped::Another => Failed::Invalid,
                })?;
                self.unmap(side, handle).ok_or(Failed::NoSuchAddress)?;
                self.connections[connection].ends.deliver_stores(side);
                Ok(vec![address as i64])
            }
            Call::Transmit { .. } => self.transmit(side, handle, call),
            Call::Receive { .. } => self.receive(connection, side, channel),
            Call::Push0 {
                header,
                local,
                remote,
                length,
                ..
            } => {
                let payload = (header != NOTHING).then(|| header_of(header));
                let code = match length {
                    0 => 0x10,
                    _ => 0x1b,
                };
                let silent = payload.is_none();
                self.by_0(side, handle, (code, silent), payload, local, remote, length)
            }
            Call::Pull0 {
                header,
                local,
                remote,
                length,
                ..
            } => {
                let mut number = -1;
                if length > 0 {
                    let ends = &mut self.connections[connection].ends;
                    ends.await_memory(side, channel)?;
                }
                if header == 1 {
                    let ends = &mut self.connections[connection].ends;
                    let (_, _, payload) = ends.receive(side, channel)?;
                    number = payload.as_ref().map_or(-1, number_of);
                }
                if length > 0 {
                    self.by_0(side, handle, (0x15, true), None, local, remote, length)?;
                }
                Ok(vec![number])
            }
            _ => Err(Failed::Invalid),
        }
    }

    /// The address of bytes of the own mapped range.
    fn own(&self, side: usize, handle: u64, ahead: u64, length: u64) -> Option<u64> {
        let (at, whole, _) = self.programs[side].handles.get(&handle)?.mapped?;
        (ahead + length <= whole).then_some(at + ahead)
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of st_tx")]
    fn by_0(
        &mut self,
        side: usize,
        handle: u64,
        (code, silent): (u16, bool),
        payload: Option<Bytes>,
        local: u64,
        remote: u64,
        length: u64,
    ) -> Part<Vec<i64>> {
        let (connection, channel) = self.place(side, handle).ok_or(Failed::Invalid)?;
        let at = self.own(side, handle, local, length).unwrap_or(0);
        let bytes = match length {
            0 => Vec::new(),
            length => self.read(side, at, length),
        };
        let header = Header {
            operation: code << 11 | if silent { 0x080 } else { 0 },
            buffer: (remote >> 12) as u32,
            offset: (remote & 0xfff) as u32,
            ..Header::default()
        };
        let ends = &mut self.connections[connection].ends;
        let came = ends.transmit(side, channel, &header, payload.as_ref(), &bytes)?;
        if code == 0x15 {
            self.write(side, at, &came);
        }
        Ok(vec![-1])
    }

    fn transmit(&mut self, side: usize, handle: u64, call: &Call) -> Part<Vec<i64>> {
        let Call::Transmit {
            w0,
            w1,
            w2,
            w3,
            w4,
            payload,
            length,
            buffer,
            offset,
            ..
        } = *call
        else {
            return Err(Failed::Invalid);
        };
        let (connection, channel) = self.place(side, handle).ok_or(Failed::Invalid)?;
        let words = [w0, w1, w2, w3, w4];
        let header = Header::read_from_bytes(words.as_bytes()).map_err(|_| Failed::Invalid)?;
        let payload = (payload != NOTHING).then(|| header_of(payload));
        if (length as i64) < 0 {
            return Err(Failed::Invalid);
        }
        let at = match length {
            0 => 0,
            length => {
                let ahead = (buffer << 12) + offset;
                // The library checks local memory; EFAULT is its error.
                self.own(side, handle, ahead, length)
                    .ok_or(Failed::NoLocal)?
            }
        };
        let bytes = match length {
            0 => Vec::new(),
            length => self.read(side, at, length),
        };
        let ends = &mut self.connections[connection].ends;
        let came = ends.transmit(side, channel, &header, payload.as_ref(), &bytes)?;
        if !came.is_empty() {
            self.write(side, at, &came);
        }
        Ok(Vec::new())
    }

    fn receive(&mut self, connection: usize, side: usize, channel: u32) -> Part<Vec<i64>> {
        let ends = &mut self.connections[connection].ends;
        let (header, length, payload) = ends.receive(side, channel)?;
        let mut words = [0_u64; HEADER_BYTES / 8];
        words.as_mut_bytes().copy_from_slice(header.as_bytes());
        let mut extra: Vec<i64> = words.iter().map(|word| *word as i64).collect();
        let payload = payload.unwrap_or_default();
        extra.extend([length as i64, number_of(&payload), 0]);
        Ok(extra)
    }
}

pub(super) fn same(found: i64, expected: u64) -> Part {
    match found == expected as i64 {
        true => Ok(()),
        false => Err(Failed::OtherLevel),
    }
}

/// Checks that the arguments of push or pull can be combined.
fn combined(header: bool, local: u64, remote: u64, length: u64) -> Part {
    let combination = Combination::of(header, local != 0, remote != 0, length as i64);
    combination.map(drop).map_err(|_| Failed::Invalid)
}
