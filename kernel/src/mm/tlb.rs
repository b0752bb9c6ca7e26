//! The translation caches of the processors: what page tables need from processors other than the
//! one that changes them. `arch` sets how to call a processor.

use spin::Once;

/// The operations on translation caches.
pub struct Processors {
    /// Records which page tables (physical address) this processor has loaded.
    pub set_root: fn(usize),
    /// Makes sure that no other processor uses these page tables, or has translations of them,
    /// until the caller leaves the kernel. Called before an entry is removed or loses a right.
    pub exclude_others: fn(usize),
    /// Makes all other processors drop their translations of kernel addresses before they use one
    /// again. Called after a kernel page was unmapped.
    pub flush_kernel_elsewhere: fn(),
}

static PROCESSORS: Once<Processors> = Once::new();

/// Sets how processors are reached. Called once, before page tables are loaded.
pub fn init(processors: Processors) {
    PROCESSORS.call_once(|| processors);
}

fn processors() -> &'static Processors {
    PROCESSORS
        .get()
        .expect("arch has set how to reach processors")
}

pub(super) fn set_root(root: usize) {
    (processors().set_root)(root);
}

pub(super) fn exclude_others(root: usize) {
    (processors().exclude_others)(root);
}

pub(super) fn flush_kernel_elsewhere() {
    (processors().flush_kernel_elsewhere)();
}
