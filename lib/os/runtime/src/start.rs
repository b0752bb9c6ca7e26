//! Program start: from the kernel's register state to `main`.
//!
//! The kernel or the starting program passes only a stack pointer, to `argc, argv.., 0, envp.., 0,
//! (key, value).., (0, 0)`. Floating-point control registers are zero at the start, which unmasks
//! every SSE exception, so they are loaded first.

use alloc::string::String;
use alloc::vec::Vec;

use crate::state::{self, aux};
use crate::{env, fd, fdtable, process, sys};

core::arch::global_asm!(
    ".section .text._start,\"ax\",@progbits",
    ".global _start",
    ".type _start,@function",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "sub rsp, 16",
    "fninit",
    "mov dword ptr [rsp], 0x1F80",
    "ldmxcsr dword ptr [rsp]",
    "mov dword ptr [rsp], 0x37F",
    "fldcw word ptr [rsp]",
    "call {start}",
    "ud2",
    ".size _start, . - _start",
    ".text",
    start = sym start,
);

unsafe extern "Rust" {
    /// Defined by [`crate::main!`] in the program.
    safe fn runtime_program_main() -> i32;
}

/// First Rust code of a program; `block` is the argument block.
///
/// # Safety
/// `block` must be the stack pointer as the loader of the program left it.
unsafe extern "C" fn start(block: *const usize) -> ! {
    state::set_block(block);
    // SAFETY: called once, with the block of the loader.
    unsafe { read_arguments(block) };
    process::exit(runtime_program_main())
}

/// Runs the program's `main`; for entry points other than `_start`.
pub(crate) fn run_main() -> i32 {
    runtime_program_main()
}

/// Copies a zero-terminated string; bytes that are not UTF-8 are replaced.
///
/// # Safety
/// `text` must point to a zero-terminated string.
unsafe fn text(text: *const u8) -> String {
    // SAFETY: the caller promises the terminator.
    let bytes = unsafe { core::ffi::CStr::from_ptr(text.cast()) }.to_bytes();
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the argument block into [`state`].
///
/// # Safety
/// That of [`start`].
unsafe fn read_arguments(block: *const usize) {
    let mut next = block;
    let mut word = || {
        // SAFETY: the block is a sequence of words that ends after the pair (0, 0); the loops
        // below stop there.
        let value = unsafe { next.read() };
        // SAFETY: as above; the word after the last one read is still within the block.
        next = unsafe { next.add(1) };
        value
    };
    let argc = word();
    let mut args = Vec::with_capacity(argc);
    loop {
        match word() {
            0 => break,
            // SAFETY: argv entries are zero-terminated strings.
            pointer => args.push(unsafe { text(pointer as *const u8) }),
        }
    }
    env::set_args(args);
    loop {
        match word() {
            0 => break,
            pointer => {
                // SAFETY: envp entries are zero-terminated strings.
                let entry = unsafe { text(pointer as *const u8) };
                if let Some((name, value)) = entry.split_once('=') {
                    env::environment(|env| env.push((name.into(), value.into())));
                }
            }
        }
    }
    let (mut process, mut thread, mut namespace, mut cwd, mut filetable) =
        (sys::NO_FD, sys::NO_FD, sys::NO_FD, sys::NO_FD, sys::NO_FD);
    let (mut cwd_pointer, mut cwd_length) = (0, 0);
    loop {
        let (key, value) = (word(), word());
        match key {
            0 => break,
            // SAFETY: the loader put a zero-terminated string there.
            aux::PROGRAM_PTR => state::set_program(unsafe { text(value as *const u8) }),
            aux::CWD_PTR => cwd_pointer = value,
            aux::CWD_LEN => cwd_length = value,
            aux::PROC_FD => process = value,
            aux::THREAD_FD => thread = value,
            aux::NAMESPACE_FD => namespace = value,
            aux::CWD_FD => cwd = value,
            aux::FILETABLE_FD => filetable = value,
            _ => {}
        }
    }
    state::set_fds(process, thread, namespace, filetable);
    if cwd_pointer != 0 {
        // SAFETY: the loader put the path there, with this length.
        let bytes = unsafe { core::slice::from_raw_parts(cwd_pointer as *const u8, cwd_length) };
        state::set_current_dir(String::from_utf8_lossy(bytes).into_owned());
    }
    mark_inherited(&[process, thread, namespace, cwd, filetable], filetable);
}

/// Records the descriptors that already exist, so that no new one gets their numbers.
fn mark_inherited(known: &[usize], filetable: usize) {
    // The descriptors named by the vector, and the three standard ones whether they exist or not.
    for &fd in known.iter().chain(&[0, 1, 2]) {
        let _ = fdtable::mark(fd);
    }
    if filetable == sys::NO_FD {
        return;
    }
    // The handle lists the table as it was when the handle was made: ask for the present state.
    let _ = fd::dup2(filetable, filetable, b"refresh");
    let mut bytes = [0; 512];
    while let Ok(count @ 8..) = fd::read(filetable, &mut bytes) {
        for entry in bytes[..count].chunks_exact(8) {
            let number = u64::from_le_bytes(entry.try_into().unwrap_or([0; 8]));
            let _ = fdtable::mark(number as usize);
        }
    }
}
