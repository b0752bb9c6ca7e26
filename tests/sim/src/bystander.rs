//! A third node beside a hostile peer and its victim: a real engine with a connection and windows
//! to the victim. The hostile node can guess their ids.
//!
//! The checks: the link to the third node stays up, each byte of its streams and windows is what
//! one of the two nodes put there, and at the end nothing of the connection is left.

use std::cell::RefCell;
use std::rc::Rc;

use scif_abi::limits::PAGE_BYTES;
use scif_abi::{NodeId, PortId};
use scif_core::{
    Config, ConnectMode, CpuEngine, Direction, EndpointId, Engine, LinkState, Local, Memory, Owner,
    Pages, PinId, Rma, Run, Ticket,
};

use crate::hostile::VICTIM;
use crate::memory::{Fabric, NodeMemory};
use crate::rng::{Rng, mix};

/// The third node's number.
pub(crate) const BYSTANDER: NodeId = 2;

/// The number of the page that the victim registered for the third node. Other pages never get so
/// large a number.
pub(crate) const PIN: PinId = PinId(u64::MAX - 2);

/// The port at which the third node listens.
const PORT: u16 = 2600;

/// Flags to register for reading and writing, at a fixed offset.
const BOTH: u32 = 3;
const FIXED: u32 = 0x10;

/// An engine and its memory. The caller passes those of the victim.
type Side<'a> = (&'a mut Engine, &'a mut NodeMemory);

/// The third node. The first of the two ends is the victim's.
pub(crate) struct Bystander {
    engine: Engine,
    memory: NodeMemory,
    ends: [EndpointId; 2],
    /// Number of bytes that each end has sent and received.
    sent: [u64; 2],
    received: [u64; 2],
    /// The page that each end has registered, and the content it must have.
    pages: [u64; 2],
    content: [Vec<u8>; 2],
    copy: Option<Copy>,
    /// Number of copies between the nodes that have arrived.
    pub(crate) copies: u64,
}

/// A copy in progress.
struct Copy {
    ticket: Ticket,
    /// The end that copies, and the end that it copies from.
    by: usize,
    from: usize,
    at: usize,
    length: usize,
}

fn text<T, E: std::fmt::Debug>(result: Result<T, E>, what: &str) -> Result<T, String> {
    result.map_err(|error| format!("the third node: {what}: {error:?}"))
}

/// Returns byte `at` of the stream that the end `end` sends.
fn byte(end: usize, at: u64) -> u8 {
    mix(at << 1 | end as u64) as u8
}

impl Bystander {
    /// Links the two nodes, connects them and registers a page at each end.
    pub(crate) fn new(
        fabric: &Rc<RefCell<Fabric>>,
        victim: Side<'_>,
        rng: &mut Rng,
    ) -> Result<Bystander, String> {
        let mut engine = Engine::new(Config::new(BYSTANDER));
        let mut memory = NodeMemory::new(fabric, usize::from(BYSTANDER));
        for (from, to) in [(VICTIM, BYSTANDER), (BYSTANDER, VICTIM)] {
            let (from, to) = (usize::from(from), usize::from(to));
            fabric.borrow_mut().set_reach(from, to, true);
        }
        let at_victim = text(victim.0.attach(victim.1, BYSTANDER), "attach")?;
        let here = text(engine.attach(&mut memory, VICTIM), "attach")?;
        text(victim.0.link_up(victim.1, BYSTANDER, here), "link")?;
        text(engine.link_up(&mut memory, VICTIM, at_victim), "link")?;
        let listener = text(engine.open(Owner::default()), "open")?;
        text(engine.bind(listener, PORT), "bind")?;
        text(engine.listen(listener, 1), "listen")?;
        let mut new = Bystander {
            engine,
            memory,
            ends: [listener; 2],
            sent: [0; 2],
            received: [0; 2],
            pages: [0; 2],
            content: [0; 2].map(|_: u8| vec![0; PAGE_BYTES]),
            copy: None,
            copies: 0,
        };
        new.run_until_idle((&mut *victim.0, &mut *victim.1));
        let own = text(victim.0.open(Owner::default()), "open")?;
        let to = PortId::new(BYSTANDER, PORT);
        let mode = ConnectMode::Blocking;
        text(victim.0.connect(victim.1, own, to, mode), "connect")?;
        new.run_until_idle((&mut *victim.0, &mut *victim.1));
        let (engine, memory) = (&mut new.engine, &mut new.memory);
        let accepted = engine.accept_start(memory, listener, Owner::default());
        new.ends = [own, text(accepted, "accept")?];
        new.run_until_idle((&mut *victim.0, &mut *victim.1));
        new.engine.close(&mut new.memory, listener);
        for (end, node) in [VICTIM, BYSTANDER].into_iter().enumerate() {
            let pinned = fabric.borrow_mut().pin(usize::from(node), 1, rng);
            let page = pinned.and_then(|pages| pages.first().copied());
            new.pages[end] = page.ok_or("no memory for the third node's window")?;
            let given = Pages {
                pin: PIN,
                runs: vec![Run {
                    address: new.pages[end],
                    pages: 1,
                }],
                is_charged: false,
            };
            let id = new.ends[end];
            let zeros = vec![0; PAGE_BYTES];
            let (engine, memory) = new.side(end, (&mut *victim.0, &mut *victim.1));
            memory.write(page.unwrap_or(0), &zeros);
            let ticket = engine.register(memory, id, given, 0, BOTH, FIXED);
            let ticket = text(ticket, "register")?;
            new.run_until_idle((&mut *victim.0, &mut *victim.1));
            let (engine, _) = new.side(end, (&mut *victim.0, &mut *victim.1));
            if engine.finish(ticket) != Some(Ok(0)) {
                return Err("the third node's window is not registered".into());
            }
        }
        Ok(new)
    }

    /// Returns the engine and memory of an end.
    fn side<'a>(&'a mut self, end: usize, victim: Side<'a>) -> Side<'a> {
        match end {
            0 => victim,
            _ => (&mut self.engine, &mut self.memory),
        }
    }

    /// Runs a turn of each driver for the link between the two nodes.
    pub(crate) fn turn(&mut self, victim: Side<'_>) {
        let (engine, memory) = victim;
        self.engine.doorbell(&mut self.memory, VICTIM);
        self.engine.pump(&mut self.memory, &mut CpuEngine, 1 << 16);
        while self.engine.next_event(&mut self.memory).is_some() {}
        engine.doorbell(memory, BYSTANDER);
    }

    /// Lets both nodes do everything that is pending.
    fn run_until_idle(&mut self, victim: Side<'_>) {
        let (engine, memory) = victim;
        for _ in 0..8 {
            while engine.next_event(memory).is_some() {}
            self.turn((&mut *engine, &mut *memory));
        }
    }

    /// Runs a step of the two nodes, which must go on as if the hostile node were not there.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        memory: &mut NodeMemory,
        rng: &mut Rng,
    ) -> Result<(), String> {
        self.turn((&mut *engine, &mut *memory));
        text(self.engine.check_invariants(), "rules")?;
        if engine.link_state(BYSTANDER) != Some(LinkState::Online) {
            return Err("the link to the third node is lost".into());
        }
        for end in 0..2 {
            self.stream(end, (&mut *engine, &mut *memory), rng)?;
        }
        match self.copy.take() {
            Some(copy) => self.end_copy(copy, (engine, memory)),
            None => self.begin_copy((engine, memory), rng),
        }
    }

    /// Makes an end send some bytes and receive some.
    fn stream(&mut self, end: usize, victim: Side<'_>, rng: &mut Rng) -> Result<(), String> {
        let (id, from) = (self.ends[end], self.sent[end]);
        let bytes: Vec<u8> = (from..from + rng.size(3000))
            .map(|at| byte(end, at))
            .collect();
        let mut buffer = vec![0; rng.size(3000) as usize];
        let (engine, memory) = self.side(end, victim);
        let sent = text(engine.send(memory, id, &bytes), "send")?;
        let received = text(engine.recv(memory, id, &mut buffer), "recv")?;
        self.sent[end] += sent as u64;
        for found in &buffer[..received] {
            let at = self.received[end];
            if *found != byte(1 - end, at) || at >= self.sent[1 - end] {
                return Err(format!("byte {at} to end {end} of the third node is wrong"));
            }
            self.received[end] += 1;
        }
        Ok(())
    }

    /// Makes an end copy a piece of one window to the other.
    fn begin_copy(&mut self, victim: Side<'_>, rng: &mut Rng) -> Result<(), String> {
        let (by, from) = (rng.below(2) as usize, rng.below(2) as usize);
        let at = rng.below(PAGE_BYTES as u64) as usize;
        let length = 1 + rng.below((PAGE_BYTES - at) as u64) as usize;
        let fresh = rng.number().to_le_bytes();
        let fresh = &fresh[..fresh.len().min(length)];
        self.content[from][at..at + fresh.len()].copy_from_slice(fresh);
        let (page, id) = (self.pages[from], self.ends[by]);
        let (victim_engine, victim_memory) = victim;
        let (_, memory) = self.side(from, (&mut *victim_engine, &mut *victim_memory));
        memory.write(page + at as u64, fresh);
        let rma = Rma {
            direction: match by == from {
                true => Direction::Write,
                false => Direction::Read,
            },
            local: Local::Window(at as i64),
            remote: at as i64,
            length: length as u64,
            flags: 4,
        };
        let (engine, _) = self.side(by, (victim_engine, victim_memory));
        let ticket = text(engine.rma(id, rma), "copy")?;
        self.copy = Some(Copy {
            ticket,
            by,
            from,
            at,
            length,
        });
        Ok(())
    }

    /// Checks whether a copy has arrived, and that nothing else has changed.
    fn end_copy(&mut self, copy: Copy, victim: Side<'_>) -> Result<(), String> {
        let (victim_engine, victim_memory) = victim;
        let (engine, _) = self.side(copy.by, (victim_engine, &mut *victim_memory));
        let Some(result) = engine.finish(copy.ticket) else {
            self.copy = Some(copy);
            return Ok(());
        };
        text(result, "copy")?;
        let range = copy.at..copy.at + copy.length;
        let data = self.content[copy.from][range.clone()].to_vec();
        self.content[1 - copy.from][range].copy_from_slice(&data);
        self.copies += 1;
        let mut actual = vec![0; PAGE_BYTES];
        for end in 0..2 {
            match end {
                0 => victim_memory.read(self.pages[end], &mut actual),
                _ => self.memory.read(self.pages[end], &mut actual),
            }
            if actual != self.content[end] {
                return Err(format!(
                    "window {end} of the third node holds what nobody wrote"
                ));
            }
        }
        Ok(())
    }

    /// Returns the number of bytes that have arrived.
    pub(crate) fn bytes(&self) -> u64 {
        self.received.iter().sum()
    }

    /// Closes both ends, after which nothing may be left.
    pub(crate) fn finish(
        &mut self,
        engine: &mut Engine,
        memory: &mut NodeMemory,
    ) -> Result<(), String> {
        engine.close(memory, self.ends[0]);
        self.engine.close(&mut self.memory, self.ends[1]);
        self.run_until_idle((&mut *engine, &mut *memory));
        let stats = self.engine.stats();
        let left = [stats.connections, stats.windows, stats.remote_windows];
        if left != [0; 3] || stats.links_failed + stats.rings_reset != 0 {
            return Err(format!("the third node keeps {left:?}, or complains"));
        }
        engine.link_down(memory, BYSTANDER);
        self.engine.link_down(&mut self.memory, VICTIM);
        Ok(())
    }
}
