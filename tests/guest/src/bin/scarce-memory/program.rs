//! The programs that ask the kernel for something while memory is used up. They get ready while
//! there is memory, and allocate nothing after that.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use libredox::Fd;
use runtime::process::{Child, Command};
use runtime::{Result, fd, path, probe, state, sys, thread};
use syscall::Event;
use syscall::error::{EFAULT, EINVAL, ENOMEM};
use syscall::flag::{
    CallFlags, EventFlags, F_DUPFD, FUTEX_WAIT, FUTEX_WAKE, FileTableVerb, MapFlags, StdFsCallKind,
    UPPER_FDTBL_TAG,
};
use syscall::schemev2::{Cqe, Opcode, Sqe};

use crate::memory::{PAGE, map, map_device, map_file, map_shared, pipe, system, touch, unmap};
use crate::{KEPT_FOR_DAEMONS, PROGRAM, errno, free_frames};

/// The largest descriptor number: a table that has it takes 128 contiguous frames.
const LAST_NUMBER: usize = 65_535;
/// Threads that wait for the same: a list of a word for each is longer than a page.
const THREADS: usize = 600;
/// Pages of a range that is cut into areas; an address space has room for hardly more.
const RANGE: usize = 60_000;
/// Files that a program has open when it ends.
const FILES: usize = 60_000;
/// Files that two event queues watch.
const WATCHED: usize = 8_000;
/// Queues that watch a queue, and queues that watch all of these.
const CHAINED: usize = 250;
/// Threads that make a request.
const REQUESTS: usize = 1_000;
/// Pages that a daemon touches.
const DAEMON_PAGES: usize = 64;
/// Pages of a buffer, more than the kernel keeps for daemons.
const FILLED: usize = 1_024;

/// What a program is started for, by its argument: what it prepares, and what it asks for.
type Role = (
    &'static str,
    fn() -> Result<usize>,
    fn(usize) -> Result<usize>,
);

/// The roles of programs with one thread.
const ROLES: [Role; 15] = [
    ("fcntl", nothing, |_| {
        system(syscall::SYS_FCNTL, [0, F_DUPFD, LAST_NUMBER])
    }),
    ("dup2", nothing, use_up_both),
    ("resize", nothing, |_| {
        Ok(resize(0) | resize(UPPER_FDTBL_TAG))
    }),
    ("move", range_with_holes, move_range),
    ("copy", space_with_areas, copy_space),
    ("nest", pipe_with_pipes, send_pipes),
    ("punch", || map_device(RANGE), punch),
    ("files", open_files, Ok),
    ("pieces", map_in_pieces, Ok),
    ("borrowed", borrow_in_pieces, Ok),
    ("watched", watch_files, Ok),
    ("locked", lock_file, Ok),
    ("chained", watch_queues, Ok),
    ("queues", watch_pipes, end_writers),
    ("daemon", become_daemon, touch_new_pages),
];

fn nothing() -> Result<usize> {
    Ok(0)
}

/// The part of a program that was started with this argument. It tells when it is ready, asks when
/// its input ends, closes its output, and keeps what it got until nobody can write errors for it to
/// read; the error number is its status.
pub fn run(role: &str) -> i32 {
    match role {
        "threads" => return many_threads(),
        "requests" => return many_requests(),
        "serve" => return serve(),
        "client" => return errno(read_into_nothing()),
        _ => {}
    }
    let Some((_, prepare, ask)) = ROLES.iter().find(|(name, ..)| *name == role) else {
        return EFAULT;
    };
    let prepared = prepare();
    say_ready();
    let _ = fd::read(0, &mut [0]);
    let asked = prepared.and_then(ask);
    let _ = fd::close(1);
    let _ = fd::read(2, &mut [0]);
    errno(asked)
}

fn say_ready() {
    let _ = fd::write(1, &[0]);
}

/// Asks for the last number in both number spaces.
fn use_up_both(_: usize) -> Result<usize> {
    use_up(LAST_NUMBER).and(use_up(UPPER_FDTBL_TAG | LAST_NUMBER))
}

/// Asks for this number, and for smaller ones until there is memory for them; what the first one
/// gave.
fn use_up(number: usize) -> Result<usize> {
    let first = system(syscall::SYS_DUP2, [0, number, 0]);
    let mut halves = 0;
    let mut asked = first;
    while asked.is_err() && LAST_NUMBER >> halves > PAGE / size_of::<usize>() {
        halves += 1;
        let smaller = number - LAST_NUMBER + (LAST_NUMBER >> halves);
        asked = system(syscall::SYS_DUP2, [0, smaller, 0]);
    }
    first
}

/// Makes a number space of this program's file table as large as there is memory for.
fn resize(which: usize) -> usize {
    let grows = |size: &usize| {
        let words = [FileTableVerb::Resize as usize, which, *size];
        fd::call(state::filetable_fd(), &words.map(|word| word as u64)).is_ok()
    };
    let mut sizes = (0..7).map(|halves| (LAST_NUMBER + 1) >> halves);
    sizes.find(grows).unwrap_or(0)
}

/// Makes very many pipes in a pipe, and others; the list of these and of the full pipe. It begins
/// with a pipe to send all that to.
fn pipe_with_pipes() -> Result<usize> {
    let make = || path::open("/scheme/pipe", syscall::O_RDWR);
    let (output, input) = pipe()?;
    for _ in 0..FILES {
        fd::send_fd(input.raw(), make()?, false, &[])?;
    }
    let (end, target) = pipe()?;
    end.into_raw();
    let mut list = Vec::from([target.into_raw(), output.into_raw()]);
    while list.len() <= FILES {
        list.push(make()?);
    }
    Ok(list.leak().as_ptr().addr())
}

/// Sends what the list names after the first number to the pipe with that number.
fn send_pipes(list: usize) -> Result<usize> {
    let pipe = probe::peek_word(list) as usize;
    let flags = (CallFlags::WRITE | CallFlags::FD).bits();
    let (files, size) = (list + size_of::<usize>(), FILES * size_of::<usize>());
    let words = [pipe, files, size, flags, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_CALL, words))
}

/// A range of which every other page is mapped.
fn range_with_holes() -> Result<usize> {
    punch(map_shared(RANGE)?)
}

/// Unmaps every other page of the range at `base`.
fn punch(base: usize) -> Result<usize> {
    let mut pages = (1..RANGE).step_by(2);
    pages.try_for_each(|page| unmap(base + page * PAGE, 1).map(drop))?;
    Ok(base)
}

/// Moves the range at `base`; what is between its areas becomes memory, too.
fn move_range(base: usize) -> Result<usize> {
    let (size, rights) = (RANGE * PAGE, MapFlags::PROT_READ.bits());
    let words = [base, size, 0, size, rights, 0];
    sys::demux(probe::syscall(syscall::SYS_MREMAP, words))
}

/// This program's address space, with an area for each page of a range.
fn space_with_areas() -> Result<usize> {
    protect_every_other(map(RANGE)?, RANGE)?;
    fd::dup_upper(state::thread_fd(), b"addrspace")
}

/// Takes the right to write from every other page of a range.
fn protect_every_other(base: usize, pages: usize) -> Result<()> {
    let rights = MapFlags::PROT_READ.bits();
    (0..pages).step_by(2).try_for_each(|page| {
        system(syscall::SYS_MPROTECT, [base + page * PAGE, PAGE, rights]).map(drop)
    })
}

/// Copies an address space, to a number that is free.
fn copy_space(space: usize) -> Result<usize> {
    let name = b"exclusive";
    let free = UPPER_FDTBL_TAG | LAST_NUMBER >> 4;
    let words = [space, name.as_ptr().addr(), name.len(), free, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_DUP_INTO, words))
}

fn open_files() -> Result<usize> {
    (0..FILES).try_fold(0, |_, _| path::open("/scheme/null", syscall::O_RDWR))
}

/// Locks a file of its own, for which it has very many descriptors.
fn lock_file() -> Result<usize> {
    let name = alloc::format!("/tmp/locked-{}", runtime::process::id());
    let flags = syscall::O_RDWR | syscall::O_CREAT | 0o600;
    let file = path::open(&name, flags)?;
    runtime::fs::remove_file(&name)?;
    (0..FILES).try_fold(0, |_, _| fd::dup(file, &[]))?;
    let whole = [StdFsCallKind::Lock as usize, 0, 0];
    let flags = CallFlags::STD_FS.bits() | whole.len();
    let words = [file, 0, 0, flags, whole.as_ptr().addr(), 0];
    sys::demux(probe::syscall(syscall::SYS_CALL, words))
}

/// Watches files with two queues: when one ends, their daemon is told of each file what the other
/// one still wants.
fn watch_files() -> Result<usize> {
    let both = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    let queue = || path::open("/scheme/event", syscall::O_RDWR);
    let queues = [(queue()?, both), (queue()?, EventFlags::EVENT_READ)];
    (0..WATCHED).try_fold(0, |_, data| {
        let id = path::open("/scheme/null", syscall::O_RDWR)?;
        let watch = |(queue, flags)| fd::write(queue, &Event { id, flags, data });
        queues.into_iter().try_fold(0, |_, queue| watch(queue))
    })
}

/// Watches a pipe, whose writer ends first, with a queue that many queues watch, all of which other
/// queues watch.
fn watch_queues() -> Result<usize> {
    let (output, input) = pipe()?;
    let queue = || path::open("/scheme/event", syscall::O_RDWR);
    let many = || (0..CHAINED).map(|_| queue()).collect::<Result<Vec<_>>>();
    let (first, second, third) = (queue()?, many()?, many()?);
    let watch = |queue: usize, id| {
        let flags = EventFlags::EVENT_READ;
        fd::write(queue, &Event { id, flags, data: 0 }).map(drop)
    };
    watch(first, output.into_raw())?;
    for &queue in &second {
        watch(queue, first)?;
        third.iter().try_for_each(|&other| watch(other, queue))?;
    }
    Ok(input.into_raw())
}

/// Watches some pipes with very many queues; the list of the pipes' writers, which ends with 0.
fn watch_pipes() -> Result<usize> {
    const PIPES: usize = 100;
    let pipes = (0..PIPES).map(|_| pipe()).collect::<Result<Vec<_>>>()?;
    for (output, _) in pipes.iter().cycle().take(FILES) {
        let queue = path::open("/scheme/event", syscall::O_RDWR)?;
        let (id, flags, data) = (output.raw(), EventFlags::EVENT_READ, 0);
        fd::write(queue, &Event { id, flags, data })?;
    }
    let mut writers = Vec::with_capacity(PIPES + 1);
    for (output, input) in pipes {
        output.into_raw();
        writers.push(input.into_raw());
    }
    writers.push(0);
    Ok(writers.leak().as_ptr().addr())
}

/// Ends the writers that a list names.
fn end_writers(list: usize) -> Result<usize> {
    let writers = (0..).map(|index| probe::peek_word(list + index * size_of::<usize>()) as usize);
    let mut writers = writers.take_while(|&writer| writer != 0);
    writers.try_fold(0, |_, writer| system(syscall::SYS_CLOSE, [writer, 0, 0]))
}

/// Maps a file some times, and cuts all mappings into areas of a page: their daemon is told of the
/// end of each of them.
fn map_in_pieces() -> Result<usize> {
    const TIMES: usize = 4;
    const PAGES: usize = RANGE / TIMES;
    let flags = syscall::O_RDWR | syscall::O_CREAT | 0o600;
    let file = Fd::new(path::open("/tmp/pieces", flags)?);
    runtime::fs::remove_file("/tmp/pieces")?;
    (0..TIMES).try_fold(0, |_, _| {
        let base = map_file(file.raw(), 0, PAGES, MapFlags::MAP_SHARED)?;
        protect_every_other(base, PAGES)?;
        Ok(base)
    })
}

/// Borrows a range from a copy of this address space, and cuts it into areas of a page: the copy
/// ends with the last of them.
fn borrow_in_pieces() -> Result<usize> {
    let base = map(RANGE)?;
    let space = Fd::new(fd::dup_upper(state::thread_fd(), b"addrspace")?);
    let copy = Fd::new(fd::dup(space.raw(), b"exclusive")?);
    let borrowed = map_file(copy.raw(), base, RANGE, MapFlags::MAP_SHARED)?;
    protect_every_other(borrowed, RANGE)?;
    Ok(borrowed)
}

/// Makes a scheme; its socket.
fn make_scheme() -> Result<usize> {
    let capability = Fd::new(path::open("/scheme/namespace/scheme-creation-cap", 0)?);
    fd::dup(capability.raw(), b"create-scheme")
}

/// Makes a scheme, and pages that are not there yet.
fn become_daemon() -> Result<usize> {
    make_scheme()?;
    map(DAEMON_PAGES)
}

/// A scheme of this program: its socket, and a file of it.
fn own_scheme() -> Result<(usize, usize)> {
    let (offset, number, flags, kernel_flags) = (0, 1, syscall::O_RDWR, 0);
    let parameters = [offset, number, flags, kernel_flags].map(usize::to_ne_bytes);
    let socket = make_scheme()?;
    Ok((socket, fd::dup(socket, parameters.as_flattened())?))
}

fn touch_new_pages(base: usize) -> Result<usize> {
    (0..DAEMON_PAGES).try_fold(0, |_, page| touch(base + page * PAGE))
}

/// Sleeps until a word is not 0 any more.
fn sleep_on(word: &AtomicU32) {
    while word.load(Ordering::Acquire) == 0 {
        let _ = system(syscall::SYS_FUTEX, [word.as_ptr().addr(), FUTEX_WAIT, 0]);
    }
}

/// Sets a word; the number of threads that this has woken.
fn set(word: &AtomicU32) -> usize {
    word.store(1, Ordering::Release);
    let woken = system(
        syscall::SYS_FUTEX,
        [word.as_ptr().addr(), FUTEX_WAKE, THREADS.max(REQUESTS)],
    );
    woken.unwrap_or(0)
}

/// A thread for each of these words sleeps on it. When the input ends, they go on to sleep on one
/// word, are woken all at once, and wait for the end of one pipe. Nothing is allocated then.
fn many_threads() -> i32 {
    static OWN: [AtomicU32; THREADS] = [const { AtomicU32::new(0) }; THREADS];
    static COMMON: AtomicU32 = AtomicU32::new(0);
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let reach = |steps: usize| {
        while STEPS.load(Ordering::Acquire) < steps {
            sys::yield_now();
        }
    };
    for (index, own) in OWN.iter().enumerate() {
        let started = thread::spawn(move || {
            STEPS.fetch_add(1, Ordering::AcqRel);
            sleep_on(own);
            STEPS.fetch_add(1, Ordering::AcqRel);
            sleep_on(&COMMON);
            STEPS.fetch_add(1, Ordering::AcqRel);
            let _ = fd::read(2, &mut [0]);
        });
        if let Err(error) = started {
            return error.errno;
        }
        reach(index + 1);
    }
    say_ready();
    let _ = fd::read(0, &mut [0]);
    for (index, own) in OWN.iter().enumerate() {
        set(own);
        reach(THREADS + index + 1);
    }
    // The last ones may be about to sleep.
    set(&COMMON);
    reach(3 * THREADS);
    let _ = fd::close(1);
    let _ = fd::read(2, &mut [0]);
    0
}

/// When the program is let go, its threads make requests to its own scheme, and it ends. Nothing is
/// allocated then.
fn many_requests() -> i32 {
    static GO: AtomicU32 = AtomicU32::new(0);
    static NEVER: AtomicU32 = AtomicU32::new(0);
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let reach = |steps: usize| {
        while STEPS.load(Ordering::Acquire) < steps {
            sys::yield_now();
        }
    };
    let file = match own_scheme() {
        Ok((_, file)) => file,
        Err(error) => return error.errno,
    };
    for index in 0..REQUESTS {
        let started = thread::spawn(move || {
            STEPS.fetch_add(1, Ordering::AcqRel);
            sleep_on(&GO);
            STEPS.fetch_add(1, Ordering::AcqRel);
            let _ = system(syscall::SYS_FSYNC, [file, 0, 0]);
            // The scheme has ended, and soon the program: more steps would take memory.
            sleep_on(&NEVER);
        });
        if let Err(error) = started {
            return error.errno;
        }
        reach(index + 1);
    }
    say_ready();
    let _ = fd::read(0, &mut [0]);
    let _ = fd::close(1);
    let _ = fd::read(2, &mut [0]);
    set(&GO);
    reach(2 * REQUESTS);
    // The last ones may be about to ask.
    sys::yield_now();
    0
}

/// Reads from the standard input into a buffer of which no page is there yet.
fn read_into_nothing() -> Result<usize> {
    system(syscall::SYS_READ, [0, map(FILLED)?, FILLED * PAGE])
}

/// Serves a client that reads, but fills the buffer only when the input ends. Then the client must
/// get an error, because there is no memory for its pages.
fn serve() -> i32 {
    let mut served = match Served::start() {
        Ok(served) => served,
        Err(error) => return error.errno,
    };
    say_ready();
    let _ = fd::read(0, &mut [0]);
    let filled = served.fill();
    let _ = fd::close(1);
    let _ = fd::read(2, &mut [0]);
    match (filled, served.client.wait()) {
        (Err(error), _) | (_, Err(error)) => error.errno,
        (Ok(KEPT_FOR_DAEMONS..), Ok(status)) if status.code() == Some(ENOMEM) => 0,
        _ => EFAULT,
    }
}

/// A client's read that this program has to answer.
struct Served {
    socket: usize,
    request: Sqe,
    client: Child,
    /// The kernel's numbers, and a place for them that is there.
    stat: Fd,
    text: Vec<u8>,
}

impl Served {
    fn start() -> Result<Self> {
        let (socket, file) = own_scheme()?;
        let file = Fd::new(file);
        let mut command = Command::new(PROGRAM);
        let client = command.arg("client").stdin(&file).spawn()?;
        drop(file);
        let mut request = Sqe::default();
        fd::read(socket, &mut request)?;
        match request.opcode == Opcode::Read as u8 {
            true => Ok(Self {
                socket,
                request,
                client,
                stat: Fd::new(path::open("/scheme/sys/stat", syscall::O_RDONLY)?),
                text: vec![1; PAGE],
            }),
            false => Err(runtime::Error::new(EINVAL)),
        }
    }

    /// Stores to each page of the buffer, and answers. Returns how many frames are free when all
    /// pages have been touched.
    fn fill(&mut self) -> Result<u64> {
        let [_, buffer, size, ..] = self.request.args.map(|arg| arg as usize);
        let mut pages = (buffer..buffer + size).step_by(PAGE);
        let filled = pages.try_for_each(|page| touch(page).map(drop));
        let free = free_frames(&self.stat, &mut self.text);
        let answer = Cqe {
            tag: self.request.tag,
            result: size as u64,
            ..Cqe::default()
        };
        fd::write(self.socket, &answer)?;
        filled.and(free)
    }
}

/// A program that waits to ask for something. Pipes that end tell it and us what to do: to write to
/// one takes memory.
pub struct Asking {
    child: Child,
    /// It asks when this is closed.
    go: Option<Fd>,
    /// It ends when this is closed.
    stay: Option<Fd>,
    /// Ends when it has asked.
    asked: Fd,
}

impl Asking {
    /// Starts it in this role, and waits until it is ready.
    pub fn start(role: &str) -> Result<Self> {
        let (input, go) = pipe()?;
        let (asked, output) = pipe()?;
        let (errors, stay) = pipe()?;
        let mut command = Command::new(PROGRAM);
        command.arg(role).stdin(&input).stdout(&output);
        let child = command.stderr(&errors).spawn()?;
        drop(output);
        fd::read(asked.raw(), &mut [0])?;
        Ok(Self {
            child,
            go: Some(go),
            stay: Some(stay),
            asked,
        })
    }

    /// One for each role.
    pub fn start_all(roles: &[&str]) -> Result<Vec<Self>> {
        roles.iter().map(|role| Self::start(role)).collect()
    }

    /// Lets it ask, and waits until it has.
    pub fn ask(&mut self) -> Result<usize> {
        drop(self.go.take());
        fd::read(self.asked.raw(), &mut [0])
    }

    /// Lets it end, without waiting for that.
    pub fn let_go(&mut self) {
        drop(self.stay.take());
    }

    /// Its error number, 0 if it had what it asked for.
    pub fn end(&mut self) -> i32 {
        self.let_go();
        let ended = self.child.wait();
        ended.map_or_else(
            |error| error.errno,
            |status| status.code().unwrap_or(EFAULT),
        )
    }
}

/// Whether each error number is that of missing memory or none, and some are.
pub fn refused(errors: &[i32]) -> core::result::Result<(), alloc::string::String> {
    let known = errors.iter().all(|error| [0, ENOMEM].contains(error));
    if known && errors.contains(&ENOMEM) {
        Ok(())
    } else {
        Err(alloc::format!("{errors:?}"))
    }
}
