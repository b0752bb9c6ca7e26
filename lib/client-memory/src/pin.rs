//! Pinning memory where it is: the program's side.
//!
//! A program that registers memory keeps its pages; the SCIF daemon borrows them. The daemon finds
//! them through the descriptor of the program's address space. The program sends it with a number,
//! by which its requests name the space. The daemon gives the descriptor up soon after its last
//! use and answers `ESRCH` then, so that the program sends it again. Pinned pages stay the same
//! until the last window on them is gone, whatever the program maps at their addresses meanwhile.

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use libredox::Fd;
use scif_abi::call::{Call, MemoryCall, OwnRecord, OwnTransferRecord, PinRecord};
use scif_abi::codec::Operation;
use scif_abi::flags::Protection;
use syscall::data::GrantFlags;
use syscall::error::{EAGAIN, EINVAL, ESRCH, Error, Result};
use syscall::flag::CallFlags;

use crate::mappings::{Mapping, check, own_mappings, own_space, parts};
use crate::range::Range;
use crate::reachable;
use hal::mem::PAGE;

/// The number by which this program's requests name its address space; 0 until there is one. A
/// forked child has the same, which is no harm: it is another process. A program that another one
/// becomes by `exec` has another.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// How often a request is made whose address space the daemon does not have. It gives a space up
/// a second after its last use at the earliest, or with the descriptor over which it came.
const TRIES: u32 = 4;

/// Pinned pages. Dropping the value releases them, but windows on them keep them.
pub struct Pin {
    /// The memory handle.
    file: Fd,
    token: u64,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:#x})", self.token)
    }
}

impl Pin {
    /// Pins the pages of `range` (whole pages) through a memory handle that `open` opens.
    /// `protection` is what windows on them may allow.
    ///
    /// # Errors
    /// `EINVAL` for incomplete pages or none, or no protection; `EFAULT` when a page is not
    /// mapped, does not allow the program itself what `protection` says, or is no ordinary memory;
    /// `EAGAIN` at a limit of the user; `ENOMEM`; `EPERM` for [`PinRecord::UNCHARGED`] from users
    /// other than root; those of `open`.
    pub fn new(
        open: impl FnOnce() -> Result<Fd>,
        range: Range<'_>,
        protection: Protection,
        flags: u32,
    ) -> Result<Self> {
        prepare(range, protection)?;
        let file = open()?;
        let record = PinRecord {
            space: 0.into(),
            address: (range.address() as u64).into(),
            length: (range.bytes() as u64).into(),
            protection: protection.bits().into(),
            flags: flags.into(),
        };
        let token = pin(file.raw(), record)?;
        Ok(Self { file, token })
    }

    /// The token that names the pages in `register` and in the daemon's cached transfers.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The memory handle.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }
}

/// Pins pages of this program, which are neither checked nor touched here, through a memory
/// handle. Returns their token. `record` need not name the address space.
///
/// # Errors
/// Those of the daemon.
pub fn pin(file: usize, record: PinRecord) -> Result<u64> {
    let token = with_space(file, |number| {
        let space = number.into();
        let record = PinRecord { space, ..record };
        ask(file, MemoryCall::Pin { record })
    })?;
    Ok(token as u64)
}

/// Makes the pages of `range` a window of the endpoint `epd`; `offset` and `flags` are those of
/// `scif_register`. Returns the window's offset.
///
/// # Errors
/// Those of [`Pin::new`] and of `scif_register`.
pub fn register(
    epd: usize,
    range: Range<'_>,
    offset: i64,
    protection: Protection,
    flags: u32,
) -> Result<usize> {
    prepare(range, protection)?;
    with_space(epd, |number| {
        let record = OwnRecord {
            space: number.into(),
            address: (range.address() as u64).into(),
            length: (range.bytes() as u64).into(),
            offset: offset.into(),
            protection: protection.bits().into(),
            flags: flags.into(),
        };
        ask(epd, Call::RegisterOwn { record })
    })
}

/// Copies between the bytes of `range` and the peer's windows at `remote`; the pages around the
/// range are pinned meanwhile. `into_range`: the range is the destination.
///
/// # Errors
/// Those of [`Pin::new`], and of `scif_vreadfrom` and `scif_vwriteto`.
pub fn transfer(
    epd: usize,
    range: Range<'_>,
    remote: i64,
    flags: u32,
    into_range: bool,
) -> Result<()> {
    let (pages, _) = range.around().ok_or(Error::new(EINVAL))?;
    let protection = match into_range {
        true => Protection::WRITE,
        false => Protection::READ,
    };
    prepare(pages, protection)?;
    let done = with_space(epd, |number| {
        let record = OwnTransferRecord {
            space: number.into(),
            address: (range.address() as u64).into(),
            length: (range.bytes() as u64).into(),
            remote_offset: remote.into(),
            flags: flags.into(),
            reserved: 0.into(),
        };
        match into_range {
            true => ask(epd, Call::OwnReadFrom { record }),
            false => ask(epd, Call::OwnWriteTo { record }),
        }
    });
    done.map(drop)
}

/// Makes a request that names this program's address space. Sends its descriptor over `file` if
/// the daemon does not have it.
fn with_space(file: usize, mut request: impl FnMut(u64) -> Result<usize>) -> Result<usize> {
    let number = match NUMBER.load(Ordering::Relaxed) {
        0 => {
            let fresh = hal::random::word() | 1;
            let chosen = NUMBER.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
            let number = chosen.map_or_else(|number| number, |_| fresh);
            send(file, own_space()?, number)?;
            number
        }
        number => number,
    };
    for _ in 0..TRIES {
        match request(number) {
            Err(Error { errno: ESRCH }) => send(file, own_space()?, number)?,
            result => return result,
        }
    }
    Err(Error::new(EAGAIN))
}

/// Sends the descriptor of an address space, and the number by which requests name it, over an
/// endpoint or a memory handle.
///
/// # Errors
/// Those of the daemon.
pub fn send(file: usize, space: Fd, number: u64) -> Result<()> {
    let space = space.into_raw();
    let sent = libredox::call::call_wo(file, &space.to_ne_bytes(), CallFlags::FD, &[number]);
    sent.map(drop).map_err(|error| {
        // Whether the descriptor still exists depends on how far the call came.
        let _ = libredox::call::close(space);
        error.into()
    })
}

/// Makes a request whose payload is a structure.
fn ask(file: usize, call: impl Operation<2, Number = u64>) -> Result<usize> {
    /// Bytes of the longest structure.
    const LONGEST: usize = size_of::<OwnRecord>();
    let mut payload = [0; LONGEST];
    let bytes = call.payload();
    let payload = &mut payload[..bytes.len()];
    payload.copy_from_slice(bytes);
    let [first, second] = call.words();
    let metadata = [call.number(), first, second];
    let answer = libredox::call::call_rw(file, payload, CallFlags::empty(), &metadata);
    answer.map_err(Error::from)
}

/// Checks and touches whole pages before the daemon borrows them.
fn prepare(range: Range<'_>, protection: Protection) -> Result<()> {
    range.check_pages()?;
    let (address, bytes) = (range.address(), range.bytes());
    // Not every unmapping is reported to `reachable`. What it says is enough where the program
    // itself means to have the memory written; constants must not be stored to.
    if protection.contains(Protection::WRITE) && reachable::is_there(address, bytes, true) {
        touch_writable(address, address + bytes);
        return Ok(());
    }
    let mappings = own_mappings()?;
    check(&mappings, address, bytes, protection)?;
    touch(&mappings, address, bytes);
    Ok(())
}

/// Touches every page of a range: stores to a writable one without changing it, and reads the
/// others. A page that is still shared with another program, or not there yet, becomes this
/// program's own before the daemon borrows it.
fn touch(mappings: &[Mapping], address: usize, length: usize) {
    for (start, end, flags) in parts(mappings, address, length) {
        if flags.contains(GrantFlags::GRANT_WRITE) {
            touch_writable(start, end);
        } else if flags.contains(GrantFlags::GRANT_READ) {
            for page in (start..end).step_by(PAGE) {
                // SAFETY: the page is mapped and readable.
                unsafe { (page as *const u8).read_volatile() };
            }
        }
    }
}

fn touch_writable(start: usize, end: usize) {
    for page in (start..end).step_by(PAGE) {
        // SAFETY: the page is mapped and writable, and adding nothing changes nothing, also while
        // others use the byte.
        unsafe { AtomicU8::from_ptr(page as *mut u8) }.fetch_add(0, Ordering::Relaxed);
    }
}
