//! micd: one task that drives every MIC function of this node and serves the `scif:` scheme.
//!
//! Events come from the functions' interrupts, from the scheme's socket and from the clock. Each
//! iteration of the loop in [`Micd::serve`] handles everything that has arrived, then sleeps until
//! more arrives.
#![no_std]
#![no_main]

extern crate alloc;

mod events;
mod keeper;
mod pinner;
mod server;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hal::clock::{Clock, Rate, ticks};
use hal::pause::yield_now;
use hal::pci::{CHANNEL_VARIABLE, Function};
use hal::power::PowerOffNotice;
use hal::{Result, measure};
use micd::busy_poll::{BusyPoll, Poll, Time};
use micd::function::MicFunction;
use micd::links::Links;
use micd::memory::NodeMemory;
use micd::node_exit::NodeExit;
use micd::{trace, vmic, x100};
use redox_scheme::Socket;
use runtime::time::Instant;
use scheme::Status;
use scheme::daemon::{self, LEASE_VARIABLE, Lease, NOTIFY_VARIABLE};
use scheme_scif::{NodeEvent, SCHEME, Scif};
use scif_abi::NodeId;
use scif_abi::limits::HOST_NODE;
use scif_core::{Config, Engine};

use crate::events::{EventSource, Events};
use crate::keeper::Keeper;
use crate::server::Server;

runtime::main!(main);

/// Bytes that can be on their way to one endpoint, as long as there are few endpoints. With the
/// base protocol's 4 KiB a stream stops and starts at every page, each time with a doorbell and
/// two context switches. With a ring of this size both sides of a stream of large blocks work all
/// the time. A peer of the base protocol reads the size when it connects.
const RING_BYTES: u32 = 256 * 1024;

/// Bytes of one user's rings together. A ring takes at most an eighth of what is left, so 2.5, 2.25
/// and 2 MiB give three of the largest rings, and the next ones are smaller. When nothing is left,
/// each ring has a page: a thousand connections are mostly idle.
const USER_RING_BYTES: usize = 10 * RING_BYTES as usize;

/// Bytes of the rings of all users together: enough for a dozen users.
const ALL_RING_BYTES: usize = 32 << 20;

/// Nanoseconds between two updates of the file `cards`.
const CARDS_NS: u64 = 1_000_000_000;

/// A file that every micd has.
const SERVED_FILE: &str = "/scheme/scif/version";

/// The processor that this task runs on.
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
    if runtime::env::args().nth(1).as_deref() == Some(keeper::ARGUMENT) {
        return keeper::run();
    }
    let purpose = "drives the links to other nodes: the scheme `scif`; see `man scifctl`";
    if let Some(status) = runtime::env::answer_people("", purpose, 0) {
        return status;
    }
    runtime::logging::init("micd");
    match run() {
        Ok(()) => 0,
        Err(error) => {
            log::error!("stopped: {error}");
            1
        }
    }
}

/// Serves the scheme, unless another `micd` does already.
fn run() -> Result<()> {
    let notify = runtime::env::var(NOTIFY_VARIABLE);
    let channel = runtime::env::var(CHANNEL_VARIABLE);
    // A spawner of drivers waits for a byte, any other starter for the scheme's root.
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
    let socket = Socket::nonblock()?;
    let _keeper = Keeper::start(&socket);
    let micd = Micd::bring_up(socket, for_root.as_deref())?;
    daemon::notify_ready(for_byte.as_deref())?;
    if let Err(error) = daemon::seal() {
        log::warn!("running with all names: {error}");
    }
    micd.serve()
}

/// What the loop does after an iteration.
enum Next {
    /// Begins the next iteration.
    Iterate,
    /// Sleeps until an event comes, or until this time.
    Sleep(Option<u64>),
    /// Ends.
    End,
}

struct Micd {
    links: Links,
    server: Server,
    events: Events,
    /// The memory of a previous micd: peers may still store into it.
    predecessor: Lease,
    /// The notice of power-off. The kernel switches the machine off when it is dropped.
    power_off: Option<PowerOffNotice>,
    exit: NodeExit,
    /// When to read the states of the cards again, in nanoseconds.
    next_cards: u64,
    clock: Clock,
    busy_poll: BusyPoll,
}

impl Micd {
    /// Opens the PCI functions and registers the scheme with this socket. `notify` names the pipe
    /// to the program that registers it.
    fn bring_up(socket: Socket, notify: Option<&str>) -> Result<Self> {
        let started = (system_time(), ticks());
        let mut links = find_links();
        let copies = measure::measure(links.spare().as_ref());
        copies.choices.apply();
        log::info!("copies: {copies}");
        let config = Config {
            endpoint_ring_bytes: RING_BYTES,
            user_ring_bytes: USER_RING_BYTES,
            all_ring_bytes: ALL_RING_BYTES,
            ..Config::new(links.node())
        };
        let (source, pins_ended) = pinner::MemorySource::new()?;
        let mut engine = Engine::new(config);
        engine.set_copy_hints(copies.choices.numbers());
        engine.set_gathers(links.gathers_stores());
        trace::begin(&mut engine, runtime::process::id());
        let scif = Scif::new(engine, NodeMemory::new(source));

        // Interrupts are edges: subscribe to them before the first can come.
        let mut events = Events::new(&links, pins_ended)?;
        links.start()?;
        let power_off = notice_of_power_off();
        if let Some(notice) = &power_off {
            events.subscribe(notice.fd(), EventSource::PowerOff)?;
        }
        let server = Server::start(socket, scif, links.copy_router(), notify)?;
        events.subscribe(server.fd(), EventSource::Requests)?;
        introduce(&links);
        let predecessor = Lease::inherited(runtime::env::var(LEASE_VARIABLE).as_deref())?;
        // By now the counter has run long enough to measure its rate.
        let rate = rate_since(started);
        Ok(Self {
            links,
            server,
            events,
            predecessor,
            power_off,
            exit: NodeExit::default(),
            next_cards: 0,
            clock: Clock::new(rate),
            busy_poll: BusyPoll::new(rate),
        })
    }

    /// Serves until the scheme's socket is closed and the other nodes have learned that this one
    /// leaves.
    fn serve(mut self) -> Result<()> {
        loop {
            let now = self.begin_iteration();
            self.take_events(now);
            self.poll_links(now);
            self.begin_share(now);
            let has_answered = self.server.serve()?;
            self.handle_node_events(now);
            self.end_exit(now);
            match self.next_action(now, has_answered) {
                Next::Iterate => {}
                Next::Sleep(deadline) => self.sleep_until(deadline, now)?,
                Next::End => break,
            }
        }
        log::info!("the scheme is closed");
        Ok(())
    }

    /// Reads the clock, once for the whole iteration, and runs the engine's timers. While the
    /// driver is awake it polls the rings of nodes, so that their peers need not ring.
    fn begin_iteration(&mut self) -> u64 {
        self.server.begin_iteration();
        let now = self.clock.now(system_time);
        let (engine, memory) = self.server.engine();
        engine.start_polling();
        engine.tick(memory, now);
        now
    }

    /// Handles the events that the queue reported: interrupts, requests, borrowed pages, and the
    /// notice that the machine is being switched off.
    fn take_events(&mut self, now: u64) {
        let mut leaves = self.server.status() == Status::Closed;
        for source in self.events.take() {
            match source {
                EventSource::Link(index) => {
                    self.server.count_interrupt();
                    self.links.interrupt(index);
                }
                EventSource::Requests => self.server.note_requests(),
                EventSource::Pinner => self.server.engine().1.take_borrowed(),
                EventSource::PowerOff => leaves |= is_switched_off(self.power_off.as_ref()),
            }
        }
        if leaves {
            self.begin_exit(now);
        }
    }

    /// Runs the links' state machines and takes the messages out of the rings. After that, perhaps
    /// no peer reaches the previous micd's memory any more.
    fn poll_links(&mut self, now: u64) {
        self.links.set_timing(self.server.scif().link_timing());
        let (engine, memory) = self.server.engine();
        self.links.poll(now, engine, memory);
        engine.poll_rings(memory);
        self.release_predecessor();
    }

    /// Begins the iteration's share of copies and does the work that is due at intervals. The
    /// cards are read before a request may show them, even after a long time without events.
    fn begin_share(&mut self, now: u64) {
        self.server.scif().begin_iteration();
        self.publish_cards(now);
        self.server.watch_processes(now);
    }

    /// Logs changes of nodes, has failed links reset, and carries out commands for cards.
    fn handle_node_events(&mut self, now: u64) {
        while let Some(event) = self.server.scif().next_node_event() {
            match event {
                NodeEvent::Up(node) => log::info!("node {node} is up, {}", self.online()),
                NodeEvent::Down(node) => log::info!("node {node} is down, {}", self.online()),
                // The engine has logged why.
                NodeEvent::LinkFailed(node) => self.links.link_failed(node),
                NodeEvent::Card(node, command) => {
                    log::info!("node {node}: {command:?} was asked for");
                    if let Err(error) = self.links.command(now, node, command) {
                        log::warn!("node {node}: {command:?}: {error}");
                    }
                    self.next_cards = 0;
                }
            }
        }
    }

    /// Decides what to do after this iteration. `has_answered`: some request was answered in it.
    fn next_action(&mut self, now: u64, has_answered: bool) -> Next {
        match self.server.status() {
            Status::Closed if self.exit == NodeExit::Done => Next::End,
            // Iterate again to begin the exit.
            Status::Closed if self.exit == NodeExit::NotBegun => Next::Sleep(Some(now)),
            Status::Closed => Next::Sleep(self.deadline()),
            // A busy client must not keep the links waiting.
            Status::More => Next::Sleep(Some(now)),
            Status::Idle if self.server.scif().is_busy() => Next::Sleep(Some(now)),
            Status::Idle => self.poll_or_sleep(now, has_answered),
        }
    }

    /// Decides what to do when no work is left: poll, if that may pay, or sleep.
    fn poll_or_sleep(&mut self, now: u64, has_answered: bool) -> Next {
        if self.server.expects_request(has_answered) {
            self.busy_poll.after_answer(&Processor);
            return Next::Iterate;
        }
        match self.poll_messages() {
            Poll::Seen => return Next::Iterate,
            // The event queue may hold a request of that program.
            Poll::Interrupted => return Next::Sleep(Some(now)),
            Poll::Over => {}
        }
        let (engine, memory) = self.server.engine();
        engine.stop_polling(memory);
        Next::Sleep(self.deadline())
    }

    /// Polls the rings for messages, if that may pay.
    fn poll_messages(&mut self) -> Poll {
        let (engine, memory) = self.server.engine();
        let sees = || engine.has_unpolled_messages(memory);
        self.busy_poll.poll(&Processor, sees)
    }

    /// Sleeps until an event comes, or until the deadline.
    fn sleep_until(&mut self, deadline: Option<u64>, now: u64) -> Result<()> {
        self.busy_poll.before_sleep(&Processor);
        let by_message = self.events.wait(deadline, now)?;
        self.clock.distrust();
        self.busy_poll.after_sleep(&Processor, by_message);
        Ok(())
    }

    /// The next time-out of the engine or a link, in nanoseconds of the monotonic clock.
    fn deadline(&mut self) -> Option<u64> {
        let deadlines = [
            self.server.deadline(),
            self.links.deadline(),
            self.exit.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Sends EXIT to all nodes.
    fn begin_exit(&mut self, now: u64) {
        if self.exit == NodeExit::NotBegun {
            log::info!("this node leaves");
        }
        let (engine, memory) = self.server.engine();
        self.exit.begin(now, engine, memory);
    }

    /// Ends the exit once all nodes have acknowledged it or their time is over: no link is used
    /// any more, and the kernel may switch the machine off.
    fn end_exit(&mut self, now: u64) {
        let (engine, _) = self.server.engine();
        if self.exit.ends(now, engine) {
            self.links.leave();
            self.power_off = None;
        }
    }

    /// Releases the predecessor's memory once no peer reaches it any more.
    fn release_predecessor(&mut self) {
        if !self.predecessor.is_held() || !self.links.predecessor_is_quiesced() {
            return;
        }
        match self.predecessor.give_free() {
            Ok(()) => log::info!("no peer reaches the memory of the micd before this one"),
            Err(error) => log::warn!("the memory of the micd before this one stays: {error}"),
        }
    }

    /// Updates the file `cards`.
    fn publish_cards(&mut self, now: u64) {
        if now >= self.next_cards {
            self.next_cards = now.saturating_add(CARDS_NS);
            self.server.scif().set_cards(self.links.cards());
        }
    }

    fn online(&mut self) -> String {
        let nodes: Vec<NodeId> = self.server.engine().0.online_nodes().collect();
        alloc::format!("online: {}", words(nodes))
    }
}

/// The rate of the processor's counter. It was at the second value when the clock (ns) was at the
/// first.
fn rate_since((start, first): (u64, u64)) -> Option<Rate> {
    let elapsed = system_time().saturating_sub(start);
    Rate::of(elapsed, ticks().saturating_sub(first))
}

/// Whether the notice says that the machine is being switched off.
fn is_switched_off(notice: Option<&PowerOffNotice>) -> bool {
    let Some(notice) = notice else {
        return false;
    };
    notice.is_due().unwrap_or_else(|error| {
        log::warn!("cannot read whether the machine is switched off: {error}");
        false
    })
}

/// Asks the kernel for a notice before the machine is switched off. Without the notice, peers
/// learn of it only from their links.
fn notice_of_power_off() -> Option<PowerOffNotice> {
    let notice = PowerOffNotice::open();
    let report =
        |error| log::info!("no notice will come before the machine is switched off: {error}");
    notice.map_err(report).ok()
}

/// Opens all MIC functions of this machine. Without any, the node is alone, and a host.
fn find_links() -> Links {
    let mut functions = Vec::new();
    let is_complete = find_functions(&mut functions).unwrap_or_else(|error| {
        log::warn!("PCI functions cannot be listed ({error}): no more links than these");
        false
    });
    Links::new(functions, is_complete)
}

/// Adds all MIC functions of this machine. Returns whether none had to be left out.
fn find_functions(functions: &mut Vec<Box<dyn MicFunction>>) -> Result<bool> {
    let (links, has_all_links) = vmic::find()?;
    for link in links {
        functions.push(Box::new(link));
    }
    let (slots, has_all_cards) = x100::slot::find()?;
    for slot in slots {
        let shall_run = slot.has_files();
        x100::add(functions, Box::new(slot), shall_run);
    }
    Ok(has_all_links && has_all_cards)
}

/// Logs the node's number, its role and its links.
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
