//! The means of rows: two ends that make calls, connections between them, and the rule for
//! every row: it leaves nothing behind on either node.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::call::{Call, Reply};
pub use super::driver::{Checked, Driver, NodeFailure, Place, Side, Ticket};
pub use super::ends::{Ask, End, Ends, Memory, Socket};
pub use super::number;
use super::number::*;
use crate::errno::Errno;

/// How often to look for something before it counts as not happening.
const LOOKS: usize = 2000;
/// How often to look whether what a row had is gone.
const LAST_LOOKS: usize = 300;
/// How often to look at something that must not happen.
const FEW_LOOKS: usize = 5;
/// Ports of the rows' listeners.
const FIRST_PORT: u64 = 4000;
const PORTS: u64 = 1000;

/// The state that stays the same over all rows of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Listeners so far.
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
    /// A bench with nothing on it.
    pub fn new(driver: &'a mut dyn Driver, run: &'a mut Run) -> Bench<'a> {
        Bench {
            driver,
            run,
            next_slot: 0,
            pending: Vec::new(),
        }
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        self.driver.place()
    }

    /// The place's ways beside calls.
    pub fn driver(&mut self) -> &mut dyn Driver {
        self.driver
    }

    /// The number of calls of a row that makes very many: this, or what the run was told.
    pub fn many(&self) -> u64 {
        self.driver.many()
    }

    /// The address of a side's node.
    pub fn address(&self, side: Side) -> u64 {
        0x0a00_0001 + u64::from(self.driver.node(side))
    }

    /// A slot that is not used yet.
    pub fn slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot
    }

    /// A port that nobody listens at.
    pub fn port(&mut self) -> u64 {
        self.run.listeners += 1;
        FIRST_PORT + self.run.listeners % PORTS
    }

    // ---- Calls ----

    /// Makes a call, whatever it gives.
    ///
    /// # Errors
    /// Those of the place.
    pub fn call(&mut self, (side, call): Ask) -> Checked<Reply> {
        self.driver.call(side, &call)
    }

    /// Makes a call that must succeed.
    ///
    /// # Errors
    /// When it fails.
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
    /// When it gives something else.
    pub fn ok(&mut self, ask: Ask) -> Checked {
        self.gives(ask, 0)
    }

    /// Makes a call that must give this.
    ///
    /// # Errors
    /// When it gives something else.
    pub fn gives(&mut self, ask: Ask, value: i64) -> Checked {
        let reply = self.call(ask)?;
        match reply.result {
            Ok(found) if found == value => Ok(()),
            _ => Err(format!("{ask:?} gave {reply}, not {value}")),
        }
    }

    /// Makes a call that must give 0; the first extra word.
    ///
    /// # Errors
    /// When it gives something else.
    pub fn word(&mut self, ask: Ask) -> Checked<i64> {
        let reply = self.call(ask)?;
        match reply.result {
            Ok(0) => reply.word(0),
            _ => Err(format!("{ask:?} gave {reply}")),
        }
    }

    /// Makes a call that must fail with this.
    ///
    /// # Errors
    /// When it does not.
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
    /// Those of the place.
    pub fn begin(&mut self, (side, call): Ask) -> Checked<Ticket> {
        let ticket = self.driver.begin(side, &call)?;
        self.pending.push(ticket);
        Ok(ticket)
    }

    /// A call that was begun must wait.
    ///
    /// # Errors
    /// When it has ended.
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
    /// When it does not end.
    pub fn end(&mut self, ticket: Ticket) -> Checked<Reply> {
        for _ in 0..LOOKS {
            if self.driver.is_done(ticket)? {
                return self.take(ticket);
            }
            self.driver.pause();
        }
        Err("a call does not end".into())
    }

    /// Waits for the end of a call without looking meanwhile, however long it takes.
    ///
    /// # Errors
    /// Those of the place.
    pub fn take(&mut self, ticket: Ticket) -> Checked<Reply> {
        self.pending.retain(|pending| *pending != ticket);
        self.driver.finish(ticket)
    }

    /// Waits for the end of a call, which must give this.
    ///
    /// # Errors
    /// When it gives something else.
    pub fn ends(&mut self, ticket: Ticket, result: Result<i64, Errno>) -> Checked<Reply> {
        let reply = self.end(ticket)?;
        match reply.result == result {
            true => Ok(reply),
            false => Err(format!("a call gave {reply}, not {result:?}")),
        }
    }

    /// Waits for the end of a call, which must say that the connection has ended.
    ///
    /// # Errors
    /// When it says something else.
    pub fn ends_lost(&mut self, ticket: Ticket) -> Checked {
        let reply = self.end(ticket)?;
        is_lost(&reply)
    }

    /// Makes a call, which must say that the connection has ended.
    ///
    /// # Errors
    /// When it says something else.
    pub fn lost(&mut self, ask: Ask) -> Checked {
        let reply = self.call(ask)?;
        is_lost(&reply).map_err(|what| format!("{ask:?}: {what}"))
    }

    // ---- Connections ----

    /// A socket of Scheduled Transfers.
    ///
    /// # Errors
    /// When there is none.
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

    /// A socket with options.
    ///
    /// # Errors
    /// When there is none.
    pub fn socket_with(&mut self, side: Side, options: &[(u64, i64)]) -> Checked<Socket> {
        let socket = self.socket(side)?;
        for (name, value) in options {
            self.ok(socket.set(*name, *value))?;
        }
        Ok(socket)
    }

    /// A listener of B's with options, and its port.
    ///
    /// # Errors
    /// When there is none.
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

    /// `accept`, and the socket it makes.
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

    /// Connects A's socket to a listener of B's; B's socket.
    ///
    /// # Errors
    /// When that fails.
    pub fn join(&mut self, socket: Socket, (listener, port): (Socket, u64)) -> Checked<Socket> {
        let connecting = self.begin(self.connect(socket, port))?;
        let (accept, accepted) = self.accept(listener);
        let accepting = self.begin(accept)?;
        self.ends(connecting, Ok(0))?;
        self.ends(accepting, Ok(0))?;
        Ok(accepted)
    }

    /// Connected sockets of A and B with options.
    ///
    /// # Errors
    /// When they cannot be had.
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
    /// When that fails.
    pub fn attach(&mut self, socket: Socket, channel: i64) -> Checked<End> {
        let slot = self.slot();
        self.ok(socket.attach(channel, 0, slot))?;
        Ok(End {
            side: socket.side,
            slot,
            socket,
        })
    }

    /// A connection with the bypass and both ends of its channel 0.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn ends_of(&mut self, options: &[(u64, i64)]) -> Checked<Ends> {
        let mut all = alloc::vec![(ST_BYPASS, 1)];
        all.extend(options);
        let (a, b) = self.sockets(&all)?;
        Ok(Ends {
            a: self.attach(a, 0)?,
            b: self.attach(b, 0)?,
        })
    }

    /// The same with the usual options.
    ///
    /// # Errors
    /// As there.
    pub fn ends_joined(&mut self) -> Checked<Ends> {
        self.ends_of(&[])
    }

    // ---- Memory ----

    /// Memory of `malloc`.
    ///
    /// # Errors
    /// When there is none.
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

    /// Maps new memory of the library's.
    ///
    /// # Errors
    /// When that fails.
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

    /// Memory must have the pattern of a seed in its first bytes.
    ///
    /// # Errors
    /// Where it has not.
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

    /// All bytes of memory must have this value.
    ///
    /// # Errors
    /// Where they have not.
    pub fn is_all(&mut self, memory: Memory, value: u64) -> Checked {
        let Memory { side, at, length } = memory;
        let call = Call::Same {
            address: at,
            length,
            value,
        };
        self.gives((side, call), length as i64)
    }

    /// A double word of memory.
    ///
    /// # Errors
    /// Those of the place.
    pub fn load(&mut self, memory: Memory) -> Checked<i64> {
        self.word((memory.side, Call::Load { address: memory.at }))
    }

    /// Waits until a double word of memory has this value.
    ///
    /// # Errors
    /// When it does not come.
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
    /// When it does not.
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
    /// When that fails.
    pub fn push(&mut self, end: End, number: u64) -> Checked {
        self.ok(end.push(Some(number), 0, 0, 0))
    }

    /// Pulls a header, which must be this one.
    ///
    /// # Errors
    /// When it is not.
    pub fn pull(&mut self, end: End, number: u64) -> Checked {
        self.comes(end.pull(true, 0, 0, 0), number)
    }

    /// A pull must give this header.
    ///
    /// # Errors
    /// When it does not.
    pub fn comes(&mut self, pull: Ask, number: u64) -> Checked {
        match self.word(pull)? {
            found if found == number as i64 => Ok(()),
            found => Err(format!("header {found}, not {number}")),
        }
    }

    /// No header waits at this end.
    ///
    /// # Errors
    /// When one does.
    pub fn is_empty(&mut self, end: End) -> Checked {
        self.ok(end.socket.nonblocking(true))?;
        self.fails(end.pull(true, 0, 0, 0), crate::errno::EAGAIN)?;
        self.ok(end.socket.nonblocking(false))
    }

    // ---- The end of a row ----

    /// Everything is closed and freed.
    ///
    /// # Errors
    /// Those of the place.
    pub fn clear(&mut self) -> Checked {
        for side in [Side::A, Side::B, Side::User] {
            if side == Side::User && self.place() == Place::Sim {
                continue;
            }
            self.ok((side, Call::Reset {}))?;
        }
        Ok(())
    }

    /// The counts of both nodes when everything has been used once, and nothing is on its way.
    ///
    /// # Errors
    /// Those of the place; when it does not come to rest.
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
    /// Those of the place.
    pub fn counts(&mut self) -> Checked<[Vec<i64>; 2]> {
        let mut of = |side| Ok::<_, String>(self.reply((side, Call::Counts {}))?.extra);
        Ok([of(Side::A)?, of(Side::B)?])
    }

    /// Both nodes must hold this, after a while.
    ///
    /// # Errors
    /// When they hold something else.
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

/// Checks that a call ends with an error of a lost connection.
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
/// What is wrong.
pub fn ensure(condition: bool, what: impl FnOnce() -> String) -> Checked {
    match condition {
        true => Ok(()),
        false => Err(what()),
    }
}
