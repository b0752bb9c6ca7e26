//! The round trip of two doorbells while both sides sleep until theirs comes. It is the limit of
//! every blocking call.
//!
//! The link device has a second interrupt vector, which `micd` does not use. This module sets it
//! up beside `micd`'s, so that bare doorbells can be measured in turn with blocking calls.

use alloc::vec::Vec;

use hal::clock::ticks;
use hal::event::{Queue, Ready};
use hal::irq::{self, Interrupt};
use hal::mem::{PAGE, Region, write_fence};
use runtime::time::Duration;
use scif::NodeId;
use scif_perf::perf::beside::{Asking, Place, Spread, TAIL};
use scif_perf::perf::{Context, Failure, Result, Settings};
use syscall::flag::EventFlags;

use crate::link::Link;
use crate::node::{Court, Node, Order};
use crate::pingpong::bounds;

/// The doorbell register: the peer's number in the upper half, the vector in the lower.
const DOORBELL: usize = 12;
/// The vector that this module uses; `micd` has vector 0.
const VECTOR: u16 = 1;
/// Offset of a vector's control word. Bit 0 masks the vector.
const CONTROL: usize = 12;

/// Offset of the word that numbers the doorbells: on the last page of a court.
const WORD: usize = 15 * PAGE;

/// Longest wait for one doorbell. No doorbell is lost, but the other side may not get to run.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// This node's interrupt, and the peer's doorbell.
pub struct Bell {
    registers: Region,
    peer: NodeId,
    vector: Region,
    events: Queue<()>,
    ready: Vec<Ready<()>>,
    interrupt: Interrupt,
}

impl Drop for Bell {
    fn drop(&mut self) {
        // From now on this interrupt is not taken. The word is inside the vector (see `set_up`).
        let _ = self.vector.write(CONTROL, 1_u32);
    }
}

impl Bell {
    /// Sets up the second vector.
    pub fn set_up(link: &Link, peer: NodeId) -> Result<Self> {
        let vector = link.vector(VECTOR.into())?;
        let set_up = || {
            let interrupt = Interrupt::allocate(irq::boot_cpu()?)?;
            let mut events = Queue::new()?;
            events.subscribe(interrupt.fd(), EventFlags::EVENT_READ, ())?;
            let message = interrupt.message();
            vector.write(CONTROL, 1_u32)?;
            vector.write(0, message.address as u32)?;
            vector.write(4, (message.address >> 32) as u32)?;
            vector.write(8, message.data)?;
            vector.write(CONTROL, 0_u32)?;
            Ok((interrupt, events))
        };
        let set_up: hal::Result<_> = set_up();
        let (interrupt, events) = set_up.context("the device's second interrupt")?;
        Ok(Self {
            registers: link.registers.clone(),
            peer,
            vector,
            events,
            ready: Vec::new(),
            interrupt,
        })
    }

    /// Stores the doorbell's number and rings.
    fn ring(&self, court: &Court, word: u64) -> Result {
        court.peer.store_release_u64(WORD, word).map_err(bounds)?;
        write_fence();
        let doorbell = u32::from(self.peer) << 16 | u32::from(VECTOR);
        self.registers.write(DOORBELL, doorbell).map_err(bounds)
    }

    /// Sleeps until this doorbell comes.
    fn sleep_until(&mut self, court: &Court, word: u64) -> Result {
        loop {
            let waited = self.events.wait(Some(TIME_LIMIT), &mut self.ready);
            waited.context("waiting for a doorbell")?;
            if self.ready.is_empty() {
                return Err("the doorbell did not come".into());
            }
            self.interrupt.acknowledge().context("the interrupt")?;
            if court.own.load_acquire_u64(WORD).map_err(bounds)? == word {
                return Ok(());
            }
        }
    }

    /// The other side's part of the test.
    pub fn answer(&mut self, court: &Court, rounds: u64) -> Result {
        for word in 1..=rounds {
            self.sleep_until(court, word)?;
            self.ring(court, word)?;
        }
        Ok(())
    }
}

/// Measures with no other thread on the nodes.
pub fn run(settings: &Settings) -> Result {
    measure(settings, "bare_doorbell", Place::Nowhere)
}

/// Measures beside a thread that computes on this node.
pub fn run_beside_own(settings: &Settings) -> Result {
    measure(settings, "bare_doorbell_own", Place::Own)
}

/// Measures beside a thread that computes on the peer's node.
pub fn run_beside_peer(settings: &Settings) -> Result {
    measure(settings, "bare_doorbell_peer", Place::Peer)
}

fn measure(settings: &Settings, test: &str, place: Place) -> Result {
    const WARM_UP: u64 = 20;
    let asking = Asking::open(settings)?;
    let node = Node::open(settings, 0)?;
    let mut bell = Bell::set_up(&node.link, settings.server.node())?;
    node.order(Order::SetUpBell, 0)?;
    let warm = play(&node, &mut bell, settings, WARM_UP)?;
    let rounds = settings.rounds(warm.iter().sum::<f64>() / WARM_UP as f64);
    let mut spread = Spread::new(TAIL);
    for repetition in 1..=settings.repetitions {
        settings.repetition(test, 8, repetition)?;
        let mut play = || play(&node, &mut bell, settings, rounds);
        spread.add(match place {
            Place::Nowhere => play()?,
            _ => asking.beside(place, play)?,
        });
    }
    spread.print(settings, test, 8, |line| line);
    node.leave()
}

/// Returns the nanoseconds of each round trip. The first one is left out: it may find the other
/// side still awake after its answer. From then on each side can only sleep.
fn play(
    node: &Node,
    bell: &mut Bell,
    settings: &Settings,
    rounds: u64,
) -> Result<Vec<f64>, Failure> {
    let court = &node.court;
    for side in [&court.own, &court.peer] {
        side.write(WORD, 0_u64).map_err(bounds)?;
    }
    node.order(Order::Ring, rounds + 1)?;
    let mut times = Vec::with_capacity(rounds as usize);
    for word in 1..=rounds + 1 {
        let start = ticks();
        bell.ring(court, word)?;
        bell.sleep_until(court, word)?;
        times.push(settings.rate.between(start, ticks()));
    }
    times.remove(0);
    Ok(times)
}
