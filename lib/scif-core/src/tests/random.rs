//! Random calls at random moments: whatever happens, the invariants hold and nothing is left over.

use super::std::prelude::v1::*;

use super::std::cell::RefCell;
use super::std::rc::Rc;

use super::engine::{LateEngine, Order};
use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, READ, WRITE};
use crate::{Direction, Local, Mapped, Rma, Signal, Ticket};

/// Steps of one run.
const STEPS: usize = 300;

/// A linear congruential generator; the upper bits are used.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// One run.
struct Run {
    fixture: Fixture,
    dice: Dice,
    order: Option<Rc<RefCell<Order>>>,
    ends: Vec<End>,
    tickets: Vec<(End, Ticket)>,
    virtuals: Vec<(End, Ticket)>,
    mapped: Vec<(usize, Mapped)>,
    cookies: Vec<(End, u64)>,
    marks: Vec<(End, i32)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let nodes = 1 + (seed % 2) as usize;
        let mut run = Run {
            fixture: Fixture::new(nodes),
            dice: Dice(seed),
            order: None,
            ends: Vec::new(),
            tickets: Vec::new(),
            virtuals: Vec::new(),
            mapped: Vec::new(),
            cookies: Vec::new(),
            marks: Vec::new(),
        };
        for _ in 0..3 {
            run.connect();
        }
        if seed.is_multiple_of(3) {
            let (engine, order) = LateEngine::new(3);
            run.fixture.nodes[0].copier = Box::new(engine);
            run.order = Some(order);
        }
        run
    }

    fn connect(&mut self) {
        let last = self.fixture.nodes.len() - 1;
        let (a, b) = self.fixture.connect(0, last);
        for end in [a, b] {
            let pages = self.fixture.pin(end.node, &[1, 1]);
            self.fixture.register(end, &pages, 0, BOTH);
            self.ends.push(end);
        }
    }

    fn step(&mut self) {
        let Some(end) = (!self.ends.is_empty()).then(|| self.dice.pick(&self.ends)) else {
            return self.connect();
        };
        match self.dice.roll(36) {
            0..4 => self.register(end),
            4 if self.dice.roll(2) == 0 => self.unregister(end),
            5..10 => self.copy(end),
            10 => self.begin_virtual(end),
            11 => self.map(end),
            12 => self.unmap(),
            13 | 20 => self.fence(end),
            14 => self.finish(),
            15 if self.dice.roll(3) == 0 => self.abandon(),
            16 => self.get(end),
            17 if self.dice.roll(5) == 0 => self.close(end),
            18 if self.ends.len() < 8 => self.connect(),
            19 | 21..24 => self.complete(),
            _ => {
                let node = self.dice.roll(self.fixture.nodes.len() as u64) as usize;
                self.fixture.iterate(node);
            }
        }
        for node in &self.fixture.nodes {
            node.engine.check_invariants().unwrap();
        }
    }

    fn offset(&mut self) -> i64 {
        self.dice.roll(3) as i64 * 2 * PAGE as i64
    }

    fn register(&mut self, end: End) {
        let pages = self.fixture.pin(end.node, &[1, 1]);
        let offset = self.offset();
        let protection = self.dice.pick(&[BOTH, BOTH, BOTH, READ, WRITE]);
        let flags = self.dice.pick(&[FIXED, FIXED, 0]);
        let ticket = self
            .fixture
            .start_register(end, &pages, offset, protection, flags);
        self.tickets.extend(ticket.ok().map(|ticket| (end, ticket)));
    }

    fn unregister(&mut self, end: End) {
        let offset = self.offset();
        let length = self.dice.pick(&[2, 2, 4, 1]) * PAGE;
        let (engine, memory) = self.fixture.parts(end);
        let ticket = engine.unregister(memory, end.id, offset, length);
        self.tickets.extend(ticket.ok().map(|ticket| (end, ticket)));
    }

    fn copy(&mut self, end: End) {
        let (local, remote) = (self.offset(), self.offset());
        let most = self.dice.pick(&[PAGE, 2 * PAGE, 5 * PAGE]);
        let length = 1 + self.dice.roll(most);
        let rma = Rma {
            direction: self.dice.pick(&[Direction::Read, Direction::Write]),
            local: match self.dice.roll(4) {
                0 => Local::Pages {
                    pages: self.fixture.pin(end.node, &[3]),
                    offset: 7,
                },
                _ => Local::Window(local),
            },
            remote,
            length,
            flags: self.dice.roll(16) as u32,
        };
        let engine = self.fixture.engine(end);
        let ticket = engine.rma(end.id, rma);
        self.tickets.extend(ticket.ok().map(|ticket| (end, ticket)));
    }

    fn begin_virtual(&mut self, end: End) {
        let remote = self.offset();
        let direction = self.dice.pick(&[Direction::Read, Direction::Write]);
        let engine = self.fixture.engine(end);
        let ticket = engine.virtual_start(end.id, direction, remote, 2 * PAGE, 0);
        self.virtuals
            .extend(ticket.ok().map(|ticket| (end, ticket)));
    }

    fn map(&mut self, end: End) {
        let offset = self.offset();
        let engine = self.fixture.engine(end);
        let mapped = engine.map(end.id, offset, PAGE, READ);
        self.mapped
            .extend(mapped.ok().map(|mapped| (end.node, mapped)));
    }

    fn unmap(&mut self) {
        if let Some((node, mapped)) = self.mapped.pop() {
            let node = &mut self.fixture.nodes[node];
            node.engine.unmap(mapped.window, mapped.pages);
        }
    }

    fn fence(&mut self, end: End) {
        let flags = self.dice.pick(&[1, 2]);
        let signal = Signal {
            local_offset: self.offset() + 4092,
            remote_offset: self.offset() + 8,
            flags: flags | 0x30,
            ..Signal::default()
        };
        let known = self.marks.iter().rfind(|(of, _)| *of == end);
        let mark = known.map_or(1, |(_, mark)| *mark);
        let kind = self.dice.roll(3);
        let engine = self.fixture.engine(end);
        let ticket = match kind {
            0 => engine.fence_mark(end.id, flags),
            1 => engine.fence_wait(end.id, mark),
            _ => engine.fence_signal(end.id, signal),
        };
        let Ok(ticket) = ticket else {
            return;
        };
        match engine.finish(ticket) {
            Some(Ok(mark)) if kind == 0 => self.marks.push((end, mark as i32)),
            Some(_) => {}
            None => self.tickets.push((end, ticket)),
        }
    }

    fn finish(&mut self) {
        let fixture = &mut self.fixture;
        self.tickets.retain(|(end, ticket)| {
            let engine = fixture.engine(*end);
            engine.finish(*ticket).is_none()
        });
        let mut data = [1; 2 * PAGE as usize];
        self.virtuals.retain(|(end, ticket)| {
            let (engine, memory) = fixture.parts(*end);
            engine
                .virtual_step(memory, *ticket, &mut data, 5000)
                .is_none()
        });
    }

    fn abandon(&mut self) {
        for list in [&mut self.tickets, &mut self.virtuals] {
            if let Some((end, ticket)) = list.pop() {
                let (engine, memory) = self.fixture.parts(end);
                engine.abandon(memory, ticket);
            }
        }
    }

    fn get(&mut self, end: End) {
        let offset = self.offset();
        let engine = self.fixture.engine(end);
        if let Ok(got) = engine.get_pages(end.id, offset, PAGE) {
            self.cookies.push((end, got.cookie));
        }
        if self.cookies.len() > 2 {
            let (end, cookie) = self.cookies.remove(0);
            let engine = self.fixture.engine(end);
            // The endpoint may have been closed, which has put them.
            let _ = engine.put_pages(end.id, cookie);
        }
    }

    fn close(&mut self, end: End) {
        self.fixture.close(end);
        self.ends.retain(|other| *other != end);
    }

    fn complete(&mut self) {
        if let Some(order) = &self.order {
            order
                .borrow_mut()
                .complete_one(&mut self.fixture.nodes[0].memory);
        }
    }

    /// Ends everything, in random order, and checks that nothing is left. Returns what happened:
    /// copies, signals, bytes by DMA, uses of pages.
    fn end(mut self) -> [u64; 4] {
        while let Some(end) = self.ends.pop() {
            self.close(end);
            self.step_some();
        }
        while !self.mapped.is_empty() {
            self.unmap();
        }
        while !(self.tickets.is_empty() && self.virtuals.is_empty()) {
            self.abandon();
        }
        self.fixture.run();
        while self
            .order
            .as_ref()
            .is_some_and(|order| !order.borrow().is_idle())
        {
            self.complete();
            self.fixture.run();
        }
        self.fixture.assert_clean();
        let mut sums = [0; 4];
        for node in &self.fixture.nodes {
            let engine = &node.engine;
            assert_eq!((engine.calls.len(), engine.transfers.len()), (0, 0));
            let stats = engine.stats();
            let released = node.released.len() as u64;
            let seen = [stats.copies, stats.signals, stats.rma_bytes_dma, released];
            for (sum, seen) in sums.iter_mut().zip(seen) {
                *sum += seen;
            }
        }
        sums
    }

    fn step_some(&mut self) {
        for node in 0..self.fixture.nodes.len() {
            if self.dice.roll(2) == 0 {
                self.fixture.iterate(node);
            }
        }
    }
}

#[test]
fn random_calls_keep_the_invariants_and_leave_nothing() {
    let mut sums = [0; 4];
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
        }
        for (sum, count) in sums.iter_mut().zip(run.end()) {
            *sum += count;
        }
    }
    // Otherwise all calls were refused, and nothing was tried.
    assert!(sums.iter().all(|sum| *sum >= 50), "{sums:?}");
}
