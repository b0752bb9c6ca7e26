//! `fork`, with the locks of this library and of those above it. A child has only one thread, so a
//! lock that another thread of the parent holds would stay taken in the child. `fork` takes all
//! locks before memory is copied, so that what they guard is consistent in the child, and releases
//! them in both processes.

use alloc::vec::Vec;
use core::ffi::c_int;

use crate::sync::{Lock, Shared};
use crate::{
    advice, alarm, arrivals, caught, children, command, descriptor, environment, errno, given,
    handlers, interrupter, locale, masks, messages, own, plusplus, points, popen, posix_timers,
    process, pthread, random, search, segments, sets, sharing, stream, strings, terminal, time,
    transfers, usage, users, wide,
};

/// The values of this library that are behind a lock, except streams and the table of descriptors.
const LOCKS: [&dyn Lock; 41] = [
    &HANDLERS,
    &alarm::TIMER,
    &posix_timers::TIMERS,
    // Pairs in the order in which they are taken elsewhere.
    &command::RUNNING,
    &sets::SETS,
    &own::KINDS,
    &sharing::OPEN,
    &segments::ATTACHED,
    &advice::PAGES,
    &arrivals::TOLD,
    &interrupter::WORK,
    &masks::MASKS,
    &caught::BELL,
    &messages::LOG,
    &handlers::HANDLERS,
    &points::HANDLE,
    &arrivals::HELD,
    &arrivals::AWAITED,
    &environment::OWN,
    &process::AT_EXIT,
    &process::AT_QUICK_EXIT,
    &plusplus::DESTRUCTORS,
    &popen::COMMANDS,
    &search::TABLE,
    &users::USER,
    &users::MEMBERS,
    &users::GROUP,
    &strings::TOKEN,
    &wide::STATE,
    &pthread::KEYS_IN_USE,
    &pthread::NUMBERS,
    &given::GIVEN,
    &time::BROKEN,
    &time::TEXT,
    &locale::CONVENTIONS,
    &terminal::SETTINGS,
    &errno::MESSAGE,
    &random::GENERATOR,
    &random::FORMER,
    &usage::LIMITS,
    &transfers::NAME,
];

unsafe extern "C" {
    /// Keeps the library's tables unchanged until [`skiff_scif_after_fork`]; in `libscif`.
    safe fn skiff_scif_before_fork();
    /// Ends that. In the child it also forgets what the parent's endpoints had mapped.
    safe fn skiff_scif_after_fork(in_child: bool);
    /// Keeps the sockets unchanged until [`skiff_socket_after_fork`]; 0 or an error number. In
    /// `libsocket`.
    safe fn skiff_socket_before_fork() -> c_int;
    /// Ends that in both processes; `result` is what `fork` returns.
    safe fn skiff_socket_after_fork(result: c_int);
}

/// Runs `action` while no other thread uses one of the values in [`LOCKS`].
fn held<T>(action: impl FnOnce() -> T) -> T {
    LOCKS.iter().for_each(|lock| lock.take());
    let result = action();
    for lock in LOCKS {
        // SAFETY: taken above.
        unsafe { lock.open() };
    }
    result
}

/// A handler of `pthread_atfork`.
type Handler = Option<unsafe extern "C" fn()>;

/// Handlers to call before a fork, and after it in the parent and in the child.
pub static HANDLERS: Shared<Vec<[Handler; 3]>> = Shared::new(Vec::new());

#[unsafe(no_mangle)]
extern "C" fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> c_int {
    HANDLERS.with(|handlers| handlers.push([before, in_parent, in_child]));
    0
}

/// Calls handlers, which may register others.
fn call(handlers: impl Iterator<Item = Handler>) {
    for handler in handlers.flatten() {
        // SAFETY: the program's functions, which take nothing.
        unsafe { handler() };
    }
}

/// The child has only a copy of the calling thread. Of the memory that schemes have mapped it has
/// that of files, which it shares, and no mappings of SCIF: its endpoints work through the driver,
/// once the parent has closed them.
#[unsafe(no_mangle)]
extern "C" fn fork() -> c_int {
    let handlers = HANDLERS.with(|handlers| handlers.clone());
    // The handler registered last is called first, as it may use what earlier ones guard.
    call(handlers.iter().rev().map(|[before, ..]| *before));
    // The socket library comes first, as it uses those below it.
    let refused = skiff_socket_before_fork();
    if refused != 0 {
        call(handlers.iter().map(|each| each[1]));
        return errno::fail(refused);
    }
    skiff_scif_before_fork();
    let shared = advice::shared();
    let fork = || pthread::fork(&shared);
    let leaves_nothing =
        handlers::exchange(handlers::SIGCHLD, None).is_some_and(|chosen| chosen.leaves_nothing());
    let forked = children::kept(leaves_nothing, || {
        stream::held(|| held(|| descriptor::held(fork)))
    });
    let in_child = matches!(forked, Ok(0));
    if in_child {
        pthread::forked();
        advice::forked();
        descriptor::forked();
        sets::forked();
        stream::forked();
        alarm::forked();
        posix_timers::forked();
        interrupter::forked();
        arrivals::forked();
    }
    skiff_scif_after_fork(in_child);
    skiff_socket_after_fork(forked.as_ref().map_or(-1, |child| *child));
    if in_child {
        descriptor::finish_closing();
        segments::forked();
    }
    call(handlers.iter().map(|each| each[1 + usize::from(in_child)]));
    errno::give(forked)
}

/// The same as `fork`: the child's memory is its own.
#[unsafe(no_mangle)]
extern "C" fn vfork() -> c_int {
    fork()
}
