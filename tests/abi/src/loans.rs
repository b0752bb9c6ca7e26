//! Pages that are lent on: a program borrows from another one's address space and passes the pages
//! to a daemon as the payload of a request (Redox's `src/scheme/user.rs`).

use crate::contexts::{self, Child, Space, write_words};
use crate::memory::{free_blocks, translate};
use crate::serving::*;
use crate::suite::{Suite, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::format;
use runtime::probe::{peek, poke};
use syscall::error::*;
use syscall::number::{SYS_CALL, SYS_FPATH, SYS_READ, SYS_WRITE};
use syscall::schemev2::Opcode;
use syscall::{
    ADDRSPACE_OP_MMAP, ADDRSPACE_OP_MPROTECT, ADDRSPACE_OP_MUNMAP, Map, MapFlags, O_RDONLY,
    PAGE_SIZE,
};

/// Where the pages are in the third program, which consists of its address space only.
const THERE: usize = 0x40_0000;
/// Where the lender maps them.
const HERE: usize = 0x70_0000_0000;
const SIZE: usize = 2 * PAGE_SIZE;

/// Words of the lender's page: what it gives to the daemon, whether it protects the pages at their
/// owner's first, and how its own mapping went.
const FILE: usize = 0;
const SPACE: usize = 1;
const MAPPED: usize = 2;
const PROTECT: usize = 3;

/// Borrows from the address space its page names, and calls the daemon with the pages.
fn lender(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let page = shared.value;
    let map = Map {
        offset: THERE,
        size: SIZE,
        flags: SHARED | MapFlags::MAP_FIXED_NOREPLACE,
        address: HERE,
    };
    let mapped = sys::fmap(word(page, SPACE), &map).unwrap_or(0);
    put_word(page, MAPPED, mapped);
    if word(page, PROTECT) != 0 && (protect(word(page, SPACE)) != Ok(32) || peek(HERE) != 0) {
        put_word(page, MAPPED, 0);
    }
    // No metadata.
    let call = [word(page, FILE), HERE, SIZE, 0, 0, 0];
    put_word(page, RESULT, runtime::probe::syscall(SYS_CALL, call));
    put_word(page, DONE, 1);
    contexts::end(shared.proc_root, shared.slots)
}

pub fn run(suite: &Suite) {
    let Ok(server) = Server::new(suite) else {
        suite.check("a third scheme", |_| Err("no socket".into()));
        return;
    };
    suite.check(
        "lent pages outlive the lender's mapping and the program they came from",
        |s| {
            let before = free_blocks(s)?;
            let space = third_program(s)?;
            let (fd, number) = server.file()?;
            let page = shared_page()?;
            put_word(page, FILE, fd);
            put_word(page, SPACE, space);
            let record = contexts::share(s, page)?;
            let child = Child::start(s, Space::Clone, lender, record)?;
            let sqe = server.expect(Opcode::Call)?;
            expect("the lender's own mapping", word(page, MAPPED), HERE)?;
            let (at, length) = (sqe.args[1] as usize, sqe.args[2] as usize);
            expect("length", length, SIZE)?;
            // All three see the same frames; this one keeps them.
            poke(at, 0x5a);
            poke(at + PAGE_SIZE, 0x5b);
            let frames = [translate(s, at)?, translate(s, at + PAGE_SIZE)?];
            let map = Map {
                offset: THERE,
                size: SIZE,
                flags: SHARED,
                address: 0,
            };
            let look = must("look", sys::fmap(space, &map))?;
            expect("first page", peek(look), 0x5a)?;
            expect("second page", peek(look + PAGE_SIZE), 0x5b)?;
            expect("look away", sys::funmap(look, SIZE), Ok(0))?;

            let lending = must("addrspace", s.dup(child.context, b"addrspace"))?;
            let unmap = [ADDRSPACE_OP_MUNMAP, HERE, SIZE];
            expect("the lender unmaps", write_words(lending, &unmap), Ok(24))?;
            expect("close", sys::close(lending), Ok(0))?;
            expect("the third program ends", sys::close(space), Ok(0))?;

            expect("first page", peek(at), 0x5a)?;
            poke(at + PAGE_SIZE, 0x5c);
            expect("second page", peek(at + PAGE_SIZE), 0x5c)?;
            let now = [translate(s, at)?, translate(s, at + PAGE_SIZE)?];
            expect("same frames", now, frames)?;
            hold("the lender waits", word(page, DONE) == 0)?;
            server.answer(&sqe, Ok(9))?;
            child.join()?;
            expect("call", word(page, RESULT), 9)?;
            server.close(fd, number)?;
            expect("unmap", sys::funmap(page, 4 * PAGE_SIZE), Ok(0))?;
            let after = free_blocks(s)?;
            hold(
                &format!("free pages {before} then {after}"),
                before.abs_diff(after) <= 16,
            )
        },
    );
    suite.check(
        "lending on does not give back a right that was taken away",
        |s| {
            let space = third_program(s)?;
            let (fd, number) = server.file()?;
            let page = shared_page()?;
            put_word(page, FILE, fd);
            put_word(page, SPACE, space);
            put_word(page, PROTECT, 1);
            let record = contexts::share(s, page)?;
            let child = Child::start(s, Space::Clone, lender, record)?;
            let sqe = server.expect(Opcode::Call)?;
            expect("the lender's own mapping", word(page, MAPPED), HERE)?;
            let at = sqe.args[1] as usize;
            expect("readable", peek(at), 0)?;
            // Whether the store fails or goes nowhere, the pages' owner must not see it.
            let file = must("uname", s.open(SYS, "uname", O_RDONLY))?;
            let _ = sys::raw(SYS_READ, [file, at, 8, 0, 0, 0]);
            let _ = sys::close(file);
            let map = Map {
                offset: THERE,
                size: SIZE,
                flags: MapFlags::PROT_READ | MapFlags::MAP_SHARED,
                address: 0,
            };
            let look = must("look", sys::fmap(space, &map))?;
            expect("content", peek(look), 0)?;
            expect("look away", sys::funmap(look, SIZE), Ok(0))?;
            server.answer(&sqe, Ok(0))?;
            child.join()?;
            server.close(fd, number)?;
            expect("close", sys::close(space), Ok(0))?;
            expect("unmap", sys::funmap(page, 4 * PAGE_SIZE), Ok(0))
        },
    );
    suite.check(
        "pages stay where they were borrowed, though lender and owner go",
        |s| {
            // How pages of a program are pinned: through a space in which nothing runs.
            let before = free_blocks(s)?;
            let owner = third_program(s)?;
            let middle = empty_space(s)?;
            let flags = SHARED | MapFlags::MAP_FIXED;
            let pass = [ADDRSPACE_OP_MMAP, owner, THERE, HERE, SIZE, flags.bits()];
            let look = |space, offset| {
                let map = Map {
                    offset,
                    size: SIZE,
                    flags: SHARED,
                    address: 0,
                };
                must("look", sys::fmap(space, &map))
            };
            // The pages are there before they are passed on.
            let own = look(owner, THERE)?;
            poke(own, 0x61);
            poke(own + PAGE_SIZE, 0x62);
            expect("into the middle", write_words(middle, &pass), Ok(HERE))?;
            let at = look(middle, HERE)?;
            let frames = [translate(s, at)?, translate(s, at + PAGE_SIZE)?];
            let theirs = [translate(s, own)?, translate(s, own + PAGE_SIZE)?];
            expect("the owner's frames", frames, theirs)?;
            let unmap = [ADDRSPACE_OP_MUNMAP, HERE, SIZE];
            expect("out of the middle", write_words(middle, &unmap), Ok(24))?;
            poke(own, 0x63);
            expect("seen here", peek(at), 0x63)?;
            poke(at + PAGE_SIZE, 0x64);
            expect("seen there", peek(own + PAGE_SIZE), 0x64)?;
            // The next one takes the same place in the middle, and changes nothing of this.
            expect("once more", write_words(middle, &pass), Ok(HERE))?;
            expect("out again", write_words(middle, &unmap), Ok(24))?;
            expect("look away", sys::funmap(own, SIZE), Ok(0))?;
            expect("the owner ends", sys::close(owner), Ok(0))?;
            expect("first page", peek(at), 0x63)?;
            expect("second page", peek(at + PAGE_SIZE), 0x64)?;
            let now = [translate(s, at)?, translate(s, at + PAGE_SIZE)?];
            expect("same frames", now, frames)?;
            expect("unmap", sys::funmap(at, SIZE), Ok(0))?;
            expect("the middle ends", sys::close(middle), Ok(0))?;
            let after = free_blocks(s)?;
            hold(
                &format!("free pages {before} then {after}"),
                before.abs_diff(after) <= 16,
            )
        },
    );
    suite.check("a borrowed range cannot be had with more rights", |s| {
        let space = third_program(s)?;
        // Shared memory has the rights it is mapped with; private memory is exempt.
        expect("protect", protect(space), Ok(32))?;
        let map = |flags| Map {
            offset: THERE,
            size: SIZE,
            flags,
            address: 0,
        };
        expect("writable", sys::fmap(space, &map(SHARED)), Err(EPERM))?;
        let reading = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
        let at = must("readable", sys::fmap(space, &map(reading)))?;
        expect("zero", peek(at), 0)?;
        expect("unmap", sys::funmap(at, SIZE), Ok(0))?;
        expect("close", sys::close(space), Ok(0))
    });
    suite.check("an answer of more bytes than there is room for", |s| {
        let (fd, number) = server.file()?;
        for (call, opcode) in [
            (SYS_READ, Opcode::Read),
            (SYS_WRITE, Opcode::Write),
            (SYS_FPATH, Opcode::Fpath),
        ] {
            for (answer, expected) in [(16, Ok(16)), (17, Err(EIO)), (1 << 62, Err(EIO))] {
                let client = Client::start(s, call, |page| [fd, page + BUFFER, 16, 0, 0, 0])?;
                let sqe = server.expect(opcode)?;
                server.answer(&sqe, Ok(answer))?;
                expect("the client", client.finish()?, expected)?;
            }
        }
        server.close(fd, number)
    });
}

/// Takes the right to write to its pages from the third program.
fn protect(space: usize) -> sys::Outcome {
    let rights = MapFlags::PROT_READ.bits();
    write_words(space, &[ADDRSPACE_OP_MPROTECT, THERE, SIZE, rights])
}

/// The address space of a program without threads, with two shared pages.
fn third_program(suite: &Suite) -> Result<usize, alloc::string::String> {
    let space = empty_space(suite)?;
    let flags = SHARED | MapFlags::MAP_FIXED_NOREPLACE;
    let words = [ADDRSPACE_OP_MMAP, usize::MAX, 0, THERE, SIZE, flags.bits()];
    expect("map there", write_words(space, &words), Ok(THERE))?;
    Ok(space)
}

/// An address space with nothing in it.
fn empty_space(suite: &Suite) -> Result<usize, alloc::string::String> {
    let own = must("cur-context", suite.dup(suite.root(PROC), b"cur-context"))?;
    let memory = must("addrspace", suite.dup(own, b"addrspace"))?;
    let space = must("empty", suite.dup(memory, b"empty"))?;
    for fd in [memory, own] {
        must("close", sys::close(fd))?;
    }
    Ok(space)
}
