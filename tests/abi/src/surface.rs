//! The rest of what the image's programs rely on: every row of the table in `docs/redox.md` names a
//! check, and those that the other files do not make are here.

use crate::contexts::{self, Child, Space};
use crate::serving::*;
use crate::suite::{Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::{collections::BTreeSet, format, vec};
use runtime::probe::{self, peek, poke};
use syscall::error::*;
use syscall::flag::{AcpiVerb, ProcSchemeVerb, StdFsCallKind};
use syscall::number::*;
use syscall::schemev2::Opcode;
use syscall::{
    CallFlags, Map, MapFlags, O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY, PAGE_SIZE, UPPER_FDTBL_TAG,
};

/// Bytes of a context's set of processors on Redox's kernel: one bit for each of 128. This
/// project's has more, and takes as few.
const CPU_SET_BYTES: usize = 16;

pub fn run(suite: &Suite) {
    start(suite);
    memory(suite);
    tables(suite);
    files(suite);
    devices(suite);
}

fn start(suite: &Suite) {
    suite.check("metadata: every root once, with a descriptor", |_| {
        let roots = runtime::first::roots();
        let ids: BTreeSet<u8> = roots.iter().map(|root| root.id).collect();
        let fds: BTreeSet<usize> = roots.iter().map(|root| root.fd).collect();
        expect("numbers", ids.len(), roots.len())?;
        expect("descriptors", fds.len(), roots.len())?;
        for id in [DEBUG, EVENT, MEMORY, PIPE, IRQ, TIME, SYS, PROC, ACPI] {
            hold(&format!("scheme {id}"), ids.contains(&(id as u8)))?;
        }
        let capability = runtime::first::scheme_creation_capability();
        hold("the right to create schemes", !fds.contains(&capability))
    });
}

fn memory(suite: &Suite) {
    suite.check("MPROTECT makes written code run", |_| {
        const RETURN: u8 = 0xc3;
        let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
        let at = must("map", sys::fmap_anonymous(PAGE_SIZE, flags))?;
        poke(at, RETURN);
        let rights = MapFlags::PROT_READ | MapFlags::PROT_EXEC;
        expect("protect", sys::mprotect(at, PAGE_SIZE, rights), Ok(0))?;
        probe::execute(at);
        expect("unmap", sys::funmap(at, PAGE_SIZE), Ok(0))
    });
    suite.check("physical: every kind of cache maps firmware memory", |s| {
        let read = |path: &str| {
            let fd = must(path, s.open(MEMORY, path, O_RDONLY))?;
            let map = Map {
                offset: 0xf_0000,
                size: PAGE_SIZE,
                flags: MapFlags::PROT_READ | MapFlags::MAP_SHARED,
                address: 0,
            };
            let at = must(path, sys::fmap(fd, &map))?;
            let bytes: [u8; 64] = core::array::from_fn(|i| peek(at + PAGE_SIZE - 64 + i));
            must("close", sys::close(fd))?;
            must("unmap", sys::funmap(at, PAGE_SIZE))?;
            Ok::<_, alloc::string::String>(bytes)
        };
        let plain = read("physical@wb")?;
        expect("write combining", read("physical@wc")?, plain)?;
        expect("uncached", read("physical@uc")?, plain)
    });
}

/// The numbers in a binary listing of a file table.
fn listed(table: usize) -> Result<BTreeSet<usize>, alloc::string::String> {
    let mut bytes = vec![0; 4096];
    let mut found = BTreeSet::new();
    loop {
        let count = must("list", sys::read(table, &mut bytes))?;
        if count == 0 {
            return Ok(found);
        }
        for word in bytes[..count].chunks_exact(8) {
            let word: [u8; 8] = word.try_into().unwrap_or([0; 8]);
            found.insert(u64::from_le_bytes(word) as usize);
        }
    }
}

fn tables(suite: &Suite) {
    suite.check("a file table takes descriptors and lists them anew", |s| {
        let context = must("new-context", s.dup(s.root(PROC), b"new-context"))?;
        let table = must("table", s.dup(context, b"filetable-binary"))?;
        let empty = listed(table)?;
        hold("nothing at 7", !empty.contains(&7))?;
        let kept = must("pipe", s.open(PIPE, "", O_RDWR))?;
        let flags = CallFlags::FD | CallFlags::WRITE | CallFlags::FD_CLONE;
        for number in [7, UPPER_FDTBL_TAG | 3] {
            let mut payload = kept.to_ne_bytes();
            must(
                "give",
                sys::call(table, &mut payload, flags, &[number as u64]),
            )?;
        }
        hold(
            "kept by the giver",
            sys::fcntl(kept, syscall::F_GETFD, 0).is_ok(),
        )?;
        must("refresh", sys::dup2(table, table, b"refresh"))?;
        let now = listed(table)?;
        hold("7", now.contains(&7))?;
        expect("both", now.len(), empty.len() + 2)?;
        for fd in [table, context, kept] {
            must("close", sys::close(fd))?;
        }
        Ok(())
    });
    suite.check(
        "attributes: a context's name and number are what was set",
        |s| {
            let context = must("new-context", s.dup(s.root(PROC), b"new-context"))?;
            let name = format!("auth-{}-attrs", s.root(PROC));
            let attributes = must("attrs", s.dup(context, name.as_bytes()))?;
            let mut debug_name = [0; 32];
            debug_name[..9].copy_from_slice(b"abi-named");
            let record = syscall::data::ProcSchemeAttrs {
                pid: 4711,
                euid: 12,
                egid: 13,
                prio: 20,
                debug_name,
            };
            must("write", sys::write(attributes, &record))?;
            let list = must("context", s.open(SYS, "context", O_RDONLY))?;
            let mut text = vec![0; 32768];
            let count = must("read", sys::read(list, &mut text))?;
            let text = core::str::from_utf8(&text[..count]).unwrap_or_default();
            let line = text.lines().find(|line| line.contains("abi-named"));
            let mut words = line.unwrap_or_default().split_whitespace();
            let found = [words.next(), words.next(), words.next()];
            expect(
                "pid, euid, egid",
                found,
                [Some("4711"), Some("12"), Some("13")],
            )?;
            for fd in [list, attributes, context] {
                must("close", sys::close(fd))?;
            }
            Ok(())
        },
    );
    suite.check("affinity: a context's processors are what was set", |s| {
        let context = must("new-context", s.dup(s.root(PROC), b"new-context"))?;
        let affinity = must("sched-affinity", s.dup(context, b"sched-affinity"))?;
        let mut all = [0; 2 * CPU_SET_BYTES];
        let count = must("read", sys::read(affinity, &mut all))?;
        hold(
            "bytes of the set",
            (CPU_SET_BYTES..=all.len()).contains(&count),
        )?;
        hold(
            "a new context may run on the first processor",
            all[0] & 1 != 0,
        )?;
        let mut first = [0; CPU_SET_BYTES];
        first[0] = 1;
        let count = must("write", sys::write(affinity, &first))?;
        expect("bytes taken", count, CPU_SET_BYTES)?;
        let mut set = [0xff; CPU_SET_BYTES];
        let count = must("read again", sys::read(affinity, &mut set))?;
        expect("bytes of the first part", count, CPU_SET_BYTES)?;
        expect("the set", set, first)?;
        let few = sys::read(affinity, &mut set[..CPU_SET_BYTES / 2]);
        expect("no room", few, Err(EINVAL))?;
        for fd in [affinity, context] {
            must("close", sys::close(fd))?;
        }
        Ok(())
    });
}

/// Puts a path into a client's page; gives its address and length.
fn put_path(page: usize, path: &str) -> (usize, usize) {
    for (at, byte) in path.bytes().enumerate() {
        poke(page + BUFFER + at, byte);
    }
    (page + BUFFER, path.len())
}

fn files(suite: &Suite) {
    suite.check(
        "unlink, rename, change of owner, sync and fstat reach the daemon",
        |s| {
            let server = Server::new(s)?;
            let (fd, number) = server.file()?;
            let path_is = |sqe: &syscall::schemev2::Sqe, wanted: &str| -> Verdict {
                let (at, length) = (sqe.args[1] as usize, sqe.args[2] as usize);
                expect("length", length, wanted.len())?;
                let same = wanted
                    .bytes()
                    .enumerate()
                    .all(|(i, byte)| peek(at + i) == byte);
                hold("the path", same)
            };
            let client = Client::start(s, SYS_UNLINKAT, |page| {
                let (at, length) = put_path(page, "a/b");
                [fd, at, length, syscall::AT_REMOVEDIR, 0, 0]
            })?;
            let sqe = server.expect(Opcode::UnlinkAt)?;
            expect("object", sqe.args[0] as usize, number)?;
            path_is(&sqe, "a/b")?;
            expect("flags", sqe.args[3] as usize, syscall::AT_REMOVEDIR)?;
            server.answer(&sqe, Ok(0))?;
            expect("unlink", client.finish()?, Ok(0))?;

            let client = Client::start(s, SYS_FRENAME, |page| {
                let (at, length) = put_path(page, "/scheme/x/new");
                [fd, at, length, 0, 0, 0]
            })?;
            let sqe = server.expect(Opcode::Frename)?;
            path_is(&sqe, "new")?;
            server.answer(&sqe, Err(EXDEV))?;
            expect("rename", client.finish()?, Err(EXDEV))?;

            let client = Client::start(s, SYS_FCHOWN, |_| [fd, 5, 6, 0, 0, 0])?;
            let sqe = server.expect(Opcode::Fchown)?;
            expect("user and group", (sqe.args[1], sqe.args[2]), (5, 6))?;
            server.answer(&sqe, Ok(0))?;
            expect("chown", client.finish()?, Ok(0))?;

            let client = Client::start(s, SYS_FSYNC, |_| [fd, 0, 0, 0, 0, 0])?;
            let sqe = server.expect(Opcode::Fsync)?;
            server.answer(&sqe, Ok(0))?;
            expect("sync", client.finish()?, Ok(0))?;

            let page = shared_page()?;
            let length = size_of::<syscall::Stat>();
            let args = [fd, page + BUFFER, length, 0, 0, 0];
            let client = Client::start_at(s, page, SYS_FSTAT, args)?;
            let sqe = server.expect(Opcode::Fstat)?;
            expect("room", sqe.args[2] as usize, length)?;
            let mode = core::mem::offset_of!(syscall::Stat, st_mode);
            poke(sqe.args[1] as usize + mode, 0xa4);
            server.answer(&sqe, Ok(0))?;
            expect("fstat", client.finish()?, Ok(0))?;
            expect("the daemon's word", peek(page + BUFFER + mode), 0xa4)?;
            hold("the kernel's word", probe::peek_word(page + BUFFER) > 16)?;
            server.close(fd, number)?;
            expect("close", sys::close(server.socket), Ok(0))
        },
    );
}

/// Where a child leaves what it read from the port.
const PORT_MARK: u8 = 0x80;
/// The keyboard controller's second register: no device is disturbed by a look at it.
const QUIET_PORT: u16 = 0x61;

/// Takes the right to use ports, uses one and tells. Ends in an exception when it has no right.
fn use_port(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let own = sys::dup(shared.proc_root, b"cur-context", shared.slots + 1);
    let verb = [ProcSchemeVerb::Iopl as u64];
    let granted = own.and_then(|own| sys::call(own, &mut [], CallFlags::empty(), &verb));
    if granted == Ok(0) {
        poke(shared.value, probe::read_port(QUIET_PORT) | PORT_MARK);
    }
    let _ = own.map(sys::close);
    contexts::end(shared.proc_root, shared.slots)
}

fn devices(suite: &Suite) {
    suite.check("iopl: a context that asks may use ports", |s| {
        let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
        let cell = must("cell", sys::fmap_anonymous(PAGE_SIZE, flags))?;
        let child = Child::start(s, Space::Same, use_port, contexts::share(s, cell)?)?;
        let (status, _) = child.join()?;
        expect("status", status, syscall::ContextStatus::Dead as usize)?;
        hold("it read the port", peek(cell) & PORT_MARK != 0)?;
        expect("unmap", sys::funmap(cell, PAGE_SIZE), Ok(0))
    });
    suite.check("open_via_dup is the handle of a context again", |s| {
        let own = must("cur-context", s.dup(s.root(PROC), b"cur-context"))?;
        let again = must("open_via_dup", s.dup(own, b"open_via_dup"))?;
        let space = must("addrspace", s.dup(again, b"addrspace"))?;
        let unknown = s.dup(again, b"no-such-handle");
        expect("unknown", unknown, Err(EINVAL))?;
        for fd in [space, again, own] {
            must("close", sys::close(fd))?;
        }
        Ok(())
    });
    suite.check("kernel.acpi: the root table, its length first", |s| {
        let fd = must("open", s.open(ACPI, "", O_RDONLY))?;
        let verb = [AcpiVerb::ReadRxsdt as u64];
        let length = must("length", sys::call(fd, &mut [], CallFlags::READ, &verb))?;
        hold(&format!("a header and more, {length}"), length >= 36)?;
        let mut table = vec![0; length];
        let outcome = sys::call(fd, &mut table, CallFlags::READ, &verb);
        expect("whole", outcome, Ok(length))?;
        let sum = table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        expect("checksum", sum, 0)?;
        let mut start = [0; 4];
        let outcome = sys::call(fd, &mut start, CallFlags::READ, &verb);
        expect("a part: the whole length", outcome, Ok(length))?;
        expect("signature", &start[1..], b"SDT".as_slice())?;
        expect("close", sys::close(fd), Ok(0))
    });
    suite.check(
        "kernel.acpi: kstop says that nobody stops the machine",
        |s| {
            let fd = must("open", s.open(ACPI, "kstop", O_RDONLY))?;
            let verb = [AcpiVerb::CheckShutdown as u64];
            let outcome = sys::call(fd, &mut [], CallFlags::READ, &verb);
            expect("not asked for", outcome, Ok(0))?;
            expect("close", sys::close(fd), Ok(0))
        },
    );
    suite.check("irq: a cpu lists its free vectors, lines are quiet", |s| {
        let flags = O_RDONLY | O_DIRECTORY;
        let directory = must("cpu", s.open(IRQ, "cpu-00", flags))?;
        // Redox's kernel answers EINVAL where a part of the list would fit.
        let mut bytes = vec![0; 16 * 1024];
        let header = size_of::<syscall::dirent::DirentHeader>() as u64;
        let meta = [StdFsCallKind::Getdents as u64, 0, header];
        let flags = CallFlags::STD_FS | CallFlags::READ;
        let count = must("getdents", sys::call(directory, &mut bytes, flags, &meta))?;
        let length = usize::from(u16::from_le_bytes([bytes[16], bytes[17]]));
        hold("whole records", length <= count)?;
        let name = bytes.get(header as usize..length).unwrap_or_default();
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
        hold("a number is the first name", digits.count() > 0)?;
        let line = must("line", s.open(IRQ, "11", O_RDWR))?;
        let mut counted = [0; 8];
        let read = must("read", sys::read(line, &mut counted))?;
        hold("nothing or a count", read == 0 || read == 8)?;
        let _ = (sys::close(line), sys::close(directory));
        Ok(())
    });
    suite.check("sys: kstop takes nothing it does not know", |s| {
        let fd = must("kstop", s.open(SYS, "kstop", O_WRONLY))?;
        let outcome = sys::write(fd, b"nothing");
        hold(&format!("refused, {outcome:?}"), outcome.is_err())?;
        expect("close", sys::close(fd), Ok(0))
    });
}
