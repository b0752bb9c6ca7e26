//! Thread-local storage: the block to which the FS base of every thread of a C program points.
//!
//! The layout is variant II of the x86-64 ELF ABI: variables lie directly below the thread
//! pointer, and the word at the thread pointer holds its own address. Behind it is what this
//! library keeps per thread; at offset 0x28 compilers expect the stack protector's value.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, addr_of};

/// A function to call when a thread ends.
pub type Destructor = unsafe extern "C" fn(*mut c_void);

/// A handler of `pthread_cleanup_push`, on the stack of the function that has pushed it. The
/// header declares a structure of the same size.
#[repr(C)]
pub struct Handler {
    /// Called with the argument.
    pub function: Destructor,
    /// The program's argument for the function.
    pub argument: *mut c_void,
    /// The handler that was pushed before this one.
    pub below: *mut Handler,
}

/// C's `stack_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Alternate {
    /// The lowest byte of the stack.
    pub start: *mut u8,
    /// 0 or [`DISABLED`](Self::DISABLED).
    pub flags: c_int,
    /// The size of the stack in bytes.
    pub size: usize,
}

impl Alternate {
    /// C's `SS_DISABLE`: there is no other stack.
    pub const DISABLED: c_int = 2;
    /// C's `MINSIGSTKSZ`.
    pub const LEAST: usize = 2048;
    /// The state in which a thread begins.
    pub const NONE: Self = Self {
        start: core::ptr::null_mut(),
        flags: Self::DISABLED,
        size: 0,
    };
}

/// Calls of signal handlers that a thread may have to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// For signals to the process.
    pub process: u32,
    /// For signals to the thread alone, all in the thread itself.
    pub own: u32,
}

/// The control block of a thread.
#[repr(C)]
pub struct Control {
    /// The address of this structure.
    own: *mut Control,
    reserved: [usize; 4],
    guard: usize,
    /// The thread's `errno`.
    pub errno: i32,
    /// The thread's record in `pthread.rs`, which `pthread_self` returns; null only during
    /// start-up.
    pub record: *const c_void,
    /// The result of `gettid`.
    pub id: c_int,
    /// The stack pointer to which `pthread_exit` returns; 0 if there is none.
    pub leave: usize,
    /// The stack that the thread has passed to `sigaltstack`.
    pub alternate: Alternate,
    /// The locale that the thread has passed to `uselocale`.
    pub locale: *const u8,
    /// The handler that `pthread_exit` calls first; null if there is none.
    pub handlers: *mut Handler,
    /// What `pthread_setcanceltype` has set.
    pub cancel_type: c_int,
    /// What others want of the thread: its `points::Notices`; null only during start-up.
    pub notices: *const c_void,
    /// The signals that the thread blocks.
    pub blocked: u64,
    /// Counts the handlers that have run for signals to the thread alone.
    pub handled: u32,
    /// What had run when the thread's next wait began to be interrupted, if that was before it.
    pub interrupted_since: Option<Seen>,
}

// Compilers expect the protector's value there.
const _: () = assert!(core::mem::offset_of!(Control, guard) == 0x28);

/// The type of the program header for thread-local storage. The structures below are what this
/// module reads of the ELF format.
const PT_TLS: u32 = 7;

#[repr(C)]
struct ElfHeader {
    identification: [u8; 32],
    headers: u64,
    sections: u64,
    flags: u32,
    size: u16,
    header_size: u16,
    header_count: u16,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

unsafe extern "C" {
    /// The program's own ELF header; every linker defines the symbol if the header is loaded.
    static __ehdr_start: ElfHeader;
}

/// The initial image of thread-local variables.
struct Image {
    data: &'static [u8],
    size: usize,
    align: usize,
    /// The distance in bytes from the image's start up to the thread pointer.
    below: usize,
}

fn image() -> Image {
    let none = Image {
        data: &[],
        size: 0,
        align: 1,
        below: 0,
    };
    let header = addr_of!(__ehdr_start);
    // SAFETY: the linker defines the symbol at the program's ELF header, which is in memory as the
    // program headers are (the loader's auxiliary vector names them there).
    let (offset, count) = unsafe { ((*header).headers as usize, (*header).header_count) };
    let base = header as usize;
    for index in 0..usize::from(count) {
        let entry = (base + offset) as *const ProgramHeader;
        // SAFETY: the file header says how many program headers follow at its offset.
        let entry = unsafe { &*entry.add(index) };
        if entry.kind == PT_TLS {
            let (address, size) = (entry.address as usize, entry.memory_size as usize);
            let align = (entry.align as usize).max(1);
            let gap = address.wrapping_add(size).wrapping_neg() & (align - 1);
            // SAFETY: the loader put that many bytes there; the image is not written to.
            let data = unsafe {
                core::slice::from_raw_parts(address as *const u8, entry.file_size as usize)
            };
            return Image {
                data,
                size,
                align,
                below: size + gap,
            };
        }
    }
    none
}

/// A thread's block. It has to be freed explicitly, as its own thread may be the one that frees
/// it.
#[derive(Clone, Copy)]
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
    control: *mut Control,
}

// SAFETY: the block is plain memory; its holder decides which threads may use it.
unsafe impl Send for Block {}

impl Block {
    /// Makes a block with the initial values; `None` if there is no memory.
    pub fn new() -> Option<Block> {
        let image = image();
        let align = image.align.max(align_of::<Control>());
        let before = image.below.next_multiple_of(align);
        let layout = Layout::from_size_align(before + size_of::<Control>(), align).ok()?;
        // SAFETY: the layout has a size: a control block is in it.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let thread_pointer = start.as_ptr() as usize + before;
        let control = thread_pointer as *mut Control;
        debug_assert!(image.size <= image.below);
        // SAFETY: `below <= before`, so the image lies within the allocation before the control
        // block, and the control block behind it; both are ours alone.
        unsafe {
            let variables = (thread_pointer - image.below) as *mut u8;
            variables.copy_from_nonoverlapping(image.data.as_ptr(), image.data.len());
            control.write(Control {
                own: control,
                reserved: [0; 4],
                guard: guard(),
                errno: 0,
                record: core::ptr::null(),
                id: 0,
                leave: 0,
                alternate: Alternate::NONE,
                locale: core::ptr::null(),
                handlers: core::ptr::null_mut(),
                cancel_type: 0,
                notices: core::ptr::null(),
                blocked: 0,
                handled: 0,
                interrupted_since: None,
            });
        }
        Some(Block {
            start,
            layout,
            control,
        })
    }

    /// The thread pointer.
    pub fn address(&self) -> usize {
        self.control as usize
    }

    /// The block's control part.
    pub fn control(&self) -> *mut Control {
        self.control
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// No thread may use the block afterwards, the calling one included.
    pub unsafe fn free(self) {
        // SAFETY: allocated in `new` with this layout; the caller gives it up.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The stack protector's value. All threads share it, as a function that begins in one thread may
/// end in another.
fn guard() -> usize {
    use core::sync::atomic::{AtomicUsize, Ordering};
    static GUARD: AtomicUsize = AtomicUsize::new(0);
    let known = GUARD.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let seed = runtime::time::Instant::now().as_nanos() as usize;
    // A zero byte at its low end stops string functions; the rest only has to differ between runs.
    let value = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) << 8 | 1 << 63;
    match GUARD.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => value,
        Err(other) => other,
    }
}

/// The calling thread's control block.
pub fn control() -> *mut Control {
    let control;
    // SAFETY: reads the word at the FS base, which start-up and `pthread_create` have set for
    // every thread of a C program.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) control, options(nostack, readonly, preserves_flags))
    };
    control
}

#[unsafe(no_mangle)]
pub extern "C" fn gettid() -> c_int {
    // SAFETY: the calling thread's own control block.
    unsafe { (*control()).id }
}
