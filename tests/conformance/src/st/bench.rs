//! The means of rows: two ends that make calls, connections between them, and the rule for every
//! row: it leaves nothing behind on either node.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::call::{Call, Reply};
pub use super::driver::{Checked, Driver, NodeFailure, Place, Side, Ticket};
pub use super::ends::{Ask, End, Ends, Memory, Socket};
pub use super::number;
use super::number::*;
use crate::errno::Errno;

/// Number of polls before an expected change counts as missing.
const LOOKS: usize = 2000;
/// Number of polls for the objects of a row to disappear.
const LAST_LOOKS: usize = 300;
/// Number of polls for a change that must not happen.
const FEW_LOOKS: usize = 5;
/// The first port of the rows' listeners, and the number of such ports.
const FIRST_PORT: u64 = 4000;
const PORTS: u64 = 1000;

/// The state that all rows of a run share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Number of listeners so far.
    listeners: u64,
}

/// The bench of one row.
pub struct Bench<'a> {
    driver: &'a mut dyn Driver,
    run: &'a mut Run,
    next_slot: u64,
    pending: Vec<Ticket>,
}

impl<'a> Bench<'a> {
    /// A bench for a new row.
    pub fn new(driver: &'a mut dyn Driver, run: &'a mut Run) -> Bench<'a> {
        Bench {
            driver,
            run,
            next_slot: 0,
            pending: Vec::new(),
        }
    }

    /// The place where it runs.
    pub fn place(&self) -> Place {
        self.driver.place()
    }

    /// The place, for steps other than calls.
    pub fn driver(&mut self) -> &mut dyn Driver {
        self.driver
    }

    /// The number of calls of a row that makes very many, as the place or the command line says.
    pub fn many(&self) -> u64 {
        self.driver.many()
    }

    /// The address of a side's node.
    pub fn address(&self, side: Side) -> u64 {
        0x0a00_0001 + u64::from(self.driver.node(side))
    }

    /// A new slot.
    pub fn slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot
    }

    /// A port without a listener.
    pub fn port(&mut self) -> u64 {
        self.run.listeners += 1;
        FIRST_PORT + self.run.listeners % PORTS
    }

    // ---- Calls ----

    /// Makes a call and returns its reply, also if the call fails.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn call(&mut self, (side, call): Ask) -> Checked<Reply> {
        self.driver.call(side, &call)
    }

    /// Makes a call that must succeed.
    ///
    /// # Errors
    /// The call fails.
    pub fn reply(&mut self, ask: Ask) -> Checked<Reply> {
        let reply = self.call(ask)?;
        match reply.result {
            Ok(_) => Ok(reply),
            Err(_) => Err(format!("{ask:?} gave {reply}")),
        }
    }

    /// Makes a call that must give 0.
    ///
    /// # Errors
    /// The call gives another value.
    pub fn ok(&mut self, ask: Ask) -> Checked {
        self.gives(ask, 0)
    }

    /// Makes a call that must give this value.
    ///
    /// # Errors
    /// The call gives another value.
    pub fn gives(&mut self, ask: Ask, value: i64) -> Checked {
        let reply = self.call(ask)?;
        match reply.result {
            Ok(found) if found == value => Ok(()),
            _ => Err(format!("{ask:?} gave {reply}, not {value}")),
        }
    }

    /// Makes a call that must give 0, and returns its first extra word.
    ///
    /// # Errors
    /// The call gives another value.
    pub fn word(&mut self, ask: Ask) -> Checked<i64> {
        let reply = self.call(ask)?;
        match reply.result {
            Ok(0) => reply.word(0),
            _ => Err(format!("{ask:?} gave {reply}")),
        }
    }

    /// Makes a call that must fail with this error.
    ///
    /// # Errors
    /// It does not.
    pub fn fails(&mut self, ask: Ask, errno: Errno) -> Checked {
        let reply = self.call(ask)?;
        match reply.result {
            Err(found) if found == errno => Ok(()),
            _ => Err(format!("{ask:?} gave {reply}, not {errno}")),
        }
    }

    /// Starts a call.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn begin(&mut self, (side, call): Ask) -> Checked<Ticket> {
        let ticket = self.driver.begin(side, &call)?;
        self.pending.push(ticket);
        Ok(ticket)
    }

    /// Checks that a call that was begun waits.
    ///
    /// # Errors
    /// The call has ended.
    pub fn waits(&mut self, ticket: Ticket) -> Checked {
        for _ in 0..FEW_LOOKS {
            self.driver.pause();
            if self.driver.is_done(ticket)? {
                let reply = self.end(ticket)?;
                return Err(format!("a call does not wait, it gave {reply}"));
            }
        }
        Ok(())
    }

    /// Waits for the end of a call.
    ///
    /// # Errors
    /// The call does not end.
    pub fn end(&mut self, ticket: Ticket) -> Checked<Reply> {
        for _ in 0..LOOKS {
            if self.driver.is_done(ticket)? {
                return self.take(ticket);
            }
            self.driver.pause();
        }
        Err("a call does not end".into())
    }

    /// Waits for the end of a call without polling, however long it takes.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn take(&mut self, ticket: Ticket) -> Checked<Reply> {
        self.pending.retain(|pending| *pending != ticket);
        self.driver.finish(ticket)
    }

    /// Waits for the end of a call, which must give this result.
    ///
    /// # Errors
    /// The call gives another result.
    pub fn ends(&mut self, ticket: Ticket, result: Result<i64, Errno>) -> Checked<Reply> {
        let reply = self.end(ticket)?;
        match reply.result == result {
            true => Ok(reply),
            false => Err(format!("a call gave {reply}, not {result:?}")),
        }
    }

    /// Waits for the end of a call, which must report that the connection has ended.
    ///
    /// # Errors
    /// The call gives another result.
    pub fn ends_lost(&mut self, ticket: Ticket) -> Checked {
        let reply = self.end(ticket)?;
        is_lost(&reply)
    }

    /// Makes a call that must report that the connection has ended.
    ///
    /// # Errors
    /// The call gives another result.
    pub fn lost(&mut self, ask: Ask) -> Checked {
        let reply = self.call(ask)?;
        is_lost(&reply).map_err(|what| format!("{ask:?}: {what}"))
    }

    // ---- Connections ----

    /// Makes a socket of Scheduled Transfers.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn socket(&mut self, side: Side) -> Checked<Socket> {
        let slot = self.slot();
        self.ok((
            side,
            Call::Socket {
                socket: slot,
                domain: PF_INET,
                kind: SOCK_SEQPACKET,
                protocol: IPPROTO_STP,
            },
        ))?;
        Ok(Socket { side, slot })
    }

    /// Makes a socket with options.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn socket_with(&mut self, side: Side, options: &[(u64, i64)]) -> Checked<Socket> {
        let socket = self.socket(side)?;
        for (name, value) in options {
            self.ok(socket.set(*name, *value))?;
        }
        Ok(socket)
    }

    /// Makes a listener at B with options, and returns it with its port.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn listener(&mut self, options: &[(u64, i64)]) -> Checked<(Socket, u64)> {
        let socket = self.socket_with(Side::B, options)?;
        let port = self.port();
        self.ok(self.bind(socket, 0, port))?;
        let listen = Call::Listen {
            socket: socket.slot,
            backlog: 4,
        };
        self.ok((Side::B, listen))?;
        Ok((socket, port))
    }

    /// `bind`.
    pub const fn bind(&self, socket: Socket, address: u64, port: u64) -> Ask {
        let call = Call::Bind {
            socket: socket.slot,
            address,
            port,
        };
        (socket.side, call)
    }

    /// `connect` to B.
    pub fn connect(&self, socket: Socket, port: u64) -> Ask {
        let call = Call::Connect {
            socket: socket.slot,
            address: self.address(Side::B),
            port,
        };
        (socket.side, call)
    }

    /// `accept`, and the socket that it makes.
    pub fn accept(&mut self, listener: Socket) -> (Ask, Socket) {
        let into = self.slot();
        let call = Call::Accept {
            socket: listener.slot,
            into,
        };
        let socket = Socket {
            slot: into,
            ..listener
        };
        ((listener.side, call), socket)
    }

    /// Connects A's socket to a listener at B, and returns B's socket.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn join(&mut self, socket: Socket, (listener, port): (Socket, u64)) -> Checked<Socket> {
        let connecting = self.begin(self.connect(socket, port))?;
        let (accept, accepted) = self.accept(listener);
        let accepting = self.begin(accept)?;
        self.ends(connecting, Ok(0))?;
        self.ends(accepting, Ok(0))?;
        Ok(accepted)
    }

    /// Makes connected sockets of A and B with options.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn sockets(&mut self, options: &[(u64, i64)]) -> Checked<(Socket, Socket)> {
        let listener = self.listener(options)?;
        let socket = self.socket_with(Side::A, options)?;
        let accepted = self.join(socket, listener)?;
        self.ok(listener.0.close())?;
        Ok((socket, accepted))
    }

    /// Attaches a channel.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn attach(&mut self, socket: Socket, channel: i64) -> Checked<End> {
        let slot = self.slot();
        self.ok(socket.attach(channel, 0, slot))?;
        Ok(End {
            side: socket.side,
            slot,
            socket,
        })
    }

    /// Makes a connection with the bypass, and both ends of its channel 0.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn ends_of(&mut self, options: &[(u64, i64)]) -> Checked<Ends> {
        let mut all = alloc::vec![(ST_BYPASS, 1)];
        all.extend(options);
        let (a, b) = self.sockets(&all)?;
        Ok(Ends {
            a: self.attach(a, 0)?,
            b: self.attach(b, 0)?,
        })
    }

    /// Makes a connection as [`ends_of`](Self::ends_of) does, with the default options.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn ends_joined(&mut self) -> Checked<Ends> {
        self.ends_of(&[])
    }

    // ---- Memory ----

    /// Allocates memory by `malloc`.
    ///
    /// # Errors
    /// There is none.
    pub fn allocate(&mut self, side: Side, length: u64) -> Checked<Memory> {
        let memory = self.slot();
        let reply = self.reply((side, Call::Allocate { memory, length }))?;
        match reply.result {
            Ok(at) if at != 0 => Ok(Memory {
                side,
                at: at as u64,
                length,
            }),
            _ => Err(format!("no memory: {reply}")),
        }
    }

    /// Maps new memory of the library.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn map(&mut self, end: End, length: u64) -> Checked<Memory> {
        let at = self.word(end.map(0, length as i64))?;
        match at {
            0 => Err("st_map gave no address".into()),
            at => Ok(Memory {
                side: end.side,
                at: at as u64,
                length,
            }),
        }
    }

    /// Checks that the first bytes of memory have the pattern of a seed.
    ///
    /// # Errors
    /// They do not.
    pub fn has(&mut self, memory: Memory, length: u64, seed: u64) -> Checked {
        let address = memory.at;
        let call = Call::Check {
            address,
            length,
            seed,
        };
        match self.word((memory.side, call))? {
            -1 => Ok(()),
            at => Err(format!("byte {at} of {length} is not that of {seed}")),
        }
    }

    /// Checks that all bytes of memory have this value.
    ///
    /// # Errors
    /// They do not.
    pub fn is_all(&mut self, memory: Memory, value: u64) -> Checked {
        let Memory { side, at, length } = memory;
        let call = Call::Same {
            address: at,
            length,
            value,
        };
        self.gives((side, call), length as i64)
    }

    /// Reads a double word of memory.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn load(&mut self, memory: Memory) -> Checked<i64> {
        self.word((memory.side, Call::Load { address: memory.at }))
    }

    /// Waits until a double word of memory has this value.
    ///
    /// # Errors
    /// It never does.
    pub fn becomes(&mut self, memory: Memory, value: i64) -> Checked {
        for _ in 0..LOOKS {
            if self.load(memory)? == value {
                return Ok(());
            }
            self.driver.pause();
        }
        Err(format!("{memory:?} does not become {value}"))
    }

    /// Waits until a double word of memory changes.
    ///
    /// # Errors
    /// It does not.
    pub fn grows(&mut self, memory: Memory) -> Checked {
        let before = self.load(memory)?;
        for _ in 0..LOOKS {
            if self.load(memory)? != before {
                return Ok(());
            }
            self.driver.pause();
        }
        Err(format!("{memory:?} stays {before}"))
    }

    // ---- Headers ----

    /// Pushes a header.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn push(&mut self, end: End, number: u64) -> Checked {
        self.ok(end.push(Some(number), 0, 0, 0))
    }

    /// Pulls a header, which must have this number.
    ///
    /// # Errors
    /// It does not.
    pub fn pull(&mut self, end: End, number: u64) -> Checked {
        self.comes(end.pull(true, 0, 0, 0), number)
    }

    /// Makes a pull that must give the header with this number.
    ///
    /// # Errors
    /// It does not.
    pub fn comes(&mut self, pull: Ask, number: u64) -> Checked {
        match self.word(pull)? {
            found if found == number as i64 => Ok(()),
            found => Err(format!("header {found}, not {number}")),
        }
    }

    /// Checks that no header waits at this end.
    ///
    /// # Errors
    /// One does.
    pub fn is_empty(&mut self, end: End) -> Checked {
        self.ok(end.socket.nonblocking(true))?;
        self.fails(end.pull(true, 0, 0, 0), crate::errno::EAGAIN)?;
        self.ok(end.socket.nonblocking(false))
    }

    // ---- The end of a row ----

    /// Closes and frees everything.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn clear(&mut self) -> Checked {
        for side in [Side::A, Side::B, Side::User] {
            if side == Side::User && self.place() == Place::Sim {
                continue;
            }
            self.ok((side, Call::Reset {}))?;
        }
        Ok(())
    }

    /// The counts of both nodes after everything has been used once, and nothing is under way.
    ///
    /// # Errors
    /// The errors of the place. The counts do not come to rest.
    pub fn first_counts(&mut self) -> Checked<[Vec<i64>; 2]> {
        self.clear()?;
        let ends = self.ends_joined()?;
        self.map(ends.a, 4096)?;
        self.clear()?;
        let mut last = self.counts()?;
        let mut same = 0;
        for _ in 0..LAST_LOOKS {
            self.driver.pause();
            let next = self.counts()?;
            same = match next == last {
                true => same + 1,
                false => 0,
            };
            if same > FEW_LOOKS {
                return Ok(next);
            }
            last = next;
        }
        Err(format!("the nodes do not come to rest: {last:?}"))
    }

    /// The counts of both nodes.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn counts(&mut self) -> Checked<[Vec<i64>; 2]> {
        let mut of = |side| Ok::<_, String>(self.reply((side, Call::Counts {}))?.extra);
        Ok([of(Side::A)?, of(Side::B)?])
    }

    /// Waits until both nodes have these counts.
    ///
    /// # Errors
    /// They never do.
    pub fn settles_at(&mut self, counts: &[Vec<i64>; 2]) -> Checked {
        let mut found = self.counts()?;
        for _ in 0..LAST_LOOKS {
            if found == *counts {
                return Ok(());
            }
            self.driver.pause();
            found = self.counts()?;
        }
        Err(format!(
            "the nodes hold {found:?}, before it was {counts:?}"
        ))
    }
}

/// Checks that a reply has an error of a lost connection.
fn is_lost(reply: &Reply) -> Checked {
    use crate::errno::{ECONNRESET, ENODEV};
    match reply.result {
        Err(ECONNRESET | ENODEV) => Ok(()),
        _ => Err(format!("{reply}, not ECONNRESET or ENODEV")),
    }
}

/// Fails unless a condition holds.
///
/// # Errors
/// The text, if the condition does not hold.
pub fn ensure(condition: bool, what: impl FnOnce() -> String) -> Checked {
    match condition {
        true => Ok(()),
        false => Err(what()),
    }
}
