//! `pipe`: byte streams that also carry descriptors.
//!
//! A pipe has the number of its read end; in the number of the write end the lowest bit is set as
//! well.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use ::syscall::{
    CallFlags, EventFlags,
    data::{GlobalSchemes, Stat},
    error::{EAGAIN, EBADF, EINTR, EINVAL, ELOOP, ENOENT, ENOMEM, EPIPE, Error, Result},
    flag::{MODE_FIFO, O_NONBLOCK},
};
use kernel_core::pipe::{PIPE_TOGETHER, PipeBuffer, PipeState};
use spin::Mutex;

use super::{
    Caller, OpenResult, Scheme, deliver_files, handles::ROOT, kernel_id, proc::table_copy, trigger,
};
use crate::{
    mm::{UserBuf, frame},
    object::Description,
    sched::WaitQueue,
};

const WRITE_END: usize = 1;

/// Bytes copied at a time.
const CHUNK: usize = 4096;

struct Pipe {
    buffer: Mutex<PipeBuffer<Arc<Description>>>,
    readers: WaitQueue,
    writers: WaitQueue,
}

struct Pipes {
    list: BTreeMap<usize, Arc<Pipe>>,
    next: usize,
}

static PIPES: Mutex<Pipes> = Mutex::new(Pipes {
    list: BTreeMap::new(),
    next: 2,
});

/// Number of pipes, for `sys/stat`.
pub fn count() -> usize {
    PIPES.lock().list.len()
}

fn pipe(number: usize) -> Result<Arc<Pipe>> {
    PIPES
        .lock()
        .list
        .get(&(number & !WRITE_END))
        .cloned()
        .ok_or(Error::new(EBADF))
}

fn read_end(number: usize) -> Result<Arc<Pipe>> {
    if number & WRITE_END == 0 {
        pipe(number)
    } else {
        Err(Error::new(EBADF))
    }
}

fn write_end(number: usize) -> Result<Arc<Pipe>> {
    if number != ROOT && number & WRITE_END != 0 {
        pipe(number)
    } else {
        Err(Error::new(EBADF))
    }
}

/// Whether one of the files is the read end of the pipe `target`, or holds it: as a pipe or a copy
/// of a file table does. A pipe that carries its own read end could never be freed, because
/// nothing else would refer to it. `ENOMEM` when there are too many to look at.
fn leads_to(files: &[Arc<Description>], target: usize) -> Result<bool> {
    let scheme = kernel_id(GlobalSchemes::Pipe);
    // There may be more than contiguous memory has room for.
    let mut next = BTreeSet::new();
    let add = |next: &mut BTreeSet<_>, file: &Arc<Description>| {
        let is_reader = file.scheme() == scheme && file.number() & WRITE_END == 0;
        if is_reader || file.scheme() == kernel_id(GlobalSchemes::Proc) {
            frame::check_room()?;
            next.insert((file.scheme(), file.number()));
        }
        Ok(())
    };
    files.iter().try_for_each(|file| add(&mut next, file))?;
    let mut seen = BTreeSet::new();
    while let Some(file) = next.pop_first() {
        if file == (scheme, target) {
            return Ok(true);
        }
        let (of, number) = file;
        if number == ROOT || !seen.insert(file) {
            continue;
        }
        if of != scheme {
            if let Some(table) = table_copy(number) {
                table.visit(|file| add(&mut next, file))?;
            }
        } else if let Ok(pipe) = pipe(number) {
            let buffer = pipe.buffer.lock();
            buffer.fds().try_for_each(|file| add(&mut next, file))?;
        }
    }
    Ok(false)
}

/// Makes the write end of a pipe, which is possible once.
fn make_writer(number: usize) -> Result<OpenResult> {
    if read_end(number)?.buffer.lock().make_writer() {
        OpenResult::plain(number | WRITE_END)
    } else {
        Err(Error::new(EBADF))
    }
}

/// Wakes the contexts that wait on one end and reports it to event queues.
fn notify(waiters: &WaitQueue, number: usize, flags: EventFlags) {
    waiters.wake_all();
    trigger(kernel_id(GlobalSchemes::Pipe), number, flags);
}

impl Pipe {
    /// Moves waiting bytes to the reader. Bytes that could not be stored stay.
    fn deliver(&self, buf: UserBuf) -> Result<usize> {
        let mut buffer = self.buffer.lock();
        let mut rest = buf;
        while !rest.is_empty() {
            let run = buffer.peek(rest.len());
            if run.is_empty() {
                break;
            }
            match rest.write(run) {
                Ok(count) => {
                    buffer.consume(count);
                    rest = rest.skip(count);
                }
                Err(error) if rest.len() == buf.len() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(buf.len() - rest.len())
    }
}

/// Takes as many bytes from the writer as there is room for; `ENOMEM` when there is no memory
/// for them.
fn accept<F>(buffer: &mut PipeBuffer<F>, buf: UserBuf) -> Result<usize> {
    let mut chunk = [0_u8; CHUNK];
    let mut rest = buf.prefix(buffer.room());
    let offered = rest.len();
    while !rest.is_empty() {
        match rest.read(&mut chunk) {
            Ok(count) => {
                let taken = buffer.push(chunk.get(..count).unwrap_or(&[]));
                rest = rest.skip(taken);
                if taken < count {
                    break;
                }
            }
            Err(error) if rest.len() == offered => return Err(error),
            Err(_) => break,
        }
    }
    if offered > 0 && rest.len() == offered {
        return Err(Error::new(ENOMEM));
    }
    Ok(offered - rest.len())
}

pub struct PipeScheme;

impl Scheme for PipeScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        _caller: Caller,
    ) -> Result<OpenResult> {
        if number != ROOT {
            return if path == "write" {
                make_writer(number & !WRITE_END)
            } else {
                pipe(number).and(Err(Error::new(EINVAL)))
            };
        }
        match path.trim_start_matches('/') {
            "" => {}
            "scheme-root" => return OpenResult::plain(ROOT),
            _ => return Err(Error::new(ENOENT)),
        }
        let pipe = Pipe {
            buffer: Mutex::new(PipeBuffer::new()),
            readers: WaitQueue::new(),
            writers: WaitQueue::new(),
        };
        let mut pipes = PIPES.lock();
        let number = pipes.next;
        pipes.next += 2;
        pipes.list.insert(number, Arc::new(pipe));
        OpenResult::plain(number)
    }

    fn dup(&self, number: usize, name: UserBuf, _caller: Caller) -> Result<OpenResult> {
        let mut bytes = [0_u8; 5];
        if number & WRITE_END != 0 {
            return Err(Error::new(EBADF));
        }
        if name.read(&mut bytes)? < bytes.len() || &bytes != b"write" {
            return Err(Error::new(EINVAL));
        }
        make_writer(number)
    }

    fn read(&self, number: usize, buf: UserBuf, flags: u32) -> Result<usize> {
        let pipe = read_end(number)?;
        let nonblock = flags & O_NONBLOCK as u32 != 0;
        let attempt = || match pipe.buffer.lock().read_state() {
            _ if buf.is_empty() => Some(PipeState::Gone),
            PipeState::Wait if !nonblock => None,
            state => Some(state),
        };
        match pipe
            .readers
            .wait(None, attempt)
            .map_err(|_| Error::new(EINTR))?
        {
            PipeState::Gone => return Ok(0),
            PipeState::Wait => return Err(Error::new(EAGAIN)),
            PipeState::Ready => {}
        }
        let count = pipe.deliver(buf)?;
        notify(&pipe.writers, number | WRITE_END, EventFlags::EVENT_WRITE);
        Ok(count)
    }

    fn write(&self, number: usize, buf: UserBuf, flags: u32) -> Result<usize> {
        let pipe = write_end(number)?;
        frame::check_room()?;
        let nonblock = flags & O_NONBLOCK as u32 != 0;
        // The bytes are taken under the lock under which there was room for them.
        let attempt = || {
            let mut buffer = pipe.buffer.lock();
            match buffer.write_state(buf.len()) {
                PipeState::Wait if !nonblock => None,
                PipeState::Wait => Some(Err(Error::new(EAGAIN))),
                PipeState::Gone => Some(Err(Error::new(EPIPE))),
                PipeState::Ready => Some(accept(&mut buffer, buf)),
            }
        };
        let waited = pipe.writers.wait(None, attempt);
        let count = waited.map_err(|_| Error::new(EINTR))??;
        if count > 0 {
            notify(&pipe.readers, number & !WRITE_END, EventFlags::EVENT_READ);
        }
        Ok(count)
    }

    fn path(&self, _number: usize) -> Result<String> {
        Ok(String::from("/scheme/pipe/"))
    }

    fn stat(&self, number: usize) -> Result<Stat> {
        let waiting = pipe(number).map_or(0, |pipe| pipe.buffer.lock().waiting());
        Ok(Stat {
            st_mode: MODE_FIFO | 0o666,
            // The number of bytes that can be read, for C's `FIONREAD`.
            st_size: waiting as u64,
            ..Stat::default()
        })
    }

    fn fevent(&self, number: usize, flags: EventFlags) -> Result<EventFlags> {
        let is_writer = number & WRITE_END != 0;
        let pipe = pipe(number)?;
        let buffer = pipe.buffer.lock();
        let (state, flag) = if is_writer {
            (buffer.write_state(PIPE_TOGETHER), EventFlags::EVENT_WRITE)
        } else {
            (buffer.read_state(), EventFlags::EVENT_READ)
        };
        Ok(if state == PipeState::Wait {
            EventFlags::empty()
        } else {
            flags & flag
        })
    }

    fn send_files(
        &self,
        number: usize,
        mut files: Vec<Arc<Description>>,
        _flags: CallFlags,
        _metadata: &[u64],
    ) -> Result<usize> {
        let pipe = write_end(number)?;
        if leads_to(&files, number & !WRITE_END)? {
            return Err(Error::new(ELOOP));
        }
        let attempt = || match pipe.buffer.lock().fd_write_state() {
            PipeState::Wait => None,
            state => Some(state),
        };
        let state = pipe
            .writers
            .wait(None, attempt)
            .map_err(|_| Error::new(EINTR))?;
        if state == PipeState::Gone {
            return Err(Error::new(EPIPE));
        }
        // While this call waited, others may have sent.
        if leads_to(&files, number & !WRITE_END)? {
            return Err(Error::new(ELOOP));
        }
        // Files for which there is no room are dropped after the lock.
        let sent = pipe.buffer.lock().push_fds(&mut files);
        let count = sent.ok_or(Error::new(ENOMEM))?;
        if count > 0 {
            notify(&pipe.readers, number & !WRITE_END, EventFlags::EVENT_READ);
        }
        Ok(count)
    }

    fn receive_files(
        &self,
        number: usize,
        payload: UserBuf,
        flags: CallFlags,
        _metadata: &[u64],
    ) -> Result<usize> {
        let pipe = read_end(number)?;
        if payload.is_empty() {
            return Ok(0);
        }
        let attempt = || match pipe.buffer.lock().fd_read_state() {
            PipeState::Wait => None,
            state => Some(state),
        };
        let state = pipe
            .readers
            .wait(None, attempt)
            .map_err(|_| Error::new(EINTR))?;
        if state == PipeState::Gone {
            return Ok(0);
        }
        let files = pipe
            .buffer
            .lock()
            .take_fds(payload.len() / size_of::<usize>());
        let files = files.ok_or(Error::new(ENOMEM))?;
        let count = files.len();
        // As on Redox, only a receiver that asks for the upper table gets the files.
        if flags.contains(CallFlags::FD_UPPER)
            && let Err((error, mut files)) = deliver_files(files, payload)
        {
            // Unlike on Redox they are not lost: this receiver or another can ask again. Files for
            // which there is no memory are dropped after the lock.
            pipe.buffer.lock().return_fds(&mut files);
            notify(&pipe.readers, number, EventFlags::EVENT_READ);
            return Err(error);
        }
        notify(&pipe.writers, number | WRITE_END, EventFlags::EVENT_WRITE);
        Ok(count)
    }

    fn close(&self, number: usize) {
        if number == ROOT {
            return;
        }
        let Ok(pipe) = pipe(number) else { return };
        let unused = if number & WRITE_END != 0 {
            let unused = pipe.buffer.lock().close_writer();
            notify(&pipe.readers, number & !WRITE_END, EventFlags::EVENT_READ);
            unused
        } else {
            let (unused, lost) = {
                let mut buffer = pipe.buffer.lock();
                (buffer.close_reader(), buffer.drain_fds())
            };
            // Nobody can receive them any more; the write end may be among them.
            drop(lost);
            notify(&pipe.writers, number | WRITE_END, EventFlags::EVENT_WRITE);
            unused
        };
        if unused {
            // Dropped after the lock, with the descriptors still in it.
            let removed = PIPES.lock().list.remove(&(number & !WRITE_END));
            drop(removed);
        }
    }
}
