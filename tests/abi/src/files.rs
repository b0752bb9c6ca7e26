//! Descriptors and descriptions: slots, dup, close, flags, paths, user pointers, unknown calls
//! (Redox's `src/syscall/fs.rs`).

use crate::suite::{Check, Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys::{self, raw};
use alloc::vec;
use syscall::error::*;
use syscall::number::*;
use syscall::{F_DUPFD, F_GETFD, F_GETFL, F_SETFL, O_NONBLOCK, O_RDONLY, O_RDWR, UPPER_FDTBL_TAG};

const CHECKS: &[Check] = &[
    ("unknown numbers are ENOSYS", unknown_numbers),
    (
        "a call preserves every register but rax, rcx, r11",
        registers,
    ),
    (
        "slots: chosen by the caller, taken is EEXIST, upper table is separate",
        slots,
    ),
    ("dup2 replaces what is in the slot", dup2),
    ("bad descriptors are EBADF in every call", bad_descriptors),
    (
        "flags: F_GETFL, F_SETFL keeps the access mode, F_GETFD is 0, F_DUPFD is exact",
        flags,
    ),
    (
        "user pointers: kernel half, wrap and unmapped are EFAULT",
        user_pointers,
    ),
    (
        "paths: longer than 4096 is ENAMETOOLONG, not UTF-8 is EINVAL",
        paths,
    ),
    (
        "a file opens by the older number of the call, by the newer, or by both",
        numbers_of_openat,
    ),
    ("below a descriptor that is not a root: EACCES", not_a_root),
    ("fstat: the mode is a file's, st_dev is the scheme", fstat),
    ("debug: root takes no write, fpath names the scheme", debug),
    (
        "debug: a machine without a screen gives none to a terminal",
        no_screen,
    ),
    (
        "serio: two ports, which are read and keep nothing from others",
        serio,
    ),
];

pub fn run(suite: &Suite) {
    suite.check_all(CHECKS);
}

fn unknown_numbers(_: &Suite) -> Verdict {
    for number in [0, 20, 57, 158 + 4096, 0x2200_0004, usize::MAX] {
        expect("call", raw(number, [0; 6]), Err(ENOSYS))?;
    }
    Ok(())
}

fn registers(_: &Suite) -> Verdict {
    let loaded = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66];
    let (_, found) = runtime::probe::syscall_registers(SYS_YIELD, loaded);
    expect("registers", found, loaded)
}

fn slots(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(SYS, "uname", O_RDONLY))?;
    expect(
        "taken",
        sys::openat(suite.root(SYS), "uname", O_RDONLY, fd),
        Err(EEXIST),
    )?;
    expect("taken dup", sys::dup(fd, b"", fd), Err(EEXIST))?;
    let upper = UPPER_FDTBL_TAG | 900;
    expect("upper", sys::dup(fd, b"", upper), Ok(upper))?;
    let mut text = [0; 8];
    hold("read upper", sys::read(upper, &mut text).is_ok())?;
    expect("plain 900", sys::read(900, &mut text), Err(EBADF))?;
    expect("close upper", sys::close(upper), Ok(0))?;
    expect("last slot", sys::dup(fd, b"", 65535), Ok(65535))?;
    expect("close last", sys::close(65535), Ok(0))?;
    expect("beyond", sys::dup(fd, b"", 65536), Err(EEXIST))?;
    expect("close", sys::close(fd), Ok(0))?;
    expect("close twice", sys::close(fd), Err(EBADF))
}

fn dup2(suite: &Suite) -> Verdict {
    let a = must("open", suite.open(SYS, "uname", O_RDONLY))?;
    let b = must("open", suite.open(SYS, "cpu", O_RDONLY))?;
    expect("dup2", sys::dup2(a, b, b""), Ok(b))?;
    let (mut of_a, mut of_b) = ([0; 128], [0; 128]);
    let n = must("path", sys::fpath(a, &mut of_a))?;
    expect("same path", sys::fpath(b, &mut of_b), Ok(n))?;
    expect("same object", of_a, of_b)?;
    let (_, _) = (sys::close(a), sys::close(b));
    expect("bad source", sys::dup2(a, b, b""), Err(EBADF))
}

fn bad_descriptors(_: &Suite) -> Verdict {
    let mut buffer = [0; 32];
    let bad = 60_000;
    expect("read", sys::read(bad, &mut buffer), Err(EBADF))?;
    expect("write", sys::write(bad, &buffer), Err(EBADF))?;
    expect("close", sys::close(bad), Err(EBADF))?;
    expect("dup", sys::dup(bad, b"", 60_001), Err(EBADF))?;
    expect("fcntl", sys::fcntl(bad, F_GETFL, 0), Err(EBADF))?;
    expect("lseek", sys::lseek(bad, 0, 0), Err(EBADF))?;
    expect("fpath", sys::fpath(bad, &mut buffer), Err(EBADF))?;
    expect("fevent", sys::fevent(bad, 1), Err(EBADF))?;
    expect(
        "openat",
        sys::openat(bad, "x", O_RDONLY, 60_001),
        Err(EBADF),
    )?;
    let flags = syscall::CallFlags::empty();
    expect("call", sys::call(bad, &mut buffer, flags, &[]), Err(EBADF))
}

fn flags(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(PIPE, "", O_RDONLY))?;
    let before = must("getfl", sys::fcntl(fd, F_GETFL, 0))?;
    expect("setfl", sys::fcntl(fd, F_SETFL, O_NONBLOCK), Ok(0))?;
    let mode = before & syscall::O_ACCMODE;
    expect("getfl", sys::fcntl(fd, F_GETFL, 0), Ok(mode | O_NONBLOCK))?;
    expect("getfd", sys::fcntl(fd, F_GETFD, 0), Ok(0))?;
    let target = suite.slot();
    expect("dupfd", sys::fcntl(fd, F_DUPFD, target), Ok(target))?;
    expect("dupfd taken", sys::fcntl(fd, F_DUPFD, target), Err(EMFILE))?;
    let _ = (sys::close(fd), sys::close(target));
    Ok(())
}

fn user_pointers(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(SYS, "uname", O_RDONLY))?;
    for address in [
        1usize << 47,
        0xffff_8000_0000_0000,
        usize::MAX - 7,
        0x5000_0000_0000,
    ] {
        let outcome = raw(SYS_READ, [fd, address, 8, 0, 0, 0]);
        if outcome != Err(EFAULT) {
            return expect(
                &alloc::format!("read into {address:#x}"),
                outcome,
                Err(EFAULT),
            );
        }
    }
    let pipe = must("pipe", suite.open(PIPE, "", O_RDONLY))?;
    let end = must("write end", suite.dup(pipe, b"write"))?;
    expect(
        "write from nowhere",
        raw(SYS_WRITE, [end, 0x5000_0000_0000, 8, 0, 0, 0]),
        Err(EFAULT),
    )?;
    expect(
        "length wraps",
        raw(SYS_WRITE, [end, 0x1000, usize::MAX, 0, 0, 0]),
        Err(EFAULT),
    )?;
    let stat_at = [fd, 1 << 47, 104, 0, 0, 0];
    expect("fstat", raw(SYS_FSTAT, stat_at), Err(EFAULT))?;
    expect(
        "clock",
        raw(SYS_CLOCK_GETTIME, [4, 1 << 47, 0, 0, 0, 0]),
        Err(EFAULT),
    )?;
    let path = [
        suite.root(SYS),
        0x5000_0000_0000,
        4,
        O_RDONLY,
        0,
        suite.slot(),
    ];
    expect("path", raw(SYS_OPENAT_INTO, path), Err(EFAULT))?;
    let _ = (sys::close(fd), sys::close(pipe), sys::close(end));
    Ok(())
}

fn paths(suite: &Suite) -> Verdict {
    let long = vec![b'a'; 5000];
    let root = suite.root(SYS);
    let args = [
        root,
        long.as_ptr() as usize,
        long.len(),
        O_RDONLY,
        0,
        suite.slot(),
    ];
    expect("long", raw(SYS_OPENAT_INTO, args), Err(ENAMETOOLONG))?;
    let bytes = [0xffu8, 0xfe];
    let args = [root, bytes.as_ptr() as usize, 2, O_RDONLY, 0, suite.slot()];
    expect("not UTF-8", raw(SYS_OPENAT_INTO, args), Err(EINVAL))?;
    expect(
        "absent",
        suite.open(SYS, "no-such-file", O_RDONLY),
        Err(ENOENT),
    )
}

fn numbers_of_openat(suite: &Suite) -> Verdict {
    let name = b"uname";
    let open = |number, flags_of_length, slot_at: usize| {
        let slot = suite.slot();
        let length = name.len() | flags_of_length;
        let mut args = [suite.root(SYS), name.as_ptr() as usize, length, 0, 0, 0];
        args[3] = O_RDONLY;
        args[slot_at] = slot;
        match raw(number, args) {
            Err(ENOSYS) => Ok(false),
            result => {
                expect("openat", result, Ok(slot))?;
                expect("close", sys::close(slot), Ok(0)).map(|()| true)
            }
        }
    };
    let old = open(SYS_OPENAT_INTO, 0, 5)?;
    let new = open(SYS_OPENAT_INTO2, 0, 4)?;
    // The flags of the new description are in the word of the length.
    let with_flags = open(SYS_OPENAT_INTO2, O_NONBLOCK, 4)?;
    hold("a number", old || new)?;
    expect("with flags", with_flags, new)
}

fn not_a_root(suite: &Suite) -> Verdict {
    let debug = must("open", suite.open(DEBUG, "", O_RDWR))?;
    expect(
        "openat",
        sys::openat(debug, "", O_RDWR, suite.slot()),
        Err(EACCES),
    )?;
    expect("close", sys::close(debug), Ok(0))
}

fn fstat(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(SYS, "uname", O_RDONLY))?;
    let mut stat = syscall::Stat::default();
    must("fstat", sys::fstat(fd, &mut stat))?;
    expect(
        "mode",
        stat.st_mode & syscall::MODE_TYPE,
        syscall::MODE_FILE,
    )?;
    expect("device", stat.st_dev, SYS as u64)?;
    expect("close", sys::close(fd), Ok(0))
}

fn debug(suite: &Suite) -> Verdict {
    expect(
        "write to root",
        sys::write(suite.root(DEBUG), b"x"),
        Err(EINVAL),
    )?;
    let fd = must("open", suite.open(DEBUG, "", O_RDWR))?;
    let mut path = [0; 32];
    let n = must("fpath", sys::fpath(fd, &mut path))?;
    expect("path", &path[..n], b"debug:".as_slice())?;
    expect("write", sys::write(fd, b""), Ok(0))?;
    expect("close", sys::close(fd), Ok(0))
}

/// The handle by which a terminal draws on the screen: Redox's kernel has none at all.
fn no_screen(suite: &Suite) -> Verdict {
    match suite.open(DEBUG, "screen", O_RDWR) {
        Err(ENODEV | ENOENT) => Ok(()),
        other => expect("open", other, Err(ENODEV)),
    }
}

fn serio(suite: &Suite) -> Verdict {
    for port in ["0", "1"] {
        let fd = must("open", suite.open(SERIO, port, O_RDONLY | O_NONBLOCK))?;
        let mut bytes = [0; 16];
        expect("read", sys::read(fd, &mut bytes), Err(EAGAIN))?;
        let n = must("fpath", sys::fpath(fd, &mut bytes))?;
        expect("path", &bytes[..n - 1], b"serio:".as_slice())?;
        expect("number", &bytes[n - 1..n], port.as_bytes())?;
        expect("write", sys::write(fd, b"x"), Err(EBADF))?;
        expect("close", sys::close(fd), Ok(0))?;
    }
    let missing = suite.open(SERIO, "2", O_RDONLY);
    expect("a third port", missing, Err(ENOENT))
}
