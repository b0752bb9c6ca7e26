//! Commands for RDMA devices by `write`, as on Linux. A command contains the address for its
//! answer, where the device's daemon cannot store. So the command is sent by a call that returns
//! the answer, which is then stored here. Descriptors in commands and answers are the program's;
//! the daemon knows completion channels by number (docs/infiniband.md).

use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EFAULT};

use crate::descriptor;

/// The path of a device's descriptors.
const DEVICE: &str = "/scheme/infiniband/uverbs";

/// Operations of the scheme's `call`: execute a command, and ask for a channel's number.
const EXECUTE: u64 = 1;
const CHANNEL_NUMBER: u64 = 2;

/// The operation that sends the program's address space.
const SEND_SPACE: u64 = 6;

/// Commands that register memory, for which the device's daemon borrows the program's pages.
const REG_MR: u32 = 9;
const REREG_MR: u32 = 11;
/// Commands with descriptors: the answers of the first two hold that of the events and that of a
/// new channel, the request of the third that of its channel.
const GET_CONTEXT: u32 = 0;
const CREATE_COMP_CHANNEL: u32 = 17;
const CREATE_CQ: u32 = 18;
/// Commands that have an answer even if they are refused.
const POSTS: [u32; 3] = [28, 29, 36];

/// The offset in these commands of the number of their requests.
const WORK_REQUESTS: usize = 20;

/// The flag of a command with an extended header.
const EXTENDED: u32 = 1 << 31;
/// Stands for no channel.
const NO_CHANNEL: u32 = u32::MAX;

/// Whether this program has opened a device.
static HAS_DEVICE: AtomicBool = AtomicBool::new(false);

/// Records that a file of this path was opened.
pub fn note_opened(path: &str) {
    if path.starts_with(DEVICE) {
        HAS_DEVICE.store(true, Ordering::Relaxed);
    }
}

/// Whether the descriptor is a device.
pub fn is_device(number: c_int) -> bool {
    if !HAS_DEVICE.load(Ordering::Relaxed) {
        return false;
    }
    let mut path = [0; 40];
    let length = descriptor::check(number).and_then(|number| fd::fpath(number, &mut path));
    let path = length.ok().and_then(|length| path.get(..length));
    path.and_then(|path| path.strip_prefix(DEVICE.as_bytes()))
        .is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

fn half(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes
        .get(at..at + 2)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u16::from_ne_bytes).into()
}

/// A command: its bytes, and the parts of its header that are needed here.
struct Command {
    payload: Vec<u8>,
    number: u32,
    length: usize,
    /// The size of the buffer for the answer in bytes, and its address.
    room: usize,
    response: usize,
    /// The offset of the request.
    request: usize,
}

impl Command {
    /// Reads a header. The daemon checks it.
    fn read(bytes: &[u8]) -> Command {
        let command = word(bytes, 0).unwrap_or(0);
        let is_extended = command & EXTENDED != 0;
        let room = match is_extended {
            true => (half(bytes, 6) + half(bytes, 18)) * 8,
            false => half(bytes, 6) * 4,
        };
        // In both forms the address comes after the first header.
        let [low, high] = [8, 12].map(|at| word(bytes, at).unwrap_or(0) as usize);
        let mut payload = bytes.to_vec();
        payload.resize(bytes.len().max(room), 0);
        Command {
            payload,
            number: command & !EXTENDED,
            length: bytes.len(),
            room,
            response: high << 32 | low,
            request: if is_extended { 24 } else { 16 },
        }
    }

    /// Replaces the descriptor of a channel by its number.
    fn name_channel(&mut self) -> Result<()> {
        // After the address, if there is one: `user_handle`, `cqe`, `comp_vector`.
        let at = self.request + 16;
        let named = word(&self.payload, at).filter(|named| *named != NO_CHANNEL);
        let (Some(named), CREATE_CQ) = (named, self.number) else {
            return Ok(());
        };
        let descriptor = descriptor::check(named as c_int)?;
        let number = fd::call(descriptor, &[CHANNEL_NUMBER]).map_err(|_| Error::new(EBADF))?;
        if let Some(place) = self.payload.get_mut(at..at + 4) {
            place.copy_from_slice(&(number as u32).to_ne_bytes());
        }
        Ok(())
    }

    /// Makes the descriptor for an answer that has one, and puts it there.
    fn make_descriptor(&mut self, device: usize) -> Result<()> {
        let copied = match self.number {
            GET_CONTEXT => fd::dup(device, b"async")?,
            CREATE_COMP_CHANNEL => {
                let number = word(&self.payload, 0).unwrap_or(0);
                fd::dup(device, alloc::format!("channel/{number}").as_bytes())?
            }
            _ => return Ok(()),
        };
        let descriptor = descriptor::opened(copied, false);
        if let Some(place) = self.payload.get_mut(..4) {
            place.copy_from_slice(&descriptor.to_ne_bytes());
        }
        Ok(())
    }
}

unsafe extern "C" {
    /// The descriptor of the current thread.
    safe fn redox_cur_thrfd_v0() -> usize;
}

/// Sends this program's address space to a device, for the command that follows. The daemon keeps
/// it only while it looks up the pages to register.
fn send_space(device: usize) -> Result<()> {
    let space = fd::dup(redox_cur_thrfd_v0(), b"addrspace")?;
    let sent = fd::send_fd(device, space, false, &[SEND_SPACE]);
    if sent.is_err() {
        // Whether the descriptor is still open depends on how far the call came.
        let _ = fd::close(space);
    }
    sent.map(|_| ())
}

/// Sends a command to a device; returns the command's length in bytes.
///
/// # Errors
/// `EFAULT`: there is room for an answer but no address. Those of the command.
///
/// # Safety
/// The address in the command is that of the program's buffer for the answer.
pub unsafe fn write(number: c_int, bytes: &[u8]) -> Result<usize> {
    let device = descriptor::check(number)?;
    let mut command = Command::read(bytes);
    if command.room > 0 && command.response == 0 {
        return Err(Error::new(EFAULT));
    }
    command.name_channel()?;
    if [REG_MR, REREG_MR].contains(&command.number) {
        send_space(device)?;
    }
    let result = fd::call_rw(device, &mut command.payload, &[EXECUTE]);
    if result.is_ok() {
        command.make_descriptor(device)?;
    }
    let answered = match (&result, POSTS.contains(&command.number)) {
        (Ok(length), _) => *length,
        // The number of the request that was refused, if the daemon gave that answer.
        (Err(_), true) if word(&command.payload, 0) <= word(bytes, WORK_REQUESTS) => 4,
        (Err(_), _) => 0,
    };
    let answer = command.payload.get(..answered.min(command.room));
    if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
        let place = command.response as *mut u8;
        // SAFETY: the caller's promise; the answer is a copy of this function's own.
        unsafe { place.copy_from_nonoverlapping(answer.as_ptr(), answer.len()) };
    }
    result.map(|_| command.length)
}
