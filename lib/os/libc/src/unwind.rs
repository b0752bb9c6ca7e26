//! Where the tables for unwinding the stack are. The compiler's own library asks this for
//! exceptions of C++ and panics of Rust.
//!
//! Programs are static, so the program is the only object. A symbol of the linker leads to its
//! headers.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;

/// A program header of 64-bit ELF.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

/// The beginning of an ELF header, as far as it is read here.
#[repr(C)]
struct Elf {
    ident: [u8; 32],
    headers: u64,
    sections: u64,
    flags: u32,
    size: u16,
    header_size: u16,
    header_count: u16,
}

/// Kinds of program headers: a loaded part of the program, and the tables for unwinding.
const LOAD: u32 = 1;
const UNWIND: u32 = 0x6474_e550;

unsafe extern "C" {
    /// The program's ELF header; the linker defines the symbol.
    static __ehdr_start: Elf;
}

/// The program headers.
fn headers() -> &'static [Header] {
    // SAFETY: the linker's symbol stands before the headers of the running program, which are
    // mapped and never change.
    unsafe {
        let elf = &raw const __ehdr_start;
        let first = elf.byte_add((*elf).headers as usize).cast();
        core::slice::from_raw_parts(first, (*elf).header_count.into())
    }
}

/// glibc's `struct dl_find_object`.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    link_map: *const c_void,
    tables: *const c_void,
    reserved: [u64; 7],
}

/// Finds the tables for an address, for libgcc; 0, or -1 if there are none.
#[unsafe(no_mangle)]
unsafe extern "C" fn _dl_find_object(address: *const c_void, place: *mut Found) -> c_int {
    let address = address as u64;
    let inside = |header: &&Header| {
        header.kind == LOAD
            && (header.address..header.address + header.memory_size).contains(&address)
    };
    let part = headers().iter().find(inside);
    let tables = headers().iter().find(|header| header.kind == UNWIND);
    let (Some(part), Some(tables)) = (part, tables) else {
        return -1;
    };
    let found = Found {
        flags: 0,
        start: part.address as *const c_void,
        end: (part.address + part.memory_size) as *const c_void,
        link_map: null(),
        tables: tables.address as *const c_void,
        reserved: [0; 7],
    };
    // SAFETY: the caller's place for the structure.
    unsafe { place.write(found) };
    0
}

/// C's `struct dl_phdr_info`.
#[repr(C)]
struct Object {
    base: u64,
    name: *const c_char,
    headers: *const Header,
    count: u16,
    added: u64,
    removed: u64,
    tls_module: usize,
    tls_block: *const c_void,
}

type Visit = unsafe extern "C" fn(*mut Object, usize, *mut c_void) -> c_int;

/// Calls a function for each loaded object, which is only the program. Returns the function's
/// result.
#[unsafe(no_mangle)]
unsafe extern "C" fn dl_iterate_phdr(visit: Visit, argument: *mut c_void) -> c_int {
    let headers = headers();
    let mut object = Object {
        base: 0,
        name: c"".as_ptr(),
        headers: headers.as_ptr(),
        count: headers.len() as u16,
        added: 1,
        removed: 0,
        tls_module: 0,
        tls_block: null(),
    };
    // SAFETY: the caller vouches for its function; the structure lives across the call.
    unsafe { visit(&raw mut object, size_of::<Object>(), argument) }
}
