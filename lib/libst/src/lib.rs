//! The functions of `st.h`, for C programs of the image, over the library `st`.
//!
//! A handle (`st_peer_t`) is a channel of a connection, which a socket has set up. Results are 0,
//! or -1 with `errno`; `docs/st.md` has the decisions behind them.
#![no_std]

extern crate alloc;

mod fence;
mod level0;
mod level1;
mod memory;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use libsocket::socket::{self, Socket};
use runtime::sync::Mutex;
use skiff_libc::{errno, points};
use st::{Connection, Deadline, Mapper, Receiver, Sender, Waiting};
use syscall::error::{EBADF, EBUSY, EFAULT, EINVAL, EOPNOTSUPP};

use memory::Mapped;

/// The result of a call; the error is a positive error number.
type Result<T> = core::result::Result<T, i32>;

/// `st_peer_t`. One thread pushes and one pulls at a time; others take turns.
pub struct Peer {
    socket: Arc<Socket>,
    /// The memory is dropped before the halves of the channel, and those before the connection.
    mapped: Mutex<Option<Mapped>>,
    mapper: Mapper,
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
    _link: Arc<Connection>,
    /// Threads that are in a call.
    calls: AtomicU32,
}

/// A call on a handle.
struct Call<'a>(&'a Peer);

impl<'a> Call<'a> {
    fn enter(peer: &'a Peer) -> Result<Self> {
        peer.calls.fetch_add(1, Ordering::SeqCst);
        let call = Self(peer);
        match peer.socket.state() {
            state if state.is_foreign => Err(EOPNOTSUPP),
            state if state.is_closed => Err(EBADF),
            _ => Ok(call),
        }
    }

    /// Makes a call on a handle. The end of the connection has another reason if a thread has
    /// closed the socket meanwhile.
    fn make(peer: &'a Peer, call: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let entered = Self::enter(peer)?;
        call(&entered).map_err(|error| match peer.socket.state().is_closed {
            true => EBADF,
            false => error,
        })
    }

    /// Until when the call waits, by the socket's `O_NONBLOCK`.
    fn deadline(&self) -> Deadline {
        match self.0.socket.is_nonblocking() {
            true => Deadline::Now,
            false => Deadline::Never,
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes a call on a handle from C, and returns its result to C.
///
/// # Safety
/// The handle is null or one that `st_attach` gave and no `st_detach` has taken.
unsafe fn on(handle: *const Peer, call: impl FnOnce(&Call<'_>) -> Result<()>) -> c_int {
    // SAFETY: the caller's promise.
    let result = match unsafe { handle.as_ref() } {
        Some(peer) => Call::make(peer, call),
        None => Err(EINVAL),
    };
    result.map_or_else(errno::fail, |()| 0)
}

/// Makes a call on a handle that may wait, as [`on`] does. Others may interrupt it; it may be made
/// again then.
///
/// # Safety
/// That of [`on`].
unsafe fn waiting_on(handle: *const Peer, mut call: impl FnMut(&Call<'_>) -> Result<()>) -> c_int {
    // SAFETY: the caller's promise.
    let result = match unsafe { handle.as_ref() } {
        Some(peer) => points::interruptible(|| Call::make(peer, &mut call)),
        None => Err(EINVAL),
    };
    result.map_or_else(errno::fail, |()| 0)
}

/// The number of an error of the library.
fn number(error: st::Error) -> i32 {
    error.errno()
}

fn attach(fd: c_int, channel: c_int, flags: c_int) -> Result<Peer> {
    let (index, socket) = socket::find(fd)?;
    if flags != 0 {
        return Err(EINVAL);
    }
    // Whether there is a connection is checked first.
    socket.transferring(index)?;
    let transfers = socket.transfers.as_ref().ok_or(EOPNOTSUPP)?;
    let established = transfers.lock().established()?;
    let link = established.link.ok_or(EOPNOTSUPP)?;
    let channel = u32::try_from(channel).map_err(|_| EINVAL)?;
    let (mut sender, mut receiver) = link.channel(channel).map_err(number)?.split();
    if socket.options.lock().polls() {
        sender.set_waiting(Waiting::Poll);
        receiver.set_waiting(Waiting::Poll);
    }
    Ok(Peer {
        socket,
        mapped: Mutex::new(None),
        mapper: sender.mapper(),
        sender: Mutex::new(sender),
        receiver: Mutex::new(receiver),
        _link: link,
        calls: AtomicU32::new(0),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn st_attach(
    fd: c_int,
    channel: c_int,
    flags: c_int,
    handle: *mut *mut Peer,
) -> c_int {
    if handle.is_null() {
        return errno::fail(EFAULT);
    }
    match attach(fd, channel, flags) {
        Ok(peer) => {
            // SAFETY: the caller's place for the handle.
            unsafe { handle.write(Box::into_raw(Box::new(peer))) };
            0
        }
        Err(error) => errno::fail(error),
    }
}

/// Detaches a handle. The socket stays open.
#[unsafe(no_mangle)]
unsafe extern "C" fn st_detach(handle: *mut *mut Peer) -> c_int {
    if handle.is_null() {
        return errno::fail(EFAULT);
    }
    // SAFETY: the caller's place, and what `st_attach` stored there.
    let Some(peer) = (unsafe { (*handle).as_ref() }) else {
        return errno::fail(EINVAL);
    };
    let is_foreign = peer.socket.state().is_foreign;
    if !is_foreign && peer.calls.load(Ordering::SeqCst) > 0 {
        return errno::fail(EBUSY);
    }
    // SAFETY: as above; no thread is in a call, and C's rules forbid to begin one now.
    let peer = unsafe {
        let peer = Box::from_raw(*handle);
        handle.write(null_mut());
        peer
    };
    match is_foreign {
        // The parent of this process has the connection and its memory, and this process neither.
        true => core::mem::forget(peer),
        false => drop(peer),
    }
    0
}
