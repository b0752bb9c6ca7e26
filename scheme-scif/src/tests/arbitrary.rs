//! Arbitrary requests around registered memory: none does harm, and in the end nothing is left.

use std::collections::BTreeSet;

use scif_abi::call::{Call, MemoryCall};
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR};

use super::fixture::{ADMIN, Fixture, LATE, Op, PAGE, USER};
use super::memory::shared;
use super::own_pages::space;
use super::programs::{fixed, memory_of, register, state};
use crate::HandleId;

/// A small generator, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A number that is meaningful now and then.
    fn word(&mut self) -> u64 {
        let page = PAGE as u64;
        match self.below(10) {
            0..3 => page * self.below(4),
            3..6 => page * (1 + self.below(2)),
            6..8 => self.below(9),
            8 => page * self.below(10) + self.below(page),
            _ => self.of(&[u64::MAX, 1 << 62, 1 << 63, u64::MAX - 4095, page << 40]),
        }
    }
}

/// A program's mappings, as the kernel keeps them.
struct Mapping {
    node: usize,
    id: HandleId,
    offset: u64,
    pages: usize,
}

struct Play {
    fixture: Fixture,
    random: Random,
    handles: [Vec<HandleId>; 2],
    /// Handles that are, or were, connected.
    connected: [Vec<HandleId>; 2],
    pending: [Vec<u32>; 2],
    mappings: Vec<Mapping>,
    /// Numbers of the operations that succeeded; 0 stands for mapping.
    succeeded: BTreeSet<u64>,
}

impl Play {
    fn open(&mut self) {
        let node = self.random.below(2) as usize;
        let (caller, flags) = (
            self.random.of(&[USER, ADMIN]),
            self.random.of(&[O_RDWR, O_RDONLY]),
        );
        let path = self
            .random
            .of(&["memory", "endpoint", "peers", "windows", "mappings"]);
        // Text cannot be opened for writing.
        let opened = self.fixture.open_with(node, path, flags, caller);
        self.handles[node].extend(opened);
    }

    fn connect(&mut self) {
        let (from, to) = (self.random.below(2) as usize, self.random.below(2) as usize);
        let (near, far) = self.fixture.pair(from, to, 2050);
        for (node, id) in [(from, near), (to, far)] {
            self.handles[node].push(id);
            self.connected[node].push(id);
        }
    }

    /// Some handle; with `connected`, mostly one of a connection.
    fn handle(&mut self, connected: bool) -> Option<(usize, HandleId)> {
        let node = self.random.below(2) as usize;
        let any = !connected || self.random.below(8) == 0;
        let handles = if any {
            &self.handles[node]
        } else {
            &self.connected[node]
        };
        let count = handles.len() as u64;
        (count > 0).then(|| (node, handles[self.random.below(count) as usize]))
    }

    fn operation(&mut self) -> Option<(usize, Op)> {
        let connected = self.random.below(4) > 0;
        let (node, id) = self.handle(connected)?;
        let random = &mut self.random;
        if random.below(12) == 0 {
            let name = random.of(&[&b"window"[..], b"memory"]).to_vec();
            let caller = USER;
            return Some((node, Op::Dup { id, name, caller }));
        }
        if random.below(if connected { 30 } else { 3 }) == 0 {
            // A program all of whose pages are the one that is nobody's.
            // Some are found late.
            let late = random.of(&[0, 0, 1, 3]);
            let mut runs = vec![(LATE, 1); late];
            runs.extend(vec![(0, 1); random.below(5) as usize]);
            let space = space(&runs);
            let word = random.of(&[5, 5, 5, 6]);
            return Some((node, Op::Send { id, word, space }));
        }
        let number = if connected {
            let likely = [
                8, 8, 8, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 18, 19, 19, 26, 26, 27, 28, 68, 90,
                91,
            ];
            let end = random.below(60) == 0;
            if end {
                Call::SHUTDOWN
            } else {
                random.of(&likely)
            }
        } else {
            random.of(&[80, 80, 80, 81, 83, 83, 83, 83, 8, 67])
        };
        let length = match number {
            8 | 17 | 18 | 19 | 26..=28 => 40,
            10 | 11 => 32,
            83 => 32,
            12 | 13 => random.below(3 * PAGE as u64) as usize,
            90 => random.below(100) as usize,
            _ => 0,
        };
        let mut payload = vec![0; length];
        // Words where the structures have them, so that they are often meaningful.
        let mut words = payload.chunks_exact_mut(8);
        match number {
            8 => {
                let values = [
                    random.below(5),
                    PAGE as u64 * random.below(3),
                    PAGE as u64 * (1 + random.below(4)),
                    PAGE as u64 * random.below(4),
                ];
                for value in values {
                    words.next().unwrap().copy_from_slice(&value.to_le_bytes());
                }
                let rights = 1 + random.below(3);
                let flags = random.of(&[0, 0x10, 0x10, 0x10, 0x10, 1]);
                let last = rights | flags << 32;
                words.next().unwrap().copy_from_slice(&last.to_le_bytes());
            }
            10 | 11 | 17 | 18 | 19 => {
                for word in words {
                    let value = random.word();
                    word.copy_from_slice(&value.to_le_bytes());
                }
                let rma = [0_u64, 1, 4, 8, 12, 99];
                let fence = [0x11, 0x21, 0x31, 0x32, 99];
                let flags = if number == 17 {
                    random.of(&fence)
                } else {
                    random.of(&rma)
                };
                if number > 17 {
                    payload[..8].copy_from_slice(&random.below(5).to_le_bytes());
                }
                let at = length - 8;
                payload[at..].copy_from_slice(&flags.to_le_bytes());
            }
            26 => {
                let flags = random.of(&[0, 0, 0x10, 1]) << 32;
                let values = [
                    5,
                    0x40_0000,
                    random.below(5) * PAGE as u64,
                    random.word(),
                    (1 + random.below(3)) | flags,
                ];
                for (word, value) in words.zip(values) {
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }
            27 | 28 => {
                let values = [
                    5,
                    0x40_0000,
                    random.below(5 * PAGE as u64),
                    random.word(),
                    4,
                ];
                for (word, value) in words.zip(values) {
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }
            83 => {
                let (pages, rights) = (random.below(5), random.of(&[1, 2, 3, 3, 4]));
                let values = [5, 0x40_0000, pages * PAGE as u64, rights];
                for (word, value) in words.zip(values) {
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }
            _ => {}
        }
        let pages = random.below(6);
        let metadata = match number {
            80 => vec![number, pages, 0],
            _ => vec![number, random.word(), random.word()],
        };
        let op = Op::Call {
            id,
            payload,
            metadata,
        };
        Some((node, op))
    }

    fn map(&mut self) {
        let connected = self.random.below(2) == 0;
        let Some((node, id)) = self.handle(connected) else {
            return;
        };
        let offset = self.random.word();
        let pages = 1 + self.random.below(4) as usize;
        let prot = self
            .random
            .of(&[MapFlags::PROT_READ, MapFlags::PROT_WRITE, MapFlags::empty()]);
        let mapped = self
            .fixture
            .map(node, id, offset, pages * PAGE, shared(prot));
        if mapped.is_ok() {
            self.succeeded.insert(0);
            self.mappings.push(Mapping {
                node,
                id,
                offset,
                pages,
            });
        }
    }

    fn unmap(&mut self) {
        if self.mappings.is_empty() {
            return;
        }
        let index = self.random.below(self.mappings.len() as u64) as usize;
        let mapping = self.mappings.swap_remove(index);
        let first = self.random.below(mapping.pages as u64) as usize;
        let count = 1 + self.random.below((mapping.pages - first) as u64) as usize;
        let at = |page: usize| mapping.offset + (page * PAGE) as u64;
        let (node, id) = (mapping.node, mapping.id);
        self.fixture
            .unmap(node, id, at(first), count * PAGE)
            .unwrap();
        let rest = [(0, first), (first + count, mapping.pages - first - count)];
        for (start, pages) in rest.into_iter().filter(|&(_, pages)| pages > 0) {
            let offset = at(start);
            self.mappings.push(Mapping {
                offset,
                pages,
                ..mapping
            });
        }
    }

    /// Closes a handle through which nothing is mapped.
    fn close(&mut self) {
        let Some((node, id)) = self.handle(false) else {
            return;
        };
        let mapped = |mapping: &Mapping| mapping.node == node && mapping.id == id;
        if !self.mappings.iter().any(mapped) {
            self.handles[node].retain(|&other| other != id);
            self.connected[node].retain(|&other| other != id);
            self.fixture.close(node, id);
        }
    }

    fn cancel(&mut self) {
        let node = self.random.below(2) as usize;
        let pending = self.pending[node].pop();
        if let Some(request) = pending.filter(|&request| self.fixture.is_kept(node, request)) {
            let _ = self.fixture.cancel(node, request);
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.open(),
            1 if self.connected[0].len() < 6 => self.connect(),
            2..4 => self.map(),
            4..6 => self.unmap(),
            6 => self.close(),
            7 => self.cancel(),
            _ => {
                let Some((node, op)) = self.operation() else {
                    return;
                };
                let run_later = self.random.below(3) == 0;
                let request = self.fixture.submit_only(node, op.clone());
                if !run_later {
                    self.fixture.run();
                }
                match self.fixture.answer(node, request) {
                    Some((Ok(value), _)) => match op {
                        Op::Call { metadata, .. } => {
                            self.succeeded.insert(metadata[0]);
                        }
                        Op::Send { .. } => {}
                        _ => self.handles[node].push(value),
                    },
                    Some(_) => {}
                    None => self.pending[node].push(request),
                }
            }
        }
        for node in &mut self.fixture.nodes {
            assert_eq!(node.scif.engine().0.check_invariants(), Ok(()));
        }
    }

    fn finish(mut self) -> Fixture {
        while !self.mappings.is_empty() {
            self.unmap();
        }
        for node in 0..2 {
            for id in core::mem::take(&mut self.handles[node]) {
                self.fixture.close(node, id);
            }
        }
        self.fixture
    }
}

#[test]
fn arbitrary_requests_around_memory_leave_nothing() {
    let mut succeeded = BTreeSet::new();
    for seed in 1..40_u64 {
        let mut fixture = Fixture::new(2);
        let before = state(&mut fixture);
        let left = fixture.nodes[0].scif.engine().1.pages_left;
        let mut play = Play {
            fixture,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            handles: [Vec::new(), Vec::new()],
            connected: [Vec::new(), Vec::new()],
            pending: [Vec::new(), Vec::new()],
            mappings: Vec::new(),
            succeeded: BTreeSet::new(),
        };
        // A meaningful start: connections with two windows at each end.
        for _ in 0..3 {
            play.connect();
        }
        for node in 0..2 {
            let memory = memory_of(&mut play.fixture, node, 4, ADMIN);
            play.handles[node].push(memory.id);
            play.mappings.push(Mapping {
                node,
                id: memory.id,
                offset: 0,
                pages: 4,
            });
            for id in play.connected[node].clone() {
                for place in [0, 2 * PAGE as u64] {
                    let fixture = &mut play.fixture;
                    register(fixture, node, id, fixed(memory, place, 2)).unwrap();
                }
            }
        }
        for _ in 0..400 {
            play.step();
        }
        succeeded.append(&mut play.succeeded);
        let mut fixture = play.finish();
        assert_eq!(state(&mut fixture), before, "seed {seed}");
        assert_eq!(
            fixture.nodes[0].scif.engine().1.pages_left,
            left,
            "seed {seed}"
        );
    }
    // It would prove little if nothing ever succeeded.
    let must = [
        0,
        Call::REGISTER,
        Call::REGISTER_OWN,
        Call::OWN_READ_FROM,
        Call::OWN_WRITE_TO,
        Call::UNREGISTER,
        Call::WRITE_TO,
        Call::VIRTUAL_READ_FROM,
        Call::CACHED_READ_FROM,
        Call::FENCE_MARK,
        Call::FENCE_SIGNAL,
        Call::SHUTDOWN,
        Call::MAP_RUN,
        MemoryCall::PROVIDE,
        MemoryCall::PIN,
    ];
    for number in must {
        assert!(succeeded.contains(&number), "{number}: {succeeded:?}");
    }
}
