//! Pipes, event queues, clocks and timers, futexes (Redox's `src/scheme/{pipe,event,time}.rs`,
//! `src/syscall/{time,futex}.rs`).

use crate::suite::{Suite, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::{format, vec};
use syscall::error::*;
use syscall::flag::*;
use syscall::number::*;
use syscall::{CallFlags, Event, EventFlags, TimeSpec};

/// Subscribes `fd` in the queue; `data` comes back with each event.
pub fn subscribe(queue: usize, fd: usize, flags: EventFlags, data: usize) -> sys::Outcome {
    sys::write(
        queue,
        &Event {
            id: fd,
            flags,
            data,
        },
    )
}

/// The next event of a queue, or the error of the read.
pub fn next_event(queue: usize) -> Result<Event, i32> {
    let mut event = Event::default();
    match sys::read(queue, &mut event)? {
        24 => Ok(event),
        _ => Err(EIO),
    }
}

pub fn run(suite: &Suite) {
    pipes(suite);
    events(suite);
    clocks(suite);
    futexes(suite);
    system(suite);
}

fn pipes(suite: &Suite) {
    suite.check(
        "pipe: bytes in order, one write end, EOF, EPIPE, EAGAIN",
        |suite| {
            let read = must("open", suite.open(PIPE, "", O_RDONLY | O_NONBLOCK))?;
            let write = must("dup write", suite.dup(read, b"write"))?;
            expect("second write end", suite.dup(read, b"write"), Err(EBADF))?;
            let mut buffer = [0; 16];
            expect("empty", sys::read(read, &mut buffer), Err(EAGAIN))?;
            expect("write", sys::write(write, b"hello "), Ok(6))?;
            expect("write", sys::write(write, b"world"), Ok(5))?;
            expect("read", sys::read(read, &mut buffer), Ok(11))?;
            expect("bytes", &buffer[..11], b"hello world".as_slice())?;
            expect("close write", sys::close(write), Ok(0))?;
            expect("end of file", sys::read(read, &mut buffer), Ok(0))?;
            let other = must("open", suite.open(PIPE, "", O_RDONLY))?;
            let write = must("dup write", suite.dup(other, b"write"))?;
            expect("close read", sys::close(other), Ok(0))?;
            expect("no reader", sys::write(write, b"x"), Err(EPIPE))?;
            let _ = (sys::close(write), sys::close(read));
            Ok(())
        },
    );
    suite.check("pipe: 64 KiB fit, then EAGAIN", |suite| {
        let read = must("open", suite.open(PIPE, "", O_RDONLY | O_NONBLOCK))?;
        let write = must("dup write", suite.dup(read, b"write"))?;
        must("nonblock", sys::fcntl(write, F_SETFL, O_NONBLOCK))?;
        let block = vec![7u8; 70_000];
        expect("write", sys::write(write, &block), Ok(65_536))?;
        expect("full", sys::write(write, &block), Err(EAGAIN))?;
        let mut back = vec![0u8; 70_000];
        expect("read", sys::read(read, &mut back), Ok(65_536))?;
        let _ = (sys::close(write), sys::close(read));
        hold("same bytes", back[..65_536] == block[..65_536])
    });
    suite.check(
        "pipe: a descriptor travels, and leaves the sender",
        |suite| {
            let read = must("open", suite.open(PIPE, "", O_RDONLY))?;
            let write = must("dup write", suite.dup(read, b"write"))?;
            let sent = must("open", suite.open(SYS, "uname", O_RDONLY))?;
            let mut payload = (sent as u64).to_le_bytes();
            let send = CallFlags::WRITE | CallFlags::FD;
            must("send", sys::call(write, &mut payload, send, &[]))?;
            let mut text = [0; 4];
            expect("gone here", sys::read(sent, &mut text), Err(EBADF))?;
            let slot = UPPER_FDTBL_TAG | 700;
            let mut payload = (slot as u64).to_le_bytes();
            let receive = CallFlags::READ | CallFlags::FD | CallFlags::FD_UPPER;
            must("receive", sys::call(read, &mut payload, receive, &[]))?;
            let at = u64::from_le_bytes(payload) as usize;
            hold(
                &format!("readable at {at:#x}"),
                sys::read(at, &mut text).is_ok(),
            )?;
            let _ = (sys::close(at), sys::close(read), sys::close(write));
            Ok(())
        },
    );
    suite.check(
        "pipe: descriptors that a receiver cannot take stay",
        |suite| {
            let read = must("open", suite.open(PIPE, "", O_RDONLY))?;
            let write = must("dup write", suite.dup(read, b"write"))?;
            for _ in 0..2 {
                let sent = must("open", suite.open(SYS, "uname", O_RDONLY))?;
                let mut payload = (sent as u64).to_le_bytes();
                let send = CallFlags::WRITE | CallFlags::FD;
                must("send", sys::call(write, &mut payload, send, &[]))?;
            }
            // so that a receive finds the end where the upstream kernel has dropped them
            must("close", sys::close(write))?;
            let receive = |slots: &[usize], bytes: usize| {
                let mut payload = [0; 32];
                for (place, slot) in payload.chunks_exact_mut(8).zip(slots) {
                    place.copy_from_slice(&(*slot as u64).to_le_bytes());
                }
                let flags = CallFlags::READ | CallFlags::FD | CallFlags::FD_UPPER;
                sys::call(read, &mut payload[..bytes], flags, &[])
            };
            let slots = [700, 701, 702].map(|slot| UPPER_FDTBL_TAG | slot);
            expect("too many slots", receive(&slots, 24), Err(EINVAL))?;
            expect("half a slot", receive(&slots, 12), Err(EINVAL))?;
            let twice = receive(&[slots[0], slots[0]], 16);
            expect("one slot for two", twice, Err(EINVAL))?;
            expect("one", receive(&slots, 8), Ok(1))?;
            expect("a slot in use", receive(&slots, 8), Err(EEXIST))?;
            expect("the other", receive(&slots[1..], 8), Ok(1))?;
            expect("no more", receive(&slots[2..], 8), Ok(0))?;
            let mut text = [0; 4];
            for slot in slots.into_iter().take(2) {
                hold("readable", sys::read(slot, &mut text).is_ok())?;
                expect("close", sys::close(slot), Ok(0))?;
            }
            expect("close", sys::close(read), Ok(0))
        },
    );
}

fn events(suite: &Suite) {
    suite.check(
        "event: what is ready at subscription is told at once, then edges",
        |suite| {
            let queue = must("queue", suite.open(EVENT, "", O_RDWR | O_NONBLOCK))?;
            let read = must("pipe", suite.open(PIPE, "", O_RDONLY | O_NONBLOCK))?;
            let write = must("dup write", suite.dup(read, b"write"))?;
            must(
                "subscribe",
                subscribe(queue, read, EventFlags::EVENT_READ, 77),
            )?;
            expect("nothing yet", next_event(queue).err(), Some(EAGAIN))?;
            must("write", sys::write(write, b"x"))?;
            let event = next_event(queue).map_err(|e| format!("no event: {e}"))?;
            expect("id", event.id, read)?;
            expect("data", event.data, 77)?;
            hold("readable", event.flags.contains(EventFlags::EVENT_READ))?;
            must(
                "unsubscribe",
                subscribe(queue, read, EventFlags::empty(), 0),
            )?;
            must(
                "subscribe again",
                subscribe(queue, read, EventFlags::EVENT_READ, 78),
            )?;
            let event = next_event(queue).map_err(|e| format!("level at subscription: {e}"))?;
            expect("data", event.data, 78)?;
            let _ = (sys::close(read), sys::close(write), sys::close(queue));
            Ok(())
        },
    );
    suite.check(
        "event: a queue cannot watch itself; bad descriptors",
        |suite| {
            let queue = must("queue", suite.open(EVENT, "", O_RDWR | O_NONBLOCK))?;
            let itself = subscribe(queue, queue, EventFlags::EVENT_READ, 0);
            expect("itself", itself, Err(EBADF))?;
            let nothing = subscribe(queue, 59_999, EventFlags::EVENT_READ, 0);
            expect("nothing", nothing, Err(EBADF))?;
            expect("close", sys::close(queue), Ok(0))
        },
    );
    suite.check("event: the timeout event ends a blocking read", |suite| {
        let queue = must("queue", suite.open(EVENT, "", O_RDWR))?;
        must(
            "arm",
            subscribe(queue, EVENT_TIMEOUT_ID, EventFlags::EVENT_READ, 20),
        )?;
        let event = next_event(queue).map_err(|e| format!("no timeout: {e}"))?;
        expect("id", event.id, EVENT_TIMEOUT_ID)?;
        expect("close", sys::close(queue), Ok(0))
    });
}

fn clocks(suite: &Suite) {
    suite.check("clocks run forwards; unknown clocks are EINVAL", |_| {
        let before = sys::clock(CLOCK_MONOTONIC).map_err(|e| format!("clock: {e}"))?;
        expect("sleep", sys::nanosleep(20_000_000), Ok(0))?;
        let after = sys::clock(CLOCK_MONOTONIC).map_err(|e| format!("clock: {e}"))?;
        hold("at least what was asked", after - before >= 19_000_000)?;
        hold("realtime", sys::clock(CLOCK_REALTIME).is_ok())?;
        expect("unknown", sys::clock(99), Err(EINVAL))
    });
    suite.check("time: an absolute timer gives one event", |suite| {
        let timer = must("timer", suite.open(TIME, "4", O_RDWR))?;
        let queue = must("queue", suite.open(EVENT, "", O_RDWR))?;
        must(
            "subscribe",
            subscribe(queue, timer, EventFlags::EVENT_READ, 5),
        )?;
        let mut now = TimeSpec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        must("read clock", sys::read(timer, &mut now))?;
        let at = TimeSpec::from_nanos(now.to_nanos() + 20_000_000);
        must("arm", sys::write(timer, &at))?;
        let event = next_event(queue).map_err(|e| format!("no event: {e}"))?;
        expect("data", event.data, 5)?;
        let later = sys::clock(CLOCK_MONOTONIC).map_err(|e| format!("clock: {e}"))?;
        hold("not early", later + 5_000_000 >= at.to_nanos())?;
        let _ = (sys::close(timer), sys::close(queue));
        Ok(())
    });
}

fn futexes(suite: &Suite) {
    suite.check(
        "futex: a changed value is EAGAIN, silence is ETIMEDOUT, wake counts",
        |_| {
            let word = core::sync::atomic::AtomicU32::new(5);
            let at = (&raw const word) as usize;
            let wait = |expected: usize, deadline: &TimeSpec| {
                let deadline = (&raw const *deadline) as usize;
                sys::raw(SYS_FUTEX, [at, FUTEX_WAIT, expected, deadline, 0, 0])
            };
            let now = sys::clock(CLOCK_MONOTONIC).map_err(|e| format!("clock: {e}"))?;
            let soon = TimeSpec::from_nanos(now + 20_000_000);
            expect("changed", wait(6, &soon), Err(EAGAIN))?;
            expect("silence", wait(5, &soon), Err(ETIMEDOUT))?;
            // another word: the upstream kernel still counts a waiter that timed out
            let fresh = core::sync::atomic::AtomicU32::new(0);
            let wake = [(&raw const fresh) as usize, FUTEX_WAKE, 10, 0, 0, 0];
            expect("nobody", sys::raw(SYS_FUTEX, wake), Ok(0))?;
            let odd = [at + 1, FUTEX_WAIT, 5, 0, 0, 0];
            expect("unaligned", sys::raw(SYS_FUTEX, odd), Err(EINVAL))?;
            let operation = [at, 99, 5, 0, 0, 0];
            expect(
                "unknown operation",
                sys::raw(SYS_FUTEX, operation),
                Err(EINVAL),
            )
        },
    );
}

fn system(suite: &Suite) {
    suite.check("sys: env, uname, context, cpu are readable text", |suite| {
        for name in ["env", "exe", "uname", "context", "cpu", "syscall", "irq"] {
            let fd = must(name, suite.open(SYS, name, O_RDONLY))?;
            let mut text = vec![0; 8192];
            let n = must(name, sys::read(fd, &mut text))?;
            let text = core::str::from_utf8(&text[..n]).map_err(|_| format!("{name}: no text"))?;
            if name == "cpu" {
                let first = text
                    .lines()
                    .next()
                    .and_then(|line| line.strip_prefix("CPUs: "));
                let count: Option<usize> = first.and_then(|count| count.parse().ok());
                hold("CPUs: <number>", count.is_some_and(|count| count > 0))?;
            }
            expect("close", sys::close(fd), Ok(0))?;
        }
        Ok(())
    });
    suite.check(
        "irq: bsp, a free vector, a reserved one, a bad one",
        |suite| {
            let bsp = must("bsp", suite.open(IRQ, "bsp", O_RDONLY))?;
            let mut cpu = [0; 8];
            expect("read", sys::read(bsp, &mut cpu), Ok(8))?;
            let directory = format!("cpu-{:02x}", cpu[0]);
            let vector = |number: usize| format!("{directory}/{number}");
            let fd = must("vector 60", suite.open(IRQ, &vector(60), O_RDWR | O_CREAT))?;
            expect(
                "taken",
                suite.open(IRQ, &vector(60), O_RDWR | O_CREAT),
                Err(EEXIST),
            )?;
            expect(
                "no O_CREAT",
                suite.open(IRQ, &vector(61), O_RDWR),
                Err(EINVAL),
            )?;
            expect(
                "beyond",
                suite.open(IRQ, &vector(224), O_RDWR | O_CREAT),
                Err(ENOENT),
            )?;
            let mut count = [0xff; 8];
            expect("quiet vector", sys::read(fd, &mut count), Ok(0))?;
            let _ = (sys::close(fd), sys::close(bsp));
            Ok(())
        },
    );
}
