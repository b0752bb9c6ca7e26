//! The victim: a program that uses the library as it should.

use alloc::vec::Vec;

use guest_tests::text;
use runtime::thread;
use runtime::time::{Duration, Instant, sleep};
use scif::{Listener, Memory};
use verbs::{
    Access, Context, MemoryRegion, ProtectionDomain, QpState, QpType, QueuePair, Settings, WcStatus,
};

use super::{CANARY, CLAIMED, Checked, LOOK, Order, PAGE, PORT, PREPARE, QUIT, hear, say};

/// How long a round of the own traffic may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Regions of the attacked domain, and one of another domain.
struct Memories {
    all: MemoryRegion,
    readable: MemoryRegion,
    writable: MemoryRegion,
    own: MemoryRegion,
    other: MemoryRegion,
}

fn region(domain: &ProtectionDomain, access: Access) -> Checked<MemoryRegion> {
    let memory = Memory::new(PAGE).map_err(text("memory"))?;
    let region = domain.register(memory, access).map_err(text("register"))?;
    region.copy_in(0, &[CANARY; PAGE]).map_err(text("fill"))?;
    Ok(region)
}

impl Memories {
    fn are_unharmed(&self) -> Checked<bool> {
        for region in [&self.readable, &self.own, &self.other] {
            let mut bytes = [0; PAGE];
            region.copy_out(0, &mut bytes).map_err(text("look"))?;
            if bytes.iter().any(|byte| *byte != CANARY) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A queue pair that is connected with itself, and what it does again and again.
struct Own {
    pair: QueuePair,
    region: MemoryRegion,
    sends: verbs::CompletionQueue,
    receives: verbs::CompletionQueue,
    rounds: u64,
}

impl Own {
    fn new(context: &Context) -> Checked<Own> {
        let domain = context.protection_domain().map_err(text("domain"))?;
        let queue = || context.completion_queue(16).map_err(text("queue"));
        let (sends, receives) = (queue()?, queue()?);
        let builder = domain.queue_pair(QpType::Rc, &sends, &receives);
        let pair = builder.build().map_err(text("pair"))?;
        let settings = Settings::default();
        pair.init(&settings).map_err(text("init"))?;
        let address = pair.address();
        pair.connect_to(address, &settings)
            .map_err(text("connect"))?;
        Ok(Own {
            region: region(&domain, Access::REMOTE | Access::LOCAL_WRITE)?,
            pair,
            sends,
            receives,
            rounds: 0,
        })
    }

    /// A message and a write to itself.
    fn go_on(&mut self) -> Checked {
        let segment = |at: usize| self.region.segment(at..at + 8).map_err(text("segment"));
        self.pair
            .receive(1, &[segment(64)?])
            .map_err(text("receive"))?;
        self.pair.send(2, &[segment(0)?]).map_err(text("send"))?;
        let far = self.region.remote(128);
        self.pair
            .write(3, &[segment(0)?], far)
            .map_err(text("write"))?;
        let start = Instant::now();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        while sent.len() < 2 || received.is_empty() {
            self.sends.poll(2, &mut sent).map_err(text("poll"))?;
            self.receives.poll(1, &mut received).map_err(text("poll"))?;
            if start.elapsed() > TIME_LIMIT {
                return Err("the own traffic stands still".into());
            }
        }
        let mut all = sent.iter().chain(&received);
        if all.any(|wc| wc.status != WcStatus::Success) {
            return Err("the own traffic fails".into());
        }
        self.rounds += 1;
        Ok(())
    }
}

/// Waits until the lanes of the attacker have gone with it.
fn only_own_lane(context: &Context) -> Checked {
    let start = Instant::now();
    while context.raw().counts().lanes > 1 {
        if start.elapsed() > TIME_LIMIT {
            return Err("a lane stays".into());
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

pub fn serve() -> Checked {
    let listener = Listener::bind(PORT).map_err(text("listen"))?;
    let device = verbs::devices().map_err(text("devices"))?.remove(0);
    let start = |worker: verbs::Worker| {
        let run = move || {
            if let Err(error) = worker.run() {
                runtime::println!("verbs-hostile: the progress thread ends: {error}");
            }
        };
        thread::spawn(run).map(drop).map_err(verbs::Error::from)
    };
    let context = device.open(start).map_err(text("open"))?;
    let domain = context.protection_domain().map_err(text("domain"))?;
    let second = context.protection_domain().map_err(text("domain"))?;
    let everything = Access::REMOTE | Access::LOCAL_WRITE;
    let memories = Memories {
        all: region(&domain, everything)?,
        readable: region(&domain, Access::REMOTE_READ | Access::LOCAL_WRITE)?,
        writable: region(&domain, Access::REMOTE_WRITE | Access::LOCAL_WRITE)?,
        own: region(&domain, Access::LOCAL_WRITE)?,
        other: region(&second, everything)?,
    };
    let queue = || context.completion_queue(4096).map_err(text("queue"));
    let (sends, receives) = (queue()?, queue()?);
    let mut own = Own::new(&context)?;
    let (endpoint, peer) = listener.accept().map_err(text("accept"))?;
    let mut pair: Option<QueuePair> = None;
    loop {
        let order = hear(&endpoint)?;
        let mut rest = Vec::new();
        sends.poll(4096, &mut rest).map_err(text("poll"))?;
        receives.poll(4096, &mut rest).map_err(text("poll"))?;
        match order.verb {
            PREPARE => {
                // The former one first, whatever was done to it.
                drop(pair.take());
                only_own_lane(&context)?;
                let builder = domain.queue_pair(QpType::Rc, &sends, &receives);
                let new = builder.build().map_err(text("pair"))?;
                let settings = Settings::default();
                new.init(&settings).map_err(text("init"))?;
                for id in 0..16 {
                    let segment = memories.all.segment(0..64).map_err(text("segment"))?;
                    new.receive(id, &[segment]).map_err(text("receive"))?;
                }
                let claimed = verbs::Address {
                    lid: verbs::address::lid(peer.node()),
                    number: match order.claimed {
                        0 => CLAIMED,
                        number => number,
                    },
                    psn: 0,
                };
                new.connect_to(claimed, &settings)
                    .map_err(text("connect"))?;
                let state = new.query().map_err(text("query"))?.state;
                if state != QpState::Rts {
                    return Err(alloc::format!("the state is {state:?}"));
                }
                pair = Some(new);
            }
            LOOK => {}
            QUIT => return Ok(()),
            _ => return Err("an order that nobody knows".into()),
        }
        own.go_on()?;
        let of = |region: &MemoryRegion| region.key();
        say(
            &endpoint,
            Order {
                writable: of(&memories.writable),
                qpn: pair.as_ref().map_or(0, QueuePair::number),
                keys: [
                    of(&memories.all),
                    of(&memories.readable),
                    of(&memories.own),
                    of(&memories.other),
                ],
                address: memories.all.remote(0).address,
                windows: context.raw().exposed() as u64,
                rounds: own.rounds,
                is_unharmed: memories.are_unharmed()?.into(),
                ..order
            },
        )?;
    }
}
