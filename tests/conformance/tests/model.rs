//! Random sequences of calls on several endpoints, over the simulator, compared with a small pure
//! model of the documents. A sequence that fails is shrunk.
//!
//! `SKIFF_MODEL_RUNS` sequences (200) from the seed `SKIFF_MODEL_SEED` (1).

mod modelled;
mod simulated;

use conformance::bench::{Bench, Driver, Side};
use conformance::call::{Call, Errno, Reply};
use modelled::windows::{LOCAL_VALUE, REMOTE_VALUE};
use modelled::{Expected, MEMORIES, MEMORY_PAGES, Model, Op, PAGE, SLOTS, node_of};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use simulated::Simulated;

/// Most calls in a sequence.
const MAX_CALLS: usize = 120;
/// Slots of memory in the driver, above those of endpoints.
const MEMORY_SLOT: usize = 100;
/// Ports that sequences use; few, so that calls meet at the same ones.
const PORTS: std::ops::Range<u16> = 2000..2002;

fn number(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text}"))
    })
}

/// A call with arguments that are often valid.
fn op() -> impl Strategy<Value = Op> {
    let slot = || 0..2 * SLOTS;
    let node = 0..2_usize;
    let memory = || 0..MEMORIES;
    let bytes = MEMORY_PAGES * PAGE;
    // Positions near the ends of pages, and lengths of all kinds.
    let position = || {
        prop_oneof![
            0..6 * PAGE,
            (0..6_usize, 0..16_usize).prop_map(|(page, off)| (page * PAGE + off).saturating_sub(8)),
        ]
    };
    let length = || prop_oneof![3 => 1..200_usize, 1 => Just(PAGE), 1 => 0..2 * PAGE];
    let word = || 0..bytes / 8;
    let rma = (
        slot(),
        any::<bool>(),
        prop::option::of(memory()),
        position(),
        length(),
    );
    let rma = (
        rma,
        position(),
        prop_oneof![9 => 0..16_u32, 1 => 16..40_u32],
    );
    prop_oneof![
        4 => slot().prop_map(|slot| Op::Open { slot }),
        1 => slot().prop_map(|slot| Op::Close { slot }),
        3 => (slot(), prop_oneof![Just(0), PORTS]).prop_map(|(slot, port)| Op::Bind { slot, port }),
        3 => (slot(), -1..4_i32).prop_map(|(slot, backlog)| Op::Listen { slot, backlog }),
        8 => (slot(), node, PORTS).prop_map(|(slot, node, port)| Op::Connect { slot, node, port }),
        6 => slot().prop_map(|slot| Op::Accept { slot }),
        3 => (slot(), 0..5000_usize).prop_map(|(slot, length)| Op::Send { slot, length }),
        3 => (slot(), 0..5000_usize).prop_map(|(slot, length)| Op::Recv { slot, length }),
        3 => slot().prop_map(|slot| Op::Poll { slot }),
        9 => (slot(), memory(), 0..MEMORY_PAGES, 0..4_usize, 0..5_usize, 0..12_u32).prop_map(
            |(slot, memory, first, pages, at, protection)| Op::Register {
                slot, memory, first, pages, at,
                // Mostly both rights.
                protection: if protection > 4 { 3 } else { protection },
            }
        ),
        3 => (slot(), 0..5_usize, 0..4_usize)
            .prop_map(|(slot, at, pages)| Op::Unregister { slot, at, pages }),
        12 => rma.prop_map(move |((slot, reads, memory, local, length), remote, flags)| {
            // Memory that is named by address exists.
            let local = memory.map_or(local, |_| local.min(bytes - length.min(bytes)));
            Op::Rma { slot, reads, memory, local, length: length.min(bytes), remote, flags }
        }),
        1 => (slot(), 0..4_u32).prop_map(|(slot, flags)| Op::Mark { slot, flags }),
        1 => (slot(), 0..3_usize).prop_map(|(slot, back)| Op::Wait { slot, back }),
        3 => (slot(), position(), position())
            .prop_map(|(slot, local, remote)| Op::Signal {
                slot,
                local: local - local % 2,
                remote: remote - remote % 4,
            }),
        6 => (0..2 * MEMORIES, word(), any::<u64>())
            .prop_map(|(memory, word, value)| Op::Store { memory, word, value }),
        6 => (0..2 * MEMORIES, word()).prop_map(|(memory, word)| Op::Load { memory, word }),
    ]
}

/// The first calls of half of the sequences, so that they get further: listeners on both nodes, a
/// connection between the nodes and one within a node, and windows.
fn prelude() -> Vec<Op> {
    let mut ops: Vec<Op> = (0..2 * SLOTS - 2).map(|slot| Op::Open { slot }).collect();
    for (slot, node, from) in [(SLOTS, 1, 0), (0, 0, 1)] {
        let port = PORTS.start;
        ops.push(Op::Bind { slot, port });
        ops.push(Op::Listen { slot, backlog: 2 });
        let slot = if node == 0 { 2 } else { from + 1 };
        ops.push(Op::Connect { slot, node, port });
    }
    ops.push(Op::Accept { slot: SLOTS });
    ops.push(Op::Close { slot: 3 });
    ops.push(Op::Accept { slot: 0 });
    for slot in 1..2 * SLOTS {
        let (memory, at) = (slot % MEMORIES, slot % 2);
        ops.push(Op::Register {
            slot,
            memory,
            first: 0,
            pages: 2,
            at,
            protection: 3,
        });
    }
    ops
}

/// Sequences of calls.
fn sequences() -> impl Strategy<Value = Vec<Op>> {
    let begin = prop_oneof![Just(Vec::new()), Just(prelude())];
    (begin, vec(op(), 1..MAX_CALLS)).prop_map(|(mut begin, ops)| {
        begin.extend(ops);
        begin
    })
}

/// The side that has a node's slots.
fn side(node: usize) -> Side {
    if node == 0 { Side::A } else { Side::B }
}

/// The driver's slot for a piece of memory; `memory` counts the pieces of both nodes.
fn memory_slot(memory: usize) -> u32 {
    (MEMORY_SLOT + memory) as u32
}

/// The call of an op, in the model's present state, and the side that makes it.
fn call_of(model: &Model, op: &Op) -> (Side, Call) {
    let of = |slot: usize| (side(node_of(slot)), slot as u32);
    let own = |slot: usize, memory: usize| memory_slot(node_of(slot) * MEMORIES + memory);
    match *op {
        Op::Open { slot } => (of(slot).0, Call::Open { slot: of(slot).1 }),
        Op::Close { slot } => (of(slot).0, Call::Close { slot: of(slot).1 }),
        Op::Bind { slot, port } => (
            of(slot).0,
            Call::Bind {
                slot: of(slot).1,
                port,
            },
        ),
        Op::Listen { slot, backlog } => (
            of(slot).0,
            Call::Listen {
                slot: of(slot).1,
                backlog,
            },
        ),
        Op::Connect { slot, node, port } => {
            let node = node as u16;
            (
                of(slot).0,
                Call::Connect {
                    slot: of(slot).1,
                    node,
                    port,
                },
            )
        }
        Op::Accept { slot } => {
            let into = model.free_slot(node_of(slot)).unwrap_or(0) as u32;
            (
                of(slot).0,
                Call::Accept {
                    slot: of(slot).1,
                    into,
                    flags: 0,
                },
            )
        }
        Op::Send { slot, length } => {
            let (length, from) = (length as u64, model.sent(slot) as u64);
            (
                of(slot).0,
                Call::Send {
                    slot: of(slot).1,
                    length,
                    flags: 0,
                    seed: 0,
                    from,
                },
            )
        }
        Op::Recv { slot, length } => {
            let (length, from) = (length as u64, model.received(slot) as u64);
            (
                of(slot).0,
                Call::Recv {
                    slot: of(slot).1,
                    length,
                    flags: 0,
                    seed: 0,
                    from,
                },
            )
        }
        Op::Poll { slot } => (
            of(slot).0,
            Call::Poll {
                slot: of(slot).1,
                events: 5,
            },
        ),
        Op::Register {
            slot,
            memory,
            first,
            pages,
            at,
            protection,
        } => {
            let pages = pages.min(MEMORY_PAGES - first);
            let call = Call::Register {
                slot: of(slot).1,
                memory: own(slot, memory),
                at: (first * PAGE) as i64,
                length: (pages * PAGE) as u64,
                offset: (at * PAGE) as i64,
                protection,
                flags: 0x10,
            };
            (of(slot).0, call)
        }
        Op::Unregister { slot, at, pages } => {
            let (offset, length) = ((at * PAGE) as i64, (pages * PAGE) as u64);
            (
                of(slot).0,
                Call::Unregister {
                    slot: of(slot).1,
                    offset,
                    length,
                },
            )
        }
        Op::Rma { slot, .. } => (of(slot).0, rma_of(op, of(slot).1, own)),
        Op::Mark { slot, flags } => (
            of(slot).0,
            Call::FenceMark {
                slot: of(slot).1,
                flags,
            },
        ),
        Op::Wait { slot, back } => {
            let mark = model.mark(slot, back).unwrap_or(0x0765_4321) as i32;
            (
                of(slot).0,
                Call::FenceWait {
                    slot: of(slot).1,
                    mark,
                },
            )
        }
        Op::Signal {
            slot,
            local,
            remote,
        } => {
            let call = Call::FenceSignal {
                slot: of(slot).1,
                local: local as i64,
                local_value: LOCAL_VALUE,
                remote: remote as i64,
                remote_value: REMOTE_VALUE,
                flags: 0x31,
            };
            (of(slot).0, call)
        }
        Op::Store {
            memory,
            word,
            value,
        } => {
            let at = (word * 8) as i64;
            let call = Call::Store {
                memory: memory_slot(memory),
                at,
                value,
            };
            (side(memory / MEMORIES), call)
        }
        Op::Load { memory, word } => {
            let at = (word * 8) as i64;
            (
                side(memory / MEMORIES),
                Call::Load {
                    memory: memory_slot(memory),
                    at,
                },
            )
        }
    }
}

/// The RMA call of an op on the driver's endpoint `slot`.
fn rma_of(op: &Op, slot: u32, own: impl Fn(usize, usize) -> u32) -> Call {
    let Op::Rma {
        slot: of,
        reads,
        memory,
        local,
        length,
        remote,
        flags,
    } = *op
    else {
        return Call::Count {};
    };
    let (at, length, remote) = (local as i64, length as u64, remote as i64);
    match (memory.map(|memory| own(of, memory)), reads) {
        (None, true) => Call::ReadFrom {
            slot,
            local: at,
            length,
            remote,
            flags,
        },
        (None, false) => Call::WriteTo {
            slot,
            local: at,
            length,
            remote,
            flags,
        },
        (Some(memory), true) => Call::VirtualReadFrom {
            slot,
            memory,
            at,
            length,
            remote,
            flags,
        },
        (Some(memory), false) => Call::VirtualWriteTo {
            slot,
            memory,
            at,
            length,
            remote,
            flags,
        },
    }
}

fn is_right(expected: &Expected, reply: &Reply, op: &Op) -> bool {
    // The received bytes must be those of the stream.
    if matches!(op, Op::Recv { .. }) && reply.extra.first().is_some_and(|wrong| *wrong != -1) {
        return false;
    }
    match (expected, reply.result) {
        (Expected::Value(wanted), Ok(value)) => *wanted == value,
        (Expected::Any, Ok(value)) => value >= 0,
        (Expected::Fails(errors), Err(found)) => {
            errors.iter().any(|error| Errno::from(*error) == found)
        }
        _ => false,
    }
}

/// Runs a sequence on the simulator and on the model.
fn play(ops: &[Op], is_wrong: bool) -> Result<(), String> {
    let mut driver = Simulated::new();
    let baseline = Bench::new(&mut driver).counts()?;
    let mut model = Model::new();
    model.is_wrong = is_wrong;
    for memory in 0..2 * MEMORIES {
        let call = Call::Allocate {
            memory: memory_slot(memory),
            pages: MEMORY_PAGES as u32,
        };
        driver.call(side(memory / MEMORIES), &call)?;
    }
    let mut before = Bench::new(&mut driver).counts()?;
    // Connects never wait.
    let nonblocking = |slot: usize| Call::Nonblocking {
        slot: slot as u32,
        on: 1,
    };
    for (index, op) in ops.iter().enumerate() {
        let (side, call) = call_of(&model, op);
        let expected = model.step(op);
        if expected == Expected::Skip {
            continue;
        }
        if let Op::Connect { slot, .. } = op {
            driver.call(side, &nonblocking(*slot))?;
        }
        let reply = driver.call(side, &call)?;
        if !is_right(&expected, &reply, op) {
            return Err(format!("call {index}, {op:?}: {reply:?}, not {expected:?}"));
        }
        if let (Op::Mark { slot, .. }, Ok(mark)) = (op, reply.result) {
            model.note_mark(*slot, mark);
        }
        let after = Bench::new(&mut driver).counts()?;
        // A connect that begins changes counts, and so may one whose result is collected.
        if reply.result.is_err() && !matches!(op, Op::Connect { .. }) && before != after {
            return Err(format!(
                "call {index}, {op:?} failed and left {after:?}, was {before:?}"
            ));
        }
        before = after;
        for (node, counts) in after.iter().enumerate() {
            let found = (counts.endpoints, counts.ports);
            if found != model.counts(node) {
                let wanted = model.counts(node);
                return Err(format!(
                    "call {index}, {op:?}: node {node} has {found:?}, not {wanted:?}"
                ));
            }
        }
    }
    let mut bench = Bench::new(&mut driver);
    bench.clear()?;
    bench.settles_at(baseline)
}

fn runner(runs: u64, seed: u64) -> TestRunner {
    let config = ProptestConfig {
        cases: runs as u32,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
fn calls_give_what_the_model_says() {
    let runs = number("SKIFF_MODEL_RUNS", 200);
    let seed = number("SKIFF_MODEL_SEED", 1);
    let result = runner(runs, seed).run(&sequences(), |ops| {
        play(&ops, false).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("seed {seed}: {error}");
    }
}

#[test]
fn a_wrong_model_is_found_and_shrunk() {
    let result = runner(2000, 1).run(&sequences(), |ops| {
        play(&ops, true).map_err(TestCaseError::fail)
    });
    match result {
        // The best result: a listener, one request more than its backlog, and the check of its
        // result; with the prelude, that and a few calls.
        Err(TestError::Fail(_, ops)) => {
            assert!(ops.len() <= prelude().len() + 10, "not shrunk: {ops:?}");
        }
        other => panic!("a backlog that is off by one was not found: {other:?}"),
    }
}
