//! Requests between clients and one scheme daemon.
//!
//! A request's tag is its index here. A tag is free again once its client has taken the answer,
//! or, for a client that no longer waits, once the daemon has answered. Type parameters: `W` wakes
//! the client, `F` is a passed file, `A` an abandoned request: what has to be cleaned up when the
//! answer comes and the client is gone.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

const EINTR: i32 = 4;
const EIO: i32 = 5;
const ECANCELED: i32 = 125;

/// An answer from the daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<F> {
    /// A value or an error number, with flags.
    Value {
        /// Value, or error number.
        result: Result<usize, i32>,
        /// First extra byte of the message (new descriptor flags).
        extra: u8,
        /// Whether to notify the daemon when the process of the request next closes a descriptor of
        /// this file. For `Lock` only.
        notify_on_detach: bool,
    },
    /// A file from the daemon's table.
    Fd(F),
    /// The files that were moved to the request before.
    Fds,
}

/// An answer for the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<F> {
    /// A value or an error number; see [`Reply::Value`].
    Value {
        /// Value, or error number.
        result: Result<usize, i32>,
        /// First extra byte of the message (new descriptor flags).
        extra: u8,
        /// See [`Reply::Value`].
        notify_on_detach: bool,
    },
    /// The file of a [`Reply::Fd`].
    Fd(F),
    /// The files of a [`Reply::Fds`].
    Fds(Vec<F>),
}

/// Why a tag cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagError {
    /// There is no such request.
    Unknown,
    /// The request was answered already.
    Answered,
}

/// The work that remains after an answer. Do it without locks held.
#[derive(Debug)]
pub struct Completed<W, F, A> {
    /// The client to wake, unless it gave up.
    pub waiter: Option<W>,
    /// Files that no client took.
    pub files: Vec<F>,
    /// The file of a [`Reply::Fd`] for a client that gave up.
    pub file: Option<F>,
    /// The request, if its client abandoned it.
    pub abandoned: Option<A>,
    /// The value for a client that gave up.
    pub unclaimed: Option<usize>,
    /// Whether messages about the request may still wait for the daemon: it did not read the
    /// request before it answered, or a cancellation was sent.
    pub is_unread: bool,
}

#[derive(Debug)]
enum State<W, F, A> {
    Waiting {
        waiter: Option<W>,
        files: Vec<F>,
        is_read: bool,
        canceling: bool,
        abandoned: Option<A>,
    },
    Answered(Answer<F>),
}

/// All unfinished requests of one scheme.
#[derive(Debug)]
pub struct Requests<W, F, A> {
    /// By tag. There may be more than contiguous memory has room for: a program that ends unmaps
    /// everything at once.
    slots: BTreeMap<usize, Option<State<W, F, A>>>,
    /// Tags made before and free again; as many as there were requests at the same time.
    free: BTreeSet<u32>,
    /// The number of tags made so far, including free ones.
    tags: u32,
}

impl<W, F, A> Default for Requests<W, F, A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W, F, A> Requests<W, F, A> {
    /// A table without requests.
    pub const fn new() -> Self {
        Self {
            slots: BTreeMap::new(),
            free: BTreeSet::new(),
            tags: 0,
        }
    }

    /// Number of unfinished requests.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no unfinished request.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers a request and returns its tag; `None` when tags have run out. Without a waiter
    /// the answer is dropped when it comes.
    pub fn begin(&mut self, waiter: Option<W>, files: Vec<F>) -> Option<u32> {
        let state = State::Waiting {
            waiter,
            files,
            is_read: false,
            canceling: false,
            abandoned: None,
        };
        let tag = match self.free.pop_first() {
            Some(tag) => tag,
            None => {
                let tag = self.tags;
                self.tags = tag.checked_add(1)?;
                tag
            }
        };
        self.slots.insert(tag as usize, Some(state));
        Some(tag)
    }

    fn slot(&mut self, tag: usize) -> Option<&mut Option<State<W, F, A>>> {
        self.slots.get_mut(&tag)
    }

    fn finish(&mut self, tag: usize) {
        if let (Some(_), Ok(index)) = (self.slots.remove(&tag), u32::try_from(tag)) {
            self.free.insert(index);
        }
    }

    /// Records that the daemon has read a request.
    pub fn set_read(&mut self, tag: u32) {
        if let Some(Some(State::Waiting { is_read, .. })) = self.slot(tag as usize) {
            *is_read = true;
        }
    }

    /// Handles the daemon's answer. A cancelled request that is answered with ECANCELED ends with
    /// EINTR. EINTR without a cancellation becomes EIO, because the client would take it for a
    /// signal.
    ///
    /// # Errors
    /// [`TagError`], with the reply: there is no such request, or it was answered already.
    pub fn answer(
        &mut self,
        tag: u32,
        reply: Reply<F>,
    ) -> Result<Completed<W, F, A>, (TagError, Reply<F>)> {
        let Some(slot) = self.slot(tag as usize) else {
            return Err((TagError::Unknown, reply));
        };
        let (waiter, mut files, is_read, canceling, abandoned) = match slot.take() {
            Some(State::Waiting {
                waiter,
                files,
                is_read,
                canceling,
                abandoned,
            }) => (waiter, files, is_read, canceling, abandoned),
            answered => {
                *slot = answered;
                return Err((TagError::Answered, reply));
            }
        };
        let answer = match reply {
            Reply::Value {
                result,
                extra,
                notify_on_detach,
            } => {
                let result = result.map_err(|errno| match (errno, canceling) {
                    (ECANCELED, true) => EINTR,
                    (EINTR, false) => EIO,
                    (errno, _) => errno,
                });
                Answer::Value {
                    result,
                    extra,
                    notify_on_detach,
                }
            }
            Reply::Fd(file) => Answer::Fd(file),
            Reply::Fds => Answer::Fds(core::mem::take(&mut files)),
        };
        let (mut unclaimed, mut lost) = (None, None);
        if waiter.is_some() {
            *slot = Some(State::Answered(answer));
        } else {
            self.finish(tag as usize);
            match answer {
                Answer::Value { result, .. } => unclaimed = result.ok(),
                Answer::Fd(file) => lost = Some(file),
                Answer::Fds(moved) => files = moved,
            }
        }
        Ok(Completed {
            waiter,
            files,
            file: lost,
            abandoned,
            unclaimed,
            is_unread: canceling || !is_read,
        })
    }

    /// Takes the client's answer, if there is one.
    pub fn take(&mut self, tag: u32) -> Option<Answer<F>> {
        let slot = self.slot(tag as usize)?;
        match slot.take() {
            Some(State::Answered(answer)) => {
                self.finish(tag as usize);
                Some(answer)
            }
            waiting => {
                *slot = waiting;
                None
            }
        }
    }

    /// Records that the client was interrupted. True when the daemon must be asked to cancel (the
    /// first time).
    pub fn cancel(&mut self, tag: u32) -> bool {
        match self.slot(tag as usize) {
            Some(Some(State::Waiting { canceling, .. })) => !core::mem::replace(canceling, true),
            _ => false,
        }
    }

    /// Records that the client is gone. When the answer comes it is dropped, and `abandoned` is
    /// returned for cleaning up. If the answer has already come, both are returned now.
    pub fn abandon(&mut self, tag: u32, abandoned: A) -> Option<(Option<Answer<F>>, A)> {
        match self.slot(tag as usize) {
            Some(Some(State::Waiting {
                waiter,
                canceling,
                abandoned: kept,
                ..
            })) => {
                *waiter = None;
                *canceling = true;
                *kept = Some(abandoned);
                None
            }
            _ => Some((self.take(tag), abandoned)),
        }
    }

    /// Takes the files sent along with a waiting request.
    ///
    /// # Errors
    /// [`TagError`]: there is no such request, or it was answered already.
    pub fn take_files(&mut self, tag: usize) -> Result<Vec<F>, TagError> {
        match self.slot(tag) {
            Some(Some(State::Waiting { files, .. })) => Ok(core::mem::take(files)),
            Some(_) => Err(TagError::Answered),
            None => Err(TagError::Unknown),
        }
    }

    /// Takes the first file sent along with a waiting request.
    ///
    /// # Errors
    /// [`TagError`]: there is no such request, or it was answered already.
    pub fn take_first_file(&mut self, tag: usize) -> Result<Option<F>, TagError> {
        match self.slot(tag) {
            Some(Some(State::Waiting { files, .. })) if files.is_empty() => Ok(None),
            Some(Some(State::Waiting { files, .. })) => Ok(Some(files.remove(0))),
            Some(_) => Err(TagError::Answered),
            None => Err(TagError::Unknown),
        }
    }

    /// Moves files to a waiting request. Returns the files that it had before; on error, the new
    /// ones.
    ///
    /// # Errors
    /// [`TagError`]: there is no such request, or it was answered already.
    pub fn put_files(&mut self, tag: usize, new: Vec<F>) -> Result<Vec<F>, (TagError, Vec<F>)> {
        match self.slot(tag) {
            Some(Some(State::Waiting { files, .. })) => Ok(core::mem::replace(files, new)),
            Some(_) => Err((TagError::Answered, new)),
            None => Err((TagError::Unknown, new)),
        }
    }

    /// Answers the first waiting request whose tag is `from` or higher with `errno`, because the
    /// daemon is gone. Returns its tag, too.
    pub fn fail_next(&mut self, from: u32, errno: i32) -> Option<(u32, Completed<W, F, A>)> {
        let is_waiting = |slot: &Option<_>| matches!(slot, Some(State::Waiting { .. }));
        let mut slots = self.slots.range(from as usize..);
        let (&tag, _) = slots.find(|(_, slot)| is_waiting(slot))?;
        let tag = u32::try_from(tag).ok()?;
        let reply = Reply::Value {
            result: Err(errno),
            extra: 0,
            notify_on_detach: false,
        };
        self.answer(tag, reply).ok().map(|failed| (tag, failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    type Table = Requests<char, u32, &'static str>;

    fn value(result: Result<usize, i32>) -> Reply<u32> {
        Reply::Value {
            result,
            extra: 0,
            notify_on_detach: false,
        }
    }

    fn taken(table: &mut Table, tag: u32) -> Option<Result<usize, i32>> {
        match table.take(tag)? {
            Answer::Value { result, .. } => Some(result),
            other => panic!("unexpected {other:?}"),
        }
    }

    #[test]
    fn tags_are_reused_after_the_answer_was_taken() {
        let mut table = Table::new();
        let first = table.begin(Some('a'), vec![]).unwrap();
        let second = table.begin(Some('b'), vec![]).unwrap();
        assert_eq!((first, second), (0, 1));
        assert_eq!(taken(&mut table, first), None);
        assert_eq!(table.answer(first, value(Ok(7))).unwrap().waiter, Some('a'));
        assert_eq!(
            table.answer(first, value(Ok(8))).unwrap_err().0,
            TagError::Answered
        );
        assert_eq!(taken(&mut table, first), Some(Ok(7)));
        assert_eq!(
            table.answer(first, value(Ok(8))).unwrap_err().0,
            TagError::Unknown
        );
        assert_eq!(table.begin(Some('c'), vec![]), Some(0));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn an_answer_tells_whether_messages_may_wait() {
        let mut table = Table::new();
        for (is_read, is_cancelled, is_unread) in [
            (true, false, false),
            (false, false, true),
            (true, true, true),
        ] {
            let tag = table.begin(Some('a'), vec![]).unwrap();
            if is_read {
                table.set_read(tag);
            }
            if is_cancelled {
                table.cancel(tag);
            }
            assert_eq!(
                table.answer(tag, value(Ok(1))).unwrap().is_unread,
                is_unread
            );
            assert_eq!(taken(&mut table, tag), Some(Ok(1)));
        }
    }

    #[test]
    fn cancelled_means_interrupted_only_after_a_cancel() {
        let mut table = Table::new();
        let tag = table.begin(Some('a'), vec![]).unwrap();
        assert!(table.cancel(tag));
        assert!(!table.cancel(tag));
        table.answer(tag, value(Err(ECANCELED))).unwrap();
        assert_eq!(taken(&mut table, tag), Some(Err(EINTR)));

        let tag = table.begin(Some('a'), vec![]).unwrap();
        table.answer(tag, value(Err(EINTR))).unwrap();
        assert!(!table.cancel(tag));
        assert_eq!(taken(&mut table, tag), Some(Err(EIO)));

        let tag = table.begin(Some('a'), vec![]).unwrap();
        table.answer(tag, value(Err(ECANCELED))).unwrap();
        assert_eq!(taken(&mut table, tag), Some(Err(ECANCELED)));
    }

    #[test]
    fn what_a_dead_client_left_comes_back_with_the_answer() {
        let mut table = Table::new();
        let tag = table.begin(Some('a'), vec![1]).unwrap();
        assert!(table.abandon(tag, "pages").is_none());
        let completed = table.answer(tag, Reply::Fd(2)).unwrap();
        assert_eq!(completed.waiter, None);
        assert_eq!(completed.abandoned, Some("pages"));
        assert_eq!((completed.files, completed.file), (vec![1], Some(2)));
        assert!(table.is_empty());

        let tag = table.begin(Some('a'), vec![]).unwrap();
        table.answer(tag, value(Ok(1))).unwrap();
        let (answer, abandoned) = table.abandon(tag, "pages").unwrap();
        assert!(answer.is_some());
        assert_eq!(abandoned, "pages");
        assert!(table.is_empty());
    }

    #[test]
    fn values_that_nobody_takes_are_told() {
        let mut table = Table::new();
        for (result, unclaimed) in [(Ok(7), Some(7)), (Err(ECANCELED), None)] {
            let tag = table.begin(Some('a'), vec![]).unwrap();
            assert!(table.abandon(tag, "handle").is_none());
            let completed = table.answer(tag, value(result)).unwrap();
            assert_eq!(
                (completed.abandoned, completed.unclaimed),
                (Some("handle"), unclaimed)
            );
            let tag = table.begin(Some('a'), vec![]).unwrap();
            assert_eq!(table.answer(tag, value(result)).unwrap().unclaimed, None);
            assert!(table.take(tag).is_some());
        }
    }

    #[test]
    fn files_travel_both_ways() {
        let mut table = Table::new();
        let tag = table.begin(Some('a'), vec![1, 2, 3]).unwrap();
        assert_eq!(table.take_first_file(tag as usize), Ok(Some(1)));
        assert_eq!(table.take_files(tag as usize), Ok(vec![2, 3]));
        assert_eq!(table.take_first_file(tag as usize), Ok(None));
        assert_eq!(table.put_files(tag as usize, vec![8, 9]), Ok(vec![]));
        let completed = table.answer(tag, Reply::Fds).unwrap();
        assert!(completed.files.is_empty());
        assert_eq!(table.take_files(tag as usize), Err(TagError::Answered));
        assert_eq!(table.take(tag), Some(Answer::Fds(vec![8, 9])));
        assert_eq!(table.take_files(99), Err(TagError::Unknown));
        assert_eq!(
            table.put_files(99, vec![5]),
            Err((TagError::Unknown, vec![5]))
        );
    }

    #[test]
    fn uncollected_files_come_back_to_be_closed() {
        let mut table = Table::new();
        let tag = table.begin(Some('a'), vec![1, 2]).unwrap();
        assert_eq!(table.answer(tag, value(Ok(0))).unwrap().files, [1, 2]);
    }

    #[test]
    fn a_dying_daemon_answers_everybody() {
        let mut table = Table::new();
        let waiting = table.begin(Some('a'), vec![]).unwrap();
        let answered = table.begin(Some('b'), vec![]).unwrap();
        let orphan = table.begin(None, vec![4]).unwrap();
        table.abandon(orphan, "pages");
        table.answer(answered, value(Ok(3))).unwrap();
        let mut from = 0;
        let completed: Vec<_> = core::iter::from_fn(|| {
            let (tag, completed) = table.fail_next(from, 19)?;
            from = tag + 1;
            Some(completed)
        })
        .collect();
        assert_eq!(completed.len(), 2);
        assert_eq!(
            completed
                .iter()
                .filter_map(|s| s.waiter)
                .collect::<Vec<_>>(),
            ['a']
        );
        assert_eq!(
            completed
                .iter()
                .filter_map(|s| s.abandoned)
                .collect::<Vec<_>>(),
            ["pages"]
        );
        assert_eq!(taken(&mut table, waiting), Some(Err(19)));
        assert_eq!(taken(&mut table, answered), Some(Ok(3)));
        assert!(table.is_empty());
    }
}
