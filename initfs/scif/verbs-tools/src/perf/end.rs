//! One side of a measurement: a queue pair, its completion queues, and memory.

use alloc::format;
use alloc::vec::Vec;

use hal::pause::yield_now;
use runtime::thread;
use scif::{Endpoint, Memory};
use verbs::{
    Access, CompletionChannel, CompletionQueue, Context, MemoryRegion, ProtectionDomain, QpState,
    QpType, QueuePair, Remote, Segment, Settings, WcStatus,
};

use super::wire::{self, Order};
use super::{Context as _, Failure, Result};

/// Longest message in bytes that is sent inline.
const INLINE: usize = 64;
/// Reads of the marked byte between two checks of the queue pair.
const LOOKS: u32 = 256;
/// Reads of the marked byte after which the thread begins to yield between reads.
const MANY_LOOKS: u32 = 16 * LOOKS;

/// Opens the device, with a progress thread of this program.
pub fn open() -> Result<Context> {
    let devices = verbs::devices().context("the device")?;
    let device = devices
        .first()
        .ok_or(Failure::new("there is no RDMA device"))?;
    let start = |worker: verbs::Worker| {
        let run = move || {
            if let Err(error) = worker.run() {
                runtime::eprintln!("ib-perf: the progress thread ends: {error}");
            }
        };
        thread::spawn(run).map(drop).map_err(verbs::Error::from)
    };
    device.open(start).context("the device")
}

/// One side of a measurement. The first half of its memory is for data that is sent, the second
/// for data that is received.
pub struct End {
    pub pair: QueuePair,
    pub sends: Completions,
    pub receives: Completions,
    pub region: MemoryRegion,
    /// The half of the peer's memory for received data.
    pub peer: Remote,
    size: usize,
    _domain: ProtectionDomain,
}

/// A completion queue, with the channel to wait on if completions raise events.
pub struct Completions {
    queue: CompletionQueue,
    channel: Option<CompletionChannel>,
    found: Vec<verbs::WorkCompletion>,
}

impl Completions {
    fn new(context: &Context, size: u32, has_events: bool) -> Result<Self> {
        let channel = match has_events {
            true => Some(context.completion_channel().context("a channel")?),
            false => None,
        };
        let queue = match &channel {
            Some(channel) => context.completion_queue_with(size, channel, 0),
            None => context.completion_queue(size),
        };
        Ok(Self {
            queue: queue.context("a completion queue")?,
            channel,
            found: Vec::new(),
        })
    }

    /// Takes the completions that are there, at most `most`. Returns their number.
    pub fn take(&mut self, most: usize) -> Result<usize> {
        self.found.clear();
        let count = self.queue.poll(most, &mut self.found).context("poll")?;
        for completion in &self.found {
            if completion.status != WcStatus::Success {
                let (id, status) = (completion.id, completion.status);
                return Err(Failure(format!("request {id} ended with {status:?}")));
            }
        }
        Ok(count)
    }

    /// Waits for completions, and takes at most `most`. Returns their number.
    pub fn wait(&mut self, most: usize) -> Result<usize> {
        loop {
            let count = self.take(most)?;
            if count > 0 {
                return Ok(count);
            }
            let Some(channel) = &self.channel else {
                continue;
            };
            self.queue.request_notification(false).context("arm")?;
            // Completions from before the request raise no event.
            let count = self.queue.poll(most, &mut self.found).context("poll")?;
            if count == 0 {
                channel.next().context("the channel")?;
                continue;
            }
            match self.found.iter().find(|of| of.status != WcStatus::Success) {
                None => return Ok(count),
                Some(bad) => return Err(Failure(format!("a request ended with {:?}", bad.status))),
            }
        }
    }

    /// Waits for `count` completions.
    pub fn wait_all(&mut self, count: usize) -> Result {
        let mut got = 0;
        while got < count {
            got += self.wait(count - got)?;
        }
        Ok(())
    }
}

impl End {
    /// Makes this side and connects it with that of the program at the other end of `endpoint`,
    /// which makes the same call.
    pub fn connect(context: &Context, endpoint: &Endpoint, order: &Order) -> Result<Self> {
        let size = order.size as usize;
        let domain = context.protection_domain().context("a protection domain")?;
        // Ordinary memory serves as well if the driver grants the user no more of its own.
        let bytes = 2 * size.next_multiple_of(4096);
        let memory = Memory::new(bytes).or_else(|_| Memory::ordinary(bytes));
        let memory = memory.context("memory")?;
        let access = Access::REMOTE | Access::LOCAL_WRITE;
        let region = domain.register(memory, access).context("registering")?;
        let completions = |context| Completions::new(context, 2 * order.depth, order.has_events);
        let (sends, receives) = (completions(context)?, completions(context)?);
        let capacity = verbs::Capacity {
            send_wr: order.depth,
            recv_wr: order.depth,
            send_sge: 1,
            recv_sge: 1,
            inline: INLINE as u32,
        };
        let builder = domain.queue_pair(QpType::Rc, &sends.queue, &receives.queue);
        let pair = builder.capacity(capacity).build().context("a queue pair")?;
        let settings = Settings::default();
        pair.init(&settings).context("init")?;
        let mut end = Self {
            peer: Remote::default(),
            pair,
            sends,
            receives,
            region,
            size,
            _domain: domain,
        };
        end.pair.meet(endpoint, &settings).context("connecting")?;
        end.peer = wire::exchange(endpoint, end.region.remote(end.half()))?;
        Ok(end)
    }

    fn half(&self) -> usize {
        self.size.next_multiple_of(4096)
    }

    /// The memory to send from.
    pub fn outgoing(&self) -> Result<Segment> {
        self.region.segment(0..self.size).context("a segment")
    }

    /// The memory to receive into.
    fn incoming(&self) -> Result<Segment> {
        let at = self.half();
        self.region.segment(at..at + self.size).context("a segment")
    }

    /// Posts `count` receives.
    pub fn receive(&self, count: usize) -> Result {
        for _ in 0..count {
            let posted = self.pair.receive(0, &[self.incoming()?]);
            posted.context("a receive")?;
        }
        Ok(())
    }

    /// Sends a message.
    pub fn send(&self) -> Result {
        let sent = match self.size <= INLINE {
            true => {
                let mut bytes = [0; INLINE];
                let bytes = bytes.get_mut(..self.size).unwrap_or_default();
                self.region.copy_out(0, bytes).context("memory")?;
                self.pair.send_inline(0, bytes)
            }
            false => self.pair.send(0, &[self.outgoing()?]),
        };
        sent.context("a send")
    }

    /// Writes to the peer's memory, with `mark` as the last byte.
    pub fn write_mark(&self, mark: u8) -> Result {
        let last = self.size - 1;
        self.region.copy_in(last, &[mark]).context("memory")?;
        let written = self.pair.write(0, &[self.outgoing()?], self.peer);
        written.context("a write")
    }

    /// Waits until the peer has written a message with this mark.
    pub fn wait_for_mark(&mut self, mark: u8) -> Result {
        let at = self.half() + self.size - 1;
        let mut looks = 0_u32;
        loop {
            let mut last = [0];
            self.region.copy_out(at, &mut last).context("memory")?;
            if last == [mark] {
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                self.sends.take(16)?;
                self.check()?;
            }
            if looks >= MANY_LOOKS && looks.is_multiple_of(LOOKS) {
                yield_now();
            }
        }
    }

    /// Checks that the connection still exists.
    fn check(&self) -> Result {
        match self.pair.query().context("query")?.state {
            QpState::Err => Err(Failure::new("the peer has gone")),
            _ => Ok(()),
        }
    }
}
