//! Random choices for system calls: calls, paths, names, sizes.

use syscall::PAGE_SIZE;
use syscall::number::*;

use crate::life::ARENA;

/// The calls there are.
pub const CALL_NUMBERS: [usize; 28] = [
    SYS_OPENAT_INTO,
    SYS_OPENAT_INTO2,
    SYS_UNLINKAT,
    SYS_CLOSE,
    SYS_DUP_INTO,
    SYS_DUP2,
    SYS_READ,
    SYS_READ2,
    SYS_WRITE,
    SYS_WRITE2,
    SYS_LSEEK,
    SYS_FCHOWN,
    SYS_FCNTL,
    SYS_FEVENT,
    SYS_FLINK,
    SYS_FRENAME,
    SYS_FPATH,
    SYS_FSTAT,
    SYS_FSYNC,
    SYS_CALL,
    SYS_FMAP,
    SYS_FUNMAP,
    SYS_MREMAP,
    SYS_MPROTECT,
    SYS_CLOCK_GETTIME,
    SYS_FUTEX,
    SYS_NANOSLEEP,
    SYS_YIELD,
];

/// The paths that the pool is opened from; some need root, some are busy: whatever opens is used.
pub const PATHS: &[&str] = &[
    "/scheme/pipe",
    "/scheme/pipe",
    "/scheme/event",
    "/scheme/event",
    "/scheme/memory/zeroed",
    "/scheme/memory/zeroed@wb?phys_contiguous",
    "/scheme/memory/translation",
    "/scheme/time/4",
    "/scheme/time/4/timer",
    "/scheme/sys/context",
    "/scheme/sys/uname",
    "/scheme/sys",
    "/scheme/null",
    "/scheme/zero",
    "/scheme/rand",
    "/scheme/file",
    "/scheme/initfs/bin",
    "/scheme/initfs/lib/init.d/00_base",
    "/scheme/proc/ps",
    "/scheme/scif",
    "/scheme/scif/endpoint",
    "/scheme/scif/endpoint",
    "/scheme/scif/endpoint",
    "/scheme/scif/memory",
    "/scheme/scif/memory",
    "/scheme/scif/listen/0",
    "/scheme/scif/listen/0",
    "/scheme/scif/0/4000",
    "/scheme/scif/stp",
    "/scheme/scif/stp/listen/0",
    "/scheme/scif/nodes",
    "/scheme/scif/windows",
    "/scheme/scif/stats",
];

/// Names for `dup`, `openat` and everything else that takes one.
pub const NAMES: &[&[u8]] = &[
    b"",
    b"write",
    b"read",
    b"accept",
    b"bypass",
    b"buffer",
    b"addrspace",
    b"empty",
    b"exclusive",
    b"current-addrspace",
    b"filetable",
    b"filetable-binary",
    b"current-filetable",
    b"copy",
    b"regs/int",
    b"regs/env",
    b"regs/float",
    b"start",
    b"mmap-min-addr",
    b"sched-affinity",
    b"fork",
    b"new-thread",
    b"thread-0",
    b"grant-fd-1000",
    b"endpoint",
    b"memory",
    b"listen/3000",
    b"accept/3000",
    b"0/3000",
    b"stp/listen/3001",
    b"stp/accept/3001",
    b"stp/0/3001",
    b"nodes",
    b"zeroed",
    b"4/timer",
    b"fuzz-file",
    b"../../..",
    b"\xFF\xFE\0x",
];

/// Lengths, sizes and everything else that counts.
pub const SIZES: [usize; 20] = [
    0,
    1,
    5,
    8,
    13,
    16,
    24,
    32,
    40,
    48,
    64,
    104,
    4095,
    4096,
    4097,
    3 * PAGE_SIZE,
    ARENA,
    1 << 31,
    1 << 47,
    usize::MAX,
];

/// A small generator: xorshift, 64 bits.
pub struct Random(u64);

impl Random {
    /// Another sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Any word.
    pub fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize
    }

    /// A number below `end`, 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.next() % end.max(1)
    }

    /// True once in `n` times.
    pub fn rarely(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
