//! Executes calls in this process, those that wait in threads of their own.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use conformance::call::{Call, Errno, Reply};
use conformance::pattern;
use libredox::Fd;
use libredox::call::call_ro;
use libredox::flag::O_RDONLY;
use runtime::thread::{self, JoinHandle};
use runtime::time::{Duration, sleep};
use scif::bypass::Bypass;
use scif::raw::{self, PollFd};
use scif_abi::PortId;
use scif_abi::call::Call as Operation;
use scif_abi::codec::Operation as _;
use scif_abi::flags::Readiness;
use syscall::error::{EBADF, EINVAL, ENOTTY};

use crate::memory::{self, Answer, Region, Store};
use crate::node;

/// A number that no descriptor has; it stands for closed endpoints.
const NO_FD: usize = 1 << 30;

/// Number of polls, at intervals of a millisecond, after which a call certainly waits.
const LOOKS: usize = 1000;

/// The object that a call has made, besides its reply.
enum Created {
    Nothing,
    Endpoint(u32, usize),
    Memory(u32, Region),
}

struct Done {
    reply: Reply,
    made: Created,
}

type Work = Box<dyn FnOnce() -> Done + Send>;

fn plain(answer: Answer) -> Done {
    Done {
        reply: Reply::plain(answer),
        made: Created::Nothing,
    }
}

fn answer<T: TryInto<i64>>(result: raw::Result<T>) -> Answer {
    match result.map(TryInto::try_into) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(Errno(EINVAL)),
        Err(error) => Err(Errno(error)),
    }
}

fn nothing(result: raw::Result<()>) -> Answer {
    result.map(|()| 0).map_err(Errno)
}

/// A call that was begun.
enum Begun {
    /// It runs in a thread of its own.
    Thread(JoinHandle<Done>),
    /// It never waits, so it was made at once.
    Ended(Reply),
}

/// An endpoint: its descriptor and its data path.
#[derive(Clone)]
struct Slot {
    fd: usize,
    bypass: Arc<Bypass>,
}

impl Slot {
    fn new(fd: usize) -> Self {
        let bypass = Arc::new(Bypass::new());
        let slot = Self { fd, bypass };
        slot.prepare();
        slot
    }

    /// Prepares the bypass once there is a connection, so that data moves without the daemon and
    /// the cases test that path. (The simulator and tests with files cover the daemon's own
    /// transfers.)
    fn prepare(&self) {
        // Without a connection there is nothing to prepare.
        let _ = self.bypass.prepare(self.fd);
    }

    fn connected<T>(&self, result: raw::Result<T>) -> raw::Result<T> {
        if result.is_ok() {
            self.prepare();
        }
        result
    }
}

/// The state of a side.
#[derive(Default)]
pub struct Executor {
    endpoints: BTreeMap<u32, Slot>,
    memory: Store,
    threads: BTreeMap<u32, Begun>,
    last_thread: u32,
}

impl Executor {
    /// Returns the endpoint of a slot, or a closed one if there is none.
    fn slot(&self, slot: u32) -> Slot {
        self.endpoints.get(&slot).cloned().unwrap_or_else(|| Slot {
            fd: NO_FD,
            bypass: Arc::new(Bypass::new()),
        })
    }

    /// Makes a call in this thread.
    pub fn call(&mut self, call: &Call) -> Reply {
        let done = match self.here(call) {
            Some(answer) => plain(answer),
            None => self.work(call)(),
        };
        self.take(done)
    }

    /// Begins a call in a thread, and returns once it waits or has ended.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&mut self, call: &Call) -> Result<u32, String> {
        if let Some(answer) = self.here(call) {
            return Ok(self.note(Begun::Ended(Reply::plain(answer))));
        }
        let mut before = node::waiting();
        let work = self.work(call);
        let is_made = Arc::new(AtomicBool::new(false));
        let makes = Arc::clone(&is_made);
        // A poll waits in an event queue rather than in the daemon, so `waiting` does not count
        // it.
        let is_poll = matches!(call, Call::PollTwo { .. });
        let thread = thread::spawn(move || {
            makes.store(true, Ordering::Release);
            work()
        });
        let thread = thread.map_err(|error| format!("a thread: {error}"))?;
        let mut looks = 0;
        while !thread.is_finished() {
            if is_made.load(Ordering::Acquire) {
                // The count is that of the node. It also falls if a call that waited before has
                // ended; if that goes unnoticed, the time decides.
                let waiting = node::waiting();
                if is_poll || waiting > before || looks > LOOKS {
                    break;
                }
                before = before.min(waiting);
                looks += 1;
            }
            sleep(Duration::from_millis(1));
        }
        Ok(self.note(Begun::Thread(thread)))
    }

    fn note(&mut self, begun: Begun) -> u32 {
        self.last_thread += 1;
        self.threads.insert(self.last_thread, begun);
        self.last_thread
    }

    /// Whether a call has ended.
    pub fn is_done(&self, thread: u32) -> bool {
        match self.threads.get(&thread) {
            Some(Begun::Thread(thread)) => thread.is_finished(),
            Some(Begun::Ended(_)) | None => true,
        }
    }

    /// Waits for the end of a call.
    ///
    /// # Errors
    /// There is no such call.
    pub fn finish(&mut self, thread: u32) -> Result<Reply, String> {
        match self.threads.remove(&thread).ok_or("no such call")? {
            Begun::Thread(thread) => {
                let done = thread
                    .join()
                    .map_err(|error| format!("a thread: {error}"))?;
                Ok(self.take(done))
            }
            Begun::Ended(reply) => Ok(reply),
        }
    }

    fn take(&mut self, done: Done) -> Reply {
        match done.made {
            Created::Nothing => {}
            Created::Endpoint(slot, fd) => {
                self.endpoints.insert(slot, Slot::new(fd));
            }
            Created::Memory(slot, region) => self.memory.insert(slot, region),
        }
        done.reply
    }

    /// Makes the calls that change the objects of this side and never wait.
    fn here(&mut self, call: &Call) -> Option<Answer> {
        if let Some(answer) = self.memory.call(call) {
            return Some(answer);
        }
        Some(match *call {
            Call::Close { slot } => self.close(slot),
            Call::LimitPinned { pages } => node::set_limit(pages),
            Call::PinnedLimit {} => node::limit(),
            Call::Reset {} => {
                let slots: Vec<u32> = self.endpoints.keys().copied().collect();
                let result = slots
                    .into_iter()
                    .try_for_each(|slot| match self.close(slot) {
                        // The descriptor was no endpoint, and is closed all the same.
                        Err(Errno(ENOTTY)) => Ok(()),
                        result => result.map(|_| ()),
                    });
                self.memory.clear();
                result.map(|()| 0)
            }
            _ => return None,
        })
    }

    /// `scif_close`: ends the endpoint although mappings, or calls that wait, keep its file open.
    fn close(&mut self, slot: u32) -> Answer {
        let Slot { fd, bypass } = self.endpoints.remove(&slot).ok_or(Errno(EBADF))?;
        bypass.detach();
        drop(bypass);
        let ended = raw::shutdown(fd);
        let closed = raw::close(fd);
        if closed == Err(ENOTTY) {
            // A descriptor that is no endpoint stays open, so it is closed here.
            drop(Fd::new(fd));
        }
        nothing(closed.and(ended))
    }

    /// Turns a call into work that any thread can do.
    fn work(&self, call: &Call) -> Work {
        let slot = match *call {
            Call::Open { slot } => {
                return Box::new(move || match raw::open() {
                    Ok(fd) => Done {
                        reply: Reply::plain(Ok(0)),
                        made: Created::Endpoint(slot, fd),
                    },
                    Err(error) => plain(Err(Errno(error))),
                });
            }
            Call::OpenFile { slot } => return Box::new(move || open_file(slot)),
            Call::Bind { slot, .. }
            | Call::Listen { slot, .. }
            | Call::Nonblocking { slot, .. }
            | Call::Connect { slot, .. }
            | Call::Accept { slot, .. }
            | Call::AcceptRegister { slot, .. }
            | Call::Send { slot, .. }
            | Call::Recv { slot, .. }
            | Call::Register { slot, .. }
            | Call::Unregister { slot, .. }
            | Call::ReadFrom { slot, .. }
            | Call::WriteTo { slot, .. }
            | Call::VirtualReadFrom { slot, .. }
            | Call::VirtualWriteTo { slot, .. }
            | Call::FenceMark { slot, .. }
            | Call::FenceWait { slot, .. }
            | Call::FenceSignal { slot, .. }
            | Call::Map { slot, .. }
            | Call::Poll { slot, .. }
            | Call::PollTwo { slot, .. }
            | Call::GetPages { slot, .. } => self.slot(slot),
            _ => self.slot(u32::MAX),
        };
        let fd = slot.fd;
        match *call {
            Call::Accept { into, flags, .. } => Box::new(move || accept(fd, into, flags)),
            Call::Send {
                length,
                flags,
                seed,
                from,
                ..
            } => Box::new(move || {
                let mut bytes = vec![0; length as usize];
                pattern::fill(seed, from, &mut bytes);
                plain(answer(slot.bypass.send(fd, bytes.as_slice(), flags)))
            }),
            Call::Recv {
                length,
                flags,
                seed,
                from,
                ..
            } => Box::new(move || receive(&slot, length as usize, flags, seed, from)),
            Call::PollTwo {
                other,
                events,
                timeout_ms,
                ..
            } => {
                let other = self.slot(other);
                Box::new(move || poll([slot, other], events as u16, timeout_ms))
            }
            Call::NodeIds { room } => Box::new(move || node_ids(room as usize)),
            Call::Count {} => Box::new(|| match node::counts() {
                Ok(counts) => Done {
                    reply: Reply {
                        result: Ok(0),
                        extra: counts.words(),
                    },
                    made: Created::Nothing,
                },
                Err(errno) => plain(Err(errno)),
            }),
            Call::Map {
                memory,
                offset,
                length,
                protection,
                ..
            } => Box::new(move || match memory::map(fd, offset, length, protection) {
                Ok(region) => Done {
                    reply: Reply::plain(Ok(0)),
                    made: Created::Memory(memory, region),
                },
                Err(errno) => plain(Err(errno)),
            }),
            Call::GetPages {
                into,
                offset,
                length,
                ..
            } => Box::new(move || match get_pages(fd, offset, length) {
                Ok((region, reply)) => Done {
                    reply,
                    made: Created::Memory(into, region),
                },
                Err(errno) => plain(Err(errno)),
            }),
            Call::Register { .. } | Call::VirtualReadFrom { .. } | Call::VirtualWriteTo { .. } => {
                self.with_memory(slot, call)
            }
            other => Box::new(move || plain(simple(&slot, &other))),
        }
    }

    /// Makes the calls that name own memory.
    fn with_memory(&self, endpoint: Slot, call: &Call) -> Work {
        let Slot { fd, bypass } = endpoint;
        let (slot, at, length) = match *call {
            Call::Register {
                memory, at, length, ..
            }
            | Call::VirtualReadFrom {
                memory, at, length, ..
            }
            | Call::VirtualWriteTo {
                memory, at, length, ..
            } => (memory, at, length),
            _ => return Box::new(|| plain(Err(Errno(EINVAL)))),
        };
        let named = self.memory.name(slot, at, length);
        let call = *call;
        Box::new(move || {
            let result = named.as_ref().map_err(|errno| *errno).and_then(|named| {
                let range = named.range()?;
                match call {
                    Call::Register {
                        offset,
                        protection,
                        flags,
                        ..
                    } => raw::register(fd, range, offset, protection, flags).map_err(Errno),
                    Call::VirtualReadFrom { remote, flags, .. } => {
                        nothing(bypass.vreadfrom(fd, range, remote, flags))
                    }
                    Call::VirtualWriteTo { remote, flags, .. } => {
                        nothing(bypass.vwriteto(fd, range, remote, flags))
                    }
                    _ => Err(Errno(EINVAL)),
                }
            });
            plain(result)
        })
    }
}

/// Makes the calls whose arguments are only numbers.
fn simple(slot: &Slot, call: &Call) -> Answer {
    let Slot { fd, ref bypass } = *slot;
    match *call {
        Call::Bind { port, .. } => answer(raw::bind(fd, port)),
        Call::Listen { backlog, .. } => nothing(raw::listen(fd, backlog)),
        Call::Nonblocking { on, .. } => nothing(raw::set_nonblocking(fd, on != 0)),
        Call::Connect { node, port, .. } => {
            let result = raw::connect(fd, PortId::new(node, port));
            answer(slot.connected(result))
        }
        Call::AcceptRegister { handle, .. } => {
            let call = Operation::AcceptRegister { handle };
            let [first, second] = call.words();
            let metadata = [call.number(), first, second];
            let flags = syscall::flag::CallFlags::empty();
            let result = call_ro(fd, &mut [], flags, &metadata);
            answer(slot.connected(result.map_err(|error| error.errno())))
        }
        Call::Unregister { offset, length, .. } => nothing(raw::unregister(fd, offset, length)),
        Call::ReadFrom {
            local,
            length,
            remote,
            flags,
            ..
        } => nothing(bypass.readfrom(fd, local, length, remote, flags)),
        Call::WriteTo {
            local,
            length,
            remote,
            flags,
            ..
        } => nothing(bypass.writeto(fd, local, length, remote, flags)),
        Call::FenceMark { flags, .. } => answer(raw::fence_mark(fd, flags)),
        Call::FenceWait { mark, .. } => nothing(raw::fence_wait(fd, mark)),
        Call::FenceSignal {
            local,
            local_value,
            remote,
            remote_value,
            flags,
            ..
        } => nothing(raw::fence_signal(
            fd,
            local,
            local_value,
            remote,
            remote_value,
            flags,
        )),
        Call::Poll { events, .. } => match bypass.readiness(fd, events as u16) {
            // `scif_poll` gives this result for a descriptor that is no endpoint.
            Err(EBADF | ENOTTY) => Ok(Readiness::NVAL.bits().into()),
            result => answer(result),
        },
        // Calls that only the simulator can make.
        _ => Err(Errno(EINVAL)),
    }
}

/// Opens a file of the scheme, because other files do not know its operations.
fn open_file(slot: u32) -> Done {
    match libredox::call::open("/scheme/scif/version", O_RDONLY, 0) {
        Ok(fd) => Done {
            reply: Reply::plain(Ok(0)),
            made: Created::Endpoint(slot, fd),
        },
        Err(error) => plain(Err(Errno(error.errno()))),
    }
}

fn accept(fd: usize, into: u32, flags: u32) -> Done {
    match raw::accept(fd, flags) {
        Ok((new, peer)) => Done {
            reply: Reply {
                result: Ok(0),
                extra: vec![peer.node().into(), peer.port().into()],
            },
            made: Created::Endpoint(into, new),
        },
        Err(error) => plain(Err(Errno(error))),
    }
}

fn receive(slot: &Slot, length: usize, flags: u32, seed: u64, from: u64) -> Done {
    let mut bytes = vec![0; length];
    match slot.bypass.recv(slot.fd, bytes.as_mut_slice(), flags) {
        Ok(count) => {
            let wrong = pattern::mismatch(seed, from, &bytes[..count]);
            Done {
                reply: Reply {
                    result: Ok(count as i64),
                    extra: vec![wrong.map_or(-1, |index| index as i64)],
                },
                made: Created::Nothing,
            }
        }
        Err(error) => plain(Err(Errno(error))),
    }
}

fn poll(slots: [Slot; 2], events: u16, timeout_ms: i32) -> Done {
    let mut entries = [0, 1].map(|index: usize| PollFd::new(slots[index].fd, events));
    let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    let readiness =
        |index: usize, entry: &PollFd| slots[index].bypass.readiness(entry.epd, entry.events);
    let sign = |index: usize, _: &PollFd| slots[index].bypass.sign();
    match raw::poll_by(&mut entries, limit, readiness, sign) {
        Ok(ready) => Done {
            reply: Reply {
                result: Ok(ready as i64),
                extra: entries.iter().map(|entry| entry.revents.into()).collect(),
            },
            made: Created::Nothing,
        },
        Err(error) => plain(Err(Errno(error))),
    }
}

fn node_ids(room: usize) -> Done {
    let mut nodes = vec![0; room];
    match raw::get_node_ids(&mut nodes) {
        Ok((count, own)) => {
            let stored = nodes.iter().take(count).map(|id| i64::from(*id));
            Done {
                reply: Reply {
                    result: Ok(count as i64),
                    extra: core::iter::once(own.into()).chain(stored).collect(),
                },
                made: Created::Nothing,
            }
        }
        Err(error) => plain(Err(Errno(error))),
    }
}

fn get_pages(fd: usize, offset: i64, length: u64) -> Result<(Region, Reply), Errno> {
    let own = raw::local(fd).map(PortId::node).ok();
    let peer = raw::peer(fd).map(PortId::node).ok();
    memory::get_pages(fd, offset, length, own != peer)
}
