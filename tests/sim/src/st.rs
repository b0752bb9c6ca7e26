//! Worlds of Scheduled Transfers: three programs with connections between each two, built on
//! `st-core` without any other part of the project.
//!
//! Programs push and pull headers of all kinds, put and get data, map and unmap memory, sleep and
//! are woken, attach and detach, close and are killed, all at random. Their stores are on their
//! way as long as the memory model allows ([`link`]).
//!
//! The checks: every header arrives once and in order with its bytes, after its data. When nothing
//! happens any more, no program sleeps although it has a header to pull or room to push. What a
//! dead program had sent arrives before the peer sees the end of the connection. A position in
//! memory that was taken back is refused. A peer that stores anything loses its own connection and
//! harms no other. At the end no memory is registered.

pub mod ends;
mod hostile;
mod link;
mod memory;
mod program;
pub mod sessions;

use std::collections::VecDeque;

use st_core::connection::{Connection, Update};
use st_core::queue::{Descriptor, Receiver, Sender};
use st_core::record::{Parameters, Record};
use st_core::region::Position;
use st_core::setup::{self, Agreed, Options};

pub use self::link::Bug;
use self::link::{Access, Kind, Link};
use crate::faults::{Fault, Faults};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

/// Number of programs in a world.
const PROGRAMS: u64 = 3;
/// Most connections in a world at a time.
const CONNECTIONS: usize = 4;
/// Number of rounds after which everything must have come to rest.
const MOST_ROUNDS: usize = 10_000;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct StReport {
    /// Steps taken.
    pub steps: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Number of headers that arrived.
    pub pulled: u64,
    /// Number of times that data arrived with a header, or was got after one.
    pub with_data: u64,
    /// Number of times a program slept.
    pub sleeps: u64,
    /// Number of times a sleeping program was woken.
    pub wakes: u64,
    /// Number of times memory was announced.
    pub maps: u64,
    /// Number of positions refused because their memory was taken back.
    pub stale: u64,
    /// Number of set-ups refused.
    pub refused: u64,
    /// Number of times a program saw the end of a connection.
    pub lost: u64,
    /// Number of connections ended because the peer broke the protocol.
    pub broken: u64,
    /// Number of stores of each end of the first connection, at each of which its program can be
    /// killed.
    pub stores: [u64; 2],
}

impl StReport {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &StReport) {
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.pulled += other.pulled;
        self.with_data += other.with_data;
        self.sleeps += other.sleeps;
        self.wakes += other.wakes;
        self.maps += other.maps;
        self.stale += other.stale;
        self.refused += other.refused;
        self.lost += other.lost;
        self.broken += other.broken;
    }
}

/// The parameters of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct StSettings {
    /// Number of steps.
    pub steps: u64,
    /// A planted bug, if any.
    pub bug: Option<Bug>,
    /// The end of the first connection whose program dies, and the number of stores that it makes
    /// there before. No other program dies.
    pub kill: Option<(usize, u64)>,
    /// Whether one program stores and sends anything.
    pub is_hostile: bool,
}

/// The way in which an end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The end has closed, or its program has died: what it had sent arrives.
    Closed,
    /// The node has lost its power: some of what the end had sent is missing.
    Cut,
}

/// A header that was sent, and its data.
struct Sent {
    descriptor: Descriptor,
    /// Whether all of the header was stored.
    is_whole: bool,
    /// The data that was put for it: the receiver's memory, the offset there, and the bytes.
    put: Option<(i64, usize, Vec<u8>)>,
    /// The data to get after it: the sender's memory, the offset there, and the bytes.
    get: Option<(i64, usize, Vec<u8>)>,
}

/// One channel at one end.
struct Channel {
    sender: Sender,
    receiver: Receiver,
    is_attached: bool,
    /// Whether a pull sleeps.
    pull_sleeps: bool,
    /// The number of free slots for which a push sleeps.
    push_sleeps: Option<u64>,
    /// The headers pushed here that were not pulled at the other end.
    sent: VecDeque<Sent>,
    /// Positions in the peer's memory, perhaps of earlier generations.
    positions: Vec<Position>,
    /// Whether a pull has reported the connection as lost.
    is_over: bool,
}

/// One end of a connection. The number of the other end differs in the lowest bit.
struct Place {
    program: u64,
    access: Access,
    connection: Connection,
    channels: Vec<Channel>,
    /// The announcements that have not reached the peer: memory announced or taken back.
    told: VecDeque<Update>,
    ended: Option<End>,
    is_hostile: bool,
    /// Whether the end has stored nothing invalid yet.
    is_clean: bool,
}

struct World {
    rng: Rng,
    trace: Trace,
    bug: Option<Bug>,
    places: Vec<Place>,
    hostile: Option<u64>,
    kill: Option<(usize, u64)>,
    /// Whether the world ends, so that nothing new is pushed.
    is_ending: bool,
    number: u64,
    report: StReport,
}

/// Plays a world.
///
/// # Errors The first rule that was broken.
pub fn run(seed: u64, settings: StSettings) -> Result<StReport, Failure> {
    let world = match settings.is_hostile {
        true => "transfers, hostile",
        false => "transfers",
    };
    play(world, seed, |trace| {
        let mut world = World::new(seed, settings, trace);
        world.play(settings.steps)?;
        world.finish()
    })
}

/// Plays a small world again and again. At each store of one end of the first connection, the
/// program of that end is killed; then the same for the other end.
///
/// # Errors The first rule that was broken.
pub fn sweep(seed: u64, steps: u64, mut count: impl FnMut(&StReport)) -> Result<(), Failure> {
    let settings = |kill| StSettings {
        steps,
        kill: Some(kill),
        ..StSettings::default()
    };
    let whole = run(seed, settings((0, u64::MAX)))?;
    for (end, stores) in whole.stores.into_iter().enumerate() {
        for store in 0..stores {
            count(&run(seed, settings((end, store)))?);
        }
    }
    Ok(())
}

fn options(rng: &mut Rng) -> Options {
    Options {
        bypass: true,
        channels: 2,
        slots: 8 << rng.below(2),
    }
}

impl World {
    fn new(seed: u64, settings: StSettings, trace: &Trace) -> World {
        World {
            rng: Rng::new(seed),
            trace: trace.clone(),
            bug: settings.bug,
            places: Vec::new(),
            hostile: settings.is_hostile.then_some(PROGRAMS - 1),
            kill: settings.kill,
            is_ending: false,
            number: 0,
            report: StReport::default(),
        }
    }

    fn play(&mut self, steps: u64) -> Result<(), String> {
        self.connect(0, 1)?;
        if let Some((side, stores)) = self.kill {
            let link = &self.places[0].access.link;
            link.borrow_mut().kill_after(side, stores);
        }
        for step in 0..steps {
            self.trace.begin(step);
            self.step()?;
            self.check()?;
        }
        self.report.steps = steps;
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let numbers = 0..self.places.len();
        let live: Vec<usize> = numbers
            .filter(|which| self.places[*which].ended.is_none())
            .collect();
        if live.is_empty() || (live.len() < 2 * CONNECTIONS && self.rng.one_in(20)) {
            let one = self.rng.below(PROGRAMS);
            let other = (one + 1 + self.rng.below(PROGRAMS - 1)) % PROGRAMS;
            return self.connect(one, other);
        }
        if self.rng.one_in(400) {
            return self.come_to_rest();
        }
        let which = live[self.rng.below(live.len() as u64) as usize];
        if self.places[which].is_hostile && self.rng.one_in(2) {
            return self.attack(which);
        }
        self.work(which)
    }

    /// Sets up a connection, at times after an attempt with options that do not fit.
    fn connect(&mut self, client: u64, server: u64) -> Result<(), String> {
        let rng = &mut self.rng;
        let mut parameters = |program: u64, options: Options| Parameters {
            port: program as u16,
            key: 1 + rng.below(1 << 30) as u32,
            bypass: options.bypass,
            channels: options.channels,
            slots: options.slots,
            window: 0,
        };
        let at_client = parameters(client, options(&mut Rng::new(self.number)));
        let at_server = parameters(server, options(&mut Rng::new(self.number + 1)));
        self.number += 2;
        let agree =
            |client: Parameters, server: Parameters| -> Result<[Agreed; 2], setup::Refused> {
                let decode = |record: Record| {
                    let read = Record::decode(&record.encode());
                    read.map_err(|_| setup::Refused::Protocol)
                };
                let (at_server, answer) = setup::accept(server, decode(Record::Request(client))?)?;
                let at_client = setup::connected(client, decode(answer)?)?;
                Ok([at_client, at_server])
            };
        if self.rng.one_in(8) {
            let spoilt = match self.rng.below(4) {
                0 => Parameters {
                    bypass: false,
                    ..at_client
                },
                1 => Parameters {
                    channels: 3,
                    ..at_client
                },
                2 => Parameters {
                    slots: 9 + at_client.slots,
                    ..at_client
                },
                _ => Parameters {
                    key: 0,
                    ..at_client
                },
            };
            if agree(spoilt, at_server).is_ok() {
                return Err(format!("{spoilt:?} agrees with {at_server:?}"));
            }
            self.report.refused += 1;
        }
        let agreed =
            agree(at_client, at_server).map_err(|refused| format!("set-up: {refused:?}"))?;
        if [agreed[0].peer, agreed[1].peer] != [agreed[1].own, agreed[0].own] {
            return Err("the ends do not agree crosswise".into());
        }
        let kind = match self.rng.one_in(2) {
            true => Kind::Shared,
            false => Kind::Bus,
        };
        let layouts = agreed.map(|agreed| agreed.own);
        let link = Link::new(kind, layouts, self.rng.number(), self.bug);
        let number = self.places.len() / 2;
        self.trace
            .note(|| format!("connection {number}: {client} to {server}, {kind:?}"));
        for (side, (own, program)) in [(at_client, client), (at_server, server)]
            .into_iter()
            .enumerate()
        {
            let agreed = agreed[side];
            let channel = |number| Channel {
                sender: Sender::new(agreed.peer, number),
                receiver: Receiver::new(agreed.own, number),
                is_attached: true,
                pull_sleeps: false,
                push_sleeps: None,
                sent: VecDeque::new(),
                positions: Vec::new(),
                is_over: false,
            };
            let link = link.clone();
            self.places.push(Place {
                program,
                access: Access { link, side },
                connection: Connection::new(own, agreed),
                channels: (0..own.channels).map(channel).collect(),
                told: VecDeque::new(),
                ended: None,
                is_hostile: self.hostile == Some(program),
                is_clean: true,
            });
        }
        Ok(())
    }

    /// Returns whether both ends of a connection keep to the rules.
    fn is_strict(&self, which: usize) -> bool {
        !self.places[which].is_hostile && !self.places[which ^ 1].is_hostile
    }

    fn check(&mut self) -> Result<(), String> {
        for place in &self.places {
            if let Some(fault) = place.access.link.borrow_mut().fault.take() {
                return Err(fault);
            }
        }
        Ok(())
    }

    // ---- Ends ----

    /// Kills a program with all its ends, alone or with its node.
    fn kill(&mut self, program: u64, how: End) {
        self.trace
            .note(|| format!("program {program} dies: {how:?}"));
        self.report.faults.note(match how {
            End::Closed => Fault::ProcessKilled,
            End::Cut => Fault::NodeKilled,
        });
        for which in 0..self.places.len() {
            if self.places[which].program == program {
                self.end(which, how);
            }
        }
    }

    /// Ends an end and takes its memory away.
    fn end(&mut self, which: usize, how: End) {
        let place = &mut self.places[which];
        if place.ended.is_some() {
            return;
        }
        place.ended = Some(how);
        let mut link = place.access.link.borrow_mut();
        match how {
            End::Closed => link.kill(place.access.side),
            End::Cut => link.cut_power(place.access.side),
        }
        link.release(place.access.side);
    }

    /// Closes an end.
    fn close(&mut self, which: usize) {
        self.trace.note(|| format!("end {which} closes"));
        self.end(which, End::Closed);
    }

    /// Kills the program of an end whose memory has reported the death.
    fn died(&mut self, which: usize) {
        self.kill(self.places[which].program, End::Closed);
    }

    /// Ends the connection, because the peer has broken the protocol.
    fn broken(&mut self, which: usize) -> Result<(), String> {
        if !self.places[which ^ 1].is_hostile {
            return Err("a peer that keeps to the rules is said to break them".into());
        }
        self.report.broken += 1;
        self.close(which);
        Ok(())
    }

    // ---- Rest ----

    /// Lets everything happen that needs no program, and checks that no program sleeps although
    /// what it waits for is there.
    fn come_to_rest(&mut self) -> Result<(), String> {
        let mut rounds = 0;
        while self.move_on()? {
            rounds += 1;
            if rounds > MOST_ROUNDS {
                return Err("the world does not come to rest".into());
            }
        }
        for which in 0..self.places.len() {
            if !self.is_strict(which) || self.places[which].ended.is_some() {
                continue;
            }
            let Place {
                access, channels, ..
            } = &mut self.places[which];
            if access.has_seen_down() {
                // The end of the connection wakes all programs at this end.
                continue;
            }
            for (number, channel) in channels.iter_mut().enumerate() {
                access.begin();
                if channel.pull_sleeps && channel.receiver.is_ready(access) {
                    return Err(format!(
                        "end {which} sleeps beside a header of channel {number}"
                    ));
                }
                let room = channel.sender.room(access);
                let room = room.map_err(|error| format!("end {which}: {error:?}"))?;
                if channel.push_sleeps.is_some_and(|slots| slots <= room) {
                    return Err(format!(
                        "end {which} sleeps beside room in channel {number}"
                    ));
                }
            }
        }
        self.check()
    }

    /// Runs one round of everything that needs no program. Returns whether anything happened.
    fn move_on(&mut self) -> Result<bool, String> {
        let mut any = false;
        for which in 0..self.places.len() {
            self.places[which].access.begin();
            let side = self.places[which].access.side;
            self.places[which].access.link.borrow_mut().land_all(side);
            self.places[which].access.link.borrow_mut().land_late();
            if self.places[which].ended.is_some() {
                continue;
            }
            let bytes = self.places[which].access.take_whole_stream();
            any |= !bytes.is_empty();
            for (channel, was_pull, was_push) in self.hear(which, &bytes)? {
                if was_pull && self.places[which].ended.is_none() {
                    self.pull(which, channel)?;
                }
                if was_push && self.places[which].ended.is_none() && !self.is_ending {
                    self.push(which, channel)?;
                }
            }
        }
        Ok(any)
    }

    /// Ends the world: pulls and closes everything, and checks that nothing is left.
    fn finish(mut self) -> Result<StReport, String> {
        self.come_to_rest()?;
        self.is_ending = true;
        for Place { access, .. } in &self.places {
            access.link.borrow_mut().spare(access.side);
        }
        for which in 0..self.places.len() {
            self.report.stores[which & 1] = match which {
                0 | 1 => self.places[which].access.link.borrow().stores[which],
                _ => self.report.stores[which & 1],
            };
            for channel in 0..self.places[which].channels.len() {
                self.places[which].channels[channel].is_attached = true;
                for _ in 0..MOST_ROUNDS {
                    if self.places[which].ended.is_some() || !self.pull(which, channel)? {
                        break;
                    }
                }
            }
        }
        self.come_to_rest()?;
        for which in 0..self.places.len() {
            self.check_emptied(which)?;
        }
        for which in 0..self.places.len() {
            if self.places[which].ended.is_none() {
                self.close(which);
            }
        }
        for (which, place) in self.places.iter().enumerate() {
            let left = place.access.link.borrow().registered(place.access.side);
            if left > 0 {
                return Err(format!("end {which} has {left} bytes registered"));
            }
        }
        Ok(self.report)
    }

    /// Checks that a living connection has nothing in progress and all slots free.
    fn check_emptied(&mut self, which: usize) -> Result<(), String> {
        let both_live = [which, which ^ 1].map(|end| self.places[end].ended.is_none());
        if both_live != [true; 2] || !self.is_strict(which) {
            return Ok(());
        }
        let mut peer = self.places[which ^ 1].access.clone();
        let places = u64::from(self.places[which].connection.agreed().peer.places());
        for number in 0..self.places[which].channels.len() {
            peer.begin();
            let receiver = &mut self.places[which ^ 1].channels[number].receiver;
            let armed = receiver.arm(&mut peer);
            armed.map_err(|error| format!("end {which}: {error:?}"))?;
            let Place {
                access, channels, ..
            } = &mut self.places[which];
            access.link.borrow_mut().land_all(access.side);
            let channel = &mut channels[number];
            if !channel.sent.is_empty() {
                let count = channel.sent.len();
                return Err(format!("{count} headers of end {which} did not arrive"));
            }
            let room = channel.sender.room(access);
            if room != Ok(places) {
                return Err(format!("end {which} has {room:?} of {places} slots again"));
            }
        }
        Ok(())
    }
}
