//! Starts the first program of all, which the kernel enters inside the boot image.
//!
//! That program (crate `bootstrap`) has no loader: no stack, no arguments, and no descriptors
//! except the roots of the kernel's schemes ([`first`]). This module gives it a stack and the
//! rights of its parts, and makes the kernel's own process scheme usable. It relies on nothing
//! that differs between kernels: no register contents, numbers, or mapping addresses.

use alloc::format;

use libredox::Fd;
use syscall::PAGE_SIZE;
use syscall::data::{GlobalSchemes, ProcSchemeAttrs};
use syscall::error::{EINVAL, Error, Result};
use syscall::flag::MapFlags;

use crate::sys::NO_FD;
use crate::{env, fd, first, power, start, state, sys};

/// Stack of the first program, in bytes; it lies within the image.
const STACK_SIZE: usize = 64 * 1024;

core::arch::global_asm!(
    ".section .text.bootstrap_start,\"ax\",@progbits",
    ".global bootstrap_start",
    ".type bootstrap_start,@function",
    "bootstrap_start:",
    "xor ebp, ebp",
    "lea rsp, [rip + {stack} + {end} - 16]",
    "fninit",
    "mov dword ptr [rsp], 0x1F80",
    "ldmxcsr dword ptr [rsp]",
    "mov dword ptr [rsp], 0x37F",
    "fldcw word ptr [rsp]",
    // Where the parts of the program end; other programs have no such symbols and no such start.
    ".weak image_text_end",
    ".weak image_constants_end",
    ".weak image_end",
    "lea rdi, [rip + image_text_end]",
    "lea rsi, [rip + image_constants_end]",
    "lea rdx, [rip + image_end]",
    "call {start}",
    "ud2",
    ".size bootstrap_start, . - bootstrap_start",
    ".text",
    stack = sym STACK,
    end = const size_of::<Stack>(),
    start = sym boot,
);

/// The stack. The page below it has no access once [`protect`] has run.
#[repr(C, align(4096))]
struct Stack {
    guard: [u8; PAGE_SIZE],
    bytes: [u8; STACK_SIZE],
}

static mut STACK: Stack = Stack {
    guard: [0; PAGE_SIZE],
    bytes: [0; STACK_SIZE],
};

/// Address at which the kernel maps the image.
const IMAGE: usize = 0x1000;
/// Address of the program in the image, behind the header's page.
const PROGRAM: usize = 0x2000;

/// First Rust code of the first program; the arguments are the end addresses of its parts.
unsafe extern "C" fn boot(text_end: usize, constants_end: usize, end: usize) -> ! {
    first::read_metadata();
    if let Err(error) = protect(text_end, constants_end, end) {
        power::halt(&format!("cannot give the boot image its rights: {error}"));
    }
    env::set_args(alloc::vec!["bootstrap".into()]);
    first::open_debug();
    let process_root = first::root(GlobalSchemes::Proc);
    if let Ok(thread) = process_root.and_then(|root| fd::dup_upper(root, b"cur-context")) {
        state::set_fds(NO_FD, thread, NO_FD, NO_FD);
    }
    start::run_main();
    power::halt("bootstrap ended, which it must not")
}

/// Restricts the access rights of the image's parts. The kernel does not know the parts, and maps
/// all of them writable and executable. Files and constants stay readable; the page below the
/// stack gets no access.
fn protect(text_end: usize, constants_end: usize, end: usize) -> Result<()> {
    let image = image()?;
    let (guard, image_end) = ((&raw const STACK).addr(), IMAGE + image.len());
    let read = MapFlags::PROT_READ;
    for (from, to, rights) in [
        (IMAGE, PROGRAM, read),
        (PROGRAM, text_end, read | MapFlags::PROT_EXEC),
        (text_end, constants_end, read),
        (constants_end, end, read | MapFlags::PROT_WRITE),
        (guard, guard + PAGE_SIZE, MapFlags::empty()),
        (end, image_end, read),
    ] {
        if from < to {
            let words = [from, to - from, rights.bits(), 0, 0, 0];
            // SAFETY: code, constants, data and files keep the rights with which this program uses
            // them; the page below the stack is not used.
            unsafe { sys::call(syscall::SYS_MPROTECT, words) }?;
        }
    }
    Ok(())
}

/// The boot image, header included, with the size that its header gives; EINVAL if there is none.
pub fn image() -> Result<&'static [u8]> {
    const HEADER: usize = 44;
    if !first::is_first() {
        return Err(Error::new(EINVAL));
    }
    // SAFETY: the first program runs inside this image, which the kernel mapped as a whole; the
    // page that begins here was mapped before the first instruction.
    let header = unsafe { core::slice::from_raw_parts(IMAGE as *const u8, HEADER) };
    let size = u64::from_le_bytes(header[34..42].try_into().map_err(|_| Error::new(EINVAL))?);
    let size = usize::try_from(size).map_err(|_| Error::new(EINVAL))?;
    if &header[..8] != b"RedoxFtw" || !(HEADER..=1 << 32).contains(&size) {
        return Err(Error::new(EINVAL));
    }
    // SAFETY: the packer pads the image to whole pages, so the kernel mapped all of `size`. Parts
    // of it are our own data and stack, but the inodes and files that callers look at are
    // constant.
    Ok(unsafe { core::slice::from_raw_parts(IMAGE as *const u8, size) })
}

/// A context made by the kernel, not yet registered with a process manager.
pub struct KernelContext {
    /// The kernel's handle: everything else is a `dup` of it.
    pub thread: Fd,
}

impl KernelContext {
    /// Makes a stopped context through the authority `proc` (the root of the kernel's process
    /// scheme).
    pub fn new(proc: usize) -> Result<Self> {
        Ok(KernelContext {
            thread: Fd::new(fd::dup_upper(proc, b"new-context")?),
        })
    }

    /// Sets identity and name, which are root's and empty until then.
    pub fn set_attributes(&self, proc: usize, attributes: &Attributes<'_>) -> Result<()> {
        set_attributes(self.thread.raw(), proc, attributes)
    }
}

/// Identity of a context.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Process id.
    pub pid: u32,
    /// Effective user.
    pub euid: u32,
    /// Effective group.
    pub egid: u32,
    /// Name in listings and reports, at most 32 bytes.
    pub name: &'a str,
}

/// Priority of all contexts: the middle of the kernel's range 0..39.
const PRIORITY: u32 = 20;

/// Sets identity and name of the context behind `thread`.
pub fn set_attributes(thread: usize, proc: usize, attributes: &Attributes<'_>) -> Result<()> {
    let handle = Fd::new(fd::dup_upper(
        thread,
        format!("auth-{proc}-attrs").as_bytes(),
    )?);
    let mut debug_name = [0; 32];
    let mut length = attributes.name.len().min(debug_name.len());
    while !attributes.name.is_char_boundary(length) {
        length -= 1;
    }
    debug_name[..length].copy_from_slice(&attributes.name.as_bytes()[..length]);
    let record = ProcSchemeAttrs {
        pid: attributes.pid,
        euid: attributes.euid,
        egid: attributes.egid,
        prio: PRIORITY,
        debug_name,
    };
    fd::write(handle.raw(), &record).map(|_| ())
}
