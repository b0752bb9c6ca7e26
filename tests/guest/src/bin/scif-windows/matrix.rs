//! One kind of transfer in every alignment and length, with guards around what it may change.

use alloc::string::String;
use alloc::vec;

use guest_tests::peer::Peer;
use guest_tests::text;
use guest_tests::windows::{GUARD, Remote, compare, difference, fill, frame};
use scif::{Initiator, Memory, RmaFlags, Window};

use crate::{BYTES, PAGE, READ_WRITE};

const _: () = assert!(GUARD < PAGE, "the matrix leaves a page before its ranges");

/// How a transfer names the own memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// As a part of a window.
    Registered,
    /// As ordinary memory of the program.
    Slice,
    /// Not registered, by address.
    Memory,
}

/// One transfer of the matrix.
#[derive(Clone, Copy, Debug)]
struct Case {
    local: usize,
    remote: usize,
    length: usize,
    flags: RmaFlags,
}

/// Both sides' memory, and the peer's window of all of its.
struct Bench<'a> {
    remote: &'a Remote,
    memory: &'a Memory,
    window: Option<&'a Window<'a>>,
    offset: i64,
}

/// All transfers of one kind and direction; with `brief` a part of them.
pub fn matrix(peer: &Peer, kind: Kind, write: bool, brief: bool) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    let offset = remote
        .register(0, BYTES, 0, READ_WRITE, 0)
        .map_err(text("the peer's window"))?;
    let memory = Memory::new(BYTES).map_err(text("memory"))?;
    let window = remote.endpoint.register(&memory);
    let window = window.map_err(text("the own window"))?;
    let bench = Bench {
        remote: &remote,
        memory: &memory,
        window: (kind == Kind::Registered).then_some(&window),
        offset,
    };
    let lengths: &[usize] = if brief {
        &[1, 64, 4097, (1 << 20) + 1]
    } else {
        &[
            1,
            63,
            64,
            65,
            4095,
            4096,
            4097,
            8192,
            100_000,
            (1 << 20) - 1,
            (1 << 20) + 1,
        ]
    };
    let mut flags = vec![
        RmaFlags::empty(),
        RmaFlags::SYNC,
        RmaFlags::ORDERED,
        RmaFlags::USECPU,
        RmaFlags::SYNC | RmaFlags::ORDERED,
    ];
    if kind == Kind::Memory {
        flags.push(RmaFlags::USECACHE);
        flags.push(RmaFlags::USECACHE | RmaFlags::SYNC);
    }
    let mut seed = 1;
    for &length in lengths {
        for (from, to) in [(0, 0), (1, 1), (63, 63), (0, 1), (1, 0), (63, 8)] {
            // Large ones are about the cutting into pieces, not about every flag.
            let count = if length > 1 << 19 { 2 } else { flags.len() };
            for &flags in flags.iter().cycle().skip(seed as usize).take(count) {
                seed += 1;
                // Also places far from the start of a page.
                let place = PAGE * (1 + seed as usize % 7);
                let case = Case {
                    local: place + from,
                    remote: PAGE + to,
                    length,
                    flags,
                };
                one(&bench, kind, write, case, seed)
                    .map_err(|error| alloc::format!("{case:?}: {error}"))?;
            }
        }
    }
    Ok(())
}

/// One transfer: guards around the range that changes, the pattern in the other.
fn one(bench: &Bench<'_>, kind: Kind, write: bool, case: Case, seed: u64) -> Result<(), String> {
    let Case {
        local,
        remote,
        length,
        flags,
    } = case;
    let endpoint = &bench.remote.endpoint;
    let at = bench.offset + remote as i64;
    let range = local..local + length;
    if write {
        fill(bench.memory, local, length, seed).map_err(text("filling"))?;
        bench.remote.frame(remote, length)?;
    } else {
        bench.remote.fill(remote, length, seed)?;
        frame(bench.memory, local, length).map_err(text("framing"))?;
    }
    let mut slice = vec![0; if kind == Kind::Slice { length } else { 0 }];
    let result = match (kind, write) {
        (Kind::Registered, _) => {
            let window = bench.window.ok_or("no window")?;
            let part = window.part(range).map_err(text("part"))?;
            if write {
                endpoint.write_to(part, at, flags)
            } else {
                endpoint.read_from(part, at, flags)
            }
        }
        (Kind::Slice, true) => {
            let _ = bench.memory.copy_out(local, &mut slice);
            endpoint.vwrite_to(&slice, at, flags)
        }
        (Kind::Slice, false) => {
            let result = endpoint.vread_from(&mut slice, at, flags);
            let _ = bench.memory.copy_in(local, &slice);
            result
        }
        (Kind::Memory, true) => endpoint.vwrite_out(bench.memory, range, at, flags),
        (Kind::Memory, false) => endpoint.vread_into(bench.memory, range, at, flags),
    };
    result.map_err(text("the transfer"))?;
    if !flags.intersects(RmaFlags::SYNC | RmaFlags::USECPU) {
        let mark = endpoint.fence_mark(Initiator::Own).map_err(text("mark"))?;
        endpoint.fence_wait(mark).map_err(text("wait"))?;
    }
    if write {
        return bench.remote.compare(remote, length, seed, true);
    }
    match compare(bench.memory, local, length, seed, true).map_err(text("comparing"))? {
        None => Ok(()),
        Some(position) => Err(difference(position, length)),
    }
}
