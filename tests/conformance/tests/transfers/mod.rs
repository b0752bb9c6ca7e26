//! The place `sim` of the rows of Scheduled Transfers: two programs whose calls go to the state
//! machine of `st-core` in the simulator.

mod jobs;
mod memory;
mod rounds;

use std::collections::{BTreeMap, VecDeque};

use conformance::errno::{self, Errno};
use conformance::st::bench::number::*;
use conformance::st::bench::{Checked, Driver, NodeFailure, Place, Side, Ticket};
use conformance::st::call::{Call, NOTHING, Reply};
use sim::st::ends::{Ends, Failed};
use st_core::setup::{Options, Refused};

use jobs::Job;
use memory::Space;

/// Steps after which a call that has not ended counts as waiting for ever.
const MOST_STEPS: usize = 20_000;
/// Steps of a frozen node until it counts as lost.
const FROZEN_STEPS: usize = 500;
/// Steps after which a sleeping call wakes by itself.
const LONGEST: usize = 1000;

/// A connection.
struct Connection {
    ends: Ends,
    /// Whether one end breaks the rules; then its peer need not be woken.
    is_hostile: bool,
}

/// A socket.
#[derive(Clone, Copy)]
struct Socket {
    options: Options,
    port: u64,
    connection: Option<usize>,
    waits: bool,
}

/// A handle.
struct Handle {
    socket: u64,
    connection: usize,
    channel: u32,
    /// Mapped memory: its address, its length, its offset in the state machine.
    mapped: Option<(u64, u64, i64)>,
}

/// A program.
#[derive(Default)]
struct Program {
    sockets: BTreeMap<u64, Socket>,
    handles: BTreeMap<u64, Handle>,
    memory: Space,
}

/// The driver.
pub struct Simulated {
    seed: u64,
    /// The seed of the next connection.
    next_seed: u64,
    connections: Vec<Connection>,
    programs: [Program; 2],
    jobs: BTreeMap<u32, Job>,
    done: BTreeMap<u32, Reply>,
    next_job: u32,
    /// Sockets of A that connect, with the port.
    connecting: VecDeque<(u64, u64)>,
    /// The results of these connects.
    connected: BTreeMap<u64, Result<usize, Errno>>,
    fault: Option<String>,
    /// Whether the second program makes no steps.
    is_frozen: bool,
}

/// The reply to a call; `None` if it has to wait.
type Outcome = Option<Reply>;

fn ok() -> Outcome {
    Some(Reply::plain(Ok(0)))
}

fn err(errno: Errno) -> Outcome {
    Some(Reply::plain(Err(errno)))
}

fn with(extra: Vec<i64>) -> Outcome {
    let result = Ok(0);
    Some(Reply { result, extra })
}

/// The error number of a call; `None` if it waits.
fn number(failed: Failed) -> Option<Errno> {
    Some(match failed {
        Failed::Waits => return None,
        Failed::NoSuchAddress => errno::ENXIO,
        Failed::Ended | Failed::Dead => errno::ECONNRESET,
        Failed::Broken | Failed::OtherLevel => errno::EPROTO,
        Failed::Invalid => errno::EINVAL,
        Failed::NotAllowed => errno::EPERM,
        Failed::Busy => errno::EBUSY,
        Failed::NoLocal => errno::EFAULT,
    })
}

impl Simulated {
    /// Programs whose stores arrive in the order of this seed.
    pub fn new(seed: u64) -> Simulated {
        Simulated {
            seed,
            next_seed: seed,
            connections: Vec::new(),
            programs: Default::default(),
            jobs: BTreeMap::new(),
            done: BTreeMap::new(),
            next_job: 0,
            connecting: VecDeque::new(),
            connected: BTreeMap::new(),
            fault: None,
            is_frozen: false,
        }
    }

    /// Makes a call that does not wait, or the first attempt of one that may.
    fn once(&mut self, side: usize, call: &Call) -> Outcome {
        match *call {
            Call::Socket { socket, .. } => {
                let options = Options {
                    bypass: false,
                    ..Options::default()
                };
                let new = Socket {
                    options,
                    port: 0,
                    connection: None,
                    waits: true,
                };
                self.programs[side].sockets.insert(socket, new);
                ok()
            }
            Call::SetOption {
                socket,
                level: SOL_SOCKET,
                name: SO_BUSY_POLL,
                value,
                ..
            } => {
                let connection = self.connection_of(side, socket)?;
                self.connections[connection].ends.set_looks(side, value > 0);
                ok()
            }
            Call::SetOption {
                socket,
                name,
                value,
                ..
            } => {
                let options = &mut self.programs[side].sockets.get_mut(&socket)?.options;
                match name {
                    ST_BYPASS => options.bypass = value == 1,
                    ST_L_NUMSLOTS => options.slots = value as u32,
                    ST_X_CHANNELS => options.channels = value as u32,
                    _ => return err(errno::ENOPROTOOPT),
                }
                ok()
            }
            Call::GetOption { socket, name, .. } => self.option(side, socket, name),
            Call::Bind { socket, port, .. } => {
                self.programs[side].sockets.get_mut(&socket)?.port = port;
                ok()
            }
            Call::Listen { .. } => ok(),
            Call::Nonblocking { socket, on } => {
                self.programs[side].sockets.get_mut(&socket)?.waits = on == 0;
                ok()
            }
            Call::Connect { socket, port, .. } => self.connect(socket, port),
            Call::Accept { socket, into } => self.accept(socket, into),
            Call::Close { socket } => {
                self.close(side, socket);
                ok()
            }
            Call::Attach {
                socket,
                channel,
                handle,
                ..
            } => self.attach(side, socket, channel as u32, handle),
            Call::Detach { handle } => {
                self.unmap(side, handle);
                self.programs[side].handles.remove(&handle);
                with(vec![1])
            }
            Call::Reset {} => {
                let program = &self.programs[side];
                let sockets: Vec<u64> = program.sockets.keys().copied().collect();
                for socket in sockets {
                    self.close(side, socket);
                }
                self.forget(side);
                ok()
            }
            Call::Counts {} => with(self.counts(side)),
            Call::Layout {} => with(memory::layout()),
            Call::Scribble {
                socket,
                offset,
                value,
            } => {
                let connection = self.connection_of(side, socket)?;
                let connection = &mut self.connections[connection];
                connection.is_hostile = true;
                connection
                    .ends
                    .scribble(side, offset as usize, value as u32);
                ok()
            }
            Call::ScifSend { socket, .. } => {
                let bytes: Vec<u8> = call.words()[1..]
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect();
                let connection = self.connection_of(side, socket)?;
                let connection = &mut self.connections[connection];
                connection.is_hostile = true;
                match connection.ends.send_anything(side, &bytes) {
                    Ok(()) => Some(Reply::plain(Ok(72))),
                    Err(failed) => err(number(failed)?),
                }
            }
            _ => self.transfer(side, call),
        }
    }

    fn connection_of(&self, side: usize, socket: u64) -> Option<usize> {
        self.programs[side].sockets.get(&socket)?.connection
    }

    fn option(&self, side: usize, socket: u64, name: u64) -> Outcome {
        let socket = self.programs[side].sockets.get(&socket)?;
        let Some(connection) = socket.connection else {
            return err(errno::ENOTCONN);
        };
        let [own, peer] = self.connections[connection].ends.parameters(side);
        let value = match name {
            ST_L_KEY => own.key as i32 as i64,
            ST_R_KEY => peer.key as i32 as i64,
            ST_L_PORT => own.port.into(),
            ST_R_PORT => peer.port.into(),
            ST_L_NUMSLOTS => own.slots.into(),
            ST_R_NUMSLOTS => peer.slots.into(),
            _ => return err(errno::ENOPROTOOPT),
        };
        with(vec![value])
    }

    // ---- Connections: A connects, B accepts ----

    fn connect(&mut self, socket: u64, port: u64) -> Outcome {
        if let Some(result) = self.connected.remove(&socket) {
            return match result {
                Ok(connection) => {
                    self.programs[0].sockets.get_mut(&socket)?.connection = Some(connection);
                    ok()
                }
                Err(errno) => err(errno),
            };
        }
        if !self.connecting.contains(&(socket, port)) {
            self.connecting.push_back((socket, port));
        }
        None
    }

    fn accept(&mut self, listener: u64, into: u64) -> Outcome {
        let listener = *self.programs[1].sockets.get(&listener)?;
        let index = self
            .connecting
            .iter()
            .position(|(_, port)| *port == listener.port)?;
        let (client, _) = self.connecting.remove(index)?;
        let options = [
            self.programs[0].sockets.get(&client)?.options,
            listener.options,
        ];
        self.next_seed = self
            .next_seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(1);
        let ports = [1088 + client as u16, listener.port as u16];
        match Ends::set_up(options, ports, self.next_seed) {
            Ok(ends) => {
                let number = self.connections.len();
                self.connections.push(Connection {
                    ends,
                    is_hostile: false,
                });
                self.connected.insert(client, Ok(number));
                let accepted = Socket {
                    connection: Some(number),
                    ..listener
                };
                self.programs[1].sockets.insert(into, accepted);
                ok()
            }
            Err([at_client, _]) => {
                let errno = match at_client {
                    Refused::OwnOptions => errno::EINVAL,
                    _ => errno::ECONNREFUSED,
                };
                self.connected.insert(client, Err(errno));
                err(errno::EPROTO)
            }
        }
    }

    fn close(&mut self, side: usize, socket: u64) {
        let Some(socket) = self.programs[side].sockets.remove(&socket) else {
            return;
        };
        if let Some(connection) = socket.connection {
            // The mapped memory is the program's again.
            let handles = &self.programs[side].handles;
            let of = |(number, handle): (&u64, &Handle)| {
                (handle.connection == connection).then_some(*number)
            };
            let handles: Vec<u64> = handles.iter().filter_map(of).collect();
            for handle in handles {
                self.unmap(side, handle);
            }
            self.connections[connection].ends.close(side);
            let of = |job: &&mut Job| (job.side, job.connection) == (side, Some(connection));
            for job in self.jobs.values_mut().filter(of) {
                job.sleeps = None;
            }
        }
    }

    fn attach(&mut self, side: usize, socket: u64, channel: u32, handle: u64) -> Outcome {
        let Some(connection) = self.connection_of(side, socket) else {
            return err(errno::ENOTCONN);
        };
        let mut others = self.programs[side].handles.values();
        if others.any(|other| (other.connection, other.channel) == (connection, channel)) {
            return err(errno::EBUSY);
        }
        let new = Handle {
            socket,
            connection,
            channel,
            mapped: None,
        };
        self.programs[side].handles.insert(handle, new);
        ok()
    }

    // ---- Ends of programs ----

    /// Removes everything of a program but its number.
    fn forget(&mut self, side: usize) {
        self.programs[side] = Program::default();
        self.jobs.retain(|_, job| job.side != side);
        if side == 0 {
            self.connecting.clear();
            self.connected.clear();
        }
    }

    fn die(&mut self, side: usize) {
        for connection in self.live_connections(side) {
            self.connections[connection].ends.close(side);
        }
        self.forget(side);
    }

    fn live_connections(&self, side: usize) -> Vec<usize> {
        let sockets = self.programs[side].sockets.values();
        sockets.filter_map(|socket| socket.connection).collect()
    }

    fn counts(&self, side: usize) -> Vec<i64> {
        let bytes: usize = self
            .connections
            .iter()
            .map(|connection| connection.ends.registered(side))
            .sum();
        vec![bytes as i64, self.programs[side].sockets.len() as i64]
    }

    // ---- Time ----

    /// Makes a step: stores arrive, and calls continue.
    fn step(&mut self) {
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            connection.ends.pass();
            if let Some(fault) = connection.ends.fault() {
                self.fault.get_or_insert(fault);
            }
            for side in 0..2 {
                if !self.connections[number].ends.is_awake(side) {
                    continue;
                }
                let of = |job: &&mut Job| (job.side, job.connection) == (side, Some(number));
                for job in self.jobs.values_mut().filter(of) {
                    job.sleeps = None;
                }
            }
        }
        let numbers: Vec<u32> = self.jobs.keys().copied().collect();
        for number in numbers {
            self.work(number);
        }
    }

    fn work(&mut self, number: u32) {
        let of_frozen = |job: &Job| self.is_frozen && job.side == 1;
        if self.jobs.get(&number).is_some_and(of_frozen) {
            return;
        }
        let Some(mut job) = self.jobs.remove(&number) else {
            return;
        };
        let late = match &mut job.sleeps {
            Some(slept) if *slept < LONGEST => {
                *slept += 1;
                self.jobs.insert(number, job);
                return;
            }
            Some(_) => true,
            None => false,
        };
        let was_at = job.progress();
        match self.go_on(&mut job) {
            Some(reply) => {
                self.not_late(late, &job);
                self.done.insert(number, reply);
            }
            None => {
                if job.progress() != was_at {
                    self.not_late(late, &job);
                }
                if self.is_dead(&job) {
                    self.die(job.side);
                } else {
                    self.jobs.insert(number, job);
                }
            }
        }
    }

    /// Notes a fault if a call slept until its limit although it should have been woken.
    fn not_late(&mut self, late: bool, job: &Job) {
        let hostile = |connection: usize| self.connections[connection].is_hostile;
        if late && !job.connection.is_some_and(hostile) {
            let what = format!("nobody has woken {:?}", job.call);
            self.fault.get_or_insert(what);
        }
    }

    fn is_dead(&self, job: &Job) -> bool {
        job.is_dead
    }

    fn checked(&mut self) -> Checked {
        self.fault.take().map_or(Ok(()), Err)
    }

    fn start(&mut self, side: Side, call: &Call) -> u32 {
        self.next_job += 1;
        let side = side as usize;
        let handle = call.words().first().copied().unwrap_or(NOTHING);
        let connection = match call {
            Call::Accept { .. } | Call::Connect { .. } => None,
            _ => self.programs[side]
                .handles
                .get(&handle)
                .map(|handle| handle.connection),
        };
        self.jobs
            .insert(self.next_job, Job::new(side, call, connection));
        self.work(self.next_job);
        self.next_job
    }

    fn wait(&mut self, number: u32) -> Checked<Reply> {
        for _ in 0..MOST_STEPS {
            self.checked()?;
            if let Some(reply) = self.done.remove(&number) {
                return Ok(reply);
            }
            if !self.jobs.contains_key(&number) {
                return Err("the program of a call has died".into());
            }
            self.step();
        }
        let call = self.jobs.get(&number).map(|job| job.call);
        Err(format!("{call:?} waits for ever"))
    }
}

impl Driver for Simulated {
    fn place(&self) -> Place {
        Place::Sim
    }

    fn node(&self, side: Side) -> u16 {
        side as u16
    }

    fn many(&self) -> u64 {
        Place::Sim.many()
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn call(&mut self, side: Side, call: &Call) -> Checked<Reply> {
        let number = self.start(side, call);
        self.wait(number)
    }

    fn begin(&mut self, side: Side, call: &Call) -> Checked<Ticket> {
        let number = self.start(side, call);
        Ok(Ticket { side, number })
    }

    fn is_done(&mut self, ticket: Ticket) -> Checked<bool> {
        self.checked()?;
        Ok(self.done.contains_key(&ticket.number))
    }

    fn finish(&mut self, ticket: Ticket) -> Checked<Reply> {
        self.wait(ticket.number)
    }

    fn pause(&mut self) {
        for _ in 0..20 {
            self.step();
        }
    }

    fn kill(&mut self, side: Side) -> Checked {
        self.die(side as usize);
        Ok(())
    }

    fn kill_later(&mut self, side: Side, when: u64) -> Checked {
        let side = side as usize;
        for connection in self.live_connections(side) {
            self.connections[connection].ends.kill_after(side, when);
        }
        for _ in 0..MOST_STEPS {
            self.checked()?;
            if self.programs[side].sockets.is_empty() {
                return Ok(());
            }
            self.step();
        }
        Err("a program does not die".into())
    }

    fn kill_driver(&mut self) -> Checked {
        for connection in self.live_connections(0) {
            self.connections[connection].ends.cut();
        }
        Ok(())
    }

    fn lose(&mut self, loss: NodeFailure) -> Checked {
        self.is_frozen = loss == NodeFailure::Freeze;
        if self.is_frozen {
            for _ in 0..FROZEN_STEPS {
                self.step();
            }
        }
        for connection in self.live_connections(1) {
            let ends = &mut self.connections[connection].ends;
            match loss {
                NodeFailure::Power => ends.cut_power(1),
                NodeFailure::Freeze | NodeFailure::Cut => ends.cut(),
            }
        }
        if loss == NodeFailure::Power {
            self.forget(1);
        }
        Ok(())
    }

    fn restore(&mut self, _loss: NodeFailure) -> Checked {
        self.is_frozen = false;
        Ok(())
    }
}
