//! Processes, threads, credentials and names, as a program sees them: start, exit, kill, wait,
//! orphans, users, schemes that die and come again, bad arguments; and that nothing is left behind.
//!
//! `process-test`, as root, on one node; it starts itself with an argument for the other parts.
#![no_std]
#![no_main]

extern crate alloc;

mod groups;
mod user;

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use guest_tests::{Suite, at_rest, kernel_count, settled};
use libredox::Fd;
use runtime::fs::OpenOptions;
use runtime::io::Read;
use runtime::process::{self, Child, Command, ExitStatus};
use runtime::time::{Duration, sleep};
use runtime::{Error, Result, env, fd, fs, path, probe, state, sys, thread};
use syscall::data::Event;
use syscall::error::{
    EACCES, EBADF, ECHILD, EEXIST, EFAULT, EINVAL, ELOOP, ENODEV, ENOENT, ENOEXEC, ENOMEM, EPERM,
    ESRCH,
};
use syscall::flag::{CallFlags, EventFlags, MapFlags};

runtime::main!(main);

/// Processes started in the search for something left behind.
const ROUNDS: usize = 300;
/// Changes of the namespace beside threads that open files; an even number.
const NAMESPACES: usize = 2000;
/// The line by which a program reports that it runs until it is killed.
const READY: &str = "ready";
/// Pages that may differ: other programs run meanwhile.
const TOLERANCE: usize = 32;

fn main() -> i32 {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {}
        ["exit", status] => return status.parse().unwrap_or(255),
        ["spin"] => {
            runtime::print!("{READY}");
            loop {
                core::hint::spin_loop();
            }
        }
        ["sleep"] => {
            runtime::print!("{READY}");
            sleep(Duration::from_secs(3600));
            return 0;
        }
        ["parent"] => {
            // Waits for a child that reports that it is there, and does not end by itself.
            let child = start(&["sleep"]).and_then(|mut child| child.wait());
            return i32::from(child.is_err());
        }
        ["orphan"] => return i32::from(start(&["sleep"]).is_err()),
        ["half"] => {
            let made = fd::dup_upper(state::proc_fd(), b"fork");
            return i32::from(made.is_err());
        }
        // A program that cannot be started, as one of its descriptors is not there.
        ["replace"] => {
            let mut command = Command::new("process-test");
            return command.args(["exit", "77"]).fd(50, 999).exec().errno;
        }
        ["choose"] => return i32::from(choose().is_err()),
        ["choose-copy"] => return errno(choose_copy()),
        ["copy"] => {
            let mut text = String::new();
            if runtime::io::stdin().read_to_string(&mut text).is_err() {
                return 1;
            }
            runtime::print!("{text}");
            return 0;
        }
        ["user"] => return user::run(),
        _ => {
            runtime::eprintln!("usage: process-test");
            return 2;
        }
    }
    let mut suite = Suite::new("process-test");
    statuses(&mut suite);
    kills(&mut suite);
    leftovers(&mut suite);
    pipes(&mut suite);
    half_a_thread(&mut suite);
    let chosen = run(&["choose-copy"]).map(|status| status.code());
    let chosen = chosen.map_err(|error| error.errno);
    suite.equal("a table with its own chooser", chosen, Ok(Some(ELOOP)));
    suite.equal(
        "descriptors that did not come",
        errno(end_of_descriptors()),
        0,
    );
    too_much(&mut suite);
    names(&mut suite);
    arguments_from_hell(&mut suite);
    threads(&mut suite);
    other_namespaces(&mut suite);
    memory(&mut suite);
    suite.finish()
}

fn start(arguments: &[&str]) -> Result<Child> {
    Command::new("process-test").args(arguments).spawn()
}

/// A pipe: the end to read from and the end to write to.
fn pipe() -> Result<(Fd, Fd)> {
    let read = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR)?);
    let write = Fd::new(fd::dup(read.raw(), b"write")?);
    Ok((read, write))
}

/// A child that has said that it is where it shall be killed.
fn start_ready(what: &str) -> Result<Child> {
    let (mut said, output) = pipe()?;
    let child = Command::new("process-test")
        .arg(what)
        .stdout(&output)
        .spawn()?;
    drop(output);
    said.read_exact(&mut [0; READY.len()])?;
    Ok(child)
}

fn run(arguments: &[&str]) -> Result<ExitStatus> {
    start(arguments)?.wait()
}

/// The number of an error, 0 for success.
fn errno<T>(result: Result<T>) -> i32 {
    result.err().map_or(0, |error| error.errno)
}

fn statuses(suite: &mut Suite) {
    let code = |status: &str| run(&["exit", status]).ok().and_then(|status| status.code());
    suite.equal("exit status 0", code("0"), Some(0));
    suite.equal("exit status 200", code("200"), Some(200));
    suite.equal("only the low byte", code("513"), Some(1));
    suite.equal(
        "no such program",
        errno(Command::new("no-such-program").spawn()),
        ENOENT,
    );
    let script = "/scheme/initfs/lib/init.d/00_base";
    suite.equal(
        "a file that nobody may run",
        errno(Command::new(script).spawn()),
        EACCES,
    );
    let text = "/tmp/process-test-text";
    let mut options = OpenOptions::new();
    let made = options.write(true).create(true).mode(0o755).open(text);
    suite.equal("a text that all may run", errno(made), 0);
    suite.equal("not a program", errno(Command::new(text).spawn()), ENOEXEC);
    suite.equal(
        "a directory",
        errno(Command::new("/scheme/initfs/bin").spawn()),
        EACCES,
    );
    suite.equal("no child left", errno(process::wait_any(true)), ECHILD);
}

fn kills(suite: &mut Suite) {
    for what in ["spin", "sleep", "parent"] {
        let killed = start_ready(what).and_then(|mut child| {
            let early = child.try_wait()?;
            child.kill()?;
            Ok((early, child.wait()?.signal()))
        });
        let name = alloc::format!("kill of a program that does {what}");
        suite.equal(
            &name,
            killed.map_err(|error| error.errno),
            Ok((None, Some(9))),
        );
    }
    suite.equal(
        "kill of nobody",
        errno(process::kill(u32::MAX >> 1, 9)),
        ESRCH,
    );
    suite.equal(
        "unknown signal",
        errno(process::kill(process::id(), 65)),
        EINVAL,
    );
}

/// The lines of the process list, split into columns.
fn processes() -> Vec<Vec<String>> {
    let text = fs::read_to_string("/scheme/proc/ps").unwrap_or_default();
    text.lines()
        .skip(1)
        .map(|line| line.split(' ').map(String::from).collect())
        .collect()
}

/// Processes of this program's name with that parent.
fn children_of(parent: u32) -> Vec<u32> {
    let parent = alloc::format!("{parent}");
    processes()
        .iter()
        .filter(|line| line.len() == 5 && line[1] == parent && line[4] == "process-test")
        .filter_map(|line| line[0].parse().ok())
        .collect()
}

fn leftovers(suite: &mut Suite) {
    // The killed "parent" left its child to init.
    let status = run(&["orphan"]);
    suite.equal("status of a parent that goes first", errno(status), 0);
    let orphans = children_of(1);
    suite.equal("orphans of init", orphans.len(), 2);
    for orphan in orphans {
        suite.equal("kill of an orphan", errno(process::kill(orphan, 9)), 0);
    }
    suite.equal(
        "a program that cannot take the place of another",
        run(&["replace"]).ok().and_then(|status| status.code()),
        Some(EBADF),
    );
    suite.equal(
        "half-made child",
        run(&["half"]).ok().and_then(|s| s.code()),
        Some(0),
    );
    let orphans = settled(|| children_of(1), &Vec::new());
    suite.equal("init reaps", orphans, Vec::new());
    suite.equal(
        "nothing half-made stays",
        children_of(process::id()),
        Vec::new(),
    );
}

fn pipes(suite: &mut Suite) {
    let copied = || -> Result<String> {
        let ((input, ours), (mut result, output)) = (pipe()?, pipe()?);
        let mut command = Command::new("process-test");
        let mut child = command.arg("copy").stdin(&input).stdout(&output).spawn()?;
        drop((input, output));
        ours.write(b"through two pipes")?;
        drop(ours);
        let mut text = String::new();
        result.read_to_string(&mut text)?;
        child.wait()?;
        Ok(text)
    };
    let copied = copied().map_err(|error| error.errno);
    suite.equal("pipes", copied, Ok("through two pipes".into()));

    // A pipe that carries itself would never go.
    let before = pipe_count();
    let carried = || -> Result<[i32; 4]> {
        let ((read, write), (other_read, other_write)) = (pipe()?, pipe()?);
        let send = |to: &Fd, what: &Fd| errno(fd::send_fd(to.raw(), what.raw(), true, &[]));
        Ok([
            send(&write, &read),
            send(&write, &other_read),
            send(&other_write, &read),
            send(&other_write, &other_write),
        ])
    };
    suite.equal(
        "pipes that carry pipes",
        carried().map_err(|error| error.errno),
        Ok([ELOOP, 0, ELOOP, 0]),
    );
    suite.equal("no pipe left", settled(pipe_count, &before), before);

    let refused = || -> Result<[i32; 2]> {
        let (read, write) = pipe()?;
        let sent = Fd::new(path::open("/scheme/null", syscall::O_RDONLY)?);
        fd::send_fd(write.raw(), sent.raw(), true, &[])?;
        let used = Fd::new(fd::dup_upper(sent.raw(), b"")?);
        let mut number = used.raw().to_ne_bytes();
        let flags = CallFlags::FD | CallFlags::FD_UPPER;
        let received = read.call_ro(&mut number, flags, &[]);
        let received = received.map_err(|error| Error::new(error.errno()));
        let next = fd::dup_upper(sent.raw(), b"").map(Fd::new);
        Ok([errno(received), errno(next)])
    };
    suite.equal(
        "a number in use that is to receive",
        refused().map_err(|error| error.errno),
        Ok([EEXIST, 0]),
    );
}

/// Ends between choosing a new thread's descriptors, which are our own, and giving them to it.
fn choose() -> Result<()> {
    let thread = fd::dup_upper(state::proc_fd(), b"new-thread")?;
    let files = fd::dup_upper(state::thread_fd(), b"filetable")?;
    let selection = fd::dup_upper(thread, b"current-filetable")?;
    fd::write(selection, &files.to_ne_bytes()).map(drop)
}

/// Whether a process that ends like that leaves its descriptors behind: then there is no end of
/// file for the reader of what it wrote.
fn half_a_thread(suite: &mut Suite) {
    let ended = || -> Result<bool> {
        let read = Fd::new(path::open(
            "/scheme/pipe",
            syscall::O_RDWR | syscall::O_NONBLOCK,
        )?);
        let write = Fd::new(fd::dup(read.raw(), b"write")?);
        let mut command = Command::new("process-test");
        let mut child = command.arg("choose").stdout(&write).spawn()?;
        drop(write);
        let chosen = child.wait()?.success();
        let at_end = || matches!(fd::read(read.raw(), &mut [0]), Ok(0));
        Ok(chosen && settled(at_end, &true))
    };
    suite.equal(
        "end between two steps of starting a thread",
        ended().map_err(|error| error.errno),
        Ok(true),
    );
}

/// A buffer that there is no memory for must not end the daemon that it is lent to.
fn too_much(suite: &mut Suite) {
    const SIZE: usize = 1 << 30;
    let lent = || -> Result<i32> {
        let file = Fd::new(path::open("/scheme/zero", syscall::O_RDWR)?);
        let map = syscall::Map {
            offset: 0,
            size: SIZE,
            flags: MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE,
            address: 0,
        };
        let call = |number, words: [usize; 3]| {
            let [a, b, c] = words;
            sys::demux(probe::syscall(number, [a, b, c, 0, 0, 0]))
        };
        let map = (&raw const map).addr();
        let record = [sys::NO_FD, map, size_of::<syscall::Map>()];
        let base = call(syscall::SYS_FMAP, record)?;
        let read = errno(call(syscall::SYS_READ, [file.raw(), base, SIZE]));
        call(syscall::SYS_FUNMAP, [base, SIZE, 0])?;
        Ok(read)
    };
    let lent = lent().map_err(|error| error.errno);
    suite.equal("a buffer without memory", lent, Ok(ENOMEM));
    suite.equal("the daemon goes on", errno(fs::read("/scheme/null")), 0);
}

/// Takes two descriptors from a pipe at its end. Their numbers must be free again: the first is the
/// next descriptor's.
fn end_of_descriptors() -> Result<()> {
    let (read, write) = pipe()?;
    drop(write);
    let mut numbers = [usize::MAX.to_ne_bytes(); 2];
    let flags = CallFlags::FD | CallFlags::FD_UPPER;
    let count = read.call_ro(numbers.as_flattened_mut(), flags, &[])?;
    let next = Fd::new(fd::dup_upper(state::thread_fd(), b"")?);
    let right = count == 0 && next.raw() == usize::from_ne_bytes(numbers[0]);
    right.then_some(()).ok_or(Error::new(EINVAL))
}

/// Has a new thread choose a copy of our file table that holds the handle it chooses with.
fn choose_copy() -> Result<()> {
    let thread = fd::dup_upper(state::proc_fd(), b"new-thread")?;
    let selection = fd::dup_upper(thread, b"current-filetable")?;
    let files = fd::dup_upper(state::thread_fd(), b"filetable")?;
    let copy = fd::dup_upper(files, b"copy")?;
    fd::write(selection, &copy.to_ne_bytes()).map(drop)
}

/// Pipes that exist, as the kernel's statistics say.
fn pipe_count() -> Option<usize> {
    let text = fs::read_to_string("/scheme/sys/stat").ok()?;
    let count = |line: &str| line.trim().strip_prefix("pipe_subcribers: ")?.parse().ok();
    text.lines().find_map(count)
}

/// Schemes that die, and what users may not do.
fn names(suite: &mut Suite) {
    suite.equal(
        "unknown scheme",
        errno(fs::read("/scheme/no-such/x")),
        ENODEV,
    );
    suite.equal("first daemon", errno(fs::read("/scheme/null")), 0);
    let second = Command::new("zerod")
        .arg("null")
        .spawn()
        .and_then(|mut child| child.wait());
    let second = second
        .map(|status| status.success())
        .map_err(|error| error.errno);
    suite.equal("a taken name", second, Ok(false));

    groups::services(suite);
    let daemon = processes()
        .iter()
        .find(|line| line.len() == 5 && line[4] == "zerod")
        .and_then(|line| line[0].parse().ok());
    let held = fs::File::open("/scheme/null");
    suite.equal(
        "kill of the daemon",
        errno(process::kill(daemon.unwrap_or(0), 9)),
        0,
    );
    suite.equal(
        "open of a dead scheme",
        settled(|| errno(fs::read("/scheme/null")), &ENODEV),
        ENODEV,
    );
    let read = held.and_then(|mut file| file.read(&mut [0]));
    suite.equal("read from a dead scheme", errno(read), ENODEV);
    let again = Command::new("zerod").arg("null").spawn();
    let opened = settled(|| errno(fs::read("/scheme/null")), &0);
    suite.equal("the name again", opened, 0);
    if let Ok(mut daemon) = again {
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
    user::limits(suite);
}

fn arguments_from_hell(suite: &mut Suite) {
    const BAD: [usize; 4] = [8, 1 << 46, 1 << 47, usize::MAX - 4096];
    let file = match path::open("/scheme/initfs/bin/process-test", syscall::O_RDONLY) {
        Ok(file) => Fd::new(file),
        Err(error) => return suite.equal("open of the own file", error.errno, 0),
    };
    let wrong = BAD.iter().filter(|&&address| {
        let result = probe::syscall(syscall::SYS_READ, [file.raw(), address, 16, 0, 0, 0]);
        errno(runtime::sys::demux(result)) != EFAULT
    });
    suite.equal("reads to bad addresses", wrong.count(), 0);
    suite.equal(
        "a descriptor that does not exist",
        errno(fd::read(60_000, &mut [0])),
        EBADF,
    );

    // A plain file has no events: the queue must not watch it after the refusal.
    let watched = || kernel_count("event_subcribers");
    let before = watched();
    let refused = path::open("/scheme/event", syscall::O_RDWR).map(|queue| {
        let (id, flags, data) = (file.raw(), EventFlags::EVENT_READ, 0);
        (fd::write(queue, &Event { id, flags, data }), Fd::new(queue))
    });
    let result = refused.as_ref().map(|(result, _)| errno(*result));
    suite.equal("events of a plain file", result, Ok(EPERM));
    suite.equal("a refused event", settled(watched, &before), before);
    drop(refused);
    suite.equal(
        "a copy of nothing in its own place",
        errno(fd::dup2(60_000, 60_000, b"")),
        EBADF,
    );

    let namespace = state::namespace_fd();
    let mut register = Vec::from(2_usize.to_ne_bytes());
    register.extend_from_slice(b"log");
    suite.equal(
        "registering a taken name",
        errno(fd::dup(namespace, &register)),
        EEXIST,
    );
    register.extend_from_slice(b"/x");
    suite.equal(
        "registering a bad name",
        errno(fd::dup(namespace, &register)),
        EINVAL,
    );
    suite.equal(
        "an unknown operation",
        errno(fd::dup(namespace, &[0xFF; 16])),
        EINVAL,
    );
    suite.equal(
        "a short operation",
        errno(fd::dup(namespace, b"abc")),
        EINVAL,
    );
    suite.equal(
        "an unknown part",
        errno(fd::dup(state::proc_fd(), b"thread-99")),
        ENOENT,
    );

    // More than half of the free memory: the managers have no room for a copy.
    let free = kernel_count("frames_free").map_or(0, |frames| frames as usize);
    let long = alloc::vec![0_u8; free * 4096 / 10 * 6];
    for (name, manager) in [
        ("a long name for the manager of names", namespace),
        ("a long name for the manager of processes", state::proc_fd()),
        ("a long name of a part of a thread", state::thread_fd()),
    ] {
        suite.equal(name, errno(fd::dup(manager, &long)), EINVAL);
    }
    drop(long);

    // Every call with every kind of payload; only that the manager lives on counts.
    for verb in (0..24_u64).filter(|verb| ![0, 2, 3, 8].contains(verb)) {
        for length in [0, 3, 24, 44, 5000] {
            let mut payload = alloc::vec![0xFF; length];
            let _ = fd::call_rw(state::proc_fd(), &mut payload, &[verb, 77_777, u64::MAX]);
            let _ = fd::call_rw(state::thread_fd(), &mut payload, &[verb]);
            let _ = fd::call_rw(namespace, &mut payload, &[]);
        }
    }
    suite.equal("the managers live", errno(run(&["exit", "0"])), 0);
}

fn threads(suite: &mut Suite) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let results: Vec<_> = (0..8)
        .map(|number| {
            thread::spawn(move || {
                for _ in 0..1000 {
                    COUNT.fetch_add(1, Ordering::Relaxed);
                    core::hint::black_box(alloc::vec![number; 100]);
                }
                number
            })
        })
        .collect();
    let sum: Result<usize> = results.into_iter().map(|thread| thread?.join()).sum();
    suite.equal(
        "results of threads",
        sum.map_err(|error| error.errno),
        Ok(28),
    );
    suite.equal("work of threads", COUNT.load(Ordering::Relaxed), 8000);
}

/// A thread takes one namespace after the other while others open files, whose roots the runtime
/// keeps, and take the numbers that are free meanwhile: each gets what it has named.
fn other_namespaces(suite: &mut Suite) {
    static ENDS: AtomicBool = AtomicBool::new(false);
    let opens = |name: &'static str| {
        let open = move || {
            let path = alloc::format!("/scheme/{name}");
            let (mut opened, mut wrong) = (0, 0);
            while !ENDS.load(Ordering::Relaxed) || opened == 0 {
                let mut text = [0; 32];
                let file = path::open_upper(&path, syscall::O_RDONLY).map(Fd::new);
                let named = file.and_then(|file| fd::fpath(file.raw(), &mut text));
                let is_it = named.is_ok_and(|length| text[..length].starts_with(path.as_bytes()));
                (opened, wrong) = (opened + 1, wrong + u32::from(!is_it));
            }
            wrong
        };
        thread::spawn(open)
    };
    let threads = ["event", "pipe", "initfs"].map(opens);
    let own = state::namespace_fd();
    let other = fd::dup_upper(own, b"");
    for round in 0..NAMESPACES {
        let next = if round % 2 == 0 { other } else { Ok(own) };
        let taken = next.and_then(|next| Ok(libredox::call::setns(next)?));
        if taken.is_err() {
            suite.equal("another namespace", errno(taken), 0);
            break;
        }
        // Others are to keep roots of it.
        (0..4).for_each(|_| sys::yield_now());
    }
    ENDS.store(true, Ordering::Relaxed);
    let wrong: Result<u32> = threads.into_iter().map(|thread| thread?.join()).sum();
    suite.equal("opens beside other namespaces", wrong, Ok(0));
    let _ = other.and_then(fd::close);
}

/// Free pages.
fn free() -> usize {
    let memory = path::open_upper("/scheme/memory", 0).map(Fd::new);
    let stat = memory.and_then(|memory| memory.statvfs().map_err(Error::from));
    stat.map_or(0, |stat| stat.f_bfree as usize)
}

fn memory(suite: &mut Suite) {
    let _ = run(&["exit", "0"]);
    // Contexts that ended before are cleared away meanwhile.
    let before = at_rest(free, |_| true);
    let failed = (0..ROUNDS).filter(|_| run(&["exit", "0"]).is_err()).count();
    suite.equal("many processes", failed, 0);
    let is_back = settled(|| before.abs_diff(free()) <= TOLERANCE, &true);
    runtime::println!("process-test: free pages {before} before, {} after", free());
    suite.holds("no memory left behind", is_back);
}
