//! Short sleeps: the thread sleeps while the kernel polls words in memory to which a peer's
//! machine stores.
//!
//! Such a store wakes nobody. The long way to wake this program - a request to the driver that
//! waits, the peer's doorbell, an interrupt, the driver's answer - takes longer than most answers.
//! So this project's kernel looks at the words while a processor has nothing else to do. The
//! thread sleeps meanwhile: whatever can run does, and nothing is charged to it. Redox's kernel
//! has no such call; there every sleep is a long one. docs/architecture.md, "Words that an idle
//! processor looks at", has the whole picture.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use syscall::error::{EINTR, Error};

/// Longest short sleep, in nanoseconds: about what an answer takes under the emulator when both
/// sides have to wake a program for it.
pub const LONGEST_NS: u64 = 500_000;
/// A wait with a limit up to this leaves no time for a short sleep before the long one.
pub const SHORT_LIMIT: Duration = Duration::from_nanos(2 * LONGEST_NS);
/// A long sleep that ends within this time might have been a short one: waking a program takes a
/// good part of it.
const SOON: Duration = Duration::from_nanos(2 * LONGEST_NS);
/// Most sleeps in a row without a short one, after short ones in vain.
const MAX_BACKOFF: u32 = 64;
/// Most words that a short sleep watches.
pub const MAX_WORDS: usize = 32;

/// A word of this machine's memory, and the value it had when nothing had arrived. Only the kernel
/// reads the address, so the memory may have gone meanwhile; then the sleep may last to its end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    address: usize,
    value: u32,
}

impl Watched {
    /// Watches a word until it has another value than this.
    pub fn new(word: &AtomicU32, value: u32) -> Self {
        let address = word.as_ptr() as usize;
        Self { address, value }
    }

    /// Watches the lower half of a counter until it differs from that of this value.
    pub fn counter(word: &AtomicU64, value: u64) -> Self {
        let address = word.as_ptr() as usize;
        let value = value as u32;
        Self { address, value }
    }

    /// The entry in the kernel's list.
    fn entry(&self) -> [usize; 2] {
        [self.address, self.value as usize]
    }
}

/// What shows that an event has come for which a program may wait at a connection or a listener:
/// bytes, a connection request, the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum Sign {
    /// Only an event of its descriptor.
    Event,
    /// A change of one of these words.
    Words([Watched; 2]),
    /// An event in the event queue of this descriptor, which nobody else may read.
    Queue(usize),
}

/// Why a short sleep has ended, or why there was none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// A word has changed.
    Changed,
    /// No word has: the caller goes on with a long sleep.
    InVain,
    /// A signal came.
    Interrupted,
}

/// Decides from the short sleeps before whether another may pay. After each short sleep in vain,
/// twice as many sleeps go without one (up to a limit), so that a node at rest halts its
/// processor.
#[derive(Debug, Default)]
pub struct IdlePoll {
    /// Sleeps that still go without a short one.
    left: AtomicU32,
    /// The value that `left` got when the last short sleep ended.
    backoff: AtomicU32,
}

impl IdlePoll {
    /// A policy that lets the next sleep be a short one.
    pub const fn new() -> Self {
        Self {
            left: AtomicU32::new(0),
            backoff: AtomicU32::new(0),
        }
    }

    /// Whether this sleep may be a short one. Call it once for each sleep.
    pub fn may_pay(&self) -> bool {
        // Two threads that ask at once may count as one.
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0 && kernel::can_look()
    }

    /// Sleeps until one of the words (1 to [`MAX_WORDS`]) has another value, for at most
    /// [`LONGEST_NS`] nanoseconds.
    pub fn sleep(&self, words: &[Watched]) -> Ended {
        self.sleep_beside(words, None)
    }

    /// As [`sleep`](Self::sleep), but an event in the event queue of the descriptor `queue` ends
    /// the sleep as well. The event stays there.
    pub fn sleep_beside(&self, words: &[Watched], queue: Option<usize>) -> Ended {
        debug_assert!((1..=MAX_WORDS).contains(&words.len()));
        let ended = match kernel::look(words, queue) {
            Ok(0) => Ended::InVain,
            Ok(_) => Ended::Changed,
            Err(Error { errno: EINTR }) => Ended::Interrupted,
            // The kernel cannot look at words.
            Err(_) => Ended::InVain,
        };
        self.note(ended);
        ended
    }

    /// Reports the length of a long sleep, taken because [`may_pay`](Self::may_pay) said no. If
    /// the sleep ended soon, the next one may be short again: so two programs recover whose
    /// answers have become slow because both take long sleeps.
    pub fn has_waited(&self, time: Duration) {
        if time <= SOON {
            self.note(Ended::Changed);
        }
    }

    fn note(&self, ended: Ended) {
        let backoff = match ended {
            Ended::Changed => 0,
            Ended::InVain => (2 * self.backoff.load(Ordering::Relaxed)).clamp(1, MAX_BACKOFF),
            Ended::Interrupted => return,
        };
        self.backoff.store(backoff, Ordering::Relaxed);
        self.left.store(backoff, Ordering::Relaxed);
    }
}

#[cfg(target_os = "redox")]
mod kernel {
    use core::sync::atomic::{AtomicBool, Ordering};

    use syscall::error::{EINVAL, Error, Result};
    use syscall::number::SYS_FUTEX;

    use super::{LONGEST_NS, MAX_WORDS, Watched};

    /// The operation of this project's kernel (`kernel/src/syscall/futex.rs`).
    const FUTEX_POLL: usize = 64;

    /// Whether the kernel has refused the call.
    static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

    /// Whether the kernel looks at words, as far as is known.
    pub fn can_look() -> bool {
        !IS_UNKNOWN.load(Ordering::Relaxed)
    }

    /// Has the kernel look at the words; 1 when one has changed or an event is in the queue.
    pub fn look(words: &[Watched], queue: Option<usize>) -> Result<usize> {
        let mut list = [[0_usize; 2]; MAX_WORDS];
        let count = words.len().min(MAX_WORDS);
        for (entry, watched) in list.iter_mut().zip(words) {
            *entry = watched.entry();
        }
        let list = list.as_ptr() as usize;
        let longest = LONGEST_NS as usize;
        let queue = queue.map_or(0, |descriptor| descriptor + 1);
        // SAFETY: the kernel reads the list, which lives across the call, and the words if they
        // are there.
        let seen = unsafe { syscall::syscall5(SYS_FUTEX, list, FUTEX_POLL, count, longest, queue) };
        if let Err(Error { errno }) = seen
            && errno == EINVAL
        {
            IS_UNKNOWN.store(true, Ordering::Relaxed);
        }
        seen
    }
}

/// The kernel that a test simulates.
#[cfg(not(target_os = "redox"))]
mod kernel {
    use super::Watched;
    pub(super) use crate::testing::host::can_look;

    pub fn look(words: &[Watched], queue: Option<usize>) -> syscall::Result<usize> {
        let words: alloc::vec::Vec<_> = words.iter().map(Watched::entry).collect();
        crate::testing::host::look(&words, queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host::{self, Request};

    /// Counts the short sleeps among the next `count` sleeps; each short one ends as `ended` says.
    fn sleeps(policy: &IdlePoll, count: u32, ended: Ended) -> u32 {
        let answer = match ended {
            Ended::Changed => Ok(1),
            Ended::InVain => Ok(0),
            Ended::Interrupted => Err(Error::new(EINTR)),
        };
        let sleep = || {
            let sleeps = (0..count).filter(|_| {
                let may_pay = policy.may_pay();
                assert!(!may_pay || policy.sleep(&[Watched::default()]) == ended);
                may_pay
            });
            sleeps.count() as u32
        };
        let look = move |_: Request<'_>| answer;
        host::play(look, || host::beside_idle_processor(sleep))
    }

    #[test]
    fn sleeps_in_vain_get_rare_and_one_that_pays_brings_them_back() {
        let policy = IdlePoll::default();
        assert_eq!(sleeps(&policy, 10, Ended::Changed), 10);
        // One, then one in 2, 3, 5, 9, 17, 33, then one in 65.
        assert_eq!(sleeps(&policy, 70, Ended::InVain), 7);
        assert_eq!(sleeps(&policy, 650, Ended::InVain), 10);
        let first = sleeps(&policy, MAX_BACKOFF + 1, Ended::Changed);
        assert!(first >= 1, "{first}");
        assert_eq!(sleeps(&policy, 10, Ended::Changed), 10);
    }

    #[test]
    fn a_long_sleep_that_ends_soon_brings_them_back() {
        let policy = IdlePoll::default();
        assert_eq!(sleeps(&policy, 70, Ended::InVain), 7);
        policy.has_waited(SOON + Duration::from_nanos(1));
        assert_eq!(sleeps(&policy, 10, Ended::Changed), 0);
        policy.has_waited(SOON);
        assert_eq!(sleeps(&policy, 10, Ended::Changed), 10);
    }

    #[test]
    fn a_signal_says_nothing_about_the_peer() {
        let policy = IdlePoll::default();
        assert_eq!(sleeps(&policy, 10, Ended::Interrupted), 10);
        assert_eq!(sleeps(&policy, 2, Ended::InVain), 1);
    }

    #[test]
    fn a_kernel_that_does_not_look_is_not_asked() {
        let unasked = |_: Request<'_>| panic!("asked");
        host::play(unasked, || assert!(!IdlePoll::default().may_pay()));
    }
}
