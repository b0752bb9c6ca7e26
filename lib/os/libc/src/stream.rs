//! The type `FILE`: a descriptor with a buffer. A stream is either read or written at a time.
//! Changing from reading to writing drops what was read ahead; changing back writes what is
//! buffered.

mod output;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use core::time::Duration;

use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EINTR, EINVAL};
use syscall::flag::{O_APPEND, O_RDONLY, O_TRUNC, O_WRONLY};

use crate::keeper::Keeper;
use crate::memory_stream::Memory;
use crate::sync::{Lock, Shared};
use crate::{descriptor, errno, files, points, tls};

/// The most bytes read at once, and the most that are buffered before they are written.
const BUFFER: usize = 4096;

/// When a stream writes its buffered bytes to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// When the buffer is full.
    Full,
    /// Also after each line.
    Line,
    /// At once.
    None,
}

/// A stream's state.
pub struct State {
    /// The descriptor; -1 after it was closed, and if the file is memory.
    pub number: c_int,
    /// The file, if it is memory.
    memory: Option<Memory>,
    /// Whether it was opened for reading.
    pub readable: bool,
    /// Whether it was opened for writing.
    pub writable: bool,
    /// When buffered bytes are written.
    pub mode: Mode,
    /// A read has found the end of the file.
    pub ended: bool,
    /// A read or a write has failed.
    pub failed: bool,
    /// Bytes read ahead; the first `next` of them have been taken.
    input: Vec<u8>,
    next: usize,
    /// Bytes buffered for writing.
    output: Vec<u8>,
    shown: Arc<Shown>,
}

/// The part of a stream's state that threads read without its lock.
#[derive(Default)]
struct Shown {
    /// Bytes are buffered for writing.
    has_output: AtomicBool,
    /// The holder of the lock is in a call that may block. The state is consistent meanwhile.
    is_asleep: AtomicBool,
}

/// C's `FILE`.
pub struct File {
    state: Shared<State>,
    shown: Arc<Shown>,
    keeper: Keeper,
}

/// The number of the calling thread.
fn this_thread() -> u32 {
    tls::gettid() as u32
}

/// All open streams, so that `exit` can write their buffers. C has their addresses.
static OPEN: Shared<Vec<Arc<File>>> = Shared::new(Vec::new());

/// Taken by a fork, and by threads that have slept in a stream before they continue.
static GATE: Shared<()> = Shared::new(());

/// How long a fork waits for a thread that uses a stream and does not sleep in it. The hypervisor
/// may not run a processor of a virtual machine for tens of milliseconds.
const LONGEST: Duration = Duration::from_millis(250);

/// Runs `action` while no other thread opens, closes or uses a stream; `action` must not either. A
/// thread that sleeps in a stream keeps the lock, as the stream's state is consistent then.
pub fn held<T>(action: impl FnOnce() -> T) -> T {
    OPEN.with(|open| {
        GATE.with(|()| {
            let take = |file: &Arc<File>| {
                let is_asleep = || file.shown.is_asleep.load(Ordering::SeqCst);
                file.state.take_within(LONGEST, is_asleep)
            };
            let taken: Vec<bool> = open.iter().map(take).collect();
            let result = action();
            for (file, _) in open.iter().zip(taken).filter(|(_, taken)| *taken) {
                // SAFETY: taken above.
                unsafe { file.state.open() };
            }
            result
        })
    })
}

/// Called in the child of a fork: opens the locks of streams in which threads of the parent slept.
pub fn forked() {
    OPEN.with(|open| {
        for file in open {
            file.shown.is_asleep.store(false, Ordering::SeqCst);
            file.keeper.forget();
            // SAFETY: this process has one thread, which is in no stream.
            unsafe { file.state.open() };
        }
    });
}

macro_rules! standard {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            static $name: AtomicPtr<File> = AtomicPtr::new(core::ptr::null_mut());
        )*
    };
}

standard!(stdin stdout stderr);

/// Makes the three standard streams.
pub fn open_standard() {
    let modes = [
        (&stdin, Mode::Full),
        (&stdout, Mode::Line),
        (&stderr, Mode::None),
    ];
    for (number, (place, mode)) in modes.into_iter().enumerate() {
        let file = open(number as c_int, number == 0, number != 0, mode);
        place.store(file, Ordering::Relaxed);
    }
}

/// The standard output, or the stream that the program has put in its place.
pub fn standard_output() -> *mut File {
    stdout.load(Ordering::Relaxed)
}

/// The standard input.
pub fn standard_input() -> *mut File {
    stdin.load(Ordering::Relaxed)
}

/// The standard error.
pub fn standard_error() -> *mut File {
    stderr.load(Ordering::Relaxed)
}

/// Makes a stream over a descriptor.
pub fn open(number: c_int, readable: bool, writable: bool, mode: Mode) -> *mut File {
    add(number, None, (readable, writable), mode)
}

/// Makes a stream over memory.
pub fn open_memory(memory: Memory, rights: (bool, bool)) -> *mut File {
    add(-1, Some(memory), rights, Mode::Full)
}

fn add(
    number: c_int,
    memory: Option<Memory>,
    (readable, writable): (bool, bool),
    mode: Mode,
) -> *mut File {
    let state = State {
        number,
        memory,
        readable,
        writable,
        mode,
        ended: false,
        failed: false,
        input: Vec::new(),
        next: 0,
        output: Vec::new(),
        shown: Arc::default(),
    };
    let file = Arc::new(File {
        shown: Arc::clone(&state.shown),
        state: Shared::new(state),
        keeper: Keeper::default(),
    });
    let address = Arc::as_ptr(&file).cast_mut();
    OPEN.with(|open| open.push(file));
    address
}

/// Runs `action` on a stream while no other thread uses it.
///
/// # Safety
/// `file` is an open stream.
pub unsafe fn with<T>(file: *mut File, action: impl FnOnce(&mut State) -> T) -> T {
    // SAFETY: the caller's promise; the state is behind a lock.
    let file = unsafe { &*file };
    let mut action = Some(action);
    loop {
        let done = file.state.with(|state| {
            let action = action.take_if(|_| file.keeper.lets_in(this_thread()))?;
            Some(action(state))
        });
        match done {
            Some(result) => {
                // A write to a pipe may have sent one.
                points::handle_signals();
                return result;
            }
            None => file.keeper.wait(),
        }
    }
}

/// Reserves a stream for the calling thread until it has called [`release`] as often.
///
/// # Safety
/// `file` is an open stream.
pub unsafe fn keep(file: *mut File) {
    // SAFETY: the same contract.
    while !unsafe { try_keep(file) } {
        // SAFETY: the caller's promise.
        unsafe { &*file }.keeper.wait();
    }
}

/// Reserves a stream, unless another thread has reserved it; returns whether that worked.
///
/// # Safety
/// `file` is an open stream.
pub unsafe fn try_keep(file: *mut File) -> bool {
    // SAFETY: the caller's promise.
    let file = unsafe { &*file };
    file.state.with(|_| file.keeper.take(this_thread()))
}

/// Gives up one reservation of a stream by the calling thread.
///
/// # Safety
/// `file` is an open stream.
pub unsafe fn release(file: *mut File) {
    // SAFETY: the caller's promise.
    unsafe { &*file }.keeper.give(this_thread());
}

/// Whether a stream is one of the three that a program has from its start.
fn is_standard(file: *mut File) -> bool {
    [standard_input(), standard_output(), standard_error()].contains(&file)
}

/// Closes a stream and its descriptor. The memory of the standard streams stays: programs use them
/// after closing them, or after a `freopen` that has failed, and get `EBADF`.
///
/// # Safety
/// `file` is an open stream that is not used any more, or a standard one.
pub unsafe fn close(file: *mut File) -> Result<()> {
    let known = OPEN.with(|open| {
        let index = open.iter().position(|known| Arc::as_ptr(known) == file)?;
        Some(open.remove(index))
    });
    let file = known.ok_or(Error::new(EBADF))?;
    if is_standard(Arc::as_ptr(&file).cast_mut()) {
        core::mem::forget(Arc::clone(&file));
    }
    let closed = file.state.with(|state| {
        let flushed = state.flush();
        // A process that goes on with the file starts where this stream has stopped.
        let _ = state.drop_input();
        if let Some(memory) = state.memory.take() {
            memory.end();
            return flushed;
        }
        let closed = descriptor::close(state.number);
        state.number = -1;
        flushed.and(closed)
    });
    // A write to a pipe may have sent one.
    points::handle_signals();
    closed
}

/// Puts a standard stream that was closed back into the list of open streams. Does nothing to
/// others.
///
/// # Safety
/// `file` is an open stream, or a standard one that was closed.
pub unsafe fn reopened(file: *mut File) {
    if !is_standard(file) {
        return;
    }
    OPEN.with(|open| {
        if !open.iter().any(|known| Arc::as_ptr(known) == file) {
            // SAFETY: `close` has left a reference behind, which is this one.
            open.push(unsafe { Arc::from_raw(file) });
        }
    });
}

/// Writes the buffers of all streams; the first error is the result. Skips a stream with nothing
/// to write, as another thread may sleep in it for input.
pub fn flush_all() -> c_int {
    let mut result = 0;
    let mut files = OPEN.with(|open| open.clone());
    files.retain(|file| file.shown.has_output.load(Ordering::Acquire));
    for file in files {
        if let Err(error) = file.state.with(State::flush)
            && result == 0
        {
            result = errno::fail(error.errno);
        }
    }
    // A write to a pipe may have sent one.
    points::handle_signals();
    result
}

/// As [`flush_all`], before another program is started. Leaves out a stream that a thread uses, as
/// it may sleep there.
pub fn flush_idle() {
    for file in OPEN.with(|open| open.clone()) {
        if file.shown.has_output.load(Ordering::Acquire) {
            // The stream's own state records an error.
            let _ = file.state.try_with(State::flush);
        }
    }
    points::handle_signals();
}

/// Writes a prompt that the standard output has buffered, before the program waits for the answer.
/// Does nothing if that stream is not written line by line, or is in use: its user may wait in it,
/// and it may be the caller, who reads from it.
fn show_prompt() {
    let output = standard_output();
    if output.is_null() {
        return;
    }
    // Even if a thread has reserved it: that thread may wait for the stream that is read.
    // SAFETY: the standard output, whose memory stays even when it is closed.
    let file = unsafe { &*output };
    if file.shown.has_output.load(Ordering::Acquire) {
        // Its error is not one of reading. The output's own state records it.
        let _ = file.state.try_with(|state| match state.mode {
            Mode::Line => state.flush(),
            Mode::Full | Mode::None => Ok(()),
        });
    }
}

/// Moves the positions of files back to those of the streams that read them ahead, for whoever
/// goes on with the files. Skips a stream that a thread uses, as it may sleep there.
pub fn give_back_input() {
    for file in OPEN.with(|open| open.clone()) {
        // A pipe or a connection has no position.
        let _ = file.state.try_with(State::drop_input);
    }
}

impl Shown {
    /// Makes a call that may block, for the holder of the lock, whose state is consistent. A fork
    /// does not wait for the call, and the call does not return during a fork.
    fn sleep<T>(&self, call: impl FnOnce() -> T) -> T {
        self.is_asleep.store(true, Ordering::SeqCst);
        let result = call();
        GATE.with(|()| self.is_asleep.store(false, Ordering::SeqCst));
        result
    }
}

impl State {
    fn fail<T>(&mut self, number: c_int) -> Result<T> {
        self.failed = true;
        Err(Error::new(number))
    }

    /// Goes on as if the same file was opened again with these flags.
    ///
    /// # Errors
    /// `EBADF`: the file was not opened for that; those of emptying the file.
    pub fn open_again(&mut self, flags: usize) -> Result<()> {
        let (readable, writable) = (flags & O_RDONLY != 0, flags & O_WRONLY != 0);
        if readable && !self.readable || writable && !self.writable {
            return Err(Error::new(EBADF));
        }
        (self.readable, self.writable) = (readable, writable);
        (self.ended, self.failed) = (false, false);
        self.input.clear();
        self.next = 0;
        let Ok(number) = descriptor::check(self.number) else {
            // Memory stays as it is.
            return Ok(());
        };
        let appends = flags & O_APPEND;
        let old = fd::fcntl(number, syscall::F_GETFL, 0)?;
        if old & O_APPEND != appends {
            fd::fcntl(number, syscall::F_SETFL, old & !O_APPEND | appends)?;
        }
        let whence = match appends {
            0 => syscall::SEEK_SET,
            _ => syscall::SEEK_END,
        };
        // A pipe or a device has neither positions nor a length.
        if descriptor::seek(self.number, 0, whence).is_ok() && flags & O_TRUNC != 0 {
            fd::truncate(number, 0)?;
        }
        Ok(())
    }

    /// Writes what is buffered, and drops what was read ahead if the file has positions.
    ///
    /// # Errors
    /// Those of writing.
    pub fn synchronize(&mut self) -> Result<()> {
        self.flush()?;
        // Bytes of a pipe or a connection stay, as they cannot be read again.
        let _ = self.drop_input();
        Ok(())
    }

    /// Drops what was read ahead and moves the descriptor's position back to the stream's.
    ///
    /// # Errors
    /// Those of `lseek`; the bytes stay then.
    fn drop_input(&mut self) -> Result<()> {
        let ahead = self.input.len() - self.next;
        if ahead > 0 {
            self.move_by(-(ahead as i64), syscall::SEEK_CUR)?;
        }
        self.input.clear();
        self.next = 0;
        Ok(())
    }

    /// Returns the next byte without taking it; `None` at the end of the file.
    ///
    /// # Errors
    /// `EBADF` when the stream is not for reading; those of reading.
    pub fn peek(&mut self) -> Result<Option<u8>> {
        if let Some(byte) = self.input.get(self.next) {
            return Ok(Some(*byte));
        }
        if !self.readable {
            return self.fail(EBADF);
        }
        if self.ended {
            return Ok(None);
        }
        self.flush()?;
        if self.number == 0 {
            show_prompt();
        }
        let size = if self.mode == Mode::None { 1 } else { BUFFER };
        self.next = 0;
        // A process that is forked while this thread sleeps finds no bytes read ahead.
        let mut input = core::mem::take(&mut self.input);
        input.resize(size, 0);
        let result = loop {
            if let Some(memory) = &mut self.memory {
                break Ok(memory.read(&mut input));
            }
            let place = input.as_mut_ptr().cast();
            // SAFETY: the vector's own bytes.
            let read = || unsafe { files::read_raw(self.number, place, size) };
            match self.shown.sleep(read) {
                Err(Error { errno: EINTR }) => {}
                result => break result,
            }
        };
        input.truncate(*result.as_ref().unwrap_or(&0));
        self.input = input;
        match result {
            Ok(0) => {
                self.ended = true;
                Ok(None)
            }
            Ok(_) => Ok(self.input.first().copied()),
            Err(error) => self.fail(error.errno),
        }
    }

    /// Takes the next byte.
    ///
    /// # Errors
    /// Those of [`peek`](Self::peek).
    pub fn get(&mut self) -> Result<Option<u8>> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.next += 1;
        }
        Ok(byte)
    }

    /// Puts a byte back in front of the next one. False if too many unread bytes were put back.
    pub fn unget(&mut self, byte: u8) -> bool {
        if self.next == 0 {
            if self.input.len() >= 2 * BUFFER {
                return false;
            }
            self.input.insert(0, byte);
        } else {
            self.next -= 1;
            self.input[self.next] = byte;
        }
        self.ended = false;
        true
    }

    /// Bytes that have been read ahead.
    pub fn buffered(&self) -> &[u8] {
        &self.input[self.next..]
    }

    /// Takes `count` of the bytes that have been read ahead.
    pub fn consume(&mut self, count: usize) {
        self.next = (self.next + count).min(self.input.len());
    }

    /// Moves the position.
    ///
    /// # Errors
    /// Those of `lseek`.
    pub fn seek(&mut self, offset: i64, whence: usize) -> Result<()> {
        self.flush()?;
        // Bytes that were put back are dropped, wherever that would leave the position of the file.
        let ahead = match whence {
            syscall::SEEK_CUR => (self.input.len() - self.next) as i64,
            _ => 0,
        };
        let offset = offset.checked_sub(ahead).ok_or(Error::new(EINVAL))?;
        self.move_by(offset, whence)?;
        self.input.clear();
        self.next = 0;
        self.ended = false;
        Ok(())
    }

    /// Moves the file's position and returns the new one.
    fn move_by(&mut self, offset: i64, whence: usize) -> Result<usize> {
        match &mut self.memory {
            Some(memory) => memory.seek(offset, whence),
            None => descriptor::seek(self.number, offset, whence),
        }
    }

    /// The position of the stream.
    ///
    /// # Errors
    /// Those of `lseek`.
    pub fn tell(&mut self) -> Result<i64> {
        // Buffered bytes for a file opened for appending go to its end, wherever the position is.
        let appends = || {
            if let Some(memory) = &self.memory {
                return memory.appends();
            }
            let flags = fd::fcntl(self.number as usize, syscall::F_GETFL, 0);
            flags.is_ok_and(|flags| flags & O_APPEND != 0)
        };
        let from = match !self.output.is_empty() && appends() {
            true => syscall::SEEK_END,
            false => syscall::SEEK_CUR,
        };
        let position = match &self.memory {
            Some(memory) if from == syscall::SEEK_END => memory.length(),
            _ => self.move_by(0, from)?,
        } as i64;
        let ahead = (self.input.len() - self.next) as i64;
        Ok(position - ahead + self.output.len() as i64)
    }

    /// Replaces the descriptor, for `freopen`.
    pub fn replace(&mut self, number: c_int, readable: bool, writable: bool) {
        self.number = number;
        self.readable = readable;
        self.writable = writable;
        if let Some(memory) = self.memory.take() {
            memory.end();
        }
        self.input.clear();
        self.next = 0;
        self.drop_output();
        (self.ended, self.failed) = (false, false);
    }
}
