//! The parties of the request checks: this context as a daemon, child contexts as its clients. Each
//! client makes one system call and leaves its result in shared memory.

use crate::contexts::{self, Child, Space};
use crate::suite::{Suite, Verdict, expect, must};
use crate::sys::{self, Outcome};
use alloc::string::String;
use core::cell::Cell;
use runtime::probe::poke;
use syscall::error::*;
use syscall::schemev2::{Cqe, CqeOpcode, Opcode, Sqe};
use syscall::{Map, MapFlags, O_RDWR, PAGE_SIZE};

pub const SHARED: MapFlags = MapFlags::PROT_READ
    .union(MapFlags::PROT_WRITE)
    .union(MapFlags::MAP_SHARED);

/// Words of a client's page: number and arguments of its call, then the result, then a mark.
pub const RESULT: usize = 7;
pub const DONE: usize = 8;
/// Where a client's page has room for buffers.
pub const BUFFER: usize = 512;

pub fn put_word(page: usize, index: usize, word: usize) {
    for (at, byte) in word.to_le_bytes().into_iter().enumerate() {
        poke(page + 8 * index + at, byte);
    }
}

pub fn word(page: usize, index: usize) -> usize {
    runtime::probe::peek_word(page + 8 * index) as usize
}

/// A client makes the call that its page names.
pub fn client(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let page = shared.value;
    let args = core::array::from_fn(|i| word(page, 1 + i));
    put_word(page, RESULT, runtime::probe::syscall(word(page, 0), args));
    put_word(page, DONE, 1);
    contexts::end(shared.proc_root, shared.slots)
}

/// A running client.
pub struct Client {
    pub page: usize,
    pub child: Child,
}

impl Client {
    /// Starts a client that makes one call; `args` gets the address of its page.
    pub fn start(
        suite: &Suite,
        number: usize,
        args: impl FnOnce(usize) -> [usize; 6],
    ) -> Result<Client, String> {
        let page = shared_page()?;
        Client::start_at(suite, page, number, args(page))
    }

    pub fn start_at(
        suite: &Suite,
        page: usize,
        number: usize,
        args: [usize; 6],
    ) -> Result<Client, String> {
        put_word(page, 0, number);
        for (index, argument) in args.into_iter().enumerate() {
            put_word(page, 1 + index, argument);
        }
        let record = contexts::share(suite, page)?;
        Ok(Client {
            page,
            child: Child::start(suite, Space::Clone, client, record)?,
        })
    }

    /// Waits for the end; the call's outcome.
    pub fn finish(self) -> Result<Outcome, String> {
        let page = self.page;
        self.child.join()?;
        expect("the client came to its end", word(page, DONE), 1)?;
        let raw = word(page, RESULT);
        Ok(match (raw as isize).checked_neg() {
            Some(errno @ 1..=4095) => Err(errno as i32),
            _ => Ok(raw),
        })
    }
}

pub fn shared_page() -> Result<usize, String> {
    let map = Map {
        offset: 0,
        size: 4 * PAGE_SIZE,
        flags: SHARED,
        address: 0,
    };
    must("shared page", sys::fmap(usize::MAX, &map))
}

/// The scheme that this context serves.
pub struct Server<'a> {
    pub suite: &'a Suite,
    pub socket: usize,
    next_number: Cell<usize>,
}

impl<'a> Server<'a> {
    pub fn new(suite: &'a Suite) -> Result<Self, String> {
        let socket = must("socket", suite.dup(suite.capability, b"create-scheme"))?;
        Ok(Self {
            suite,
            socket,
            next_number: Cell::new(50),
        })
    }

    /// A descriptor of an object of the scheme with a number of its own.
    pub fn file(&self) -> Result<(usize, usize), String> {
        let number = self.next_number.replace(self.next_number.get() + 1);
        let mut params = [0u8; 32];
        params[8..16].copy_from_slice(&number.to_le_bytes());
        params[16..24].copy_from_slice(&O_RDWR.to_le_bytes());
        Ok((
            must("object", self.suite.dup(self.socket, &params))?,
            number,
        ))
    }

    /// The next request.
    pub fn next(&self) -> Result<Sqe, String> {
        let mut sqe = Sqe::default();
        expect(
            "socket read",
            sys::read(self.socket, &mut sqe),
            Ok(size_of::<Sqe>()),
        )?;
        Ok(sqe)
    }

    /// The next request; it must have this opcode.
    pub fn expect(&self, opcode: Opcode) -> Result<Sqe, String> {
        let sqe = self.next()?;
        expect("opcode", sqe.opcode, opcode as u8)?;
        Ok(sqe)
    }

    /// The next request, or the one after it when the next has the opcode to skip.
    pub fn next_but(&self, skipped: Opcode) -> Result<Sqe, String> {
        self.next_after(skipped).map(|(sqe, _)| sqe)
    }

    /// [`next_but`](Self::next_but), and whether one was skipped.
    pub fn next_after(&self, skipped: Opcode) -> Result<(Sqe, bool), String> {
        let sqe = self.next()?;
        if sqe.opcode == skipped as u8 {
            self.next().map(|sqe| (sqe, true))
        } else {
            Ok((sqe, false))
        }
    }

    /// As `close`, where a Cancel may come first.
    pub fn close_after_cancel(&self, fd: usize, number: usize) -> Verdict {
        self.close_after(Opcode::Cancel, fd, number).map(drop)
    }

    /// As `close`, where a request may come first; whether one did.
    pub fn close_after(&self, first: Opcode, fd: usize, number: usize) -> Result<bool, String> {
        expect("close", sys::close(fd), Ok(0))?;
        let (sqe, skipped) = self.next_after(first)?;
        let close = Opcode::CloseMsg as u8;
        expect("last", (sqe.opcode, sqe.args[0] as usize), (close, number))?;
        Ok(skipped)
    }

    pub fn send(&self, cqe: &Cqe) -> Outcome {
        sys::write(self.socket, cqe)
    }

    pub fn answer(&self, sqe: &Sqe, result: Result<usize, i32>) -> Verdict {
        let value = match result {
            Ok(value) => value as u64,
            Err(errno) => (-i64::from(errno)) as u64,
        };
        let cqe = Cqe {
            flags: 0,
            extra_raw: [0; 3],
            tag: sqe.tag,
            result: value,
        };
        expect("answer", self.send(&cqe), Ok(size_of::<Cqe>()))
    }

    pub fn special(&self, opcode: CqeOpcode, tag: u32, result: u64) -> Verdict {
        let cqe = Cqe {
            flags: opcode as u8,
            extra_raw: [0; 3],
            tag,
            result,
        };
        expect("answer", self.send(&cqe), Ok(size_of::<Cqe>()))
    }

    /// Closes a descriptor of an object and swallows its message.
    pub fn close(&self, fd: usize, number: usize) -> Verdict {
        expect("close", sys::close(fd), Ok(0))?;
        let sqe = self.expect(Opcode::CloseMsg)?;
        expect("number", sqe.args[0] as usize, number)?;
        expect(
            "tag, flags, caller",
            (sqe.tag, sqe.sqe_flags.bits(), sqe.caller),
            (0, 0, 0),
        )
    }
}
