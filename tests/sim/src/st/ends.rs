//! Both ends of a connection whose calls are made from outside, one by one, on the machine of
//! `st-core`: for cases that say themselves what happens and in which order. Stores arrive as late
//! as in the random worlds. No call waits; those that would have to fall asleep, and
//! [`Ends::is_awake`] says when to try again.

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

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It would have to wait: try again when [`Ends::is_awake`].
    Waits,
    /// Not all of the memory is mapped by the peer.
    NoSuchAddress,
    /// The connection has ended.
    Ended,
    /// The peer has broken the protocol.
    Broken,
    /// The next descriptor is of another level.
    OtherLevel,
    /// An argument that cannot be.
    Invalid,
    /// An operation on connections.
    NotAllowed,
    /// Memory is mapped already.
    Busy,
    /// Local memory that is not the program's.
    NoLocal,
    /// The own program has died.
    Dead,
}

type Result<T> = std::result::Result<T, Failed>;

struct End {
    access: Access,
    connection: Connection,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    is_broken: bool,
    /// A record has arrived, or the end, since a call fell asleep.
    is_awake: bool,
    /// Its calls look again and again instead of sleeping, and its driver moves no data.
    looks: bool,
    /// What takes a request to a driver: records, sleeps, and data that the driver moves.
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
    /// Sets a connection up between a client (side 0) and a server (side 1).
    ///
    /// # Errors
    /// The errors that each of them finds.
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
        // A client with options that cannot be ends the conversation.
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

    /// The parameters that an end has sent, and those of its peer.
    pub fn parameters(&self, side: usize) -> [Parameters; 2] {
        let connection = &self.ends[side].connection;
        [*connection.own(), connection.agreed().parameters]
    }

    /// A rule of the world that was broken.
    pub fn fault(&self) -> Option<String> {
        self.link.borrow_mut().fault.take()
    }

    /// Time passes: some stores arrive.
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

    /// Whether something has happened since a call of this end fell asleep.
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

    /// Has the calls of an end look again and again instead of sleeping, and reach the peer's
    /// memory by mappings alone.
    pub fn set_looks(&mut self, side: usize, set: bool) {
        self.ends[side].looks = set;
    }

    /// Whether that was said.
    pub fn looks(&self, side: usize) -> bool {
        self.ends[side].looks
    }

    /// The requests to a driver that the calls of an end would have made so far: records, sleeps,
    /// and data that the driver moves.
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

    /// Waits for room, or sleeps.
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

    /// The offset of an address of the peer's, or of a distance from its beginning, in bytes.
    fn remote(&mut self, side: usize, channel: u32, at: At, bytes: usize) -> Result<i64> {
        self.live(side)?;
        let announced = self.ends[side].connection.announced(channel);
        let position = match at {
            At::Address(address) => announced.at_address(address, bytes as u64),
            At::Ahead(ahead) => announced.at(ahead, bytes as u64),
        };
        Ok(position?.offset)
    }

    /// Why memory that was announced is not there.
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
            // Whoever enters the system has nothing under way any more.
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

    /// Puts data to an address of the peer's, then sends a header, whatever of it there is.
    ///
    /// # Errors
    /// All of [`Failed`] but `OtherLevel`.
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
    /// # Errors
    /// `Waits`, `Ended`, `Broken`, `OtherLevel`, `Dead`.
    pub fn pull(&mut self, side: usize, channel: u32) -> Result<[u8; PAYLOAD_BYTES]> {
        self.hear(side)?;
        let End {
            access, receivers, ..
        } = &mut self.ends[side];
        // Data sent before the end arrives before it.
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

    /// There is no header: the end says that it sleeps, and looks once more.
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
    /// # Errors
    /// `Waits`; those of the end.
    pub fn await_memory(&mut self, side: usize, channel: u32) -> Result<()> {
        self.live(side)?;
        match self.ends[side].connection.announced(channel).region() {
            Err(Unreachable::NotYet) => Err(Failed::Waits),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Gets data from an address of the peer's.
    ///
    /// # Errors
    /// `Waits`, `NoSuchAddress`, `Ended`, `Broken`.
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

    /// Everything that was put before is visible at the peer.
    ///
    /// # Errors
    /// Those of the end.
    pub fn fence(&mut self, side: usize) -> Result<()> {
        use st_core::queue::QueueMemory;
        self.live(side)?;
        let access = &mut self.ends[side].access;
        access.fence();
        Ok(access.flush_peer(0)?)
    }

    /// Maps memory with a content and its address; the offset by which it is known here.
    ///
    /// # Errors
    /// `Busy`, `Invalid`; those of the end.
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

    /// Everything that a side has stored arrives.
    pub fn deliver_stores(&mut self, side: usize) {
        self.link.borrow_mut().land_all(1 - side);
    }

    /// Takes memory back; its content, or `None` when nothing is mapped.
    pub fn unmap(&mut self, side: usize, channel: u32) -> Option<Vec<u8>> {
        let (record, region) = self.ends[side].connection.take_back(channel)?;
        // At the end of the connection nobody hears it.
        let _ = self.tell(side, record);
        Some(self.ends[side].access.unregister(region.offset))
    }

    /// Bytes of own mapped memory.
    pub fn load(&self, side: usize, offset: i64, at: usize, count: usize) -> Option<Vec<u8>> {
        self.ends[side].access.own(offset, at, count)
    }

    /// Changes own mapped memory.
    pub fn store(&mut self, side: usize, offset: i64, at: usize, bytes: &[u8]) {
        self.ends[side].access.change_own(offset, at, bytes);
    }

    /// Bytes of memory that a side has registered.
    pub fn registered(&self, side: usize) -> usize {
        self.link.borrow().registered(side)
    }

    /// A side closes, or its program dies: what it has stored arrives, and it keeps nothing.
    pub fn close(&mut self, side: usize) {
        let mut link = self.link.borrow_mut();
        link.kill(side);
        link.release(side);
    }

    /// A side's node loses its power: some of what it has stored never arrives.
    pub fn cut_power(&mut self, side: usize) {
        let mut link = self.link.borrow_mut();
        link.cut_power(side);
        link.release(side);
    }

    /// Both lose the connection and live on.
    pub fn cut(&mut self) {
        self.link.borrow_mut().cut();
    }

    /// A side's program dies after this number of further stores.
    pub fn kill_after(&mut self, side: usize, stores: u64) {
        self.link.borrow_mut().kill_after(side, stores);
    }

    /// A side that breaks the rules stores a word into its peer's queue window.
    pub fn scribble(&mut self, side: usize, offset: usize, word: u32) {
        self.ends[side].access.scribble(offset, &word.to_le_bytes());
    }

    /// It sends anything as a record.
    ///
    /// # Errors
    /// `Dead`.
    pub fn send_anything(&mut self, side: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.ends[side].access.send(bytes)?)
    }
}

/// Where in the peer's memory.
#[derive(Clone, Copy)]
enum At {
    Address(u64),
    Ahead(u64),
}
