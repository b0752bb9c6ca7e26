//! The serving role: a thread for each connection, a second port whose connections stay unused,
//! and a third one that closes each connection at once.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use runtime::sync::Mutex;
use runtime::thread;
use runtime::time::{Duration, sleep};
use scif::{Endpoint, Errno, Error, Listener, Memory, Port, Protection, RegisterOptions, Window};

use super::beside::Spinner;
use super::latency::Table;
use super::session::PAGE;
use super::wire::{Channel, Request, Verb, hear, tell};
use super::{Context, Result};
use crate::pattern::{self, Sum};

/// Distance from the server's port to the port whose connections are closed at once.
pub const CLOSING: Port = 5;

/// The state that all connections share.
struct Shared {
    idle: Mutex<Vec<Endpoint>>,
    stopped: AtomicBool,
    /// The thread of [`Verb::Spin`].
    spinner: Mutex<Option<Spinner>>,
}

/// Serves until a client sends [`Verb::Stop`].
pub fn serve(port: Port) -> Result {
    let shared = Arc::new(Shared {
        idle: Mutex::new(Vec::new()),
        stopped: AtomicBool::new(false),
        spinner: Mutex::new(None),
    });
    let listener = Listener::bind(port).context(&format!("port {port}"))?;
    let second = port + 1;
    let idle = Listener::bind(second).context(&format!("port {second}"))?;
    let keeper = shared.clone();
    thread::spawn(move || keep(&idle, &keeper)).context("a thread")?;
    let third = port + CLOSING;
    let closing = Listener::bind(third).context(&format!("port {third}"))?;
    thread::spawn(move || close_each(&closing)).context("a thread")?;
    while !shared.stopped.load(Ordering::Acquire) {
        let (endpoint, peer) = listener.accept().context("accept")?;
        let theirs = shared.clone();
        let serve = move || {
            if let Err(failure) = attend(&endpoint, &theirs) {
                runtime::eprintln!("scif-perf: a client on {peer}: {failure}");
            }
        };
        thread::spawn(serve).context("a thread")?;
        wait_for_stop(&listener, &shared);
    }
    Ok(())
}

/// Waits until a client connects, or the server is to end.
fn wait_for_stop(listener: &Listener, shared: &Shared) {
    let readiness = scif::Readiness::IN;
    while !shared.stopped.load(Ordering::Acquire) {
        let mut entries = [scif::PollEntry::new(listener, readiness)];
        match scif::poll(&mut entries, Some(Duration::from_millis(200))) {
            Ok(0) => {}
            _ => return,
        }
    }
}

/// Accepts connections, which stay unused. A client may ask for more than there is room for, so an
/// error is no end.
fn keep(listener: &Listener, shared: &Shared) {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut is_told = false;
    loop {
        match listener.accept() {
            Ok((endpoint, _)) => {
                shared.idle.lock().push(endpoint);
                is_told = false;
            }
            Err(error) => {
                if !is_told {
                    runtime::eprintln!("scif-perf: accepting idle connections: {error}");
                }
                is_told = true;
                sleep(PAUSE);
            }
        }
    }
}

/// Closes the unused connections whose client has gone without [`Verb::Forget`].
fn close_gone(idle: &mut Vec<Endpoint>) -> Result {
    let all = scif::Readiness::empty();
    let mut entries: Vec<_> = idle
        .iter()
        .map(|endpoint| scif::PollEntry::new(endpoint, all))
        .collect();
    scif::poll(&mut entries, Some(Duration::ZERO)).context("idle connections")?;
    let gone = scif::Readiness::HUP | scif::Readiness::ERR;
    let are_gone = entries.iter().map(|entry| entry.revents.intersects(gone));
    let mut are_gone = are_gone.collect::<Vec<_>>().into_iter();
    idle.retain(|_| are_gone.next() != Some(true));
    Ok(())
}

/// Accepts connections and closes each at once, as the TCP server of `bench-linux` does.
fn close_each(listener: &Listener) {
    loop {
        let closed = listener.accept().and_then(|(endpoint, _)| endpoint.close());
        if let Err(error) = closed {
            runtime::eprintln!("scif-perf: closing connections: {error}");
            return;
        }
    }
}

/// Executes a client's requests until it goes.
fn attend(endpoint: &Endpoint, shared: &Shared) -> Result {
    close_gone(&mut shared.idle.lock())?;
    while let Some(request) = Request::hear(endpoint)? {
        match request.verb {
            Verb::Lend | Verb::LendOwn => grant(endpoint, &request, shared)?,
            _ => carry_out(endpoint, &request, shared)?,
        }
        if shared.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
    }
    Ok(())
}

/// Executes a request that needs no window.
fn carry_out(endpoint: &Endpoint, request: &Request, shared: &Shared) -> Result {
    let channel = Channel {
        endpoint,
        wait: request.wait,
        path: request.path,
    };
    let mut buffer = buffer(request.size)?;
    match request.verb {
        Verb::Echo => {
            channel.begin_echo();
            for _ in 0..request.count {
                channel.receive(&mut buffer)?;
                channel.send(&buffer)?;
            }
            tell(endpoint, pattern::sum(&buffer))
        }
        Verb::Sink => {
            // With an offset every message is checked, otherwise only the last one, so that
            // checking takes no time from the stream.
            let all = request.offset != 0;
            let mut sum = Sum::default();
            tell(endpoint, 0)?;
            for _ in 0..request.count {
                channel.receive(&mut buffer)?;
                if all {
                    sum.add(&buffer);
                }
            }
            if !all {
                sum.add(&buffer);
            }
            tell(endpoint, sum.value())
        }
        Verb::Source => {
            pattern::fill(&mut buffer, request.size);
            tell(endpoint, 0)?;
            for _ in 0..request.count {
                channel.send(&buffer)?;
            }
            hear(endpoint).map(|_| ())
        }
        Verb::Forget => {
            let idle = core::mem::take(&mut *shared.idle.lock());
            let count = idle.len() as u64;
            drop(idle);
            tell(endpoint, count)
        }
        Verb::Spin => {
            let spinner = (request.count != 0).then(Spinner::start).transpose()?;
            let before = core::mem::replace(&mut *shared.spinner.lock(), spinner);
            drop(before);
            tell(endpoint, 0)
        }
        Verb::Free => tell(endpoint, free_memory()?),
        Verb::Stop => {
            shared.stopped.store(true, Ordering::Release);
            tell(endpoint, 0)
        }
        other => Err(alloc::format!("{other:?} needs a window").into()),
    }
}

/// Memory for a message of a client, which may ask for more than there is.
fn buffer(bytes: u64) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
    match buffer.try_reserve_exact(wanted) {
        Ok(()) => {
            buffer.resize(wanted, 0);
            Ok(buffer)
        }
        Err(_) => Err(alloc::format!("no memory for messages of {bytes} bytes").into()),
    }
}

/// Lends memory, and executes further requests until the client sends [`Verb::Release`].
fn grant(endpoint: &Endpoint, request: &Request, shared: &Shared) -> Result {
    let bytes = request.size as usize;
    let memory = match request.verb {
        Verb::LendOwn => touched(bytes)?,
        _ => Memory::new(bytes).context("memory for a window")?,
    };
    let window = endpoint.register(&memory).context("the window")?;
    let mut more: Vec<Window<'_>> = Vec::new();
    tell(endpoint, window.offset() as u64)?;
    while let Some(request) = Request::hear(endpoint)? {
        let bytes = request.size as usize;
        match request.verb {
            Verb::Fill => {
                fill(&memory, bytes, request.count)?;
                tell(endpoint, 0)?;
            }
            Verb::Sum => tell(endpoint, sum(&memory, bytes)?)?,
            Verb::Ping => {
                let rights = Protection::READ | Protection::WRITE;
                let peer = endpoint.map(request.offset, Table::room(bytes), rights);
                let peer = peer.context("mapping the client's window")?;
                let mut table = Table::new(&memory, &peer, request.wait, bytes)?;
                tell(endpoint, 0)?;
                table.answer(request.count)?;
                tell(endpoint, table.sum())?;
            }
            Verb::Multiply => {
                while (more.len() as u64) + 1 < request.count {
                    let options = RegisterOptions::new();
                    let window = endpoint.register_with(&memory, 0..PAGE, options);
                    let number = alloc::format!("window {}", more.len() + 2);
                    more.push(window.context(&number)?);
                }
                let last = more.last().unwrap_or(&window);
                tell(endpoint, last.offset() as u64)?;
            }
            Verb::Release => {
                drop(more);
                window.unregister().or_else(gone).context("unregister")?;
                return tell(endpoint, 0);
            }
            _ => carry_out(endpoint, &request, shared)?,
        }
        if shared.stopped.load(Ordering::Acquire) {
            break;
        }
    }
    Ok(())
}

/// Memory of this program's own whose pages have all been written.
pub fn touched(bytes: usize) -> Result<Memory> {
    let memory = Memory::ordinary(bytes).context("memory of one's own")?;
    memory.fill(0, bytes, 1)?;
    Ok(memory)
}

/// Number of free bytes of this node's memory.
pub fn free_memory() -> Result<u64> {
    let read = || {
        let zeroed = Fd::open("/scheme/memory/zeroed", O_CLOEXEC, 0)?;
        libredox::call::fstatvfs(zeroed.raw())
    };
    let status = read().map_err(runtime::Error::from);
    let status = status.context("the node's free memory")?;
    Ok(status.f_bavail * status.f_bsize)
}

/// Ignores the error of a connection that has ended, and the window with it.
fn gone(error: Error) -> scif::Result<()> {
    match error {
        Error::Scif(Errno::ConnectionReset) => Ok(()),
        other => Err(other),
    }
}

/// Bytes to fill or to sum at a time.
const PIECE: usize = 64 * 1024;

/// Fills the first `bytes` bytes of memory with the pattern of a seed.
pub fn fill(memory: &scif::View, bytes: usize, seed: u64) -> Result {
    let mut piece = alloc::vec![0; PIECE.min(bytes)];
    for at in (0..bytes).step_by(PIECE) {
        let count = PIECE.min(bytes - at);
        pattern::fill(&mut piece[..count], seed + at as u64);
        memory.copy_in(at, &piece[..count])?;
    }
    Ok(())
}

/// The checksum of the first `bytes` bytes of memory.
pub fn sum(memory: &scif::View, bytes: usize) -> Result<u64> {
    let mut piece = alloc::vec![0; PIECE.min(bytes)];
    let mut sum = Sum::default();
    for at in (0..bytes).step_by(PIECE) {
        let count = PIECE.min(bytes - at);
        memory.copy_out(at, &mut piece[..count])?;
        sum.add(&piece[..count]);
    }
    Ok(sum.value())
}
