//! What an ordinary user must not be able to do.

use alloc::vec::Vec;

use guest_tests::Suite;
use libredox::Fd;
use runtime::process::{self, Command};
use runtime::{Result, fd, fs, path, state};
use syscall::error::{EACCES, EBADF, ENFILE, EPERM};
use syscall::flag::StdFsCallKind;

use crate::errno;

/// An ordinary user.
const USER: u32 = 1000;
/// A file and a directory that are root's alone.
const SECRET: &str = "/tmp/process-test.secret";
const SECRET_DIRECTORY: &str = "/tmp/process-test.secrets";
/// The log, of which each reader gets a copy.
const LOG: &str = "/scheme/log";
/// More handles of a daemon than a user may have open.
const MANY: usize = 20_000;

/// Has a process of an ordinary user try it.
pub fn limits(suite: &mut Suite) {
    let secrets = || -> Result<()> {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).mode(0o600).open(SECRET)?;
        fd::write(file.as_raw_fd(), b"hidden")?;
        let flags = syscall::O_CREAT | syscall::O_DIRECTORY | 0o700;
        fd::close(path::open(SECRET_DIRECTORY, flags)?)
    };
    suite.equal("secrets of root", errno(secrets()), 0);
    // The user inherits a file that root has opened.
    let inherited = path::open(SECRET, syscall::O_RDONLY).map(Fd::new);
    let user = inherited.and_then(|file| {
        let mut command = Command::new("process-test");
        command.arg("user").stdin(&file).uid(USER).gid(USER);
        command.spawn()
    });
    let user = user
        .and_then(|mut child| child.wait())
        .map(|status| status.success());
    suite.equal(
        "a user's limits",
        user.map_err(|error| error.errno),
        Ok(true),
    );
    suite.equal("the log afterwards", errno(fs::read(LOG)), 0);
    let kept = fs::read_to_string(SECRET).map_err(|error| error.errno);
    suite.equal("a secret afterwards", kept.as_deref(), Ok("hidden"));
    let _ = (fs::remove_file(SECRET), fs::remove_dir(SECRET_DIRECTORY));
}

/// Runs as an ordinary user.
pub fn run() -> i32 {
    let mut suite = Suite::new("process-test user");
    suite.equal("user id", process::own_meta().euid, USER);
    suite.equal("kill of init", errno(process::kill(1, 9)), EPERM);
    let root = process::set_ids(state::proc_fd(), Some(0), None);
    suite.equal("becoming root", errno(root), EPERM);
    let child = Command::new("process-test")
        .args(["exit", "0"])
        .uid(0)
        .spawn();
    suite.equal("a child of root", errno(child), EPERM);
    let capability = path::open("/scheme/namespace/scheme-creation-cap", 0).map(Fd::new);
    let scheme = capability.and_then(|cap| fd::dup(cap.raw(), b"create-scheme"));
    suite.equal("creating a scheme", errno(scheme), EACCES);
    let mut register = Vec::from(2_usize.to_ne_bytes());
    register.extend_from_slice(b"of-a-user");
    let name = fd::dup(state::namespace_fd(), &register);
    suite.equal("a name for all programs", errno(name), EACCES);
    let init = path::open("/scheme/proc/init", syscall::O_RDWR);
    suite.equal("the handle of init", errno(init), EACCES);
    for name in ["auth-3-attrs", "auth-3-status"] {
        let result = fd::dup(state::thread_fd(), name.as_bytes());
        suite.equal("the manager's own rights", errno(result), EPERM);
    }
    suite.equal("the debug port", fs::read("/scheme/debug").is_err(), true);
    let read_as = |path: &str, flags: usize| {
        let file = Fd::new(path::open(path, flags | syscall::O_STAT)?);
        fd::read(file.raw(), &mut [0])?;
        fd::write(file.raw(), b"x")
    };
    let secret = read_as(SECRET, syscall::O_RDWR | syscall::O_TRUNC);
    suite.equal("a file opened for its status", errno(secret), EBADF);
    for (directory, flags) in [
        (SECRET_DIRECTORY, syscall::O_STAT),
        (SECRET_DIRECTORY, syscall::O_STAT | syscall::O_RDONLY),
        (SECRET_DIRECTORY, 0),
    ] {
        let list = || {
            let opened = path::open(directory, flags | syscall::O_DIRECTORY)?;
            fd::getdents(Fd::new(opened).raw(), &mut [0; 256], 0)
        };
        suite.equal("a directory not opened for reading", errno(list()), EBADF);
    }
    let changes = file_system_requests();
    suite.equal("a file system's requests", changes, Ok([EPERM; 5]));
    let foreground = |pid: u32| {
        let console = Fd::new(path::open("/scheme/console", syscall::O_RDWR)?);
        let foreground = Fd::new(fd::dup(console.raw(), b"pgrp")?);
        fd::write(foreground.raw(), &(pid as usize).to_ne_bytes())
    };
    let own = errno(foreground(process::id()));
    suite.equal("^C for the own process", own, 0);
    suite.equal("^C for init", errno(foreground(1)), EPERM);
    suite.equal("^C for nobody", errno(foreground(77_777)), EPERM);
    suite.equal("many readers of a full log", errno(read_log()), ENFILE);
    let list = |_| path::open("/scheme/proc/ps", syscall::O_RDONLY).map(Fd::new);
    let lists = (0..MANY).map(list).collect::<Result<Vec<Fd>>>();
    suite.equal("many lists of processes", errno(lists), ENFILE);
    let own = |_| fd::dup(state::namespace_fd(), &0_usize.to_ne_bytes()).map(Fd::new);
    let namespaces = (0..MANY).map(own).collect::<Result<Vec<Fd>>>();
    suite.equal("many namespaces", errno(namespaces), ENFILE);
    for directory in ["/scheme/", "/scheme/namespace"] {
        let open = |_| path::open(directory, syscall::O_DIRECTORY).map(Fd::new);
        let opened = (0..MANY).map(open).collect::<Result<Vec<Fd>>>();
        suite.equal("many handles of a list of names", errno(opened), ENFILE);
    }
    let console = |_| path::open("/scheme/console", syscall::O_RDONLY).map(Fd::new);
    let consoles = (0..MANY).map(console).collect::<Result<Vec<Fd>>>();
    suite.equal("many handles of the console", errno(consoles), ENFILE);
    let unfinished = unfinished_lines().map_err(|error| error.errno);
    suite.equal("many unfinished lines", unfinished, Ok([false, true]));
    suite.equal("a write of many lines", write_lines(), Ok(true));
    suite.finish()
}

/// The error numbers of requests of `CallFlags::STD_FS`, which do not name their user: to delete a
/// file of root, and to change the rights and the time of the root, which everyone gets from the
/// namespace, and of a file that root has opened.
fn file_system_requests() -> core::result::Result<[i32; 5], i32> {
    let flags = syscall::O_DIRECTORY | libredox::flag::O_CLOEXEC as usize;
    let root = fd::openat_upper(state::namespace_fd(), b"/scheme/file", flags, 0);
    let root = root.map(Fd::new).map_err(|error| error.errno)?;
    let mut secret = SECRET.trim_start_matches('/').as_bytes().to_vec();
    let remove = |name: &mut [u8]| {
        let kind = StdFsCallKind::Unlinkat;
        fd::std_fs_payload(root.raw(), kind, name, [0, 0])
    };
    let open_up = |file: usize| fd::std_fs_plain(file, StdFsCallKind::Fchmod, [0o777, 0]);
    let touch = |file: usize| {
        let kind = StdFsCallKind::Futimens;
        fd::std_fs_payload(file, kind, &mut [0; 32], [0, 0])
    };
    Ok([
        errno(remove(&mut secret)),
        errno(open_up(root.raw())),
        errno(touch(root.raw())),
        errno(open_up(0)),
        errno(touch(0)),
    ])
}

/// Whether the log takes a part of very many lines at a time: others wait meanwhile.
fn write_lines() -> core::result::Result<bool, i32> {
    let text = b"TRACE\n".repeat(10_000);
    let log = path::open(LOG, syscall::O_WRONLY).map(Fd::new);
    let written = log.and_then(|log| fd::write(log.raw(), text.as_slice()));
    let written = written.map_err(|error| error.errno)?;
    Ok(0 < written && written < text.len())
}

/// Begins more lines than the log keeps unfinished, and returns whether the first and the last of
/// them are in the log.
fn unfinished_lines() -> Result<[bool; 2]> {
    const FILES: usize = 700;
    let begin = |number: usize| {
        let log = Fd::new(path::open(LOG, syscall::O_WRONLY)?);
        let line = alloc::format!("TRACE unfinished {number} {:1900}", "");
        fd::write(log.raw(), line.as_bytes()).map(|_| log)
    };
    let _files = (0..FILES).map(begin).collect::<Result<Vec<Fd>>>()?;
    let text = fs::read_to_string(LOG)?;
    let has = |number: usize| text.contains(&alloc::format!("unfinished {number} "));
    Ok([has(0), has(FILES - 1)])
}

/// Fills the log with lines that the console does not show, and opens it again and again for
/// reading.
fn read_log() -> Result<()> {
    let log = Fd::new(path::open(LOG, syscall::O_WRONLY)?);
    let line = alloc::format!("TRACE {:1000}\n", "process-test");
    for _ in 0..300 {
        fd::write(log.raw(), line.as_bytes())?;
    }
    let open = |_| path::open(LOG, syscall::O_RDONLY).map(Fd::new);
    (0..100).map(open).collect::<Result<Vec<Fd>>>().map(drop)
}
