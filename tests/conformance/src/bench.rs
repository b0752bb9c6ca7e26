//! The interface against which cases are written: the sides that make calls, and the rules for
//! every call (a call that fails changes nothing) and every case (it leaves nothing behind).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::{Error, PortId};

use crate::call::{Call, Counts, Errno, Reply};

/// The program that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Root's program on the first node.
    A,
    /// Root's program on the second node; in one node a second process.
    B,
    /// The program of a user other than root, on the first node.
    User,
}

impl Side {
    /// All sides.
    pub const ALL: [Side; 3] = [Side::A, Side::B, Side::User];
}

/// Where the suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Two engines of a simulator.
    Sim,
    /// Processes on one booted node.
    Loopback,
    /// Processes on two booted nodes.
    Pair,
}

impl Place {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Sim => "sim",
            Place::Loopback => "loopback",
            Place::Pair => "pair",
        }
    }

    /// The places that are booted nodes.
    pub const GUESTS: &'static [Place] = &[Place::Loopback, Place::Pair];
    /// The simulator only.
    pub const SIM: &'static [Place] = &[Place::Sim];
    /// All places.
    pub const ALL: &'static [Place] = &[Place::Sim, Place::Loopback, Place::Pair];
}

/// A call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u32);

/// A place's way to make calls. An `Err` means that the place itself failed.
pub trait Driver {
    /// Which place this is.
    fn place(&self) -> Place;
    /// The node a side is on.
    fn node(&self, side: Side) -> u16;
    /// Makes a call and waits for its end.
    fn call(&mut self, side: Side, call: &Call) -> Result<Reply, String>;
    /// Starts a call, and returns when it has ended or waits.
    fn begin(&mut self, side: Side, call: &Call) -> Result<Ticket, String>;
    /// Whether a call has ended.
    fn is_done(&mut self, ticket: Ticket) -> Result<bool, String>;
    /// Waits for the end of a call.
    fn finish(&mut self, ticket: Ticket) -> Result<Reply, String>;
    /// Lets a little time pass for events that need no call. Returns false if none will come.
    fn pause(&mut self) -> bool;
}

/// A call, and the side that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The side.
    pub side: Side,
    /// The call.
    pub call: Call,
}

/// An endpoint of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ep {
    /// The side it belongs to.
    pub side: Side,
    /// Its number at that side.
    pub slot: u32,
}

/// Memory of a side: allocated, or a mapping of the peer's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// The side it belongs to.
    pub side: Side,
    /// Its number at that side.
    pub slot: u32,
}

/// The result of a step of a case; the error says what is wrong.
pub type Checked<T = ()> = Result<T, String>;

/// Number of polls before giving up. With a guest's pauses of 10 ms that is 20 s.
const LOOKS: usize = 2000;
/// Number of polls if there will be another attempt.
const FEW_LOOKS: usize = 50;

/// The bench of one case.
pub struct Bench<'a> {
    driver: &'a mut dyn Driver,
    next_slot: u32,
    pending: Vec<Ticket>,
    limit: Option<u64>,
}

impl<'a> Bench<'a> {
    /// A bench for a new case.
    pub fn new(driver: &'a mut dyn Driver) -> Bench<'a> {
        Bench {
            driver,
            next_slot: 0,
            pending: Vec::new(),
            limit: None,
        }
    }

    /// The place where it runs.
    pub fn place(&self) -> Place {
        self.driver.place()
    }

    /// The node of a side.
    pub fn node(&self, side: Side) -> u16 {
        self.driver.node(side)
    }

    /// The address of a port on a side's node.
    pub fn at(&self, side: Side, port: u16) -> PortId {
        PortId::new(self.node(side), port)
    }

    fn slot(&mut self) -> u32 {
        self.next_slot += 1;
        self.next_slot
    }

    /// The name of an endpoint that does not exist yet.
    pub fn new_endpoint(&mut self, side: Side) -> Ep {
        Ep {
            side,
            slot: self.slot(),
        }
    }

    /// The name of memory that does not exist yet.
    pub fn new_memory(&mut self, side: Side) -> Mem {
        Mem {
            side,
            slot: self.slot(),
        }
    }

    /// Makes a call and returns its reply, also if the call fails.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn call(&mut self, ask: Ask) -> Checked<Reply> {
        self.driver.call(ask.side, &ask.call)
    }

    /// Makes a call that must succeed, and returns its value.
    ///
    /// # Errors
    /// The call fails.
    pub fn ok(&mut self, ask: Ask) -> Checked<i64> {
        self.reply(ask)?
            .result
            .map_err(|errno| format!("{:?} gave {errno}", ask.call))
    }

    /// Makes a call that must succeed, and returns its whole reply.
    ///
    /// # Errors
    /// The call fails.
    pub fn reply(&mut self, ask: Ask) -> Checked<Reply> {
        let reply = self.call(ask)?;
        match reply.result {
            Ok(_) => Ok(reply),
            Err(errno) => Err(format!("{:?} gave {errno}", ask.call)),
        }
    }

    /// Makes a call that must give this value.
    ///
    /// # Errors
    /// The call gives another value, or fails.
    pub fn gives(&mut self, ask: Ask, wanted: i64) -> Checked {
        let result = self.call(ask)?.result;
        if result == Ok(wanted) {
            return Ok(());
        }
        Err(format!("{:?} gave {result:?}, not {wanted}", ask.call))
    }

    /// Makes a call that must fail with this error and change no counts.
    ///
    /// # Errors
    /// It does not.
    pub fn fails(&mut self, ask: Ask, wanted: Error) -> Checked {
        let result = self.probe(ask)?;
        if result == Err(wanted.into()) {
            return Ok(());
        }
        Err(format!("{:?} gave {result:?}, not {wanted}", ask.call))
    }

    /// Makes a call. If it fails, it must change no counts.
    ///
    /// # Errors
    /// It does.
    pub fn probe(&mut self, ask: Ask) -> Checked<Result<i64, Errno>> {
        let before = self.counts()?;
        let result = self.call(ask)?.result;
        if result.is_ok() || self.settles(before, FEW_LOOKS).is_ok() {
            return Ok(result);
        }
        // An effect of earlier steps may have been under way at the first count. A call that
        // changes nothing can be repeated.
        let before = self.counts()?;
        let again = self.call(ask)?.result;
        if again != result {
            return Err(format!("{:?} gave {result:?} and then {again:?}", ask.call));
        }
        self.settles_at(before)
            .map_err(|what| format!("{:?} gave {result:?} and left a trace: {what}", ask.call))?;
        Ok(result)
    }

    /// Starts a call that may have to wait.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn begin(&mut self, ask: Ask) -> Checked<Ticket> {
        let ticket = self.driver.begin(ask.side, &ask.call)?;
        self.pending.push(ticket);
        Ok(ticket)
    }

    /// Whether a call has ended.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn is_done(&mut self, ticket: Ticket) -> Checked<bool> {
        self.driver.is_done(ticket)
    }

    /// Checks that a call still waits.
    ///
    /// # Errors
    /// The call has ended.
    pub fn waits(&mut self, ticket: Ticket) -> Checked {
        self.driver.pause();
        if !self.driver.is_done(ticket)? {
            return Ok(());
        }
        let reply = self.finish(ticket)?;
        Err(format!("it did not wait: {:?}", reply.result))
    }

    /// Waits for the end of a call.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn finish(&mut self, ticket: Ticket) -> Checked<Reply> {
        self.pending.retain(|other| *other != ticket);
        self.driver.finish(ticket)
    }

    /// Waits for the end of a call, which must succeed.
    ///
    /// # Errors
    /// The call has failed.
    pub fn finish_ok(&mut self, ticket: Ticket) -> Checked<Reply> {
        let reply = self.finish(ticket)?;
        match reply.result {
            Ok(_) => Ok(reply),
            Err(errno) => Err(format!("the waiting call gave {errno}")),
        }
    }

    /// Waits for the end of a call, which must fail with this error.
    ///
    /// # Errors
    /// It does not.
    pub fn finish_fails(&mut self, ticket: Ticket, wanted: Error) -> Checked {
        match self.finish(ticket)?.result {
            Err(errno) if errno == wanted.into() => Ok(()),
            result => Err(format!("the waiting call gave {result:?}, not {wanted}")),
        }
    }

    /// Repeats a call until it gives the value, for changes that need no call.
    ///
    /// # Errors
    /// It never does.
    pub fn becomes(&mut self, ask: Ask, wanted: i64) -> Checked {
        let mut last = None;
        for _ in 0..LOOKS {
            let result = self.call(ask)?.result;
            if result == Ok(wanted) {
                return Ok(());
            }
            last = Some(result);
            if !self.driver.pause() && self.call(ask)?.result != Ok(wanted) {
                break;
            }
        }
        Err(format!("{:?} stays {last:?}, not {wanted}", ask.call))
    }

    /// The counts of both nodes.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn counts(&mut self) -> Checked<[Counts; 2]> {
        Ok([self.count(Side::A)?, self.count(Side::B)?])
    }

    fn count(&mut self, side: Side) -> Checked<Counts> {
        let call = Call::Count {};
        let reply = self.reply(Ask { side, call })?;
        Counts::of_words(&reply.extra).ok_or_else(|| "the counts are not counts".into())
    }

    /// Waits until both nodes have the given counts.
    ///
    /// # Errors
    /// They never do.
    pub fn settles_at(&mut self, wanted: [Counts; 2]) -> Checked {
        self.settles(wanted, LOOKS)
    }

    fn settles(&mut self, wanted: [Counts; 2], looks: usize) -> Checked {
        for _ in 0..looks {
            if self.counts()? == wanted {
                return Ok(());
            }
            if !self.driver.pause() {
                break;
            }
        }
        let found = self.counts()?;
        if found == wanted {
            return Ok(());
        }
        Err(format!("there is {found:?}, there was {wanted:?}"))
    }

    /// Cuts the link between the nodes until the case ends.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn lose_node(&mut self) -> Checked {
        let call = Call::LoseNode {};
        let side = Side::A;
        self.ok(Ask { side, call }).map(|_| ())
    }

    /// Sets the limit on pinned pages of the first node, until the case ends.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn limit_pinned(&mut self, side: Side, pages: u64) -> Checked {
        let get = Call::PinnedLimit {};
        let old = self.ok(Ask { side, call: get })?;
        self.limit.get_or_insert(old as u64);
        let call = Call::LimitPinned { pages };
        self.ok(Ask { side, call })?;
        Ok(())
    }

    /// Ends the case: closes and frees everything, and waits for the calls under way.
    ///
    /// # Errors
    /// The errors of the place. A call never ends.
    pub fn clear(&mut self) -> Checked {
        let reset = Call::Reset {};
        // A call that waits for another side ends when that side is reset.
        for side in [Side::B, Side::User, Side::A] {
            self.ok(Ask { side, call: reset })?;
        }
        for ticket in core::mem::take(&mut self.pending) {
            self.driver.finish(ticket)?;
        }
        // An accept that ended only now has made another endpoint.
        for side in Side::ALL {
            self.ok(Ask { side, call: reset })?;
        }
        if let Some(pages) = self.limit.take() {
            let call = Call::LimitPinned { pages };
            let side = Side::A;
            self.ok(Ask { side, call })?;
        }
        Ok(())
    }
}

/// Fails with this text unless the condition holds.
///
/// # Errors
/// The text.
pub fn holds(condition: bool, what: &str) -> Checked {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Fails unless both are equal.
///
/// # Errors
/// A text with both.
pub fn equal<T: PartialEq + core::fmt::Debug>(what: &str, found: T, wanted: T) -> Checked {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, not {wanted:?}"))
}
