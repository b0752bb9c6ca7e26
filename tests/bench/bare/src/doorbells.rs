//! The round trip of two doorbells when both sides sleep until theirs comes: the limit of every
//! blocking call. This side owns the link device, as `micd` otherwise does.

use alloc::vec::Vec;

use platform::clock::ticks;
use platform::event::{Queue, Ready};
use platform::irq;
use platform::mem::{Cache, Region, write_fence};
use platform::pci::msix::Vectors;
use platform::pci::{Function, RawAccess};
use runtime::time::{Duration, sleep};
use scif_abi::NodeId;
use scif_perf::report::{Line, TABLE_HEAD, Unit};
use scif_perf::samples::Samples;
use syscall::flag::EventFlags;

use crate::link::{self, MEMORY_BAR, REGISTERS_BAR};
use crate::meeting::{self, Meeting};
use crate::{Failure, Settings, failed};

/// The doorbell register.
const DOORBELL: usize = 12;

/// The longest wait for one doorbell: none is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// The device, and the interrupt it raises.
struct Bells {
    _function: Function,
    registers: Region,
    peer: NodeId,
    vectors: Vectors,
    events: Queue<()>,
    ready: Vec<Ready<()>>,
    meeting: Meeting,
}

/// Measures, or plays along.
pub fn run(peer: Option<NodeId>, settings: &Settings) -> Result<(), Failure> {
    let access = RawAccess::open().map_err(failed("PCI configuration space"))?;
    let devices = link::devices(&access).map_err(failed("looking for link devices"))?;
    for (doorbell, _) in devices {
        let function = Function::open(doorbell).map_err(failed("taking the link device"))?;
        let (registers, shared) = map(&function)?;
        // Enabled only now, so that a device that is not the wanted one stays as it was.
        let mut function = function;
        function.enable().map_err(failed("the link device"))?;
        let (side, found) = link::sides(&registers, &shared)?;
        if peer.is_some_and(|peer| peer != found) {
            continue;
        }
        let mut bells = Bells::set_up(function, registers, &shared, side, found)?;
        return match side {
            0 => bells.measure(settings),
            _ => bells.answer(settings),
        };
    }
    Err("there is no link to that node".into())
}

fn map(function: &Function) -> Result<(Region, Region), Failure> {
    let bar = |index: u16, cache| {
        let mapped = function.map_bar(index.into(), cache);
        mapped.map_err(failed("mapping the link device"))
    };
    Ok((
        bar(REGISTERS_BAR, Cache::Uncached)?,
        bar(MEMORY_BAR, Cache::WriteBack)?,
    ))
}

impl Bells {
    fn set_up(
        mut function: Function,
        registers: Region,
        shared: &Region,
        side: usize,
        peer: NodeId,
    ) -> Result<Self, Failure> {
        let set_up = |function: &mut Function| {
            let vectors = Vectors::set_up(function, irq::boot_cpu()?, 1)?;
            let mut events = Queue::new()?;
            for interrupt in vectors.interrupts() {
                events.subscribe(interrupt.fd(), EventFlags::EVENT_READ, ())?;
            }
            vectors.unmask()?;
            Ok((vectors, events))
        };
        let (vectors, events) = set_up(&mut function)
            .map_err(|error: platform::Error| failed("the device's interrupts")(error))?;
        // Both are awake here, and their interrupts work.
        let (meeting, _) = Meeting::meet(&meeting::place(shared)?, side, 0)?;
        Ok(Self {
            _function: function,
            registers,
            peer,
            vectors,
            events,
            ready: Vec::new(),
            meeting,
        })
    }

    fn ring(&self) -> platform::Result<()> {
        write_fence();
        self.registers.write(DOORBELL, u32::from(self.peer) << 16)?;
        Ok(())
    }

    /// Sleeps until a doorbell comes and the peer's word is the wanted one; whether it came.
    fn sleep_until(&mut self, wanted: u64) -> platform::Result<bool> {
        loop {
            self.events.wait(Some(PATIENCE), &mut self.ready)?;
            if self.ready.is_empty() {
                return Ok(false);
            }
            for interrupt in self.vectors.interrupts() {
                interrupt.acknowledge()?;
            }
            if self.meeting.heard()? == wanted {
                return Ok(true);
            }
        }
    }

    fn measure(&mut self, settings: &Settings) -> Result<(), Failure> {
        if !settings.json {
            runtime::println!("{TABLE_HEAD}");
        }
        let mut samples = Samples::new();
        let mut word = 0;
        // The first repetition warms everything up and does not count.
        for repetition in 0..=settings.repetitions {
            // Whoever has met the other must be asleep before the first doorbell.
            sleep(Duration::from_millis(50));
            let mut times = Vec::with_capacity(settings.rounds as usize);
            for _ in 0..settings.rounds {
                word += 1;
                let start = ticks();
                let came = self.round(word).map_err(failed("doorbells"))?;
                if !came {
                    return Err("doorbells: none came back".into());
                }
                times.push(settings.rate.between(start, ticks()));
            }
            if repetition > 0 {
                samples.add(times);
            }
        }
        if let Some(summary) = samples.summary() {
            settings.print(&Line::new("bare_doorbell", 8, Unit::Nanoseconds, summary));
        }
        Ok(())
    }

    fn round(&mut self, word: u64) -> platform::Result<bool> {
        self.meeting.say(word)?;
        self.ring()?;
        self.sleep_until(word)
    }

    fn answer(&mut self, settings: &Settings) -> Result<(), Failure> {
        for word in 1..=settings.rounds * u64::from(settings.repetitions + 1) {
            let came = self.sleep_until(word).map_err(failed("doorbells"))?;
            if !came {
                return Err("doorbells: none came".into());
            }
            self.meeting.say(word).map_err(failed("doorbells"))?;
            self.ring().map_err(failed("doorbells"))?;
        }
        Ok(())
    }
}
