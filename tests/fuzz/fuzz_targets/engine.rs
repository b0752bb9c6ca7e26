//! A live engine whose peer stores any messages, indices, queue pairs and page lists, answers in a
//! sensible way now and then, and vanishes; while the engine's own clients connect, send, register,
//! copy and map. The engine's rules hold after each step, it touches no memory that is not in use,
//! and when all clients and the peer are gone, nothing is left.
#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use scif_abi::PortId;
use scif_abi::message::{Extensions, Message, NodeMessage};
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};
use scif_abi::window::{WindowFill, WindowRecord};
use scif_core::{
    Config, ConnectMode, CpuEngine, Direction, DownReason, EndpointId, Engine, Event, LinkState,
    Local, Mapped, Memory, Owner, Pages, PinId, Rma, Run, Signal, Ticket,
};
use sim::memory::{Fabric, NodeMemory};
use sim::peer::{RING_BYTES, ScriptedPeer};
use sim::rng::Rng;
use zerocopy::{FromZeros, IntoBytes};

const VICTIM: u16 = 0;
const HOSTILE: u16 = 1;
const PORT: u16 = 2000;
const PAGE: u64 = 4096;
/// Bytes of each node: enough for all, little to clear.
const RAM_BYTES: usize = 2 << 20;
/// Where a lent structure has its lookup arrays; its tables follow on pages of their own.
const LOOKUPS: u64 = 256;

struct Play {
    fabric: Rc<RefCell<Fabric>>,
    peer: ScriptedPeer,
    /// Numbers seen in the victim's messages: ids and addresses.
    seen: Vec<u64>,
    /// The next message of a sensible peer.
    answers: Vec<(u32, [u64; 4])>,
    engine: Engine,
    memory: NodeMemory,
    now: u64,
    listener: EndpointId,
    endpoints: Vec<EndpointId>,
    /// Pages of the victim's programs, by the number the engine has for them.
    pinned: BTreeMap<u64, Vec<u64>>,
    pins: u64,
    tickets: Vec<Ticket>,
    mapped: Vec<Mapped>,
}

impl Play {
    fn new() -> Self {
        let fabric = Fabric::with_bytes(2, RAM_BYTES);
        // It also offers pages of its memory that nothing uses. Stores there harm nobody else.
        fabric.borrow_mut().lawless = Some(HOSTILE.into());
        let mut config = Config::new(VICTIM);
        config.node_ring_bytes = RING_BYTES;
        config.endpoint_ring_bytes = RING_BYTES;
        let mut engine = Engine::new(config);
        let listener = engine.open(Owner::default()).expect("the first endpoint");
        engine.bind(listener, PORT).expect("the first port");
        engine.listen(listener, 3).expect("the first listener");
        Self {
            peer: ScriptedPeer::new(&fabric, HOSTILE, VICTIM),
            seen: vec![0],
            answers: Vec::new(),
            memory: NodeMemory::new(&fabric, VICTIM.into()),
            fabric,
            engine,
            now: 0,
            listener,
            endpoints: vec![listener],
            pinned: BTreeMap::new(),
            pins: 0,
            tickets: Vec::new(),
            mapped: Vec::new(),
        }
    }

    /// The driver begins the link, or begins it anew after its end.
    fn ensure_link(&mut self) {
        match self.engine.link_state(HOSTILE) {
            Some(LinkState::Failed | LinkState::Left) => {
                self.engine.link_down(&mut self.memory, HOSTILE);
                self.fabric.borrow_mut().restart(HOSTILE.into());
            }
            Some(_) => return,
            None => {}
        }
        self.answers.clear();
        let Ok(address) = self.engine.attach(&mut self.memory, HOSTILE) else {
            return;
        };
        let (from, to) = (HOSTILE.into(), VICTIM.into());
        self.fabric.borrow_mut().set_reach(from, to, true);
        let own = self.peer.begin(address, Extensions::all().to_word());
        if self.engine.link_up(&mut self.memory, HOSTILE, own).is_ok() {
            self.peer.say(0, 0, NodeMessage::Init);
            self.engine.doorbell(&mut self.memory, HOSTILE);
        }
    }

    /// A number for a message: one that was seen, a small one, or any.
    fn word(&mut self, input: &mut Unstructured<'_>) -> Result<u64> {
        Ok(match u8::arbitrary(input)? % 8 {
            0 => u64::arbitrary(input)?,
            1 => u64::from(u8::arbitrary(input)?),
            2 => u64::from(u8::arbitrary(input)?) * PAGE,
            3 => self.queue_pair(input)?,
            _ => *input.choose(&self.seen)?,
        })
    }

    /// A queue pair of the peer, right in most cases.
    fn queue_pair(&mut self, input: &mut Unstructured<'_>) -> Result<u64> {
        let choice = u8::arbitrary(input)?;
        let number = if choice < 64 {
            u64::arbitrary(input)?
        } else {
            0
        };
        let pair = self.peer.make_queue_pair(|structure| match choice {
            0..16 => structure.magic = number.into(),
            16..32 => structure.inbound.size = (number as u32).into(),
            32..48 => structure.local_buffer = number.into(),
            48..64 => structure.extensions = (number as u32).into(),
            _ => {}
        });
        Ok(pair.map_or(0, |(_, exported)| exported))
    }

    fn say(&mut self, opcode: u32, words: [u64; 4], ports: [u16; 2]) {
        let message = Message {
            source: PortId::new(HOSTILE, ports[0]),
            destination: PortId::new(VICTIM, ports[1]),
            opcode: opcode.into(),
            payload: words.map(Into::into),
        };
        self.peer.send(&message);
    }

    /// Reads what the victim says, and thinks of what a sensible peer would answer.
    fn listen(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        for message in self.peer.receive() {
            let words = message.payload.map(|word| word.get());
            let [first, second, third, fourth] = words;
            self.seen
                .extend(words.into_iter().filter(|word| *word != 0));
            let surplus = self.seen.len().saturating_sub(60);
            self.seen.drain(..surplus);
            let answer = match message.opcode.get() {
                NodeMessage::CONNECT_REQUEST => {
                    let pair = self.queue_pair(input)?;
                    (NodeMessage::CONNECT_GRANT, [first, pair, first, 0])
                }
                NodeMessage::CONNECT_GRANT => (NodeMessage::CONNECT_GRANT_ACK, [third, 0, 0, 0]),
                NodeMessage::DISCONNECT => (NodeMessage::DISCONNECT_ACK, [first, second, 0, 0]),
                NodeMessage::ALLOC_REQUEST => {
                    let address = self.lend(second);
                    (NodeMessage::ALLOC_GRANT, [5, address, third, 0])
                }
                NodeMessage::ALLOC_GRANT => {
                    self.fill(second, input)?;
                    (NodeMessage::REGISTER, [third, first, 7, 0])
                }
                NodeMessage::REGISTER => (NodeMessage::REGISTER_ACK, words),
                NodeMessage::UNREGISTER => (NodeMessage::UNREGISTER_ACK, [0, second, 0, 0]),
                NodeMessage::MARK => (NodeMessage::MARK_ACK, [first, second, 3, 0]),
                NodeMessage::WAIT => (NodeMessage::WAIT_ACK, [first, second, 0, 0]),
                NodeMessage::SIGNAL_LOCAL | NodeMessage::SIGNAL_REMOTE => {
                    (NodeMessage::SIGNAL_ACK, [first, 0, 0, fourth])
                }
                _ => continue,
            };
            self.answers.push(answer);
        }
        Ok(())
    }

    /// A structure of the peer for a window of the victim; its bus address.
    fn lend(&mut self, pages: u64) -> u64 {
        let Some(local) = self.peer.memory.allocate(3 * PAGE as usize) else {
            return 0;
        };
        let own = self.peer.memory.export(VICTIM, local);
        let record = WindowRecord::granted(pages as u32, own, own + LOOKUPS, own + LOOKUPS + 8);
        self.peer.memory.write(local, record.as_bytes());
        for (at, table) in [own + PAGE, own + 2 * PAGE].into_iter().enumerate() {
            let place = local + LOOKUPS + 8 * at as u64;
            self.peer.memory.write(place, &table.to_le_bytes());
        }
        own
    }

    /// Fills in a structure that the victim has lent: a page list that makes sense, or nearly.
    fn fill(&mut self, address: u64, input: &mut Unstructured<'_>) -> Result<()> {
        let mut record = WindowRecord::new_zeroed();
        // A wrong address only makes the list wrong.
        let _ = self
            .peer
            .memory
            .peer_read(VICTIM, address, record.as_mut_bytes());
        let pages = record.pages.get().clamp(0, 8) as u64;
        for (lookup, value) in [
            (record.addresses.address.get(), None),
            (record.counts.address.get(), Some(1)),
        ] {
            let mut table = [0; 8];
            let _ = self.peer.memory.peer_read(VICTIM, lookup, &mut table);
            for page in 0..pages {
                let place = 0x4000_0000 + (100 + page) * PAGE;
                let mut entry = value.unwrap_or(place);
                if input.ratio(1, 16)? {
                    entry = u64::arbitrary(input)?;
                }
                let at = u64::from_le_bytes(table).wrapping_add(8 * page);
                self.peer.scribble(at, &entry.to_le_bytes());
            }
        }
        let odd = u8::arbitrary(input)?;
        let fill = WindowFill {
            chunks: if odd == 0 {
                u32::arbitrary(input)?
            } else {
                pages as u32
            },
            protection: if odd == 1 { u32::arbitrary(input)? } else { 3 },
            offset: i64::from(odd >> 4) * PAGE as i64,
            endpoint: 0,
            owner_window: 7,
        };
        for (offset, bytes) in fill.stores() {
            self.peer.scribble(address.wrapping_add(offset), &bytes);
        }
        Ok(())
    }

    /// An action of the peer.
    fn peer_step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let ports = [PORT, PORT + u16::from(u8::arbitrary(input)? & 1)];
        match u8::arbitrary(input)? % 10 {
            0..4 => {
                self.listen(input)?;
                if let Some((opcode, words)) = self.answers.pop() {
                    self.say(opcode, words, ports);
                }
            }
            4 => {
                let pair = self.queue_pair(input)?;
                let words = [u64::from(ports[1]), pair, 0, 0];
                self.say(NodeMessage::CONNECT_REQUEST, words, ports);
            }
            5 | 6 => {
                let opcode = u32::from(u8::arbitrary(input)? % 48);
                let mut words = [0; 4];
                for word in &mut words {
                    *word = self.word(input)?;
                }
                self.say(opcode, words, ports);
            }
            7 => {
                // A window of the peer's: the structure is asked for, the answer fills it in.
                let words = [
                    *input.choose(&self.seen)?,
                    1 + u64::from(ports[1] & 3),
                    0,
                    0,
                ];
                let words = [words[0], words[1], words[0], 0];
                self.say(NodeMessage::ALLOC_REQUEST, words, ports);
            }
            8 => {
                // Stores into a queue pair that the victim has announced, or the node's own.
                let pair = match bool::arbitrary(input)? {
                    true => self.peer.other_qp,
                    false => *input.choose(&self.seen)?,
                };
                let offset = match u8::arbitrary(input)? % 3 {
                    0 => LOCAL_READ_OFFSET,
                    1 => LOCAL_WRITE_OFFSET,
                    _ => u64::from(u16::arbitrary(input)?),
                };
                let index = match bool::arbitrary(input)? {
                    true => u32::arbitrary(input)?,
                    false => u32::from(u16::arbitrary(input)?) % RING_BYTES,
                };
                if !self.fabric.borrow().is_pinned(VICTIM.into(), pair) {
                    let at = pair.wrapping_add(offset);
                    self.peer.scribble(at, &index.to_le_bytes());
                }
            }
            _ => {
                // Any bytes as messages.
                let mut message = Message::new_zeroed();
                input.fill_buffer(message.as_mut_bytes())?;
                self.peer.send(&message);
            }
        }
        if !input.ratio(1, 8)? {
            self.engine.doorbell(&mut self.memory, HOSTILE);
        }
        Ok(())
    }

    /// Memory of a program of the victim.
    fn pin(&mut self, count: usize) -> Option<Pages> {
        self.pins += 1;
        let mut rng = Rng::new(self.pins);
        let pages = self
            .fabric
            .borrow_mut()
            .pin(VICTIM.into(), count, &mut rng)?;
        let runs = pages.iter().map(|&address| Run { address, pages: 1 });
        let given = Pages {
            pin: PinId(self.pins),
            runs: runs.collect(),
            is_charged: true,
        };
        self.pinned.insert(self.pins, pages);
        Some(given)
    }

    fn unpin(&mut self, pin: PinId) {
        let pages = self.pinned.remove(&pin.0).expect("released once");
        self.fabric.borrow_mut().unpin(VICTIM.into(), &pages);
    }

    /// An action of the victim's programs.
    fn client_step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let id = *input.choose(&self.endpoints)?;
        let count = usize::from(u8::arbitrary(input)?);
        let offset = (count as i64 % 12) * PAGE as i64;
        let near = offset + i64::from(u8::arbitrary(input)?) * 4;
        match u8::arbitrary(input)? % 16 {
            0 if self.endpoints.len() < 12 => {
                self.endpoints.extend(self.engine.open(Owner::default()));
            }
            1 | 2 => {
                let to = PortId::new(HOSTILE, 1 + count as u16 % 3);
                let mode = ConnectMode::NonBlocking;
                let _ = self.engine.connect(&mut self.memory, id, to, mode);
                let _ = self.engine.connect_result(id);
            }
            3 => {
                let owner = Owner::default();
                let accepted = self
                    .engine
                    .accept_start(&mut self.memory, self.listener, owner);
                self.endpoints.extend(accepted);
            }
            4 => _ = self.engine.send(&mut self.memory, id, &vec![7; 20 * count]),
            5 => {
                let mut buffer = vec![0; 20 * count];
                let _ = self.engine.recv(&mut self.memory, id, &mut buffer);
            }
            6 => _ = self.engine.poll(&mut self.memory, id),
            7 if id != self.listener => {
                self.engine.close(&mut self.memory, id);
                self.endpoints.retain(|other| *other != id);
            }
            8 | 9 => {
                let Some(pages) = self.pin(1 + count % 4) else {
                    return Ok(());
                };
                let pin = pages.pin;
                let rights = 1 + count as u32 % 3;
                let memory = &mut self.memory;
                match self
                    .engine
                    .register(memory, id, pages, offset, rights, 0x10)
                {
                    Ok(ticket) => self.tickets.push(ticket),
                    Err(_) => self.unpin(pin),
                }
            }
            10 => {
                let length = PAGE * (1 + count as u64 % 4);
                let ticket = self.engine.unregister(&mut self.memory, id, offset, length);
                self.tickets.extend(ticket);
            }
            11 | 12 => {
                let rma = Rma {
                    direction: match count % 2 {
                        0 => Direction::Read,
                        _ => Direction::Write,
                    },
                    local: Local::Window(offset),
                    remote: near,
                    length: 1 + u64::from(u16::arbitrary(input)?) % (3 * PAGE),
                    flags: u32::from(u8::arbitrary(input)? & 15),
                };
                self.tickets.extend(self.engine.rma(id, rma));
            }
            13 => {
                let mark = self.engine.fence_mark(id, 1 + count as u32 % 2);
                self.tickets.extend(mark);
                let wait = self.engine.fence_wait(id, count as i32 % 5);
                self.tickets.extend(wait);
            }
            14 => {
                let signal = Signal {
                    local_offset: offset,
                    local_value: 1,
                    remote_offset: near,
                    remote_value: 2,
                    flags: 1 << (count % 2) | 0x10 << (count / 2 % 2),
                };
                let ticket = self.engine.fence_signal(id, signal);
                self.tickets.extend(ticket);
            }
            _ => {
                if let Some(mapped) = self.mapped.pop().filter(|_| count % 2 == 0) {
                    self.engine.unmap(mapped.window, mapped.pages);
                }
                let run = self.engine.map_run(id, offset, PAGE);
                let mapped = run.and_then(|run| self.engine.map(id, offset, run, 1));
                self.mapped.extend(mapped);
            }
        }
        Ok(())
    }

    /// A turn of the driver.
    fn turn(&mut self) {
        self.engine.tick(&mut self.memory, self.now);
        self.engine
            .pump(&mut self.memory, &mut CpuEngine, 4 * PAGE as usize);
        while let Some(event) = self.engine.next_event(&mut self.memory) {
            if let Event::Unpin(pin) = event {
                self.unpin(pin);
            }
        }
        let engine = &mut self.engine;
        self.tickets
            .retain(|ticket| engine.finish(*ticket).is_none());
        assert_eq!(self.fabric.borrow().fault, None);
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        self.ensure_link();
        match u8::arbitrary(input)? {
            0..140 => self.peer_step(input)?,
            140..250 => self.client_step(input)?,
            250 => {
                self.now = self.engine.next_deadline().unwrap_or(self.now);
            }
            251 => self.engine.link_failed(HOSTILE, DownReason::Silent),
            252 => self.engine.link_down(&mut self.memory, HOSTILE),
            253 => {
                if let Some(ticket) = self.tickets.pop() {
                    self.engine.abandon(&mut self.memory, ticket);
                }
            }
            _ => {
                self.fabric.borrow_mut().restart(HOSTILE.into());
                self.engine.link_down(&mut self.memory, HOSTILE);
            }
        }
        self.turn();
        assert_eq!(self.engine.check_invariants(), Ok(()));
        Ok(())
    }

    /// Clients and peer go.
    fn finish(mut self) {
        for id in core::mem::take(&mut self.endpoints) {
            self.engine.close(&mut self.memory, id);
        }
        self.engine.link_down(&mut self.memory, HOSTILE);
        for mapped in core::mem::take(&mut self.mapped) {
            self.engine.unmap(mapped.window, mapped.pages);
        }
        for _ in 0..200 {
            self.turn();
        }
        assert_eq!(self.engine.check_invariants(), Ok(()));
        assert_eq!(self.tickets, [], "calls outlive their endpoints");
        assert!(self.pinned.is_empty(), "pins are left: {:?}", self.pinned);
        let stats = self.engine.stats();
        let left = [
            stats.endpoints,
            stats.connections,
            stats.windows,
            stats.remote_windows,
            stats.jobs,
            stats.pages,
            self.fabric.borrow().pages_used(VICTIM.into()),
        ];
        assert_eq!(left, [0; 7]);
        assert_eq!((stats.pinned_pages, stats.mapped_pages), (0, 0));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut play = Play::new();
    // Input that ends early is an input like any other.
    while !input.is_empty() && play.step(&mut input).is_ok() {}
    play.finish();
});
