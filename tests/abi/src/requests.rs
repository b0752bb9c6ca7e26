//! A user scheme seen from the daemon's side: this context serves, child contexts are the clients.
//! Each client makes one system call and leaves its result in shared memory (Redox's
//! `src/scheme/user.rs`).

use crate::contexts::{self, Child, Space};
use crate::serving::*;
use crate::suite::{Suite, expect, hold, must, scheme_id::*};
use crate::sys::{self, Outcome, raw};
use alloc::{string::String, vec, vec::Vec};
use runtime::probe::{peek, poke};
use syscall::error::*;
use syscall::number::*;
use syscall::schemev2::{Cqe, CqeOpcode, Opcode, Sqe, SqeFlags};
use syscall::{
    CallFlags, Event, EventFlags, Map, MapFlags, O_NONBLOCK, O_RDONLY, O_RDWR, PAGE_SIZE,
    UPPER_FDTBL_TAG,
};

pub fn run(suite: &Suite) {
    suite.check(
        "socket: empty and non-blocking is EAGAIN, answers to nothing are EBADFD",
        |s| {
            let server = Server::new(s)?;
            must(
                "nonblock",
                sys::fcntl(server.socket, syscall::F_SETFL, O_NONBLOCK),
            )?;
            let mut sqe = Sqe::default();
            expect("empty", sys::read(server.socket, &mut sqe), Err(EAGAIN))?;
            let cqe = Cqe {
                flags: 0,
                extra_raw: [0; 3],
                tag: 77,
                result: 0,
            };
            expect("unknown tag", server.send(&cqe), Err(EBADFD))?;
            let cqe = Cqe {
                flags: 7,
                extra_raw: [0; 3],
                tag: 0,
                result: 0,
            };
            expect("unknown opcode", server.send(&cqe), Err(EINVAL))?;
            expect(
                "short parameters",
                s.dup(server.socket, &[0; 31]),
                Err(EINVAL),
            )?;
            let (fd, number) = server.file()?;
            server.close(fd, number)?;
            expect("close", sys::close(server.socket), Ok(0))
        },
    );
    let Ok(server) = Server::new(suite) else {
        suite.check("a second scheme", |_| Err(String::from("no socket")));
        return;
    };
    let server = &server;
    requests(suite, server);
    descriptors(suite, server);
    interruptions(suite, server);
    endings(suite, server);
}

fn requests(suite: &Suite, server: &Server<'_>) {
    suite.check(
        "read: arguments, flags, whole and partial pages, answers out of order",
        |s| {
            let (fd, number) = server.file()?;
            let first = Client::start(s, SYS_READ, |page| {
                // from the middle of a page over a whole one into a third
                [fd, page + PAGE_SIZE - 100, PAGE_SIZE + 200, 0, 0, 0]
            })?;
            let one = server.expect(Opcode::Read)?;
            let second = Client::start(s, SYS_READ2, |page| {
                [
                    fd,
                    page + BUFFER,
                    16,
                    1234,
                    syscall::RwFlags::NONBLOCK.bits() as usize,
                    0,
                ]
            })?;
            let two = server.expect(Opcode::Read)?;
            hold("tags differ", one.tag != two.tag)?;
            expect(
                "object",
                (one.args[0], two.args[0]),
                (number as u64, number as u64),
            )?;
            expect(
                "length",
                (one.args[2], two.args[2]),
                (PAGE_SIZE as u64 + 200, 16),
            )?;
            expect("offset", (one.args[3], two.args[3]), (u64::MAX, 1234))?;
            hold("blocking", one.args[4] as usize & O_NONBLOCK == 0)?;
            hold("non-blocking", two.args[4] as usize & O_NONBLOCK != 0)?;
            expect("root", one.args[5], 0)?;
            let (at, len) = (one.args[1] as usize, one.args[2] as usize);
            expect("same offset in the page", at % PAGE_SIZE, PAGE_SIZE - 100)?;
            for i in 0..len {
                poke(at + i, (i / 7) as u8);
            }
            poke(two.args[1] as usize, 0x42);
            server.answer(&two, Ok(1))?;
            let page = second.page;
            expect("second", second.finish()?, Ok(1))?;
            expect("its byte", peek(page + BUFFER), 0x42)?;
            server.answer(&one, Ok(len))?;
            let page = first.page;
            expect("first", first.finish()?, Ok(len))?;
            let right = |i: usize| peek(page + PAGE_SIZE - 100 + i) == (i / 7) as u8;
            hold("its bytes", (0..len).all(right))?;
            server.close(fd, number)
        },
    );
    suite.check("the daemon cannot unmap a buffer while it has it", |s| {
        let (fd, number) = server.file()?;
        let client = Client::start(s, SYS_WRITE, |page| {
            [fd, page + PAGE_SIZE, PAGE_SIZE, 0, 0, 0]
        })?;
        let sqe = server.expect(Opcode::Write)?;
        let at = sqe.args[1] as usize;
        expect("unmap", sys::funmap(at, PAGE_SIZE), Err(EBUSY))?;
        server.answer(&sqe, Ok(PAGE_SIZE))?;
        expect("write", client.finish()?, Ok(PAGE_SIZE))?;
        server.close(fd, number)
    });
    suite.check(
        "file system calls carry kind and arguments; two objects in one call",
        |s| {
            let (fd, number) = server.file()?;
            let (other, other_number) = server.file()?;
            let call = |page: usize, fds: usize, flags: usize, words: [usize; 3]| {
                for (index, word) in words.into_iter().enumerate() {
                    put_word(page + 256, index, word);
                }
                [fds, page + BUFFER, 8, flags | 3, page + 256, 0]
            };
            let client = Client::start(s, SYS_CALL, |page| {
                call(page, fd, CallFlags::STD_FS.bits(), [7, 9000, 5])
            })?;
            let sqe = server.expect(Opcode::StdFsCall)?;
            expect(
                "words",
                (sqe.args[3], sqe.args[4], sqe.args[5]),
                (7, 9000, 5),
            )?;
            server.answer(&sqe, Ok(0))?;
            expect("ftruncate", client.finish()?, Ok(0))?;
            let forms = several_descriptors();
            hold("a form of requests to two objects", !forms.is_empty())?;
            for form in forms {
                let client = Client::start(s, SYS_CALL, |page| {
                    put_word(page + 128, 0, fd);
                    put_word(page + 128, 1, other);
                    let (list, flags, bytes) = form.words(page + 128, 2);
                    let mut args = call(page, list, flags, [11, 12, 13]);
                    args[5] = bytes;
                    args
                })?;
                let sqe = server.expect(Opcode::Call)?;
                hold("flag", sqe.sqe_flags.contains(SqeFlags::MULTIPLE_IDS))?;
                expect("first", sqe.args[0] as usize, number)?;
                expect("words and second", (sqe.args[3], sqe.args[4]), (11, 12))?;
                expect("second", sqe.args[5] as usize, other_number)?;
                server.answer(&sqe, Ok(5))?;
                expect("call", client.finish()?, Ok(5))?;
            }
            server.close(fd, number)?;
            server.close(other, other_number)
        },
    );
    suite.check(
        "an event of the daemon reaches a queue once, with the flags asked for",
        |s| {
            let (fd, number) = server.file()?;
            let queue = must("queue", s.open(EVENT, "", O_RDWR | O_NONBLOCK))?;
            let client = Client::start(s, SYS_WRITE, |page| {
                let event = Event {
                    id: fd,
                    flags: EventFlags::EVENT_READ,
                    data: 31,
                };
                for (at, byte) in event.iter().enumerate() {
                    poke(page + BUFFER + at, *byte);
                }
                [queue, page + BUFFER, 24, 0, 0, 0]
            })?;
            let sqe = server.expect(Opcode::Fevent)?;
            expect("flags", sqe.args[1], 1)?;
            server.answer(&sqe, Ok(0))?;
            expect("subscribe", client.finish()?, Ok(24))?;
            let mut event = Event::default();
            expect("nothing ready", sys::read(queue, &mut event), Err(EAGAIN))?;
            server.special(CqeOpcode::SendFevent, 2, number as u64)?;
            expect("not asked for", sys::read(queue, &mut event), Err(EAGAIN))?;
            server.special(CqeOpcode::SendFevent, 3, number as u64)?;
            expect("event", sys::read(queue, &mut event), Ok(24))?;
            expect(
                "id, flags, data",
                (event.id, event.flags.bits(), event.data),
                (fd, 1, 31),
            )?;
            let bad = Cqe {
                flags: 2,
                extra_raw: [0; 3],
                tag: 4,
                result: number as u64,
            };
            expect("unknown flag", server.send(&bad), Err(EINVAL))?;
            must("close", sys::close(queue))?;
            must("close", sys::close(fd))?;
            let mut sqe = server.next()?;
            // What is watched no more: Redox tells nobody of the end of a queue.
            if sqe.opcode == Opcode::Fevent as u8 {
                let told = (sqe.caller, sqe.args[0] as usize, sqe.args[1]);
                expect("caller, file, flags", told, (0, number, 0))?;
                server.answer(&sqe, Ok(0))?;
                sqe = server.next()?;
            }
            let close = (sqe.opcode, sqe.args[0] as usize);
            expect("last", close, (Opcode::CloseMsg as u8, number))
        },
    );
    suite.check("EINTR without a cancellation becomes EIO", |s| {
        let (fd, number) = server.file()?;
        let client = Client::start(s, SYS_FSYNC, |_| [fd, 0, 0, 0, 0, 0])?;
        let sqe = server.expect(Opcode::Fsync)?;
        server.answer(&sqe, Err(EINTR))?;
        expect("fsync", client.finish()?, Err(EIO))?;
        server.close(fd, number)
    });
}

fn pipe_end(suite: &Suite) -> Result<(usize, usize), String> {
    let read = must("pipe", suite.open(PIPE, "", O_RDONLY | O_NONBLOCK))?;
    Ok((read, must("write end", suite.dup(read, b"write"))?))
}

fn descriptors(suite: &Suite, server: &Server<'_>) {
    suite.check(
        "a client sends a descriptor; the daemon obtains it with the tag",
        |s| {
            let (fd, number) = server.file()?;
            let (read, write) = pipe_end(s)?;
            let flags = (CallFlags::WRITE | CallFlags::FD).bits();
            let client = Client::start(s, SYS_CALL, |page| {
                put_word(page + BUFFER, 0, write);
                put_word(page + 256, 0, 99);
                [fd, page + BUFFER, 8, flags | 1, page + 256, 0]
            })?;
            let sqe = server.expect(Opcode::Sendfd)?;
            expect("word and count", (sqe.args[2], sqe.args[3]), (99, 1))?;
            let slot = s.slot();
            let mut payload = slot.to_le_bytes();
            let receive = CallFlags::READ | CallFlags::FD;
            let meta = [0, u64::from(sqe.tag)];
            let got = sys::call(server.socket, &mut payload, receive, &meta);
            expect("obtain", got, Ok(1))?;
            server.answer(&sqe, Ok(1000))?;
            expect("the client gets the count", client.finish()?, Ok(1))?;
            expect("gone from the sender", sys::write(write, b"x"), Err(EBADF))?;
            expect("works here", sys::write(slot, b"x"), Ok(1))?;
            let mut byte = [0];
            expect("arrives", sys::read(read, &mut byte), Ok(1))?;
            let _ = (sys::close(slot), sys::close(read));
            server.close(fd, number)
        },
    );
    suite.check(
        "a descriptor that the daemon does not collect is closed",
        |s| {
            let (fd, number) = server.file()?;
            let (read, write) = pipe_end(s)?;
            let flags = (CallFlags::WRITE | CallFlags::FD).bits();
            let client = Client::start(s, SYS_CALL, |page| {
                put_word(page + BUFFER, 0, write);
                [fd, page + BUFFER, 8, flags, page, 0]
            })?;
            let sqe = server.expect(Opcode::Sendfd)?;
            server.answer(&sqe, Err(EPERM))?;
            expect("refused", client.finish()?, Err(EPERM))?;
            let mut byte = [0];
            expect("end of file", sys::read(read, &mut byte), Ok(0))?;
            must("close", sys::close(read))?;
            server.close(fd, number)
        },
    );
    suite.check(
        "a client receives descriptors into the slots it names",
        |s| {
            let (fd, number) = server.file()?;
            let (read, write) = pipe_end(s)?;
            let flags = (CallFlags::READ | CallFlags::FD | CallFlags::FD_UPPER).bits();
            let slot = UPPER_FDTBL_TAG | s.slot();
            let client = Client::start(s, SYS_CALL, |page| {
                put_word(page + BUFFER, 0, slot);
                put_word(page + 256, 0, 7);
                [fd, page + BUFFER, 8, flags | 1, page + 256, 0]
            })?;
            let sqe = server.expect(Opcode::Recvfd)?;
            expect(
                "upper, count, word",
                (sqe.args[1], sqe.args[2], sqe.args[3]),
                (2, 1, 7),
            )?;
            let mut payload = write.to_le_bytes();
            let send = CallFlags::WRITE | CallFlags::FD;
            let moved = sys::call(server.socket, &mut payload, send, &[1, u64::from(sqe.tag)]);
            expect("move", moved, Ok(1))?;
            expect("gone here", sys::write(write, b"x"), Err(EBADF))?;
            server.special(CqeOpcode::RespondWithMultipleFds, sqe.tag, 1)?;
            expect("received", client.finish()?, Ok(1))?;
            expect("works", sys::write(slot, b"y"), Ok(1))?;
            let _ = (sys::close(slot), sys::close(read));
            server.close(fd, number)
        },
    );
    suite.check(
        "dup can be answered with a descriptor of another scheme",
        |s| {
            let (fd, number) = server.file()?;
            let (read, write) = pipe_end(s)?;
            let slot = s.slot();
            let client = Client::start(s, SYS_DUP_INTO, |page| {
                poke(page + BUFFER, b'p');
                [fd, page + BUFFER, 1, slot, 0, 0]
            })?;
            let sqe = server.expect(Opcode::Dup)?;
            expect("name", peek(sqe.args[1] as usize), b'p')?;
            server.special(CqeOpcode::RespondWithFd, sqe.tag, write as u64)?;
            expect("dup", client.finish()?, Ok(slot))?;
            expect("gone here", sys::write(write, b"x"), Err(EBADF))?;
            expect("works", sys::write(slot, b"z"), Ok(1))?;
            let _ = (sys::close(slot), sys::close(read));
            server.close(fd, number)
        },
    );
    suite.check(
        "detach is told once after an answer that asks for it",
        |s| {
            let (fd, number) = server.file()?;
            let twin = must("twin", s.dup(fd, b""))?;
            let client = Client::start(s, SYS_CALL, |page| {
                put_word(page + 256, 0, 12);
                [
                    fd,
                    page + BUFFER,
                    8,
                    CallFlags::STD_FS.bits() | 3,
                    page + 256,
                    0,
                ]
            })?;
            let sqe = server.expect(Opcode::StdFsCall)?;
            server.special(CqeOpcode::RespondAndNotifyOnDetach, sqe.tag, 0)?;
            expect("lock", client.finish()?, Ok(0))?;
            expect("close", sys::close(twin), Ok(0))?;
            let sqe = server.expect(Opcode::Detach)?;
            expect(
                "object and tag",
                (sqe.args[0] as usize, sqe.tag),
                (number, 0),
            )?;
            expect("close", sys::close(fd), Ok(0))?;
            // the flag stays with the description: another detach may come before the close
            let last = server.next_but(Opcode::Detach)?;
            expect("last", last.opcode, Opcode::CloseMsg as u8)
        },
    );
}

fn interruptions(suite: &Suite, server: &Server<'_>) {
    suite.check(
        "an interrupted client: one Cancel, ECANCELED arrives as EINTR",
        |s| {
            let (fd, number) = server.file()?;
            let client = Client::start(s, SYS_READ, |page| [fd, page + BUFFER, 8, 0, 0, 0])?;
            let sqe = server.expect(Opcode::Read)?;
            must(
                "interrupt",
                contexts::write_words(client.child.status, &[3]),
            )?;
            let cancel = server.expect(Opcode::Cancel)?;
            expect("tag", cancel.tag, sqe.tag)?;
            expect("one way", cancel.sqe_flags.bits(), SqeFlags::ONEWAY.bits())?;
            must("again", contexts::write_words(client.child.status, &[3]))?;
            must("settle", sys::nanosleep(10_000_000))?;
            server.answer(&sqe, Err(ECANCELED))?;
            expect("read", client.finish()?, Err(EINTR))?;
            server.close(fd, number)
        },
    );
    suite.check(
        "an interrupted client still gets a result that raced",
        |s| {
            let (fd, number) = server.file()?;
            let client = Client::start(s, SYS_READ, |page| [fd, page + BUFFER, 8, 0, 0, 0])?;
            let sqe = server.expect(Opcode::Read)?;
            must(
                "interrupt",
                contexts::write_words(client.child.status, &[3]),
            )?;
            server.answer(&sqe, Ok(3))?;
            expect("read", client.finish()?, Ok(3))?;
            // the Cancel was sent or not, depending on which ran first
            server.close_after_cancel(fd, number)
        },
    );
    suite.check(
        "a killed client: its pages stay with the daemon until the answer",
        |s| {
            let (fd, number) = server.file()?;
            let client = Client::start(s, SYS_READ, |page| {
                [fd, page + PAGE_SIZE, PAGE_SIZE, 0, 0, 0]
            })?;
            let sqe = server.expect(Opcode::Read)?;
            let at = sqe.args[1] as usize;
            let status = client.child.privileged_status(s)?;
            must("kill", contexts::write_words(status, &[usize::MAX]))?;
            client.child.join()?;
            must("settle", sys::nanosleep(10_000_000))?;
            poke(at, 9);
            poke(at + PAGE_SIZE - 1, 9);
            server.answer(&sqe, Ok(PAGE_SIZE))?;
            let gone = sys::raw(SYS_WRITE, [1, at, 1, 0, 0, 0]);
            expect("taken back", gone, Err(EFAULT))?;
            must("close", sys::close(status))?;
            // a kernel may or may not announce the kill by a Cancel
            server.close_after_cancel(fd, number)
        },
    );
    suite.check(
        "a killed client: what is made for it later is closed again",
        |s| {
            const MADE: usize = 77;
            let (fd, number) = server.file()?;
            let slot = s.slot();
            let client = Client::start(s, SYS_DUP_INTO, |page| [fd, page + BUFFER, 1, slot, 0, 0])?;
            let sqe = server.expect(Opcode::Dup)?;
            let status = client.child.privileged_status(s)?;
            must("kill", contexts::write_words(status, &[usize::MAX]))?;
            client.child.join()?;
            must("close", sys::close(status))?;
            server.answer(&sqe, Ok(MADE))?;
            // the upstream kernel forgets it
            expect("close", sys::close(fd), Ok(0))?;
            let closed = server.next_but(Opcode::Cancel)?;
            let close = Opcode::CloseMsg as u8;
            expect(
                "made",
                (closed.opcode, closed.args[0] as usize),
                (close, MADE),
            )?;
            let last = server.expect(Opcode::CloseMsg)?;
            expect("the other", last.args[0] as usize, number)
        },
    );
}

/// A client that maps and then ends without unmapping.
fn mapper(argument: usize) -> ! {
    client(argument)
}

fn endings(suite: &Suite, server: &Server<'_>) {
    suite.check("the end of a client unmaps, then closes", |s| {
        let (fd, number) = server.file()?;
        let memory = must(
            "memory",
            sys::fmap_anonymous(
                PAGE_SIZE,
                MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE,
            ),
        )?;
        poke(memory, b'q');
        let page = shared_page()?;
        put_word(page, 0, SYS_FMAP);
        let map = Map {
            offset: 3 * PAGE_SIZE,
            size: 100,
            flags: SHARED,
            address: 0,
        };
        for (at, byte) in map.iter().enumerate() {
            poke(page + BUFFER + at, *byte);
        }
        for (index, argument) in [fd, page + BUFFER, 32, 0, 0, 0].into_iter().enumerate() {
            put_word(page, 1 + index, argument);
        }
        let record = contexts::share(s, page)?;
        let child = Child::start(s, Space::Clone, mapper, record)?;
        let sqe = server.expect(Opcode::MmapPrep)?;
        let args = (sqe.args[0] as usize, sqe.args[1], sqe.args[3] as usize);
        expect("object, size, offset", args, (number, 100, 3 * PAGE_SIZE))?;
        expect("close here", sys::close(fd), Ok(0))?;
        server.answer(&sqe, Ok(memory))?;
        let sqe = server.expect(Opcode::Munmap)?;
        expect("object", sqe.args[0] as usize, number)?;
        expect("whole pages", sqe.args[1] as usize, PAGE_SIZE)?;
        expect(
            "sync and offset",
            (sqe.args[2], sqe.args[3] as usize),
            (1, 3 * PAGE_SIZE),
        )?;
        server.answer(&sqe, Ok(0))?;
        let sqe = server.expect(Opcode::CloseMsg)?;
        expect("object", sqe.args[0] as usize, number)?;
        child.join()?;
        Ok(())
    });
    suite.check(
        "a mapping answered with a hole is EIO, an unaligned address EINVAL",
        |s| {
            let (fd, number) = server.file()?;
            let mut told = false;
            for (answer, wanted) in [(0x5000_0000_0000, EIO), (0x1234, EINVAL)] {
                let client = Client::start(s, SYS_FMAP, |page| {
                    let map = Map {
                        offset: 0,
                        size: PAGE_SIZE,
                        flags: SHARED,
                        address: 0,
                    };
                    for (at, byte) in map.iter().enumerate() {
                        poke(page + BUFFER + at, *byte);
                    }
                    [fd, page + BUFFER, 32, 0, 0, 0]
                })?;
                let (sqe, skipped) = server.next_after(Opcode::Munmap)?;
                expect("opcode", sqe.opcode, Opcode::MmapPrep as u8)?;
                told = skipped;
                server.answer(&sqe, Ok(answer))?;
                expect("fmap", client.finish()?, Err(wanted))?;
            }
            // A kernel tells the daemon of both mappings that it could not make, or of none.
            let last = server.close_after(Opcode::Munmap, fd, number)?;
            expect("told", last, told)
        },
    );
    suite.check("closing the socket ends the scheme: ENODEV", |s| {
        let (fd, _) = server.file()?;
        let (busy, _) = server.file()?;
        let client = Client::start(s, SYS_READ, |page| {
            [busy, page + PAGE_SIZE, PAGE_SIZE, 0, 0, 0]
        })?;
        server.expect(Opcode::Read)?;
        expect("close", sys::close(server.socket), Ok(0))?;
        must("settle", sys::nanosleep(20_000_000))?;
        if client.child.ended_with()?.is_some() {
            expect("the request under way", client.finish()?, Err(ENODEV))?;
        } else {
            // the upstream kernel lets it wait for ever
            let status = client.child.privileged_status(s)?;
            must("kill", contexts::write_words(status, &[usize::MAX]))?;
            client.child.join()?;
            must("close", sys::close(status))?;
        }
        let outcomes: Vec<Outcome> = [SYS_FSYNC, SYS_FEVENT, SYS_FPATH]
            .into_iter()
            .map(|number| sys::raw(number, [fd, s.slot(), 0, 0, 0, 0]))
            .collect();
        expect("afterwards", outcomes, alloc::vec![Err(ENODEV); 3])?;
        expect("close", sys::close(fd), Err(ENODEV))?;
        expect("it is closed", sys::close(fd), Err(EBADF))
    });
}

/// How a request names several descriptors: kernels have one of these forms, or both.
#[derive(Clone, Copy)]
enum Several {
    /// The length of the list in bytes is the sixth argument.
    Length,
    /// The low bits of the address of the list are their number.
    Count,
}

impl Several {
    /// The first word of the request, its flag and its sixth word, for a list of this length.
    fn words(self, list: usize, count: usize) -> (usize, usize, usize) {
        match self {
            Self::Length => (list, 1 << 17, count * size_of::<usize>()),
            Self::Count => (list | count, CallFlags::MULTIPLE_FDS2.bits(), 0),
        }
    }
}

/// The forms that this kernel has: those in which a descriptor that is not there is EBADF.
fn several_descriptors() -> Vec<Several> {
    let nothing = [usize::MAX];
    let mut forms = vec![Several::Length, Several::Count];
    forms.retain(|form| {
        let (list, flags, bytes) = form.words(nothing.as_ptr() as usize, nothing.len());
        raw(SYS_CALL, [list, 0, 0, flags, 0, bytes]) == Err(EBADF)
    });
    forms
}
