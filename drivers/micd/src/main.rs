//! micd: one task that drives every MIC function of this node and serves the `scif:` scheme.
//!
//! Events come from the functions' interrupts, from the scheme's socket and from the clock; each
//! turn of the loop in [`Micd::serve`] handles what there is and then sleeps until more comes.
#![no_std]
#![no_main]

extern crate alloc;

mod pinner;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hal::clock::{Clock, Rate, ticks};
use hal::event::{Queue, Ready};
use hal::pause::yield_now;
use hal::pci::{CHANNEL_VARIABLE, Function};
use hal::power::PowerOffNotice;
use hal::{Result, copy};
use libredox::Fd;
use micd::busy_poll::{Patience, Time};
use micd::copy_router::Copier;
use micd::departure::Farewell;
use micd::function::MicFunction;
use micd::links::Links;
use micd::memory::NodeMemory;
use micd::{trace, vmic, x100};
use runtime::time::Instant;
use scheme::daemon::{self, LEASE_VARIABLE, Lease, Mode, NOTIFY_VARIABLE};
use scheme::{SchemeLoop, Status};
use scheme_scif::{Daemon, LoopCounters, News, SCHEME, Scif};
use scif_abi::NodeId;
use scif_abi::limits::HOST_NODE;
use scif_core::{Config, Engine};
use syscall::error::{ESRCH, Error};
use syscall::flag::EventFlags;

runtime::main!(main);

/// Bytes that can be on their way to one endpoint, as long as there are few. The base protocol's
/// 4 KiB make a stream stop and start every page, each time with a doorbell and two changes of
/// programs; with this much both sides of a stream of large blocks are at work all the time. A peer
/// of the base protocol reads the size when it connects.
const RING_BYTES: u32 = 256 * 1024;

/// Bytes of all rings together, apart from the page that each has at least: a hundred of the
/// largest and then ever smaller ones. An eighth of the memory that a node usually has.
const RING_BUDGET_BYTES: usize = 32 << 20;

/// Nanoseconds between two looks at what the file `cards` tells.
const CARDS_NS: u64 = 1_000_000_000;

/// Nanoseconds between two looks for processes that were killed while they waited in an open, and
/// how many are asked about each time.
const WATCH_NS: u64 = 1_000_000_000;
/// As above.
const WATCHED: usize = 32;

/// Turns in a row that answer requests before the event queue is looked at: it may have more.
const MAX_ANSWERING: u32 = 16;

/// A file that every micd has.
const SERVED_FILE: &str = "/scheme/scif/version";

/// The processor this runs on.
struct Processor;

/// The monotonic clock, in nanoseconds.
fn system_time() -> u64 {
    Instant::now().as_nanos()
}

impl Time for Processor {
    fn ticks(&self) -> u64 {
        ticks()
    }

    fn yield_now(&self) {
        yield_now();
    }
}

fn main() -> i32 {
    runtime::logging::init("micd");
    match run() {
        Ok(()) => 0,
        Err(error) => {
            log::error!("stopped: {error}");
            1
        }
    }
}

/// Serves, unless somebody does already.
fn run() -> Result<()> {
    let notify = runtime::env::var(NOTIFY_VARIABLE);
    let channel = runtime::env::var(CHANNEL_VARIABLE);
    // A spawner of drivers waits for a byte, everybody else for the scheme's root.
    let (for_root, for_byte) = match channel {
        Some(_) => (None, notify),
        None => (notify, None),
    };
    if daemon::is_served(SERVED_FILE) {
        log::info!("the scheme `{SCHEME}` is served already, by a micd that drives all functions");
        return daemon::notify_ready(for_byte.as_deref());
    }
    if let Some(channel) = channel {
        let address = Function::inherit(&channel)?;
        log::info!("started for the function {address}");
    }
    let micd = Micd::bring_up(for_root.as_deref())?;
    daemon::notify_ready(for_byte.as_deref())?;
    micd.serve()
}

/// What the event queue reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Requests,
    /// The interrupt of the link with this index.
    Link(usize),
    /// The thread that borrows programs' pages.
    Pinner,
    /// The machine is about to be switched off.
    PowerOff,
}

struct Micd {
    links: Links,
    scheme: Daemon<NodeMemory<pinner::Source>, Copier>,
    requests: SchemeLoop,
    events: Queue<Source>,
    /// See [`pinner::Source::new`].
    pins_ended: Fd,
    /// The memory of a micd that ran before this one: peers may still store into it.
    predecessor: Lease,
    /// The kernel waits for us before it switches the machine off, until this is gone.
    power_off: Option<PowerOffNotice>,
    farewell: Farewell,
    /// When to look at the cards again.
    next_cards: u64,
    /// When to look for killed processes, if any request waits.
    next_watch: u64,
    /// When it started, by the clock (ns) and the processor's counter.
    started: (u64, u64),
}

impl Micd {
    /// From the PCI functions to a scheme that is registered; `notify` is who registers it.
    fn bring_up(notify: Option<&str>) -> Result<Self> {
        let started = (system_time(), ticks());
        let mut links = find_links();
        let copies = copy::measure(links.spare().as_ref());
        copies.choices.apply();
        log::info!("copies: {copies}");
        let config = Config {
            endpoint_ring_bytes: RING_BYTES,
            ring_budget_bytes: RING_BUDGET_BYTES,
            ..Config::new(links.node())
        };
        let (source, pins_ended) = pinner::Source::new()?;
        let memory = NodeMemory::new(source);
        let mut engine = Engine::new(config);
        engine.set_copy_hints(copies.choices.numbers());
        engine.set_gathers(links.gather_stores());
        trace::begin(&mut engine, runtime::process::id());
        let scif = Scif::new(engine, memory);

        // Interrupts are edges: they are listened to before the first can come.
        let mut events = Queue::new()?;
        events.open_clock()?;
        for (index, fd) in links.interrupts() {
            events.subscribe(fd, EventFlags::EVENT_READ, Source::Link(index))?;
        }
        links.start()?;

        let mut scheme = Daemon {
            scif,
            copier: links.copier(),
            socket: None,
            is_gone,
        };
        let power_off = notice_of_power_off();
        if let Some(notice) = &power_off {
            events.subscribe(notice.fd(), EventFlags::EVENT_READ, Source::PowerOff)?;
        }
        let requests = daemon::start(SCHEME, Mode::EventDriven, notify, &mut scheme)?;
        scheme.socket = Some(Rc::clone(requests.socket()));
        events.subscribe(requests.fd(), EventFlags::EVENT_READ, Source::Requests)?;
        events.subscribe(pins_ended.raw(), EventFlags::EVENT_READ, Source::Pinner)?;
        introduce(&links);
        let predecessor = Lease::inherited(runtime::env::var(LEASE_VARIABLE).as_deref())?;
        Ok(Self {
            links,
            scheme,
            requests,
            events,
            pins_ended,
            predecessor,
            power_off,
            farewell: Farewell::default(),
            next_cards: 0,
            next_watch: 0,
            started,
        })
    }

    /// Serves until the scheme's socket is closed and the other nodes know that this one leaves.
    fn serve(mut self) -> Result<()> {
        if let Err(error) = daemon::seal() {
            log::warn!("running with all names: {error}");
        }
        let mut ready: Vec<Ready<Source>> = Vec::new();
        let mut counters = LoopCounters::default();
        let rate = self.rate();
        let (mut clock, mut patience) = (Clock::new(rate), Patience::new(rate));
        // Requests may have come before the socket was subscribed.
        let mut status = Status::More;
        // Turns in a row that answered requests.
        let mut answering = 0;
        loop {
            // One look at the clock serves the whole turn.
            let now = clock.now(system_time);
            let timing = self.scheme.scif.link_timing();
            let (engine, memory) = self.scheme.scif.engine();
            engine.start_polling();
            engine.tick(memory, now);
            let mut requests = status == Status::More || answering > 0;
            let mut leaves = status == Status::Closed;
            for event in &ready {
                match event.source {
                    Source::Link(index) => {
                        counters.interrupts += 1;
                        self.links.interrupt(index);
                    }
                    Source::Requests => requests = true,
                    Source::Pinner => {
                        while let Ok(1..) = self.pins_ended.read(&mut [0; 64]) {}
                        memory.take_borrowed();
                    }
                    Source::PowerOff => leaves |= is_switched_off(self.power_off.as_ref()),
                }
            }
            if leaves {
                self.say_farewell(now);
            }
            self.links.set_timing(timing);
            let (engine, memory) = self.scheme.scif.engine();
            self.links.turn(now, engine, memory);
            engine.poll_rings(memory);
            self.give_predecessor_free();
            self.scheme.scif.begin_turn();
            // Before somebody reads of them, however long nothing happened.
            self.show_cards(now);
            self.watch_processes(now);
            let answers = self.requests.counters().answers;
            // The event queue tells of every request that comes after the socket was found empty.
            status = match requests {
                _ if status == Status::Closed => self.serve_nobody(),
                true => self.requests.poll(&mut self.scheme)?,
                false if self.requests.settle(&mut self.scheme)? => Status::More,
                false => Status::Idle,
            };
            self.tell_news(now);
            self.end_farewell(now);
            counters.turns += 1;
            self.count(&mut counters);
            ready.clear();
            let deadline = match status {
                Status::Closed if self.farewell == Farewell::Over => break,
                // To say farewell.
                Status::Closed if self.farewell == Farewell::Unsaid => Some(now),
                Status::Closed => self.deadline(),
                // A busy client must not keep the links waiting.
                Status::More => Some(now),
                Status::Idle if self.scheme.scif.is_busy() => Some(now),
                Status::Idle => {
                    // Who got an answer often asks again at once. That is known without the event
                    // queue.
                    if self.requests.counters().answers > answers && answering < MAX_ANSWERING {
                        answering += 1;
                        continue;
                    }
                    answering = 0;
                    let (engine, memory) = self.scheme.scif.engine();
                    if patience.look(&Processor, || engine.has_unpolled_messages(memory)) {
                        continue;
                    }
                    engine.stop_polling(memory);
                    self.deadline()
                }
            };
            patience.sleeps(&Processor);
            self.events.wait_until(deadline, now, &mut ready)?;
            let by_link = |event: &Ready<Source>| matches!(event.source, Source::Link(_));
            clock.distrust();
            patience.woke(&Processor, ready.iter().any(by_link));
        }
        log::info!("the scheme is closed");
        Ok(())
    }

    /// A turn after the scheme's socket was closed: only peers and copies are served.
    fn serve_nobody(&mut self) -> Status {
        let changes = self.scheme.scif.take_changes(&mut self.scheme.copier);
        changes.handles.clear();
        changes.requests.clear();
        Status::Closed
    }

    /// Tells all nodes that this one leaves.
    fn say_farewell(&mut self, now: u64) {
        if self.farewell == Farewell::Unsaid {
            log::info!("this node leaves");
        }
        let (engine, memory) = self.scheme.scif.engine();
        self.farewell.begin(now, engine, memory);
    }

    /// The nodes know that this one leaves, or have had time to: no link is used any more, and the
    /// kernel may switch the machine off.
    fn end_farewell(&mut self, now: u64) {
        let (engine, _) = self.scheme.scif.engine();
        if self.farewell.ends(now, engine) {
            self.links.leave();
            self.power_off = None;
        }
    }

    /// The rate of the processor's counter. It has counted long enough since the start.
    fn rate(&self) -> Option<Rate> {
        let (start, first) = self.started;
        let elapsed = system_time().saturating_sub(start);
        Rate::of(elapsed, ticks().saturating_sub(first))
    }

    /// Gives the predecessor's memory free once no peer reaches it any more.
    fn give_predecessor_free(&mut self) {
        if !self.predecessor.is_held() || !self.links.predecessor_is_let_go() {
            return;
        }
        match self.predecessor.give_free() {
            Ok(()) => log::info!("no peer reaches the memory of the micd before this one"),
            Err(error) => log::warn!("the memory of the micd before this one stays: {error}"),
        }
    }

    /// Reports what happened to nodes, and has failed links reset.
    fn tell_news(&mut self, now: u64) {
        while let Some(news) = self.scheme.scif.take_news() {
            match news {
                News::Up(node) => log::info!("node {node} is up, {}", self.online()),
                News::Down(node) => log::info!("node {node} is down, {}", self.online()),
                // Why, the engine has said.
                News::LinkFailed(node) => self.links.give_up(node),
                News::Card(node, command) => {
                    log::info!("node {node}: {command:?} was asked for");
                    if let Err(error) = self.links.command(now, node, command) {
                        log::warn!("node {node}: {command:?}: {error}");
                    }
                    self.next_cards = 0;
                }
            }
        }
    }

    /// Has the file `cards` tell what there is.
    fn show_cards(&mut self, now: u64) {
        if now >= self.next_cards {
            self.next_cards = now.saturating_add(CARDS_NS);
            self.scheme.scif.set_cards(self.links.cards());
        }
    }

    /// Ends the opens of processes that are no more.
    fn watch_processes(&mut self, now: u64) {
        if now >= self.next_watch {
            self.next_watch = now.saturating_add(WATCH_NS);
            self.requests.give_up_the_gone(WATCHED, &mut self.scheme);
        }
    }

    fn online(&mut self) -> String {
        let nodes: Vec<NodeId> = self.scheme.scif.engine().0.online_nodes().collect();
        alloc::format!("online: {}", words(nodes))
    }

    /// The next time-out of the engine or a link, by the monotonic clock.
    fn deadline(&mut self) -> Option<u64> {
        let engine = self.scheme.scif.engine().0.next_deadline();
        let others = [self.links.deadline(), self.farewell.deadline()];
        let deadlines = engine.into_iter().chain(others.into_iter().flatten());
        let waits = self.requests.parked() > 0;
        deadlines.chain(waits.then_some(self.next_watch)).min()
    }

    /// Has the file `stats` tell how much each turn of the loop is worth.
    fn count(&mut self, counters: &mut LoopCounters) {
        let loop_counters = self.requests.counters();
        counters.requests = loop_counters.requests;
        counters.request_reads = loop_counters.reads;
        counters.answers = loop_counters.answers;
        counters.answer_writes = loop_counters.writes;
        counters.retries = loop_counters.retries;
        self.scheme.scif.set_loop_counters(*counters);
    }
}

/// Whether the process manager knows of no such process.
fn is_gone(pid: usize) -> bool {
    // Signal 0 is none: it is only looked whether it could be sent.
    let sent = u32::try_from(pid).map(|pid| runtime::process::kill(pid, 0));
    matches!(sent, Ok(Err(Error { errno: ESRCH })))
}

/// Whether the notice that came is that of switching off.
fn is_switched_off(notice: Option<&PowerOffNotice>) -> bool {
    let Some(notice) = notice else {
        return false;
    };
    notice.is_due().unwrap_or_else(|error| {
        log::warn!("whether the machine is switched off cannot be told: {error}");
        false
    })
}

/// Asks to be told before the machine is switched off. Without, peers notice by their links.
fn notice_of_power_off() -> Option<PowerOffNotice> {
    let notice = PowerOffNotice::open();
    let report = |error| log::info!("this driver is not told when the machine stops: {error}");
    notice.map_err(report).ok()
}

/// Opens all MIC functions of this machine. Without any the node is alone, and a host.
fn find_links() -> Links {
    let mut functions: Vec<Box<dyn MicFunction>> = Vec::new();
    let found = vmic::find().map(|(found, is_complete)| {
        for vmic in found {
            functions.push(Box::new(vmic));
        }
        is_complete
    });
    let found = found.and_then(|are_all| Ok((are_all, x100::slot::find()?)));
    let is_complete = match found {
        Ok((are_all, (slots, is_complete))) => {
            for slot in slots {
                let shall_run = slot.has_files();
                x100::add(&mut functions, Box::new(slot), shall_run);
            }
            are_all && is_complete
        }
        Err(error) => {
            log::warn!("PCI functions cannot be listed ({error}): no more links than these");
            false
        }
    };
    Links::new(functions, is_complete)
}

/// Says who this node is and whom it is linked with.
fn introduce(links: &Links) {
    let node = links.node();
    let role = if node == HOST_NODE { "host" } else { "card" };
    let peers: Vec<NodeId> = links.peers().collect();
    if peers.is_empty() {
        log::info!("node {node} ({role}), no links");
    } else {
        log::info!("node {node} ({role}), links to: {}", words(peers));
    }
}

fn words(nodes: Vec<NodeId>) -> String {
    let words: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    words.join(" ")
}
