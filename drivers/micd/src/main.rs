//! micd: one task that drives every MIC function of this node and serves the `scif:` scheme.
//!
//! Events come from the functions' interrupts, from the scheme's socket and from the clock; each
//! turn of the loop in [`Micd::serve`] handles what there is and then sleeps until more comes.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use micd::function::MicFunction;
use micd::links::Links;
use micd::memory::NodeMemory;
use micd::vmic;
use platform::daemon::{self, Mode, NOTIFY_VARIABLE};
use platform::dma::Allocator;
use platform::event::{Queue, Ready};
use platform::scheme::{SchemeLoop, Status};
use platform::{Result, copy};
use runtime::time::Instant;
use scheme_scif::{Daemon, LoopCounters, News, SCHEME, Scif};
use scif_abi::NodeId;
use scif_abi::limits::HOST_NODE;
use scif_core::{Config, CpuEngine, Engine};
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

fn main() -> i32 {
    runtime::logging::init("micd");
    match Micd::bring_up().and_then(Micd::serve) {
        Ok(()) => 0,
        Err(error) => {
            log::error!("stopped: {error}");
            1
        }
    }
}

/// What the event queue reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Requests,
    /// The interrupt of the link with this index.
    Link(usize),
}

struct Micd {
    links: Links,
    scheme: Daemon<NodeMemory<Allocator>, CpuEngine>,
    requests: SchemeLoop,
    events: Queue<Source>,
}

impl Micd {
    /// From the PCI functions to a scheme that is registered.
    fn bring_up() -> Result<Self> {
        let mut links = Links::new(find_functions());
        let copies = copy::measure(links.spare().as_ref());
        copies.choices.apply();
        log::info!("copies: {copies}");
        let config = Config {
            endpoint_ring_bytes: RING_BYTES,
            ring_budget_bytes: RING_BUDGET_BYTES,
            ..Config::new(links.node())
        };
        let memory = NodeMemory::new(Allocator::new()?);
        let mut engine = Engine::new(config);
        engine.set_copy_hints(copies.choices.numbers());
        engine.set_gathers(links.gather_stores());
        let mut scif = Scif::new(engine, memory);

        // Interrupts are edges: they are listened to before the first can come.
        let mut events = Queue::new()?;
        events.open_clock()?;
        for (index, fd) in links.interrupts() {
            events.subscribe(fd, EventFlags::EVENT_READ, Source::Link(index))?;
        }
        links.start(scif.engine().1)?;

        let mut scheme = Daemon {
            scif,
            copier: CpuEngine,
        };
        let notify = runtime::env::var(NOTIFY_VARIABLE);
        let requests = daemon::start(SCHEME, Mode::EventDriven, notify.as_deref(), &mut scheme)?;
        events.subscribe(requests.fd(), EventFlags::EVENT_READ, Source::Requests)?;
        introduce(&links);
        Ok(Self {
            links,
            scheme,
            requests,
            events,
        })
    }

    /// Serves until the scheme's socket is closed.
    fn serve(mut self) -> Result<()> {
        if let Err(error) = daemon::seal() {
            log::warn!("running with all names: {error}");
        }
        let mut ready: Vec<Ready<Source>> = Vec::new();
        let mut counters = LoopCounters::default();
        // Requests may have come before the socket was subscribed.
        let mut status = Status::More;
        loop {
            // One look at the clock serves the whole turn.
            let now = Instant::now().as_nanos();
            let (engine, memory) = self.scheme.scif.engine();
            engine.tick(memory, now);
            let mut requests = status == Status::More;
            for event in &ready {
                match event.source {
                    Source::Link(index) => {
                        counters.interrupts += 1;
                        self.links.interrupt(index);
                    }
                    Source::Requests => requests = true,
                }
            }
            self.links.turn(now, engine, memory);
            self.scheme.scif.begin_turn();
            // The event queue tells of every request that comes after the socket was found empty.
            status = match requests {
                true => self.requests.poll(&mut self.scheme)?,
                false if self.requests.settle(&mut self.scheme)? => Status::More,
                false => Status::Idle,
            };
            self.tell_news();
            let deadline = match status {
                Status::Closed => break,
                // A busy client must not keep the links waiting.
                Status::More => Some(now),
                Status::Idle if self.scheme.scif.is_busy() => Some(now),
                Status::Idle => self.deadline(),
            };
            counters.turns += 1;
            self.count(&mut counters);
            self.events.wait_until(deadline, now, &mut ready)?;
        }
        log::info!("the scheme is closed, leaving");
        self.links.leave();
        Ok(())
    }

    /// Reports what happened to nodes, and has failed links reset.
    fn tell_news(&mut self) {
        while let Some(news) = self.scheme.scif.take_news() {
            match news {
                News::Up(node) => log::info!("node {node} is up, {}", self.online()),
                News::Down(node) => log::info!("node {node} is down, {}", self.online()),
                News::LinkFailed(node) => {
                    log::warn!("node {node} broke the protocol, its link is reset");
                    self.links.give_up(node);
                }
            }
        }
    }

    fn online(&mut self) -> String {
        let nodes: Vec<NodeId> = self.scheme.scif.engine().0.online_nodes().collect();
        alloc::format!("online: {}", words(nodes))
    }

    /// The next time-out of the engine or a link, by the monotonic clock.
    fn deadline(&mut self) -> Option<u64> {
        let engine = self.scheme.scif.engine().0.next_deadline();
        engine.into_iter().chain(self.links.deadline()).min()
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

/// Opens all MIC functions of this machine. Without any the node is alone, and a host.
fn find_functions() -> Vec<Box<dyn MicFunction>> {
    match vmic::find() {
        Ok(found) => found
            .into_iter()
            .map(|vmic| Box::new(vmic) as Box<dyn MicFunction>)
            .collect(),
        Err(error) => {
            log::warn!(
                "no PCI functions can be listed ({error}): connections stay inside this node"
            );
            Vec::new()
        }
    }
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
