//! Open descriptions: one object of one scheme, with the flags and the position of one open.

use ::syscall::{
    error::{EINVAL, Error, Result},
    flag::{O_APPEND, O_NONBLOCK, RwFlags},
    schemev2::NewFdFlags,
};
use bitflags::bitflags;
use spin::Mutex;

use super::{
    SchemeId,
    deferred::{self, Entry, Message, Notices},
};

bitflags! {
    /// Flags that the kernel keeps with a description beside the open flags.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InternalFlags: u8 {
        /// The kernel keeps the offset and passes it with each read and write.
        const POSITIONED = 1;
        /// A call uses the offset.
        const IN_USE = 2;
        /// Others wait until it does not any more.
        const AWAITED = 4;
        /// The offset is the file's end, because data was appended.
        const AT_END = 8;
    }
}

impl InternalFlags {
    /// Decodes the first extra byte of an answer or of `NewFdParams`; `EINVAL` for unknown bits.
    pub fn from_extra(extra: u8) -> Result<Self> {
        let flags = NewFdFlags::from_bits(extra).ok_or(Error::new(EINVAL))?;
        let positioned = flags.contains(NewFdFlags::POSITIONED);
        Ok(if positioned {
            Self::POSITIONED
        } else {
            Self::empty()
        })
    }
}

/// The changeable part of a description.
#[derive(Clone, Copy, Debug)]
pub struct DescriptionState {
    /// Position for the next read or write of a positioned description, in bytes.
    pub offset: u64,
    /// Open flags, changed by `F_SETFL`.
    pub flags: u32,
    /// Kernel flags.
    pub internal: InternalFlags,
}

/// An open description. Descriptors, passed descriptors and mappings share it. When the last of
/// them is gone, its scheme gets a close message.
#[derive(Debug)]
pub struct Description {
    scheme: SchemeId,
    number: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: DescriptionState,
    /// The close message, for which there may be no memory later: a program can have very many
    /// files, which all end with it. `None` once it is queued.
    close: Option<Entry<Message>>,
}

impl Inner {
    /// The notices for processes that have not closed a descriptor since they were made.
    fn notices(&mut self) -> Option<&mut Notices> {
        match self.close.as_mut()?.value_mut() {
            Message::Close { notices, .. } => Some(notices),
            _ => None,
        }
    }
}

impl Description {
    /// A description of object `number` of `scheme`. From now on the scheme is owed a close.
    pub fn new(scheme: SchemeId, number: usize, state: DescriptionState) -> Self {
        let close = Some(Entry::new(Message::Close {
            scheme,
            number,
            notices: Notices::new(),
        }));
        Self {
            scheme,
            number,
            inner: Mutex::new(Inner { state, close }),
        }
    }

    /// The scheme it belongs to.
    pub fn scheme(&self) -> SchemeId {
        self.scheme
    }

    /// The scheme's number for it.
    pub fn number(&self) -> usize {
        self.number
    }

    /// A copy of the changeable part.
    pub fn state(&self) -> DescriptionState {
        self.inner.lock().state
    }

    /// Changes the changeable part; `change` must not block or lock.
    pub fn update<T>(&self, change: impl FnOnce(&mut DescriptionState) -> T) -> T {
        change(&mut self.inner.lock().state)
    }

    /// The notice that a process has closed a descriptor, for [`keep`](Self::keep).
    pub fn notice(&self, pid: usize) -> Entry<Message> {
        Entry::new(Message::Detach {
            scheme: self.scheme,
            number: self.number,
            pid,
        })
    }

    /// Has a notice ready for when its process next closes a descriptor. Then there may be no
    /// memory for it, and a program can close very many descriptors of a file at once. One notice
    /// for all of them is enough: with the first one, the scheme ends what the process has.
    pub fn keep(&self, notice: Entry<Message>) {
        let mut inner = self.inner.lock();
        let former = inner.notices().and_then(|notices| notices.replace(notice));
        drop(inner);
        drop(former);
    }

    /// Takes the notice of a process that closes a descriptor; `pid` finds out which one.
    pub fn take_notice(&self, pid: impl FnOnce() -> usize) -> Option<Entry<Message>> {
        if self.inner.lock().notices()?.is_empty() {
            return None;
        }
        let pid = pid();
        self.inner.lock().notices()?.take(pid)
    }

    /// The open flags, with NONBLOCK and APPEND replaced when `replacement` is given.
    pub fn io_flags(&self, replacement: Option<RwFlags>) -> u32 {
        let flags = self.state().flags;
        let Some(replacement) = replacement else {
            return flags;
        };
        let mut flags = flags & !((O_NONBLOCK | O_APPEND) as u32);
        if replacement.contains(RwFlags::NONBLOCK) {
            flags |= O_NONBLOCK as u32;
        }
        if replacement.contains(RwFlags::APPEND) {
            flags |= O_APPEND as u32;
        }
        flags
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        if let Some(message) = self.inner.get_mut().close.take() {
            deferred::defer(message);
        }
    }
}
