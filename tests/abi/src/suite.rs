//! The list of checks and the form of results: one line per check, one line of totals.

use crate::sys::{self, Outcome};
use alloc::{format, string::String};
use core::{cell::Cell, fmt::Debug};

/// Why a check failed.
pub type Verdict = Result<(), String>;

/// A check: what it is about, in words that `abi: ok` and `abi: FAIL` give, and the check itself.
pub type Check = (&'static str, fn(&Suite) -> Verdict);

/// The means of every check: the roots the kernel handed out, and free descriptor numbers.
pub struct Suite {
    /// Descriptor of the root of each kernel scheme, by scheme id.
    roots: [Option<usize>; 32],
    /// The scheme creation capability.
    pub capability: usize,
    console: usize,
    next_slot: Cell<usize>,
    passed: Cell<usize>,
    failed: Cell<usize>,
}

/// Ids of the kernel's own schemes (`GlobalSchemes` of the crate `redox_syscall`).
pub mod scheme_id {
    pub const DEBUG: usize = 1;
    pub const EVENT: usize = 2;
    pub const MEMORY: usize = 3;
    pub const PIPE: usize = 4;
    pub const SERIO: usize = 5;
    pub const IRQ: usize = 6;
    pub const TIME: usize = 7;
    pub const SYS: usize = 8;
    pub const PROC: usize = 9;
    pub const ACPI: usize = 10;
}

impl Suite {
    /// Takes the roots of the boot metadata and opens the console. `None` when that fails: then
    /// there is no way to print anything either.
    pub fn new() -> Option<Suite> {
        let mut roots = [None; 32];
        for root in runtime::first::roots() {
            if let Some(entry) = roots.get_mut(usize::from(root.id)) {
                *entry = Some(root.fd);
            }
        }
        let console = 1;
        sys::openat(roots[scheme_id::DEBUG]?, "", syscall::O_RDWR, console).ok()?;
        Some(Suite {
            roots,
            capability: runtime::first::scheme_creation_capability(),
            console,
            next_slot: Cell::new(100),
            passed: Cell::new(0),
            failed: Cell::new(0),
        })
    }

    /// The root descriptor of a kernel scheme; an invalid descriptor when the kernel gave none.
    pub fn root(&self, id: usize) -> usize {
        self.roots
            .get(id)
            .copied()
            .flatten()
            .unwrap_or(usize::MAX - 1)
    }

    /// A descriptor number that was never used.
    pub fn slot(&self) -> usize {
        self.next_slot.replace(self.next_slot.get() + 1)
    }

    /// Skips descriptor numbers, so that a child context may use them.
    pub fn reserve_slots(&self, count: usize) {
        self.next_slot.set(self.next_slot.get() + count);
    }

    /// Runs `body` and gives the descriptor numbers it used back; it must have closed them.
    pub fn with_slots<T>(&self, body: impl FnOnce(&Suite) -> T) -> T {
        let first = self.next_slot.get();
        let result = body(self);
        self.next_slot.set(first);
        result
    }

    /// Opens `path` below the root of a kernel scheme into a fresh slot.
    pub fn open(&self, id: usize, path: &str, flags: usize) -> Outcome {
        sys::openat(self.root(id), path, flags, self.slot())
    }

    /// Duplicates with a name into a fresh slot.
    pub fn dup(&self, fd: usize, name: &[u8]) -> Outcome {
        sys::dup(fd, name, self.slot())
    }

    /// Prints one line, in one piece: a line of the kernel's may come between two.
    pub fn say(&self, line: &str) {
        let line = format!("{line}\n");
        let mut rest = line.as_bytes();
        while let Ok(count @ 1..) = sys::write(self.console, rest) {
            rest = rest.get(count..).unwrap_or_default();
        }
    }

    /// Runs one check and prints its result.
    pub fn check(&self, name: &str, body: impl FnOnce(&Suite) -> Verdict) {
        match body(self) {
            Ok(()) => {
                self.passed.set(self.passed.get() + 1);
                self.say(&format!("abi: ok   {name}"));
            }
            Err(why) => {
                self.failed.set(self.failed.get() + 1);
                self.say(&format!("abi: FAIL {name}: {why}"));
            }
        }
    }

    /// Runs checks one after the other.
    pub fn check_all(&self, checks: &[Check]) {
        for (name, body) in checks {
            self.check(name, body);
        }
    }

    /// Prints the totals; the launcher reads this line.
    pub fn finish(&self) {
        self.say(&format!(
            "abi: {} passed, {} failed",
            self.passed.get(),
            self.failed.get()
        ));
    }
}

/// Compares a value with what Redox's kernel gives.
pub fn expect<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Verdict {
    if got == wanted {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, expected {wanted:?}"))
    }
}

/// A statement that must hold.
pub fn hold(what: &str, holds: bool) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(format!("{what}: does not hold"))
    }
}

/// Unwraps a call that must succeed.
pub fn must(what: &str, outcome: Outcome) -> Result<usize, String> {
    outcome.map_err(|errno| format!("{what}: error {errno}"))
}
