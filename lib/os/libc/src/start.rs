//! From the start of a program by `runtime` to C's `main(argc, argv, environ)`.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::{
    arrivals, cpu_model, environment, given, process, pthread, signal, stream, strings, tls,
};

runtime::main!(program);

type Function = unsafe extern "C" fn();

unsafe extern "C" {
    fn main(argc: c_int, argv: *mut *mut c_char, environment: *mut *mut c_char) -> c_int;
    // The arrays in which linkers collect functions to call before `main`
    // (`__attribute__((constructor))`).
    static __preinit_array_start: [Function; 0];
    static __preinit_array_end: [Function; 0];
    static __init_array_start: [Function; 0];
    static __init_array_end: [Function; 0];
}

/// The name under which the program was started, for the messages of `getopt` and others.
#[unsafe(no_mangle)]
static program_invocation_name: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// That name without its directory.
#[unsafe(no_mangle)]
static program_invocation_short_name: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// The name under which the program was started; null during start-up.
pub fn name() -> *mut c_char {
    program_invocation_name.load(Ordering::Relaxed)
}

/// The name of the program without its directory.
pub fn short_name_bytes<'a>() -> &'a [u8] {
    let name = program_invocation_short_name.load(Ordering::Relaxed);
    match name.is_null() {
        true => &[],
        // SAFETY: an argument, which stays, or what the program has stored there.
        false => unsafe { strings::bytes(name) },
    }
}

/// The arguments and then the variables of the program, each list with a null pointer at its end,
/// in the memory in which it was started with them; and the number of arguments.
fn lists() -> (*mut *mut c_char, *mut *mut c_char, c_int) {
    let block = runtime::state::block();
    // SAFETY: the block begins with the number of arguments, behind which the two lists are. It
    // stays, and nothing else uses it.
    let count = unsafe { *block };
    let arguments = block.wrapping_add(1).cast::<*mut c_char>();
    (arguments, arguments.wrapping_add(count + 1), count as c_int)
}

/// The part of a path after its last slash.
fn short_name(path: *mut c_char) -> *mut c_char {
    if path.is_null() {
        return path;
    }
    // SAFETY: an argument, which stays.
    let text = unsafe { strings::bytes(path) };
    let slash = text.iter().rposition(|byte| *byte == b'/');
    path.wrapping_add(slash.map_or(0, |slash| slash + 1))
}

fn program() -> c_int {
    let Some(block) = tls::Block::new() else {
        runtime::io::emergency("no memory for thread-local storage\n");
        return 127;
    };
    if let Err(error) = runtime::thread::set_main_fs_base(block.address()) {
        runtime::io::emergency(&alloc::format!("no thread-local storage: {error}\n"));
        return 127;
    }
    // Such as `log-12:30`.
    runtime::path::keep_colons();
    cpu_model::look();
    pthread::adopt_main(block);
    given::adopt();
    stream::open_standard();
    signal::prepare();
    let (arguments, variables, count) = lists();
    environment::adopt(variables);
    // SAFETY: the first argument, or the null pointer behind none.
    let name = unsafe { *arguments };
    program_invocation_name.store(name, Ordering::Relaxed);
    program_invocation_short_name.store(short_name(name), Ordering::Relaxed);

    // SAFETY: both pairs of symbols enclose arrays of functions that the linker made.
    unsafe {
        run(
            &raw const __preinit_array_start,
            &raw const __preinit_array_end,
        );
        run(&raw const __init_array_start, &raw const __init_array_end);
    }
    let main = || {
        // SAFETY: the program defines `main` as C demands; the vectors end with null pointers.
        unsafe { main(count, arguments, environment::vector()) }
    };
    process::leave(pthread::run_main(main, arrivals::deliver_to_others))
}

/// Calls the functions of an array.
///
/// # Safety
/// Both pointers belong to one array of functions.
unsafe fn run(start: *const [Function; 0], end: *const [Function; 0]) {
    let (mut next, end) = (start.cast::<Function>(), end.cast::<Function>());
    while next < end {
        // SAFETY: within the array; the functions are the program's own.
        unsafe {
            (*next)();
            next = next.add(1);
        }
    }
}
