//! `event`: queues of events on files.

use alloc::{collections::BTreeMap, string::String, sync::Arc};

use ::syscall::{
    EVENT_TIMEOUT_ID, EventFlags,
    data::{Event, GlobalSchemes},
    error::{EACCES, EAGAIN, EBADF, EINTR, EINVAL, ENOMEM, ENOSPC, Error, Result},
    flag::O_NONBLOCK,
};
use kernel_core::events::{EventList, FileKey, Notice, Registry};
use spin::Mutex;

use super::{Caller, MAX_IO, OpenResult, Scheme, handles::ROOT, kernel_id};
use crate::{
    mm::{UserBuf, frame},
    object::SchemeId,
    proc,
    sched::{WaitError, WaitQueue},
    time::now_ns,
};

const EVENT_SIZE: usize = size_of::<Event>();

/// A queue of events.
#[derive(Default)]
pub struct Queue {
    events: Mutex<EventList>,
    /// Most milliseconds that the next blocking read waits.
    timeout: Mutex<Option<usize>>,
    readers: WaitQueue,
}

struct Queues {
    list: BTreeMap<usize, Arc<Queue>>,
    next: usize,
}

/// Locked before `QUEUES`, which is locked before each queue.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry::new(GlobalSchemes::Event as usize));
static QUEUES: Mutex<Queues> = Mutex::new(Queues {
    list: BTreeMap::new(),
    next: 1,
});

fn queue(number: usize) -> Result<Arc<Queue>> {
    QUEUES
        .lock()
        .list
        .get(&number)
        .cloned()
        .ok_or(Error::new(EBADF))
}

/// The queue behind a file; `EBADF` when the file is no queue.
pub fn queue_of(scheme: SchemeId, number: usize) -> Result<Arc<Queue>> {
    match scheme == kernel_id(GlobalSchemes::Event) {
        true => queue(number),
        false => Err(Error::new(EBADF)),
    }
}

fn key(scheme: SchemeId, number: usize) -> FileKey {
    FileKey {
        scheme: scheme.0,
        number,
    }
}

/// Queues an event for all queues that watch the file. Never blocks.
pub fn trigger(scheme: SchemeId, number: usize, flags: EventFlags) {
    let readable = EventFlags::EVENT_READ.bits();
    let file = key(scheme, number);
    REGISTRY
        .lock()
        .trigger(file, flags.bits(), readable, |notice| {
            if let Some(queue) = QUEUES.lock().list.get(&notice.queue) {
                queue.push(notice);
            }
        });
}

/// Reports the end of a scheme: queues that watch a file of it get all events, because every call
/// on the file returns at once, with an error.
pub fn scheme_ended(scheme: SchemeId) {
    let everything = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    let next_file = |from| REGISTRY.lock().next_file(scheme.0, from);
    let mut from = Some(0);
    // File by file: a list of all would be as long as a program likes.
    while let Some(number) = from.and_then(next_file) {
        trigger(scheme, number, everything);
        from = number.checked_add(1);
    }
}

/// Forgets the subscriptions of a file that is gone. If it is a queue, its own watchers get an
/// event, because it posts no more.
pub fn forget_file(scheme: SchemeId, number: usize) {
    if scheme == kernel_id(GlobalSchemes::Event) {
        trigger(scheme, number, EventFlags::EVENT_READ);
    }
    REGISTRY.lock().forget_file(key(scheme, number));
}

/// Watched files and subscriptions, for `sys/stat`.
pub fn counts() -> (usize, usize) {
    REGISTRY.lock().counts()
}

impl Queue {
    /// Whether an event waits.
    pub fn has_events(&self) -> bool {
        !self.events.lock().is_empty()
    }

    /// The contexts that wait for an event.
    pub fn readers(&self) -> &WaitQueue {
        &self.readers
    }

    fn push(&self, notice: Notice) {
        let is_new = {
            let mut events = self.events.lock();
            match events.is_full() && frame::check_room().is_err() {
                true => events.push_without_memory(notice),
                false => events.push(notice),
            }
        };
        if is_new {
            self.readers.wake_all();
        }
    }

    /// Stores waiting events; `None` when none wait.
    fn take(&self, buf: UserBuf) -> Option<Result<usize>> {
        let mut events = self.events.lock();
        if events.is_empty() {
            return None;
        }
        if buf.len() < EVENT_SIZE {
            return Some(if buf.is_empty() {
                Ok(0)
            } else {
                Err(Error::new(EINVAL))
            });
        }
        let mut stored = 0;
        for chunk in buf.chunks(EVENT_SIZE) {
            let Some(notice) = events.first() else { break };
            let event = Event {
                id: notice.id,
                flags: EventFlags::from_bits_truncate(notice.flags),
                data: notice.data,
            };
            if let Err(error) = chunk.write_all(&event) {
                return Some(if stored > 0 { Ok(stored) } else { Err(error) });
            }
            events.drop_first();
            stored += EVENT_SIZE;
        }
        Some(Ok(stored))
    }

    fn read(&self, buf: UserBuf, block: bool) -> Result<usize> {
        if !block {
            let empty = if buf.is_empty() {
                Ok(0)
            } else {
                Err(Error::new(EAGAIN))
            };
            return self.take(buf).unwrap_or(empty);
        }
        let timeout = self.timeout.lock().take();
        let deadline = timeout.map(|ms| {
            now_ns().saturating_add(
                u64::try_from(ms)
                    .unwrap_or(u64::MAX)
                    .saturating_mul(1_000_000),
            )
        });
        match self.readers.wait(deadline, || self.take(buf)) {
            Ok(result) => result,
            Err(WaitError::Interrupted) => Err(Error::new(EINTR)),
            Err(WaitError::TimedOut) => {
                let data = timeout.unwrap_or(0);
                let flags = EventFlags::EVENT_READ;
                buf.write(&Event {
                    id: EVENT_TIMEOUT_ID,
                    flags,
                    data,
                })
            }
        }
    }
}

/// Handles one record written to queue `number`.
fn control(number: usize, queue: &Queue, event: &Event) -> Result<()> {
    if event.id == EVENT_TIMEOUT_ID {
        *queue.timeout.lock() = (!event.flags.is_empty()).then_some(event.data);
        return Ok(());
    }
    let file = proc::file(event.id)?;
    let (scheme, watched) = (file.scheme(), file.number());
    // A queue must not watch itself: its own events would make it readable.
    if scheme == kernel_id(GlobalSchemes::Event) && watched == number {
        return Err(Error::new(EBADF));
    }
    // A subscription takes memory; ending one and setting a time-out do not.
    if !event.flags.is_empty() {
        frame::check_room()?;
        if !queue.events.lock().make_room() {
            return Err(Error::new(ENOMEM));
        }
    }
    let key = key(scheme, watched);
    let subscribe = |flags| {
        let mut registry = REGISTRY.lock();
        let former = registry.subscribe(key, number, event.id, event.data, flags);
        former.map(|former| (former, registry.wanted(key)))
    };
    let (former, wanted) = subscribe(event.flags.bits()).ok_or(Error::new(ENOSPC))?;
    let told = tell_wanted(key, scheme, watched, wanted);
    if told.is_err() && !event.flags.is_empty() {
        // The scheme has refused: the queue watches what it watched before.
        let _ = subscribe(former);
    }
    told
}

/// Tells a scheme which flags of a file the queues want, and reports those that it has already.
fn tell_wanted(key: FileKey, scheme: SchemeId, watched: usize, mut wanted: usize) -> Result<()> {
    loop {
        let flags = EventFlags::from_bits_truncate(wanted);
        let ready = super::get(scheme)?.fevent(watched, flags)?;
        if !ready.is_empty() {
            trigger(scheme, watched, ready);
        }
        // Another thread may have subscribed meanwhile and told the scheme before this one did.
        let since = REGISTRY.lock().wanted(key);
        if since == wanted {
            return Ok(());
        }
        wanted = since;
    }
}

pub struct EventScheme;

impl Scheme for EventScheme {
    fn open(
        &self,
        number: usize,
        _path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        _caller: Caller,
    ) -> Result<OpenResult> {
        if number != ROOT {
            return Err(Error::new(EACCES));
        }
        let mut queues = QUEUES.lock();
        let number = queues.next;
        queues.next += 1;
        queues.list.insert(number, Arc::default());
        OpenResult::plain(number)
    }

    fn read(&self, number: usize, buf: UserBuf, flags: u32) -> Result<usize> {
        queue(number)?.read(buf, flags & O_NONBLOCK as u32 == 0)
    }

    fn write(&self, number: usize, buf: UserBuf, _flags: u32) -> Result<usize> {
        let queue = queue(number)?;
        let mut written = 0;
        for chunk in buf.prefix(MAX_IO).chunks(EVENT_SIZE) {
            let mut event = Event::default();
            let read = chunk.read_exact(&mut event);
            match read.and_then(|()| control(number, &queue, &event)) {
                Ok(()) => written += EVENT_SIZE,
                // The records before it count.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    fn path(&self, _number: usize) -> Result<String> {
        Ok(String::from("/scheme/event/"))
    }

    fn fevent(&self, number: usize, flags: EventFlags) -> Result<EventFlags> {
        let queue = queue(number)?;
        let mut ready = flags & EventFlags::EVENT_WRITE;
        if queue.has_events() {
            ready |= flags & EventFlags::EVENT_READ;
        }
        Ok(ready)
    }

    fn close(&self, number: usize) {
        // The queue is dropped after the lock.
        let queue = QUEUES.lock().list.remove(&number);
        drop(queue);
        let mut last = None;
        loop {
            // File by file: a list of all would be as long as a program likes.
            let less = REGISTRY.lock().forget_queue(number, last);
            let Some((file, flags)) = less else { break };
            say_what_is_wanted(file, flags);
            last = Some(file);
        }
    }
}

/// Tells a file's scheme, without waiting, that only these flags of the file are wanted. Another
/// queue may subscribe meanwhile and tell the scheme before this does, so this repeats until the
/// scheme was last told the right flags. The registry's lock is not held, because a request to a
/// daemon is an event of its socket.
fn say_what_is_wanted(file: FileKey, mut flags: usize) {
    loop {
        let Ok(scheme) = super::get(SchemeId(file.scheme)) else {
            return;
        };
        scheme.fevent_without_waiting(file.number, EventFlags::from_bits_truncate(flags));
        let wanted = REGISTRY.lock().wanted(file);
        if wanted == flags {
            return;
        }
        flags = wanted;
    }
}
