//! A stream through the drivers to a peer with rings of 4 KiB that has the base protocol only, as
//! a node with the mainline driver. Both drivers run on one thread and without interrupts, so the
//! result is the whole work for a byte: filling and emptying the ring, and the message and the
//! doorbell for each filling, there and back.

use scif_core::CpuEngine;
use scif_perf::pattern;
use scif_perf::report::Unit;
use scif_perf::timing;

use crate::memory::{self, BASE_RING_BYTES, Node, Second, said};
use crate::{Failure, Settings, Test};

/// Bytes in a stream.
const BYTES: usize = 256 << 10;
/// Number of bytes that fit into the ring.
const FILLING: usize = BASE_RING_BYTES as usize - 1;

/// Measures streams to a base node and to one of ours, and the two copies that each byte of either
/// takes.
pub fn run(settings: &Settings) -> Result<(), Failure> {
    let (base, ours) = (
        memory::connected_to(Second::Base)?,
        memory::connected_to(Second::Ours)?,
    );
    let mut bytes = vec![0; BYTES];
    pattern::fill(&mut bytes, 1);
    let (mut ring, mut arrived) = (vec![0; FILLING], vec![0; BYTES]);
    let copies = |settings: &Settings| {
        let call = || {
            for (from, to) in bytes.chunks(FILLING).zip(arrived.chunks_mut(FILLING)) {
                let ring = &mut ring[..from.len()];
                ring.copy_from_slice(std::hint::black_box(from));
                to.copy_from_slice(std::hint::black_box(ring));
            }
            Ok::<_, Failure>(())
        };
        timing::rates(settings.rate, BYTES as u64, settings.budget_ns, call)
    };
    let stream = |mut nodes: [Node; 2]| {
        let (bytes, mut arrived) = (&bytes, vec![0; BYTES]);
        move |settings: &Settings| {
            let call = || pour(&mut nodes, bytes, &mut arrived);
            let rates = timing::rates(settings.rate, BYTES as u64, settings.budget_ns, call)?;
            match arrived == *bytes {
                true => Ok(rates),
                false => Err("wrong bytes arrived".into()),
            }
        }
    };
    let (unit, to_base, to_ours) = (Unit::BytesPerSecond, stream(base), stream(ours));
    settings.run(vec![
        Test::new("native_base_copies", FILLING, unit, copies),
        Test::new("native_base_stream", FILLING, unit, to_base),
        Test::new("native_engine_stream", FILLING, unit, to_ours),
    ])
}

/// Sends all bytes. Each driver takes its turn when the other one has rung.
fn pour(nodes: &mut [Node; 2], bytes: &[u8], arrived: &mut [u8]) -> Result<(), Failure> {
    let [sender, receiver] = nodes;
    let (mut sent, mut got) = (0, 0);
    while got < bytes.len() {
        let before = (sent, got);
        let (engine, memory) = (&mut sender.engine, &mut sender.memory);
        let count = engine.send(memory, sender.endpoint, &bytes[sent..]);
        sent += count.map_err(said("send"))?;
        turn(sender);
        turn(receiver);
        let (engine, memory) = (&mut receiver.engine, &mut receiver.memory);
        let count = engine.recv(memory, receiver.endpoint, &mut arrived[got..]);
        got += count.map_err(said("recv"))?;
        turn(receiver);
        turn(sender);
        if (sent, got) == before {
            return Err("the stream stands still".into());
        }
    }
    Ok(())
}

/// Lets a driver do everything that is pending.
pub fn turn(node: &mut Node) {
    let memory = &mut node.memory;
    node.engine.doorbell(memory, node.peer);
    node.engine.pump(memory, &mut CpuEngine, usize::MAX);
    while node.engine.next_event(memory).is_some() {}
}
