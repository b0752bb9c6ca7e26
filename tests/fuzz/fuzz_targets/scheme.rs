//! Requests of clients to the `scif` scheme on two nodes, in any order, with any structures and on
//! any handles. After each the engine's own rules hold; when everything is unmapped, cancelled and
//! closed, nothing is left.
#![no_main]

use std::collections::BTreeMap;
use std::rc::Rc;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use scheme_scif::fixture::{ADMIN, Fixture, LATE, Op, PAGE, USER, state};
use scheme_scif::{Caller, HandleId, ROOT};
use scif_abi::call::{Call, MemoryCall, OwnRecord, PinRecord};
use scif_abi::codec::Operation;
use scif_core::Run;
use syscall::data::Stat;
use syscall::flag::{EventFlags, MapFlags, O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_RDWR, O_STAT};
use syscall::flag::{F_GETFL, F_SETFL, O_WRONLY};

/// The number by which programs name their address spaces.
const SPACE: u64 = 5;
const STRANGER: Caller = Caller {
    pid: 78,
    uid: 1001,
    gid: 1001,
};
const PATHS: [&str; 20] = [
    "endpoint",
    "memory",
    "listen/2050",
    "0/2050",
    "1/2050",
    "accept/2050",
    "stp/accept/2050",
    "stp/listen/2050",
    "stp/0/2050",
    "stp/1/2050",
    "0/2051",
    "listen",
    "accept",
    "peers",
    "windows",
    "stats",
    "limits",
    "",
    "0",
    "listen/80",
];
const NAMES: [&[u8]; 5] = [b"accept", b"window", b"own-window", b"bypass", b"x"];
/// Pages for memory objects on each node: so few that they run out.
const OBJECT_PAGES: u64 = 300;

/// A program's mappings, as the kernel keeps them.
#[derive(Clone, Copy)]
struct Mapping {
    node: usize,
    id: HandleId,
    offset: u64,
    pages: usize,
}

struct Play {
    fixture: Fixture,
    handles: [Vec<HandleId>; 2],
    /// Requests under way, and whether each gives a handle.
    pending: [BTreeMap<u32, bool>; 2],
    mappings: Vec<Mapping>,
}

/// A number that means something now and then.
fn word(input: &mut Unstructured<'_>) -> Result<u64> {
    let (page, small) = (PAGE as u64, u64::from(u8::arbitrary(input)?));
    Ok(match small % 8 {
        0..3 => page * (small >> 3 & 3),
        3 => small >> 3,
        4 => page + (small >> 3),
        5 => [u64::MAX, 1 << 62, 1 << 63, u64::MAX - page + 1][small as usize >> 6],
        6 => page << (small >> 3),
        _ => u64::arbitrary(input)?,
    })
}

fn caller(input: &mut Unstructured<'_>) -> Result<Caller> {
    Ok(*input.choose(&[USER, USER, ADMIN, STRANGER])?)
}

/// Bytes that look like the structure of a call: words that mean something, then any.
fn structure(input: &mut Unstructured<'_>, number: u64) -> Result<Vec<u8>> {
    let lengths = [Call::payload_len(number), MemoryCall::payload_len(number)];
    let mut length = lengths.into_iter().flatten().max().unwrap_or(0);
    if length == 0 || input.ratio(1, 12)? {
        length = input.int_in_range(0..=3 * PAGE)?;
        return Ok(vec![1; length]);
    }
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        let value = word(input)?.to_le_bytes();
        chunk.copy_from_slice(&value[..chunk.len()]);
    }
    // The last word of each is rights and flags.
    if input.ratio(3, 4)? {
        let flags = [u32::from(u8::arbitrary(input)?), 3].map(|half| half & 0x33);
        let last = u64::from(flags[1]) | u64::from(flags[0]) << 32;
        bytes[length - 8..].copy_from_slice(&last.to_le_bytes());
    }
    Ok(bytes)
}

impl Play {
    fn handle(&self, node: usize, input: &mut Unstructured<'_>) -> Result<HandleId> {
        match self.handles[node][..] {
            // A number that may be no handle, or the root.
            [] => Ok(usize::from(u8::arbitrary(input)?)),
            _ if input.ratio(1, 32)? => Ok(ROOT),
            _ => Ok(*input.choose(&self.handles[node])?),
        }
    }

    fn submit(&mut self, node: usize, op: Op, input: &mut Unstructured<'_>) -> Result<()> {
        let gives_handle = matches!(op, Op::Open { .. } | Op::Dup { .. });
        let request = self.fixture.submit_only(node, op);
        self.pending[node].insert(request, gives_handle);
        if !input.ratio(1, 4)? {
            self.fixture.run();
        }
        Ok(())
    }

    /// Takes the answers there are.
    fn collect(&mut self) {
        for (node, pending) in self.pending.iter_mut().enumerate() {
            let (fixture, handles) = (&mut self.fixture, &mut self.handles[node]);
            pending.retain(|&request, gives_handle| {
                let Some((result, _)) = fixture.answer(node, request) else {
                    return true;
                };
                handles.extend(result.ok().filter(|_| *gives_handle));
                false
            });
        }
    }

    fn operate(&mut self, node: usize, input: &mut Unstructured<'_>) -> Result<()> {
        let id = self.handle(node, input)?;
        let number = match u8::arbitrary(input)? % 4 {
            0 => u64::from(u8::arbitrary(input)? & 127),
            1 => *input.choose(&[MemoryCall::PROVIDE, MemoryCall::PIN])?,
            _ => *input.choose(&[
                Call::REGISTER,
                Call::UNREGISTER,
                Call::WRITE_TO,
                Call::READ_FROM,
                Call::FENCE_MARK,
                Call::FENCE_WAIT,
                Call::FENCE_SIGNAL,
                Call::SHUTDOWN,
            ])?,
        };
        let mut payload = structure(input, number)?;
        if number == MemoryCall::PROVIDE {
            payload.clear();
        }
        let metadata = vec![number, word(input)?, word(input)?];
        let op = Op::Call {
            id,
            payload,
            metadata,
        };
        self.submit(node, op, input)
    }

    /// A program sends its address space; often it says which pages are to be pinned, for an
    /// object or for a window.
    fn send(&mut self, node: usize, input: &mut Unstructured<'_>) -> Result<()> {
        let id = self.handle(node, input)?;
        // The unused page, which is there, one that is not, or one that takes a while.
        let pages: Vec<u64> = (0..input.int_in_range(0..=4)?)
            .map(|_| input.choose(&[0, 0, 0, u64::MAX, LATE]).copied())
            .collect::<Result<_>>()?;
        let run = |&address: &u64| Run { address, pages: 1 };
        let op = Op::Send {
            id,
            word: *input.choose(&[SPACE, SPACE, SPACE, 0])?,
            space: Rc::new(pages.iter().map(run).collect()),
        };
        self.submit(node, op, input)?;
        if input.ratio(1, 4)? {
            return Ok(());
        }
        let late = pages.iter().filter(|page| **page == LATE).count();
        let length = ((pages.len() - late) * PAGE) as u64;
        let protection = input.int_in_range(0..=3)?;
        let pin = PinRecord {
            space: SPACE.into(),
            address: 0x40_0000.into(),
            length: length.into(),
            protection: protection.into(),
            flags: input.int_in_range(0..=1)?.into(),
        };
        let window = OwnRecord {
            space: SPACE.into(),
            address: 0x40_0000.into(),
            length: length.into(),
            offset: (word(input)? as i64).into(),
            protection: protection.into(),
            flags: (*input.choose(&[0, 0x10])?).into(),
        };
        let pin = MemoryCall::Pin { record: pin };
        let window = Call::RegisterOwn { record: window };
        let (number, payload) = match bool::arbitrary(input)? {
            true => (pin.number(), pin.payload().to_vec()),
            false => (window.number(), window.payload().to_vec()),
        };
        let metadata = vec![number, 0, 0];
        let op = Op::Call {
            id,
            payload,
            metadata,
        };
        self.submit(node, op, input)
    }

    fn map(&mut self, node: usize, input: &mut Unstructured<'_>) -> Result<()> {
        let id = self.handle(node, input)?;
        let offset = word(input)?;
        let pages = 1 + usize::from(u8::arbitrary(input)? % 5);
        let flags = MapFlags::from_bits_retain(usize::from(u8::arbitrary(input)?) << 16);
        let flags = flags | MapFlags::MAP_SHARED;
        let size = if input.ratio(1, 16)? {
            word(input)? as usize
        } else {
            pages * PAGE
        };
        if self.fixture.map(node, id, offset, size, flags).is_ok() {
            self.mappings.push(Mapping {
                node,
                id,
                offset,
                pages: size.div_ceil(PAGE),
            });
        }
        Ok(())
    }

    fn unmap(&mut self, index: usize, input: &mut Unstructured<'_>) -> Result<()> {
        let mapping = self.mappings.swap_remove(index);
        let first = input.int_in_range(0..=mapping.pages - 1)?;
        let count = input.int_in_range(1..=mapping.pages - first)?;
        self.unmap_pages(mapping, first, count);
        Ok(())
    }

    /// Unmaps some pages of a mapping that is on the list no more, and puts the rest on it.
    fn unmap_pages(&mut self, mapping: Mapping, first: usize, count: usize) {
        let at = |page: usize| mapping.offset + (page * PAGE) as u64;
        let unmapped = self
            .fixture
            .unmap(mapping.node, mapping.id, at(first), count * PAGE);
        assert_eq!(unmapped, Ok(()), "what was mapped");
        for (start, pages) in [(0, first), (first + count, mapping.pages - first - count)] {
            if pages > 0 {
                self.mappings.push(Mapping {
                    offset: at(start),
                    pages,
                    ..mapping
                });
            }
        }
    }

    fn close(&mut self, node: usize, index: usize) {
        let id = self.handles[node][index];
        // The kernel closes when nothing is mapped through a handle any more.
        if self
            .mappings
            .iter()
            .all(|mapping| (mapping.node, mapping.id) != (node, id))
        {
            self.handles[node].swap_remove(index);
            self.fixture.close(node, id);
        }
    }

    fn cancel(&mut self, node: usize, request: u32) {
        if self.fixture.is_kept(node, request) {
            let gives_handle = self.pending[node].remove(&request) == Some(true);
            let result = self.fixture.cancel(node, request);
            self.handles[node].extend(result.ok().filter(|_| gives_handle));
        }
    }

    /// Questions that change nothing, on any handle.
    fn ask(&mut self, node: usize, input: &mut Unstructured<'_>) -> Result<()> {
        let id = self.handle(node, input)?;
        let command = *input.choose(&[F_GETFL, F_SETFL, 99])?;
        let argument = *input.choose(&[0, O_NONBLOCK, usize::MAX])?;
        let wanted = EventFlags::from_bits_truncate(usize::arbitrary(input)?);
        let scif = &mut self.fixture.nodes[node].scif;
        let _ = (scif.list(id), scif.name(id), scif.is_positioned(id));
        let _ = scif.status(id, &mut Stat::default());
        let _ = scif.control(id, command, argument);
        let ready = scif.ready(id, wanted);
        assert!(ready.is_err() || wanted.contains(ready.expect("not an error")));
        Ok(())
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let node = usize::from(bool::arbitrary(input)?);
        match u8::arbitrary(input)? % 16 {
            0..3 => {
                let path = match input.ratio(1, 16)? {
                    true => <&str>::arbitrary(input)?,
                    false => input.choose(&PATHS)?,
                };
                let flags = match u8::arbitrary(input)? % 8 {
                    0 => usize::arbitrary(input)?,
                    1 => *input.choose(&[O_RDONLY, O_WRONLY, O_DIRECTORY, O_STAT])?,
                    2 => O_RDWR | O_NONBLOCK,
                    _ => O_RDWR,
                };
                let op = Op::Open {
                    directory: ROOT,
                    path: path.into(),
                    flags,
                    caller: caller(input)?,
                };
                self.submit(node, op, input)?;
            }
            3 => {
                let op = Op::Dup {
                    id: self.handle(node, input)?,
                    name: input.choose(&NAMES)?.to_vec(),
                    caller: caller(input)?,
                };
                self.submit(node, op, input)?;
            }
            4 => {
                let op = Op::Read {
                    id: self.handle(node, input)?,
                    length: input.int_in_range(0..=9000)?,
                    flags: *input.choose(&[0, O_NONBLOCK])?,
                };
                self.submit(node, op, input)?;
            }
            5 => {
                let length = input.int_in_range(0..=9000)?;
                let bytes = match length % 4 {
                    0 => format!("pinned_pages_per_user {length}\n").into_bytes(),
                    _ => vec![7; length],
                };
                let op = Op::Write {
                    id: self.handle(node, input)?,
                    bytes,
                    flags: *input.choose(&[0, O_NONBLOCK])?,
                };
                self.submit(node, op, input)?;
            }
            6 => self.map(node, input)?,
            7 if !self.mappings.is_empty() => {
                let index = input.choose_index(self.mappings.len())?;
                self.unmap(index, input)?;
            }
            8 if !self.handles[node].is_empty() => {
                let index = input.choose_index(self.handles[node].len())?;
                self.close(node, index);
            }
            9 => {
                let kept = self.fixture.all_kept(node);
                if !kept.is_empty() {
                    let request = *input.choose(&kept)?;
                    self.cancel(node, request);
                }
            }
            10 => self.ask(node, input)?,
            11 => self.send(node, input)?,
            _ => self.operate(node, input)?,
        }
        self.collect();
        for node in &mut self.fixture.nodes {
            assert_eq!(node.scif.engine().0.check_invariants(), Ok(()));
        }
        Ok(())
    }

    /// Programs end: everything is unmapped, cancelled and closed.
    fn finish(mut self) -> Fixture {
        self.fixture.run();
        self.collect();
        for node in 0..2 {
            for request in self.fixture.all_kept(node) {
                self.cancel(node, request);
            }
        }
        self.collect();
        while let Some(mapping) = self.mappings.pop() {
            self.unmap_pages(mapping, 0, mapping.pages);
        }
        for node in 0..2 {
            while !self.handles[node].is_empty() {
                self.close(node, 0);
            }
        }
        self.fixture.run();
        self.fixture
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut fixture = Fixture::new(2);
    for node in &mut fixture.nodes {
        node.scif.engine().1.pages_left = OBJECT_PAGES;
    }
    let before = state(&mut fixture);
    let mut play = Play {
        fixture,
        handles: [Vec::new(), Vec::new()],
        pending: [BTreeMap::new(), BTreeMap::new()],
        mappings: Vec::new(),
    };
    // Two connections to begin with, where most of what follows makes sense.
    for port in [2060, 2061] {
        let (near, far) = play.fixture.pair(0, 1, port);
        play.handles[0].push(near);
        play.handles[1].push(far);
    }
    // Input that ends early is an input like any other.
    while !input.is_empty() && play.step(&mut input).is_ok() {}
    let mut fixture = play.finish();
    assert_eq!(state(&mut fixture), before, "something is left");
    for node in &mut fixture.nodes {
        assert_eq!(node.scif.engine().1.pages_left, OBJECT_PAGES);
    }
});
