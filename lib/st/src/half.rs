//! The common part of the two halves of a channel, the sender and the receiver.

use alloc::sync::Arc;

use scif::Waiting;
use scif_abi::error::Error as Errno;
use st_core::connection::Connection;
use st_core::region::Unreachable;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::region::Remote;
use crate::shared::Shared;
use crate::wait::{Condition, Sleeper, wait};

/// What a sender and a receiver have in common.
pub(crate) struct Half {
    pub(crate) shared: Arc<Shared>,
    pub(crate) channel: u32,
    pub(crate) waiting: Waiting,
    /// Made when it is first needed.
    pub(crate) sleeper: Option<Sleeper>,
}

impl Half {
    /// Fails if the connection has ended, also if the peer has announced its end only now.
    pub(crate) fn check(&self) -> Result<()> {
        if self.shared.may_be_readable() {
            self.shared.take_records(None)?;
        }
        self.shared.check()
    }

    /// The memory that the peer has mapped on this channel; waits for its first announcement.
    pub(crate) fn remote(&mut self, deadline: Deadline) -> Result<Remote> {
        let mut condition = Announcement {
            shared: &self.shared,
            channel: self.channel,
        };
        // Records that arrived before this call count. No more than a look: a program that puts or
        // gets again and again must not ask the driver whether it is alive.
        if self.shared.may_be_readable() {
            self.shared.take_records(None)?;
        } else {
            self.shared.check_sending()?;
        }
        wait(
            &self.shared,
            &mut self.sleeper,
            self.waiting,
            deadline,
            &mut condition,
        )?;
        condition.region()?.ok_or(Error::WouldBlock)
    }
}

/// The error of a transfer to or from announced memory.
#[cold]
pub(crate) fn transfer_error(error: scif::Error) -> Error {
    match error {
        // The place was inside when it was made, so the peer has taken the memory back.
        scif::Error::Scif(Errno::NoSuchAddress) => Error::Gone,
        error => error.into(),
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if let Some(sleeper) = &self.sleeper {
            self.shared.remove_sleeper(sleeper.id);
        }
    }
}

/// The wait for the peer's first announcement on a channel.
struct Announcement<'a> {
    shared: &'a Shared,
    channel: u32,
}

impl Announcement<'_> {
    /// The memory that is announced now; `None`: none was announced yet.
    fn region(&self) -> Result<Option<Remote>> {
        let announced = |connection: &mut Connection| connection.announced(self.channel).region();
        match self.shared.with_connection(announced) {
            Ok(region) => Ok(Some(Remote {
                link: self.shared.number,
                region,
            })),
            Err(Unreachable::NotYet) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Condition for Announcement<'_> {
    fn look(&mut self) -> Result<bool> {
        Ok(self.region()?.is_some())
    }

    fn arm(&mut self) -> Result<bool> {
        // Announcements are records, which wake a sleeper without being asked for.
        self.look()
    }
}
