//! Transfers between windows, by a client that has them mapped and by the engine with its copy
//! engine, compared with `memcpy`.

use hal::mem::Region;
use scif_abi::flags::RmaFlags;
use scif_core::{CpuEngine, Direction, Local, Rma};
use scif_perf::pattern;
use scif_perf::report::Unit;
use scif_perf::timing;

use crate::memory::{self, Node, said};
use crate::rings::Windows;
use crate::{Failure, Settings, Test};

const SIZES: &[usize] = &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];
const WINDOW: usize = 64 << 20;

/// The call ends when the data has arrived, and the CPU copies.
const FLAGS: u32 = RmaFlags::SYNC.union(RmaFlags::USECPU).bits();

/// Measures one size after the other: `memcpy`, then writes and reads of this size, in turn.
pub fn run(settings: &Settings) -> Result<(), Failure> {
    let mut nodes = memory::connected()?;
    let (remote, theirs) = memory::register(&mut nodes, 1, WINDOW)?;
    let (local, ours) = memory::register(&mut nodes, 0, WINDOW)?;
    let mut bytes = vec![0; WINDOW];
    pattern::fill(&mut bytes, 1);
    ours.write_bytes(0, &bytes).map_err(said("filling"))?;
    let mut copy = bytes.clone();
    let [client, server] = &mut nodes;
    let place = |region: &Region| (region.address(), region.len());
    let mapped = Windows::map(client, server, place(&ours), place(&theirs))?;
    let client = std::cell::RefCell::new(client);
    for &size in SIZES {
        let transfer = |direction| {
            let client = &client;
            move |settings: &Settings| {
                let mut client = client.borrow_mut();
                let call = || one(&mut client, direction, local, remote, size);
                timing::rates(settings.rate, size as u64, settings.budget_ns, call)
            }
        };
        let unit = Unit::BytesPerSecond;
        let direct = |from, to| {
            let mapped = &mapped;
            move |settings: &Settings| {
                let call = || mapped.copy(from, to, size);
                timing::rates(settings.rate, size as u64, settings.budget_ns, call)
            }
        };
        let (own, peer) = (&mapped.own, &mapped.peer);
        let (write, read) = (transfer(Direction::Write), transfer(Direction::Read));
        settings.run(vec![
            memcpy_of(&bytes[..size], &mut copy[..size]),
            Test::new("native_rma", size, unit, direct(own, peer)),
            Test::new("native_rma_read", size, unit, direct(peer, own)),
            Test::new("native_engine_rma", size, unit, write),
            Test::new("native_engine_rma_read", size, unit, read),
        ])?;
    }
    let mut arrived = vec![0; WINDOW];
    let read = theirs.read_bytes(0, &mut arrived);
    read.map_err(said("comparing"))?;
    match arrived == bytes {
        true => Ok(()),
        false => Err("wrong bytes arrived".into()),
    }
}

/// Returns the test of the limit: the C library's copy between two buffers of its own.
pub fn memcpy(size: usize) -> Test<'static> {
    let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
    let run = move |settings: &Settings| copy(settings, &from, &mut to);
    Test::new("native_memcpy", size, Unit::BytesPerSecond, run)
}

/// Returns the test of the C library's copy between these buffers.
fn memcpy_of<'a>(from: &'a [u8], to: &'a mut [u8]) -> Test<'a> {
    let size = from.len();
    let run = move |settings: &Settings| copy(settings, from, to);
    Test::new("native_memcpy", size, Unit::BytesPerSecond, run)
}

fn copy(settings: &Settings, from: &[u8], to: &mut [u8]) -> Result<Vec<f64>, Failure> {
    let call = || {
        to.copy_from_slice(std::hint::black_box(from));
        std::hint::black_box(&mut *to);
        Ok(())
    };
    timing::rates(settings.rate, from.len() as u64, settings.budget_ns, call)
}

/// Makes one transfer and waits for its end.
fn one(
    node: &mut Node,
    direction: Direction,
    local: i64,
    remote: i64,
    size: usize,
) -> Result<(), Failure> {
    let rma = Rma {
        direction,
        local: Local::Window(local),
        remote,
        length: size as u64,
        flags: FLAGS,
    };
    let (engine, memory) = (&mut node.engine, &mut node.memory);
    let ticket = engine.rma(node.endpoint, rma);
    let ticket = ticket.map_err(said("rma"))?;
    while engine.pump(memory, &mut CpuEngine, usize::MAX) {}
    // A transfer without waiting is complete when its work is.
    while engine.next_event(memory).is_some() {}
    match engine.finish(ticket) {
        Some(result) => result.map(|_| ()).map_err(said("rma")),
        None => Err("a transfer does not end".into()),
    }
}
