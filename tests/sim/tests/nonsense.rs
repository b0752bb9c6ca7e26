//! Calls on registered memory with extreme arguments: each fails with a documented error, and
//! changes nothing.

use scif_abi::{Error, PortId};
use scif_core::{
    Config, ConnectMode, CpuEngine, Direction, EndpointId, Engine, Local, Memory, Owner, Pages,
    PinId, Rma, Run, Signal,
};
use sim::memory::{Fabric, NodeMemory};
use sim::rng::Rng;

const PAGE: u64 = 4096;
const OFFSETS: [i64; 12] = [
    i64::MIN,
    i64::MIN + 4096,
    -4096,
    -1,
    1,
    4095,
    8192,
    1 << 62,
    i64::MAX - 8191,
    i64::MAX - 4095,
    i64::MAX - 1,
    i64::MAX,
];
const LENGTHS: [u64; 10] = [
    0,
    1,
    4095,
    4097,
    1 << 31,
    1 << 52,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX - 1,
    u64::MAX,
];

/// The errors that the header documents for these calls on a connected endpoint.
const DOCUMENTED: [Error; 5] = [
    Error::InvalidArgument,
    Error::NoSuchAddress,
    Error::AccessDenied,
    Error::NoMemory,
    Error::BadAddress,
];

struct Fixture {
    engine: Engine,
    memory: NodeMemory,
    ends: [EndpointId; 2],
    /// Two pages that are registered at offset 0 of both ends.
    pages: Vec<u64>,
}

impl Fixture {
    /// Connects a node with itself, with one window of two pages at each end.
    fn new() -> Fixture {
        let fabric = Fabric::new(1);
        let mut memory = NodeMemory::new(&fabric, 0);
        let mut engine = Engine::new(Config::new(0));
        let pages = fabric.borrow_mut().pin(0, 2, &mut Rng::new(1)).unwrap();
        let listener = engine.open(Owner::default()).unwrap();
        engine.bind(listener, 2000).unwrap();
        engine.listen(listener, 1).unwrap();
        let active = engine.open(Owner::default()).unwrap();
        let to = PortId::new(0, 2000);
        engine
            .connect(&mut memory, active, to, ConnectMode::Blocking)
            .unwrap();
        while engine.next_event(&mut memory).is_some() {}
        let passive = engine
            .accept_start(&mut memory, listener, Owner::default())
            .unwrap();
        while engine.next_event(&mut memory).is_some() {}
        let ends = [active, passive];
        let mut fixture = Fixture {
            engine,
            memory,
            ends,
            pages,
        };
        for (number, end) in ends.into_iter().enumerate() {
            let given = fixture.given(number as u64);
            let ticket = fixture
                .engine
                .register(&mut fixture.memory, end, given, 0, 3, 0x10);
            fixture.run_until_idle();
            let result = fixture.engine.finish(ticket.unwrap());
            assert_eq!(result, Some(Ok(0)));
        }
        fixture
    }

    fn given(&self, pin: u64) -> Pages {
        let run = |page: &u64| Run {
            address: *page,
            pages: 1,
        };
        Pages {
            pin: PinId(pin),
            runs: self.pages.iter().map(run).collect(),
            is_charged: true,
        }
    }

    fn run_until_idle(&mut self) {
        let memory = &mut self.memory;
        while self.engine.pump(memory, &mut CpuEngine, 1 << 20) {}
        while self.engine.next_event(memory).is_some() {}
    }

    /// Returns the state that every failed call must leave unchanged.
    fn trace(&self) -> [u64; 7] {
        let stats = self.engine.stats();
        [
            stats.windows as u64,
            stats.remote_windows as u64,
            stats.jobs as u64,
            stats.pages as u64,
            stats.pinned_pages,
            stats.mapped_pages,
            stats.messages_received,
        ]
    }

    /// Makes a call that must fail, for each end.
    fn refuse<T: std::fmt::Debug>(
        &mut self,
        what: &str,
        call: impl Fn(&mut Engine, &mut dyn Memory, EndpointId, Pages) -> Result<T, Error>,
    ) {
        let before = self.trace();
        for end in self.ends {
            let given = self.given(99);
            let error = call(&mut self.engine, &mut self.memory, end, given).expect_err(what);
            assert!(DOCUMENTED.contains(&error), "{what}: {error}");
        }
        self.run_until_idle();
        assert_eq!(self.trace(), before, "{what}");
        self.engine.check_invariants().unwrap();
    }
}

#[test]
fn offsets_and_lengths_from_the_edges() {
    let mut fixture = Fixture::new();
    for offset in OFFSETS {
        for length in LENGTHS {
            let what = format!("{offset:#x}, {length:#x}");
            fixture.refuse(&format!("unregister {what}"), |engine, mem, end, _| {
                engine.unregister(mem, end, offset, length)
            });
            fixture.refuse(&format!("map_run {what}"), |engine, _, end, _| {
                engine.map_run(end, offset, length)
            });
            fixture.refuse(&format!("map {what}"), |engine, _, end, _| {
                engine.map(end, offset, length, 3)
            });
            fixture.refuse(&format!("get_pages {what}"), |engine, _, end, _| {
                engine.get_pages(end, offset, length)
            });
            // One byte at 1, or 4095 at 1, is in the window; other tests make such calls.
            let is_inside = offset > 0 && offset < 8192 && length <= 4097 && length > 0;
            for direction in [Direction::Read, Direction::Write] {
                if is_inside {
                    continue;
                }
                fixture.refuse(&format!("virtual {what}"), |engine, _, end, _| {
                    engine.virtual_start(end, direction, offset, length, 0)
                });
                for (local, remote) in [(offset, 0), (0, offset), (offset, offset)] {
                    fixture.refuse(&format!("rma {what}"), |engine, _, end, _| {
                        let local = Local::Window(local);
                        let rma = Rma {
                            direction,
                            local,
                            remote,
                            length,
                            flags: 0,
                        };
                        engine.rma(end, rma)
                    });
                }
                fixture.refuse(&format!("rma of pages {what}"), |engine, _, end, pages| {
                    let local = Local::Pages {
                        pages,
                        offset: length.wrapping_sub(1).max(2 * PAGE),
                    };
                    let rma = Rma {
                        direction,
                        local,
                        remote: 0,
                        length,
                        flags: 0,
                    };
                    engine.rma(end, rma)
                });
            }
        }
    }
}

#[test]
fn places_and_flags_from_the_edges() {
    let mut fixture = Fixture::new();
    for offset in OFFSETS {
        for protection in [0, 4, u32::MAX] {
            fixture.refuse("register, protection", |engine, mem, end, pages| {
                engine.register(mem, end, pages, offset, protection, 0x10)
            });
        }
        for flags in [1, 0x20, 0x30, 0x11, u32::MAX] {
            fixture.refuse("register, flags", |engine, mem, end, pages| {
                engine.register(mem, end, pages, offset, 3, flags)
            });
        }
        let is_free = offset >= 8192 && offset % 4096 == 0 && offset < i64::MAX - 8191;
        if !is_free {
            fixture.refuse(
                &format!("register at {offset:#x}"),
                |engine, mem, end, pages| engine.register(mem, end, pages, offset, 3, 0x10),
            );
        }
        for flags in [0x11, 0x21] {
            fixture.refuse(&format!("signal at {offset:#x}"), |engine, _, end, _| {
                let signal = Signal {
                    local_offset: offset,
                    local_value: 1,
                    remote_offset: offset,
                    remote_value: 1,
                    flags,
                };
                engine.fence_signal(end, signal)
            });
        }
    }
    for flags in (0..=0x100).chain([u32::MAX]) {
        if ![1, 2].contains(&flags) {
            fixture.refuse("mark", |engine, _, end, _| engine.fence_mark(end, flags));
        }
        let valid = [0x11, 0x12, 0x21, 0x22, 0x31, 0x32];
        if !valid.contains(&flags) {
            fixture.refuse("signal", |engine, _, end, _| {
                let signal = Signal {
                    flags,
                    ..Signal::default()
                };
                engine.fence_signal(end, signal)
            });
        }
        if flags > 15 {
            fixture.refuse("virtual", |engine, _, end, _| {
                engine.virtual_start(end, Direction::Read, 0, 1, flags)
            });
        }
    }
    for mark in [i32::MIN, -1, 7, 1 << 30, i32::MAX] {
        fixture.refuse("wait", |engine, _, end, _| engine.fence_wait(end, mark));
    }
}

#[test]
fn runs_that_cannot_be() {
    let mut fixture = Fixture::new();
    let run = |address, pages| Run { address, pages };
    let lists = [
        vec![],
        vec![run(4096, 0)],
        vec![run(1, 1)],
        vec![run(u64::MAX - 4095, 1)],
        vec![run(u64::MAX - 4095, 2)],
        vec![run(0x10_0000, 1), run(0x20_0000, 0)],
    ];
    for runs in lists {
        let what = format!("{runs:x?}");
        fixture.refuse(&what, |engine, mem, end, pages| {
            let runs = runs.clone();
            engine.register(mem, end, Pages { runs, ..pages }, 1 << 40, 3, 0x10)
        });
    }
}
