//! The state of both sides: a context, and for each connection memory and a queue pair.

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::text;
use runtime::time::{Duration, Instant};
use runtime::{println, thread};
use scif::Memory;
use verbs::{
    Access, CompletionQueue, Context, Error, MemoryRegion, ProtectionDomain, QpType, QueuePair,
    Segment, Settings, SharedReceiveQueue, WorkCompletion,
};

pub type Checked<T = ()> = Result<T, String>;

/// Bytes of each side's memory.
pub const BYTES: usize = 4 << 20;
/// Completions of a queue.
const COMPLETIONS: u32 = 1024;
/// How long anything may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// One side of a connection.
pub struct End {
    pub pair: QueuePair,
    pub region: MemoryRegion,
    pub sends: CompletionQueue,
    pub receives: CompletionQueue,
    pub shared: Option<SharedReceiveQueue>,
    pub domain: ProtectionDomain,
}

/// All that a peer may do, and the owner.
pub fn all() -> Access {
    Access::REMOTE | Access::LOCAL_WRITE
}

/// A context with a thread of this program.
pub fn open() -> Checked<Context> {
    let device = verbs::devices().map_err(text("devices"))?.remove(0);
    let start = |worker: verbs::Worker| {
        let run = move || {
            if let Err(error) = worker.run() {
                println!("verbs-test: the progress thread ends: {error}");
            }
        };
        thread::spawn(run).map(drop).map_err(Error::from)
    };
    device.open(start).map_err(text("open"))
}

impl End {
    pub fn new(context: &Context, kind: QpType, limit: Option<u32>) -> Checked<Self> {
        let queue = || context.completion_queue(COMPLETIONS).map_err(text("queue"));
        Self::with_queues(context, kind, limit, (queue()?, queue()?))
    }

    pub fn with_queues(
        context: &Context,
        kind: QpType,
        limit: Option<u32>,
        (sends, receives): (CompletionQueue, CompletionQueue),
    ) -> Checked<Self> {
        let domain = context.protection_domain().map_err(text("domain"))?;
        let memory = Memory::new(BYTES).map_err(text("memory"))?;
        let region = domain.register(memory, all()).map_err(text("register"))?;
        let shared = match limit {
            Some(limit) => {
                let queue = domain.shared_receive_queue(512, 4).map_err(text("srq"))?;
                queue.set_limit(limit).map_err(text("limit"))?;
                Some(queue)
            }
            None => None,
        };
        let mut builder = domain.queue_pair(kind, &sends, &receives).inline(256);
        if let Some(queue) = &shared {
            builder = builder.shared(queue);
        }
        let pair = builder.build().map_err(text("pair"))?;
        Ok(Self {
            pair,
            region,
            sends,
            receives,
            shared,
            domain,
        })
    }

    pub fn segment(&self, at: usize, length: usize) -> Checked<Segment> {
        self.region
            .segment(at..at + length)
            .map_err(text("segment"))
    }

    /// Posts receives, one after the other from `at` on.
    pub fn receive(&self, count: u64, at: usize, length: usize) -> Checked {
        for number in 0..count {
            let segment = self.segment(at + number as usize * length, length)?;
            let posted = match &self.shared {
                Some(queue) => queue.receive(number, &[segment]),
                None => self.pair.receive(number, &[segment]),
            };
            posted.map_err(text("receive"))?;
        }
        Ok(())
    }

    pub fn fill(&self, seed: u32, at: usize, length: usize) -> Checked {
        let bytes = super::pattern(seed, length);
        self.region.copy_in(at, &bytes).map_err(text("fill"))
    }

    pub fn is_right(&self, seed: u32, at: usize, length: usize) -> Checked<bool> {
        let mut bytes = alloc::vec![0; length];
        self.region.copy_out(at, &mut bytes).map_err(text("look"))?;
        Ok(bytes == super::pattern(seed, length))
    }
}

/// Polls until there are this many completions.
pub fn wait(queue: &CompletionQueue, count: usize) -> Checked<Vec<WorkCompletion>> {
    let mut found = Vec::new();
    let start = Instant::now();
    while found.len() < count {
        let most = count - found.len();
        let new = queue.poll(most, &mut found).map_err(text("poll"))?;
        if new == 0 && start.elapsed() > TIME_LIMIT {
            return Err(alloc::format!("{} of {count} completions", found.len()));
        }
    }
    Ok(found)
}

/// Settings of both sides.
pub fn settings(access: Access) -> Settings {
    Settings {
        access,
        // A second, eight times. With the usual 67 ms a peer on a busy machine may answer too late.
        timeout: 18,
        ..Settings::default()
    }
}
