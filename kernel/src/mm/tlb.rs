//! The translation caches of the processors: what page tables ask of processors other than the one
//! that changes them. Calling a processor is the business of `arch`, which says how.

use spin::Once;

/// How to reach the translation caches.
pub struct Processors {
    /// Notes which page tables (physical address) this processor has loaded.
    pub set_root: fn(usize),
    /// Makes sure that no other processor uses these page tables, or has translations of them,
    /// until the caller leaves the kernel: to be called before an entry goes or loses a right.
    pub exclude_others: fn(usize),
    /// Makes all other processors drop their translations of the kernel's addresses before they use
    /// one again: to be called after a kernel page was unmapped.
    pub flush_kernel_elsewhere: fn(),
}

static PROCESSORS: Once<Processors> = Once::new();

/// Sets how processors are reached; called once, before page tables are loaded.
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
