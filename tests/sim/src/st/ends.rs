//! Both ends of a connection, built on `st-core`, whose calls the caller makes one by one. They
//! are for tests that decide themselves what happens and in which order. Stores arrive as late as
//! in the random worlds. No call waits: a call that would have to sleep fails, and
//! [`Ends::is_awake`] tells when to try again.

mod level0;

use std::cell::RefCell;
use std::rc::Rc;

use st_core::connection::{Connection, Refusal};
use st_core::header::PAYLOAD_BYTES;
use st_core::queue::{Next, QueueError, Receiver, Sender, Sent};
use st_core::record::{Parameters, Record};
use st_core::region::Unreachable;
use st_core::setup::{self, Agreed, Options, Refused};

use super::link::{Access, Dead, Kind, Link, NotMoved};
use crate::rng::Rng;

/// The reason why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The call would have to wait: try again once [`Ends::is_awake`] returns true.
    Waits,
    /// The peer has not mapped all of the memory.
    NoSuchAddress,
    /// The connection has ended.
    Ended,
    /// The peer has broken the protocol.
    Broken,
    /// The next descriptor is of the other level.
    OtherLevel,
    /// An invalid argument.
    Invalid,
    /// An operation that opens or ends connections.
    NotAllowed,
    /// Memory is mapped already.
    Busy,
    /// The local memory does not belong to the program.
    NoLocal,
    /// The end's own program has died.
    Dead,
}

type Result<T> = std::result::Result<T, Failed>;

struct End {
    access: Access,
    connection: Connection,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    is_broken: bool,
    /// Whether a record has arrived, or the connection has ended, since a call fell asleep.
    is_awake: bool,
    /// Whether calls poll instead of sleeping, and the driver moves no data.
    looks: bool,
    /// Number of requests to a driver: records, sleeps, and data that the driver moves.
    requests: u64,
}

/// A connection.
pub struct Ends {
    link: Rc<RefCell<Link>>,
    ends: [End; 2],
    rng: Rng,
}

impl From<QueueError<Dead>> for Failed {
    fn from(error: QueueError<Dead>) -> Failed {
        match error {
            QueueError::Broken => Failed::Broken,
            QueueError::Memory(Dead) => Failed::Dead,
        }
    }
}

impl From<Dead> for Failed {
    fn from(_: Dead) -> Failed {
        Failed::Dead
    }
}

impl From<Unreachable> for Failed {
    fn from(reason: Unreachable) -> Failed {
        match reason {
            Unreachable::NotYet => Failed::Waits,
            Unreachable::Gone | Unreachable::Outside => Failed::NoSuchAddress,
        }
    }
}

impl Ends {
    /// Sets up a connection between a client (side 0) and a server (side 1).
    ///
    /// # Errors The errors that the two sides find.
    pub fn set_up(
        options: [Options; 2],
        ports: [u16; 2],
        seed: u64,
    ) -> std::result::Result<Ends, [Refused; 2]> {
        let mut rng = Rng::new(seed);
        let mut told = |side: usize| Parameters {
            port: ports[side],
            key: 1 + rng.below(1 << 30) as u32,
            bypass: options[side].bypass,
            channels: options[side].channels,
            slots: options[side].slots,
            window: 0,
        };
        let (client, server) = (told(0), told(1));
        // A client with invalid options does not begin the set-up.
        setup::layout(options[0]).map_err(|refused| [refused, Refused::Protocol])?;
        let decode = |record: Record| Record::decode(&record.encode());
        let request = decode(Record::Request(client)).map_err(|_| [Refused::Protocol; 2])?;
        let accepted = setup::accept(server, request);
        let answer = match accepted {
            Ok((_, answer)) => answer,
            Err(_) => Record::Reject,
        };
        let answer = decode(answer).map_err(|_| [Refused::Protocol; 2])?;
        let agreed: [Agreed; 2] = match (setup::connected(client, answer), accepted) {
            (Ok(at_client), Ok((at_server, _))) => [at_client, at_server],
            (at_client, at_server) => {
                let reason = |refused: Option<Refused>| refused.unwrap_or(Refused::Rejected);
                return Err([reason(at_client.err()), reason(at_server.err())]);
            }
        };
        let kind = match rng.one_in(2) {
            true => Kind::Shared,
            false => Kind::Bus,
        };
        let layouts = agreed.map(|agreed| agreed.own);
        let link = Link::new(kind, layouts, rng.number(), None);
        let end = |side: usize, own: Parameters| {
            let agreed = agreed[side];
            let channels = || 0..own.channels;
            End {
                access: Access {
                    link: link.clone(),
                    side,
                },
                connection: Connection::new(own, agreed),
                senders: channels()
                    .map(|number| Sender::new(agreed.peer, number))
                    .collect(),
                receivers: channels()
                    .map(|number| Receiver::new(agreed.own, number))
                    .collect(),
                is_broken: false,
                is_awake: false,
                looks: false,
                requests: 0,
            }
        };
        let ends = [end(0, client), end(1, server)];
        Ok(Ends { link, ends, rng })
    }

    /// Returns the parameters that an end has sent, and those of its peer.
    pub fn parameters(&self, side: usize) -> [Parameters; 2] {
        let connection = &self.ends[side].connection;
        [*connection.own(), connection.agreed().parameters]
    }

    /// Returns the rule of the world that was broken, if any.
    pub fn fault(&self) -> Option<String> {
        self.link.borrow_mut().fault.take()
    }

    /// Lets time pass: some stores arrive.
    pub fn pass(&mut self) {
        for side in 0..2 {
            let mut link = self.link.borrow_mut();
            match self.rng.below(4) {
                0 => link.land_all(side),
                1 => {}
                _ => link.land_some(side),
            }
        }
    }

    /// Returns whether something has happened since a call of this end fell asleep.
    pub fn is_awake(&mut self, side: usize) -> bool {
        // The next call reports a broken connection.
        let _ = self.hear(side);
        std::mem::take(&mut self.ends[side].is_awake)
    }

    /// Takes the records that have arrived.
    fn hear(&mut self, side: usize) -> Result<()> {
        let end = &mut self.ends[side];
        end.access.begin();
        if end.is_broken {
            return Err(Failed::Broken);
        }
        let bytes = end.access.take_whole_stream();
        end.is_awake |= end.access.has_seen_down();
        let heard = end.connection.receive(&bytes, |_| end.is_awake = true);
        match heard {
            Ok(()) => Ok(()),
            Err(_) => Err(self.broken(side)),
        }
    }

    fn broken(&mut self, side: usize) -> Failed {
        self.ends[side].is_broken = true;
        self.ends[side].is_awake = true;
        self.link.borrow_mut().kill(side);
        Failed::Broken
    }

    fn queue_error(&mut self, side: usize, error: QueueError<Dead>) -> Failed {
        match Failed::from(error) {
            Failed::Broken => self.broken(side),
            other => other,
        }
    }

    /// Sets whether the calls of an end poll instead of sleeping, and reach the peer's memory by
    /// mappings only.
    pub fn set_looks(&mut self, side: usize, set: bool) {
        self.ends[side].looks = set;
    }

    /// Returns whether the calls of an end poll instead of sleeping.
    pub fn looks(&self, side: usize) -> bool {
        self.ends[side].looks
    }

    /// Returns the number of requests to a driver that the calls of an end would have made so far:
    /// records, sleeps, and data that the driver moves.
    pub fn requests(&self, side: usize) -> u64 {
        self.ends[side].requests
    }

    fn tell(&mut self, side: usize, record: Record) -> Result<()> {
        self.ends[side].requests += 1;
        Ok(self.ends[side].access.send(&record.encode())?)
    }

    fn wake(&mut self, side: usize, channel: u32) -> Result<()> {
        self.tell(side, Record::Wake { channel })
    }

    /// Checks for room. Without it, announces that the end sleeps unless it polls, and fails.
    fn room(&mut self, side: usize, channel: u32, slots: u64) -> Result<()> {
        let End {
            access,
            senders,
            looks,
            requests,
            ..
        } = &mut self.ends[side];
        let (is_down, looks) = (access.is_down(), *looks);
        let sender = &mut senders[channel as usize];
        if is_down {
            return Err(Failed::Ended);
        }
        let room = match sender.room(access) {
            Ok(room) if room < slots && !looks => {
                *requests += 1;
                sender.arm(access)
            }
            room => room,
        };
        match room {
            Ok(room) if room < slots => Err(Failed::Waits),
            Ok(_) => Ok(()),
            Err(error) => Err(self.queue_error(side, error)),
        }
    }

    fn live(&mut self, side: usize) -> Result<()> {
        self.hear(side)?;
        match self.ends[side].access.is_down() {
            true => Err(Failed::Ended),
            false => Ok(()),
        }
    }

    /// Returns the offset of a range of the peer's memory, given by an address or by the distance
    /// from its beginning in bytes.
    fn remote(&mut self, side: usize, channel: u32, at: At, bytes: usize) -> Result<i64> {
        self.live(side)?;
        let announced = self.ends[side].connection.announced(channel);
        let position = match at {
            At::Address(address) => announced.at_address(address, bytes as u64),
            At::Ahead(ahead) => announced.at(ahead, bytes as u64),
        };
        Ok(position?.offset)
    }

    /// Returns the reason why memory that was announced is not there.
    fn gone(&mut self, side: usize) -> Failed {
        self.link.borrow_mut().land_all(side);
        match self.live(side) {
            Err(failed) => failed,
            Ok(()) => Failed::NoSuchAddress,
        }
    }

    fn put(&mut self, side: usize, offset: i64, bytes: &[u8]) -> Result<()> {
        let by_daemon = !self.ends[side].looks && self.rng.one_in(4);
        if by_daemon {
            self.ends[side].requests += 1;
            // A program that enters the system has no stores on their way any more.
            self.deliver_stores(side);
        }
        match self.ends[side].access.put(offset, bytes, by_daemon) {
            Ok(()) => Ok(()),
            Err(NotMoved::Gone) => Err(self.gone(side)),
            Err(NotMoved::Dead) => Err(Failed::Dead),
        }
    }

    fn fetch(&mut self, side: usize, offset: i64, bytes: usize) -> Result<Vec<u8>> {
        let found = self.ends[side].access.get(offset, bytes);
        found.map_err(|_| self.gone(side))
    }

    /// Puts data to an address of the peer, then sends a header. Each of them may be absent.
    ///
    /// # Errors All of [`Failed`] but `OtherLevel`.
    pub fn push(
        &mut self,
        side: usize,
        channel: u32,
        header: Option<&[u8; PAYLOAD_BYTES]>,
        data: Option<(&[u8], u64)>,
    ) -> Result<()> {
        self.live(side)?;
        let data = match data {
            Some((bytes, address)) => {
                let at = At::Address(address);
                Some((bytes, self.remote(side, channel, at, bytes.len())?))
            }
            None => None,
        };
        if header.is_some() {
            self.room(side, channel, 1)?;
        }
        if let Some((bytes, offset)) = data {
            self.put(side, offset, bytes)?;
        }
        let Some(header) = header else {
            return Ok(());
        };
        let End {
            access, senders, ..
        } = &mut self.ends[side];
        let sent = senders[channel as usize].send_message(access, header);
        self.sent(side, channel, sent)
    }

    fn sent(
        &mut self,
        side: usize,
        channel: u32,
        sent: std::result::Result<Option<Sent>, QueueError<Dead>>,
    ) -> Result<()> {
        match sent {
            Ok(Some(Sent { wake: true })) => self.wake(side, channel),
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Failed::Waits),
            Err(error) => Err(self.queue_error(side, error)),
        }
    }

    /// Takes the next header of level 1.
    ///
    /// # Errors `Waits`, `Ended`, `Broken`, `OtherLevel`, `Dead`.
    pub fn pull(&mut self, side: usize, channel: u32) -> Result<[u8; PAYLOAD_BYTES]> {
        self.hear(side)?;
        let End {
            access, receivers, ..
        } = &mut self.ends[side];
        // Headers sent before the end of the connection arrive before it, so this is read first.
        let is_down = access.is_down();
        let mut message = [0; PAYLOAD_BYTES];
        match receivers[channel as usize].receive_message(access, &mut message) {
            Ok(Next::Message { wake }) => {
                if wake {
                    self.wake(side, channel)?;
                }
                Ok(message)
            }
            Ok(Next::Other) => Err(Failed::OtherLevel),
            Ok(Next::Nothing) if is_down => Err(Failed::Ended),
            Ok(Next::Nothing) if self.ends[side].looks => Err(Failed::Waits),
            Ok(Next::Nothing) => Err(self.fall_asleep(side, channel)),
            Err(error) => Err(self.queue_error(side, error)),
        }
    }

    /// Announces, when there is no header, that the end sleeps, and polls once more.
    fn fall_asleep(&mut self, side: usize, channel: u32) -> Failed {
        let End {
            access,
            receivers,
            is_awake,
            requests,
            ..
        } = &mut self.ends[side];
        *requests += 1;
        match receivers[channel as usize].arm(access) {
            Ok(armed) => {
                *is_awake |= armed.is_ready;
                match armed.wake {
                    true => self.wake(side, channel).err().unwrap_or(Failed::Waits),
                    false => Failed::Waits,
                }
            }
            Err(error) => self.queue_error(side, error),
        }
    }

    /// Waits for the peer's first announcement of memory.
    ///
    /// # Errors `Waits`; the errors of an ended or broken connection.
    pub fn await_memory(&mut self, side: usize, channel: u32) -> Result<()> {
        self.live(side)?;
        match self.ends[side].connection.announced(channel).region() {
            Err(Unreachable::NotYet) => Err(Failed::Waits),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Gets data from an address of the peer.
    ///
    /// # Errors `Waits`, `NoSuchAddress`, `Ended`, `Broken`.
    pub fn get(
        &mut self,
        side: usize,
        channel: u32,
        address: u64,
        bytes: usize,
    ) -> Result<Vec<u8>> {
        let offset = self.remote(side, channel, At::Address(address), bytes)?;
        self.fetch(side, offset, bytes)
    }

    /// Makes everything that was put before visible at the peer.
    ///
    /// # Errors The errors of an ended or broken connection.
    pub fn fence(&mut self, side: usize) -> Result<()> {
        use st_core::queue::QueueMemory;
        self.live(side)?;
        let access = &mut self.ends[side].access;
        access.fence();
        Ok(access.flush_peer(0)?)
    }

    /// Maps memory with this content at this address. Returns the offset by which this side knows
    /// the memory.
    ///
    /// # Errors `Busy`, `Invalid`; the errors of an ended or broken connection.
    pub fn map(&mut self, side: usize, channel: u32, base: u64, content: Vec<u8>) -> Result<i64> {
        self.live(side)?;
        let length = content.len() as u64;
        let connection = &mut self.ends[side].connection;
        let announced = connection.place(length).and_then(|offset| {
            let record = connection.announce(channel, base, length, offset)?;
            Ok((offset, record))
        });
        let (offset, record) = announced.map_err(|refusal| match refusal {
            Refusal::Announced => Failed::Busy,
            Refusal::Exhausted => Failed::Invalid,
        })?;
        self.ends[side].access.register(offset, content);
        self.tell(side, record)?;
        Ok(offset)
    }

    /// Lets all stores of a side arrive.
    pub fn deliver_stores(&mut self, side: usize) {
        self.link.borrow_mut().land_all(1 - side);
    }

    /// Unmaps memory. Returns its content, or `None` if nothing is mapped.
    pub fn unmap(&mut self, side: usize, channel: u32) -> Option<Vec<u8>> {
        let (record, region) = self.ends[side].connection.take_back(channel)?;
        // After the end of the connection the peer does not learn of it.
        let _ = self.tell(side, record);
        Some(self.ends[side].access.unregister(region.offset))
    }

    /// Returns bytes of the side's own mapped memory.
    pub fn load(&self, side: usize, offset: i64, at: usize, count: usize) -> Option<Vec<u8>> {
        self.ends[side].access.own(offset, at, count)
    }

    /// Changes the side's own mapped memory.
    pub fn store(&mut self, side: usize, offset: i64, at: usize, bytes: &[u8]) {
        self.ends[side].access.change_own(offset, at, bytes);
    }

    /// Returns the number of bytes that a side has registered.
    pub fn registered(&self, side: usize) -> usize {
        self.link.borrow().registered(side)
    }

    /// Closes a side, or kills its program: its stores arrive, and its memory is gone.
    pub fn close(&mut self, side: usize) {
        let mut link = self.link.borrow_mut();
        link.kill(side);
        link.release(side);
    }

    /// Cuts the power of a side's node: some of its stores never arrive.
    pub fn cut_power(&mut self, side: usize) {
        let mut link = self.link.borrow_mut();
        link.cut_power(side);
        link.release(side);
    }

    /// Cuts the connection, while both programs survive.
    pub fn cut(&mut self) {
        self.link.borrow_mut().cut();
    }

    /// Kills a side's program after this number of further stores.
    pub fn kill_after(&mut self, side: usize, stores: u64) {
        self.link.borrow_mut().kill_after(side, stores);
    }

    /// Makes a side that breaks the rules store a word into its peer's queue window.
    pub fn scribble(&mut self, side: usize, offset: usize, word: u32) {
        self.ends[side].access.scribble(offset, &word.to_le_bytes());
    }

    /// Makes a side send any bytes as a record.
    ///
    /// # Errors `Dead`.
    pub fn send_anything(&mut self, side: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.ends[side].access.send(bytes)?)
    }
}

/// A place in the peer's memory.
#[derive(Clone, Copy)]
enum At {
    Address(u64),
    Ahead(u64),
}
