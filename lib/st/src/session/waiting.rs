//! Waiting: for headers, for room, for the peer to take what was sent, for a connection.

use core::time::Duration;

use scif::BusyPoll;
use st_core::reliable::{Level, Token};

use super::{CHANNEL, Session, fault};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::memory::OwnWindow;

/// The pause between two looks for a new connection.
const PAUSE: Duration = Duration::from_millis(10);

/// The condition that a call waits for.
pub enum Want<'a> {
    /// Both ends have sent their state.
    Open,
    /// The peer has announced memory.
    Remote,
    /// A header to pull.
    Header,
    /// Room for one more transfer.
    Room,
    /// A transfer has reached a level.
    Level(&'a Token, Level),
    /// All transfers are taken.
    Taken,
}

impl Session {
    fn look(&mut self, want: &Want<'_>) -> Result<bool> {
        let Some(shared) = &self.shared else {
            return self.look_apart(want);
        };
        let windows = shared.windows()?;
        match want {
            Want::Open => Ok(self.engine.is_open()),
            Want::Header => Ok(self.engine.is_ready(&windows)),
            Want::Remote => {
                let announced = shared.with_connection(|connection| connection.announced(CHANNEL));
                let bytes = announced.region().ok().map(|region| region.length);
                self.peer_bytes = bytes.or(self.peer_bytes);
                Ok(self.peer_bytes.is_some())
            }
            Want::Room | Want::Taken => {
                let most = match want {
                    Want::Room => self.kept - 1,
                    _ => 0,
                };
                if self.engine.kept() > most {
                    self.engine.look(&windows).map_err(fault)?;
                }
                Ok(self.engine.kept() <= most)
            }
            Want::Level(token, level) => {
                if self.status(token) < *level {
                    self.engine.look(&windows).map_err(fault)?;
                }
                let is_due = *level == Level::Delivered && self.status(token) == Level::Local;
                if is_due && self.is_connected() && self.engine.is_sent(token) {
                    let mark = self.engine.mark();
                    shared.flush()?;
                    if shared.is_live() {
                        self.engine.delivered(mark);
                    }
                }
                Ok(self.status(token) >= *level)
            }
        }
    }

    /// [`look`](Self::look) without a connection.
    fn look_apart(&self, want: &Want<'_>) -> Result<bool> {
        Ok(match want {
            Want::Open => false,
            Want::Header => match &self.rest {
                Some(rest) => self.engine.is_ready(&OwnWindow::new(rest)?),
                None => false,
            },
            Want::Remote => self.peer_bytes.is_some(),
            Want::Room => self.engine.kept() < self.kept,
            Want::Taken => self.engine.kept() == 0,
            Want::Level(token, level) => self.status(token) >= *level,
        })
    }

    /// Looks once more at the end of the session, because what was reached before counts.
    fn last_look(&mut self, want: &Want<'_>, end: Error) -> Result<()> {
        match self.look(want) {
            Ok(true) => Ok(()),
            _ => Err(end),
        }
    }

    pub(super) fn wait_for(&mut self, want: &Want<'_>, deadline: Deadline) -> Result<()> {
        if let Err(end) = self.check() {
            return self.last_look(want, end);
        }
        if self.look(want)? {
            return Ok(());
        }
        let is_local = self.shared.as_ref().is_some_and(|shared| shared.is_local);
        let mut busy_poll = BusyPoll::new(self.waiting, is_local);
        let mut has_slept = false;
        loop {
            if (has_slept || self.has_work())
                && let Err(end) = self.step(has_slept)
            {
                return self.last_look(want, end);
            }
            has_slept = false;
            for _ in 0..busy_poll.spins() {
                if self.look(want)? {
                    return Ok(());
                }
                busy_poll.relax();
            }
            let left = deadline.left()?;
            if self.shared.is_none() {
                let pause = left.map_or(PAUSE, |left| left.min(PAUSE));
                self.sleeper.sleep(Some(pause))?;
                has_slept = true;
            } else if !busy_poll.give_way() {
                if self.fall_asleep(want)? {
                    self.sleeper.sleep(left)?;
                }
                has_slept = true;
            }
        }
    }

    /// Whether a step may have something to do, by a look at this end's memory.
    fn has_work(&self) -> bool {
        match &self.shared {
            Some(shared) => {
                self.engine.is_behind() || shared.may_be_readable() || !shared.is_live()
            }
            None => true,
        }
    }

    /// Asks the peer to wake this end, and looks once more. Returns whether to sleep.
    fn fall_asleep(&mut self, want: &Want<'_>) -> Result<bool> {
        let Some(shared) = &self.shared else {
            return Ok(false);
        };
        let mut windows = shared.windows()?;
        if matches!(want, Want::Header) {
            let armed = self.engine.arm(&mut windows).map_err(fault)?;
            if armed.wake {
                shared.wake_peer(CHANNEL);
            }
            if armed.is_ready {
                return Ok(false);
            }
        }
        // When the peer takes something, there is room for what is kept.
        if !matches!(want, Want::Header) || self.engine.is_behind() {
            self.engine.arm_taken(&mut windows).map_err(fault)?;
        }
        // The next step finds the end.
        let update = shared.fall_asleep(self.sleeper.id).unwrap_or(true);
        Ok(!update && !self.look(want)?)
    }
}
