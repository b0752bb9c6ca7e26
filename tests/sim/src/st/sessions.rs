//! Worlds of level 2: two programs with sessions on the channels of a connection, which is cut at
//! any store and made again.
//!
//! The checks: every transfer arrives once and in order, with its data, however often the
//! connection is lost. A transfer has reached at least the level that is reported. A program that
//! waits for a transfer to be taken is woken, or learns in time that the transfer will not be
//! taken.

mod connections;
mod program;

use st_core::connection::Connection;
use st_core::queue::Descriptor;
use st_core::record::{Parameters, Record};
use st_core::reliable::{Fault, Options, Session, Token};
use st_core::setup;

use super::link::{Access, Kind, Link};
use super::memory::CELL;
use crate::faults::{self, Faults};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

/// Number of channels, each with a session.
const CHANNELS: u32 = 2;
/// Number of cells of each end's memory, for each channel.
const CELLS: usize = 8;
/// The options of sessions.
const OPTIONS: Options = Options {
    kept: 12,
    reconnect_timeout: 4_000,
};
/// Most transfers of a channel that a program remembers.
const MOST_TOKENS: usize = 40;
/// Number of rounds after which everything must have arrived.
const MOST_ROUNDS: usize = 2_000;

/// A bug planted in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionBug {
    /// The program takes a fence for complete although the connection was lost.
    BlindFence,
    /// The program does not wake its peer.
    NoWake,
    /// The program quotes one transfer less than it has taken.
    ShortQuote,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionReport {
    /// Steps taken.
    pub steps: u64,
    /// Number of connections made.
    pub connections: u64,
    /// Number of sessions whose client was back before their server had noticed the loss.
    pub early: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Number of transfers that arrived.
    pub received: u64,
    /// Number of transfers that arrived with data.
    pub with_data: u64,
    /// Number of transfers that were cancelled.
    pub cancelled: u64,
    /// Number of times a transfer was known to be delivered before it was taken.
    pub delivered: u64,
    /// Number of pushes that failed because as many transfers as a session keeps were waiting.
    pub full: u64,
    /// Number of waits that ended by their deadline.
    pub timed_out: u64,
    /// Number of waits that slept.
    pub sleeps: u64,
    /// Number of sessions that ended, by their timeout or because the peer started again.
    pub over: u64,
    /// Number of sessions that ended because of what the peer sent.
    pub broken: u64,
    /// Number of stores of each end on the first connection, at each of which it can be cut.
    pub stores: [u64; 2],
}

impl SessionReport {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &SessionReport) {
        self.steps += other.steps;
        self.connections += other.connections;
        self.early += other.early;
        self.faults.add(&other.faults);
        self.received += other.received;
        self.with_data += other.with_data;
        self.cancelled += other.cancelled;
        self.delivered += other.delivered;
        self.full += other.full;
        self.timed_out += other.timed_out;
        self.sleeps += other.sleeps;
        self.over += other.over;
        self.broken += other.broken;
    }
}

/// The parameters of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionSettings {
    /// Number of steps.
    pub steps: u64,
    /// A planted bug, if any.
    pub bug: Option<SessionBug>,
    /// The end and the number of its stores after which the first connection is cut. No other
    /// connection is cut.
    pub cut: Option<(usize, u64)>,
    /// Whether the second program quotes and stores anything.
    pub is_hostile: bool,
}

/// The data of a transfer: the cell of the peer's memory, and the bytes.
type Put = (usize, Vec<u8>);

/// A transfer that has not arrived.
struct Pushed {
    number: u64,
    descriptor: Descriptor,
    data: Option<Put>,
}

/// One channel at one end.
struct Channel {
    session: Option<Session<Put>>,
    /// The connection that the session uses.
    access: Access,
    /// The transfers pushed here that were not taken at the other end.
    pushed: Vec<Pushed>,
    tokens: Vec<Token>,
    /// The transfer for whose taking a program waits here.
    waits: Option<Token>,
    /// Whether a program waits here for a transfer.
    receives: bool,
}

/// One program.
struct Place {
    connection: Connection,
    /// The newest connection.
    access: Access,
    channels: Vec<Channel>,
}

struct World {
    rng: Rng,
    trace: Trace,
    settings: SessionSettings,
    now: u64,
    places: Vec<Place>,
    /// Whether the connection is cut.
    is_cut: bool,
    /// Whether the world ends, so that nothing is pushed and nothing is cut.
    is_ending: bool,
    report: SessionReport,
}

/// Plays a world.
///
/// # Errors The first rule that was broken.
pub fn run(seed: u64, settings: SessionSettings) -> Result<SessionReport, Failure> {
    play("sessions", seed, |trace| {
        let mut world = World::new(seed, settings, trace)?;
        for step in 0..settings.steps {
            world.trace.begin(step);
            world.step()?;
            world.check()?;
        }
        world.report.steps = settings.steps;
        world.finish()
    })
}

/// Plays a small world again and again. The first connection is cut at each store of one end in
/// turn, then at each store of the other end.
///
/// # Errors The first rule that was broken.
pub fn sweep(seed: u64, steps: u64, mut count: impl FnMut(&SessionReport)) -> Result<(), Failure> {
    let settings = |cut| SessionSettings {
        steps,
        cut: Some(cut),
        ..SessionSettings::default()
    };
    let whole = run(seed, settings((0, u64::MAX)))?;
    for (end, stores) in whole.stores.into_iter().enumerate() {
        for store in 0..stores {
            count(&run(seed, settings((end, store)))?);
        }
    }
    Ok(())
}

fn is_over(session: &Session<Put>) -> bool {
    session.over().is_some()
}

/// Returns the offset at which a channel's memory is registered.
fn region(channel: usize) -> i64 {
    0x10_0000 * (channel as i64 + 1)
}

/// Makes a connection and the state of both ends. The registered memory keeps its content.
fn link(rng: &mut Rng, before: Option<&[Place]>) -> Result<Vec<(Connection, Access)>, String> {
    let mut parameters = |slots| Parameters {
        port: 1,
        key: 1 + rng.below(1 << 30) as u32,
        bypass: true,
        channels: CHANNELS,
        slots,
        window: 0,
    };
    let (client, server) = (parameters(8), parameters(16));
    let refused = |refused| format!("set-up: {refused:?}");
    let (at_server, answer) = setup::accept(server, Record::Request(client)).map_err(refused)?;
    let at_client = setup::connected(client, answer).map_err(refused)?;
    let kind = match rng.one_in(2) {
        true => Kind::Shared,
        false => Kind::Bus,
    };
    let layouts = [at_client, at_server].map(|agreed| agreed.own);
    let link = Link::new(kind, layouts, rng.number(), None);
    let mut ends = Vec::new();
    for (side, (own, agreed)) in [(client, at_client), (server, at_server)]
        .into_iter()
        .enumerate()
    {
        let link = link.clone();
        let mut access = Access { link, side };
        for channel in 0..CHANNELS as usize {
            let length = CELLS * CELL;
            let before = before.and_then(|places| {
                let access = &places[side].access;
                access.own(region(channel), 0, length)
            });
            access.register(region(channel), before.unwrap_or(vec![0; length]));
        }
        ends.push((Connection::new(own, agreed), access));
    }
    Ok(ends)
}

impl World {
    fn new(seed: u64, settings: SessionSettings, trace: &Trace) -> Result<World, String> {
        let mut rng = Rng::new(seed);
        let ends = link(&mut rng, None)?;
        let place = |(connection, access): (Connection, Access)| {
            let channel = |_| Channel {
                session: None,
                access: access.clone(),
                pushed: Vec::new(),
                tokens: Vec::new(),
                waits: None,
                receives: false,
            };
            Place {
                channels: (0..CHANNELS).map(channel).collect(),
                connection,
                access,
            }
        };
        let places: Vec<Place> = ends.into_iter().map(place).collect();
        let mut world = World {
            rng,
            trace: trace.clone(),
            settings,
            now: 0,
            places,
            is_cut: false,
            is_ending: false,
            report: SessionReport::default(),
        };
        if let Some((side, stores)) = settings.cut {
            let link = &world.places[0].access.link;
            link.borrow_mut().kill_after(side, stores);
        }
        world.greet();
        Ok(world)
    }

    fn is_strict(&self) -> bool {
        !self.settings.is_hostile
    }

    fn check(&mut self) -> Result<(), String> {
        for place in &self.places {
            if let Some(fault) = place.access.link.borrow_mut().fault.take() {
                return Err(fault);
            }
        }
        Ok(())
    }

    // ---- Steps ----

    fn step(&mut self) -> Result<(), String> {
        self.now += self.rng.below(4);
        let side = self.rng.below(2) as usize;
        let number = self.rng.below(CHANNELS.into()) as usize;
        let may_cut = self.settings.cut.is_none();
        match self.rng.below(100) {
            0..6 => {
                let access = &self.places[side].access;
                access.link.borrow_mut().land_some(side);
            }
            6..20 => self.hear(side, false)?,
            20 if may_cut && self.rng.one_in(2) => self.cut(),
            21 if may_cut => {
                // The connection is cut at one of the next stores.
                let link = &self.places[side].access.link;
                link.borrow_mut().kill_after(side, self.rng.below(40));
            }
            22 if may_cut && self.rng.one_in(100) => {
                // A program starts again and has forgotten everything.
                self.cut();
                self.forget(side);
            }
            23 if may_cut && self.rng.one_in(30) => {
                self.cut();
                self.now += OPTIONS.reconnect_timeout;
            }
            24..28 if self.is_cut => self.connect()?,
            28 if self.rng.one_in(10) => self.come_to_rest()?,
            29 if side == 1 && self.settings.is_hostile => {
                let access = &mut self.places[side].access;
                let lines = access.peer_bytes() as u64 / 4;
                let value = self.rng.size(u32::MAX.into()) as u32;
                self.report.faults.note(faults::Fault::HostileStore);
                access.scribble(self.rng.below(lines) as usize * 4, &value.to_le_bytes());
            }
            30..55 => self.push(side, number)?,
            55..62 => self.advance(side, number)?,
            62..66 => self.fence(side, number)?,
            66..70 => self.cancel(side, number)?,
            70..76 => self.wait(side, number)?,
            76..98 => {
                self.receive(side, number)?;
            }
            _ => self.sleep(side, number)?,
        }
        self.notice(side);
        Ok(())
    }

    // ---- Rest ----

    /// Lets everything arrive, and woken programs act, until nothing is on its way.
    fn run_until_idle(&mut self) -> Result<(), String> {
        for _ in 0..MOST_ROUNDS {
            for side in 0..2 {
                let access = &self.places[side].access;
                access.link.borrow_mut().land_all(side);
                self.hear(side, true)?;
                self.notice(side);
            }
            if self.places[0].access.link.borrow().is_still() {
                return Ok(());
            }
        }
        Err("programs that are left alone never come to rest".into())
    }

    /// Lets everything arrive, and checks that no program sleeps although what it waits for is
    /// there.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.run_until_idle()?;
        if self.is_cut || !self.is_strict() {
            return Ok(());
        }
        for side in 0..2 {
            for number in 0..CHANNELS as usize {
                let Channel {
                    session: Some(session),
                    access,
                    pushed,
                    waits,
                    receives,
                    ..
                } = &mut self.places[side].channels[number]
                else {
                    continue;
                };
                access.begin();
                if !session.is_open() || access.has_seen_down() {
                    continue;
                }
                let looked = session.look(access);
                looked.map_err(|fault| format!("end {side}: {fault:?}"))?;
                if let Some(token) = waits
                    && pushed.iter().all(|pushed| pushed.number != token.number())
                {
                    let known = session.status(token);
                    return Err(format!(
                        "end {side} waits for {token:?}, which was taken: {known:?}"
                    ));
                }
                if !*receives {
                    continue;
                }
                match session.arm(access) {
                    Ok(armed) if armed.is_ready => {
                        return Err(format!("end {side} sleeps beside a transfer"));
                    }
                    Ok(armed) if armed.wake => self.wake(side, number),
                    Ok(_) => {}
                    // The connection can be cut at the store of this `arm`, too.
                    Err(fault @ Fault::Memory(_)) => return self.failed(side, number, fault),
                    Err(fault) => return Err(format!("end {side}: {fault:?}")),
                }
            }
        }
        Ok(())
    }

    /// Ends the world: without further cuts everything must arrive.
    fn finish(mut self) -> Result<SessionReport, String> {
        self.come_to_rest()?;
        self.is_ending = true;
        if self.report.connections == 1 {
            self.report.stores = self.places[0].access.link.borrow().stores;
        }
        for _ in 0..MOST_ROUNDS {
            let mut sessions = self.places[0].channels.iter();
            if sessions.any(|channel| channel.session.as_ref().is_none_or(is_over)) {
                self.cut();
            }
            if self.is_cut {
                for side in 0..2 {
                    self.notice(side);
                }
                self.connect()?;
            }
            for side in 0..2 {
                let access = self.places[side].access.clone();
                access.link.borrow_mut().spare(side);
                access.link.borrow_mut().land_all(side);
                self.hear(side, true)?;
                self.notice(side);
                for number in 0..CHANNELS as usize {
                    self.advance(side, number)?;
                    while self.receive(side, number)? {}
                    self.sleep(side, number)?;
                    self.check_levels(side, number)?;
                }
            }
            let mut channels = self.places.iter().flat_map(|place| &place.channels);
            let is_empty = |channel: &Channel| {
                let session = channel.session.as_ref();
                channel.pushed.is_empty() && session.is_none_or(|session| session.kept() == 0)
            };
            if channels.all(is_empty) || !self.is_strict() {
                self.check()?;
                return Ok(self.report);
            }
        }
        let left = self.places.iter().flat_map(|place| &place.channels);
        let left: Vec<_> = left.map(|channel| channel.pushed.len()).collect();
        Err(format!(
            "transfers that never arrive, by end and channel: {left:?}"
        ))
    }
}
