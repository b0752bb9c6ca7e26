//! Rounds of push and pull, and programs that poll instead of sleeping.

use conformance::st::call::Call;
use sim::st::ends::Failed;

use super::Simulated;
use super::jobs::{Job, Part, number_of, same};

/// The kinds of rounds: a header; data, announced by a header; both.
pub const KINDS: u64 = 3;

impl Simulated {
    /// Whether a waiting call polls, so that it need not be woken.
    pub(super) fn looks(&self, job: &Job) -> bool {
        let ends = |connection: usize| &self.connections[connection].ends;
        job.connection
            .is_some_and(|connection| ends(connection).looks(job.side))
    }

    /// Requests that the end of a job has made since the job began.
    pub(super) fn requests_of(&self, job: &Job) -> u64 {
        let now = job
            .connection
            .map(|connection| self.connections[connection].ends.requests(job.side));
        now.unwrap_or_default() - job.requests.unwrap_or_default()
    }

    /// Makes a round, or as much of it as is possible now; this end begins it, or the other one.
    pub(super) fn round(&mut self, job: &mut Job) -> Part {
        let Call::Rounds {
            handle,
            begins,
            count,
            local,
            remote,
            length,
        } = job.call
        else {
            return Err(Failed::Invalid);
        };
        let side = job.side;
        let (connection, channel) = self.place(side, handle).ok_or(Failed::Invalid)?;
        let requests = self.connections[connection].ends.requests(side);
        job.requests.get_or_insert(requests);
        let (kind, number) = (job.done / count, job.done % count);
        while job.stage < 2 {
            let bytes = self.read(side, local, length);
            let data = Some((&bytes[..], remote));
            match ((job.stage == 0) == (begins == 1), kind) {
                (true, 0) => self.push(side, handle, Some(number), None)?,
                (true, 1) => {
                    self.push(side, handle, None, data)?;
                    self.fetch(side, (connection, channel), remote, local, length)?;
                    self.push(side, handle, Some(number), None)?;
                }
                (true, _) => self.push(side, handle, Some(number), data)?,
                (false, _) => {
                    let header = self.connections[connection].ends.pull(side, channel)?;
                    same(number_of(&header), number)?;
                    if kind == 2 {
                        self.fetch(side, (connection, channel), remote, local, length)?;
                    }
                }
            }
            job.stage += 1;
        }
        job.stage = 0;
        Ok(())
    }

    /// Gets bytes of the peer's memory.
    fn fetch(
        &mut self,
        side: usize,
        (connection, channel): (usize, u32),
        remote: u64,
        local: u64,
        length: u64,
    ) -> Part {
        let ends = &mut self.connections[connection].ends;
        let bytes = ends.get(side, channel, remote, length as usize)?;
        self.write(side, local, &bytes);
        Ok(())
    }
}
