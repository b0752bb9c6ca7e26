//! The buffer of one pipe: bytes and passed descriptors, and the states of both ends.

use alloc::{collections::VecDeque, vec::Vec};

/// Most bytes in a pipe.
pub const PIPE_CAPACITY: usize = 65_536;

/// Most bytes that are written together, C's `PIPE_BUF`: other writes come before or behind them.
pub const PIPE_TOGETHER: usize = 4096;

/// Most descriptors in a pipe.
pub const PIPE_FDS: usize = 65_536;

/// The state of a pipe for a reader or writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeState {
    /// The operation can proceed.
    Ready,
    /// Nothing can be done now: wait for the other end.
    Wait,
    /// The other end is gone.
    Gone,
}

/// One pipe between one read end and one write end.
#[derive(Debug)]
pub struct PipeBuffer<F> {
    bytes: VecDeque<u8>,
    fds: VecDeque<F>,
    reader_open: bool,
    writer_open: bool,
    writer_made: bool,
}

impl<F> Default for PipeBuffer<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> PipeBuffer<F> {
    /// A pipe whose read end exists and whose write end will be made later. Until then a reader
    /// waits: a missing write end counts as open.
    pub const fn new() -> Self {
        Self {
            bytes: VecDeque::new(),
            fds: VecDeque::new(),
            reader_open: true,
            writer_open: true,
            writer_made: false,
        }
    }

    /// Makes the write end; false when it was already made.
    pub fn make_writer(&mut self) -> bool {
        !core::mem::replace(&mut self.writer_made, true)
    }

    /// Closes the read end; true when nobody can use the pipe any more.
    pub fn close_reader(&mut self) -> bool {
        self.reader_open = false;
        !self.writer_open || !self.writer_made
    }

    /// Closes the write end; true when nobody can use the pipe any more.
    pub fn close_writer(&mut self) -> bool {
        self.writer_open = false;
        !self.reader_open
    }

    /// Bytes that wait for the reader.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that can be written now.
    pub fn room(&self) -> usize {
        PIPE_CAPACITY.saturating_sub(self.waiting())
    }

    /// The state for a reader of bytes.
    pub fn read_state(&self) -> PipeState {
        state(!self.bytes.is_empty(), self.writer_open)
    }

    /// The state for a reader of descriptors.
    pub fn fd_read_state(&self) -> PipeState {
        state(!self.fds.is_empty(), self.writer_open)
    }

    /// The state for a writer of `count` bytes; a missing reader matters even when there is room.
    /// A short write waits until there is room for all of it, a long one for a byte.
    pub fn write_state(&self, count: usize) -> PipeState {
        let needed = if count > PIPE_TOGETHER { 1 } else { count };
        if self.reader_open {
            state(self.room() >= needed, true)
        } else {
            PipeState::Gone
        }
    }

    /// The state for a writer of descriptors.
    pub fn fd_write_state(&self) -> PipeState {
        if self.reader_open {
            state(self.fds.len() < PIPE_FDS, true)
        } else {
            PipeState::Gone
        }
    }

    /// The first run of waiting bytes, at most `max`, without taking it. It is shorter than what
    /// waits when the ring wraps.
    pub fn peek(&self, max: usize) -> &[u8] {
        let (first, second) = self.bytes.as_slices();
        let run = if first.is_empty() { second } else { first };
        run.get(..max.min(run.len())).unwrap_or(run)
    }

    /// Drops the first `count` bytes, which were peeked and delivered.
    pub fn consume(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }

    /// Appends as many bytes as there is room for; fewer when memory has no piece for a longer
    /// ring. Returns their count.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut count = bytes.len().min(self.room());
        if self.bytes.try_reserve(count).is_err() {
            count = count.min(self.bytes.capacity() - self.bytes.len());
        }
        self.bytes.extend(bytes.get(..count).unwrap_or(bytes));
        count
    }

    /// Appends as many descriptors as there is room for and returns their count; the rest stays in
    /// `fds`. `None` when memory has no piece for their list.
    pub fn push_fds(&mut self, fds: &mut Vec<F>) -> Option<usize> {
        let count = fds.len().min(PIPE_FDS.saturating_sub(self.fds.len()));
        self.fds.try_reserve(count).ok()?;
        self.fds.extend(fds.drain(..count));
        Some(count)
    }

    /// The waiting descriptors.
    pub fn fds(&self) -> impl Iterator<Item = &F> {
        self.fds.iter()
    }

    /// Puts back descriptors that were taken and could not be delivered. They are the first ones
    /// again, even if others have taken their place. They stay in `fds` when there is not enough
    /// memory in one piece.
    pub fn return_fds(&mut self, fds: &mut Vec<F>) {
        if self.fds.try_reserve(fds.len()).is_ok() {
            fds.drain(..).rev().for_each(|fd| self.fds.push_front(fd));
        }
    }

    /// Takes up to `max` descriptors; `None` when memory has no piece for their list.
    pub fn take_fds(&mut self, max: usize) -> Option<Vec<F>> {
        let count = max.min(self.fds.len());
        let mut taken = Vec::new();
        taken.try_reserve_exact(count).ok()?;
        taken.extend(self.fds.drain(..count));
        Some(taken)
    }

    /// Takes all descriptors.
    pub fn drain_fds(&mut self) -> VecDeque<F> {
        core::mem::take(&mut self.fds)
    }
}

fn state(ready: bool, other_open: bool) -> PipeState {
    match (ready, other_open) {
        (true, _) => PipeState::Ready,
        (false, true) => PipeState::Wait,
        (false, false) => PipeState::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn bytes_keep_their_order_across_the_wrap() {
        let mut pipe = PipeBuffer::<()>::new();
        let (mut next_in, mut next_out) = (0_u32, 0_u32);
        for step in 0..200_usize {
            let chunk: Vec<u8> = (0..step * 13 % 1500)
                .map(|_| {
                    next_in += 1;
                    next_in as u8
                })
                .collect();
            assert_eq!(pipe.push(&chunk), chunk.len());
            let mut want = step * 17 % 1400;
            while want > 0 && pipe.read_state() == PipeState::Ready {
                let run = pipe.peek(want).to_vec();
                for byte in &run {
                    next_out += 1;
                    assert_eq!(*byte, next_out as u8);
                }
                pipe.consume(run.len());
                want -= run.len();
            }
        }
    }

    #[test]
    fn a_full_pipe_takes_no_more() {
        let mut pipe = PipeBuffer::<()>::new();
        assert_eq!(pipe.push(&vec![1; PIPE_CAPACITY + 5]), PIPE_CAPACITY);
        assert_eq!(pipe.write_state(1), PipeState::Wait);
        assert_eq!(pipe.write_state(0), PipeState::Ready);
        pipe.consume(1);
        assert_eq!(pipe.write_state(1), PipeState::Ready);
        assert_eq!(pipe.push(&[2, 3]), 1);
    }

    #[test]
    fn short_writes_wait_for_room_for_all_of_them() {
        let mut pipe = PipeBuffer::<()>::new();
        pipe.push(&vec![1; PIPE_CAPACITY - 100]);
        for (count, wanted) in [
            (100, PipeState::Ready),
            (101, PipeState::Wait),
            (PIPE_TOGETHER, PipeState::Wait),
            (PIPE_TOGETHER + 1, PipeState::Ready),
        ] {
            assert_eq!(pipe.write_state(count), wanted, "{count}");
        }
    }

    #[test]
    fn ends_close_independently() {
        let mut pipe = PipeBuffer::<()>::new();
        assert_eq!(pipe.read_state(), PipeState::Wait);
        assert!(pipe.make_writer());
        assert!(!pipe.make_writer());
        pipe.push(&[1]);
        assert!(!pipe.close_writer());
        assert_eq!(pipe.read_state(), PipeState::Ready);
        pipe.consume(1);
        assert_eq!(pipe.read_state(), PipeState::Gone);
        assert!(pipe.close_reader());
        assert_eq!(pipe.write_state(1), PipeState::Gone);
    }

    #[test]
    fn descriptors_that_come_back_are_the_first_ones() {
        let mut pipe = PipeBuffer::new();
        assert_eq!(pipe.push_fds(&mut vec![1, 2, 3]), Some(3));
        let mut taken = pipe.take_fds(2).unwrap();
        pipe.push_fds(&mut vec![4]);
        pipe.return_fds(&mut taken);
        assert!(taken.is_empty());
        assert_eq!(pipe.take_fds(9), Some(vec![1, 2, 3, 4]));
        assert_eq!(pipe.fd_read_state(), PipeState::Wait);
    }

    #[test]
    fn a_pipe_without_writer_ends_with_its_reader() {
        assert!(PipeBuffer::<()>::new().close_reader());
    }

    #[test]
    fn descriptors_queue_beside_the_bytes() {
        let mut pipe = PipeBuffer::new();
        let mut sent = vec!['a', 'b', 'c'];
        assert_eq!((pipe.push_fds(&mut sent), sent), (Some(3), vec![]));
        assert_eq!(pipe.read_state(), PipeState::Wait);
        assert_eq!(pipe.fd_read_state(), PipeState::Ready);
        assert_eq!(pipe.take_fds(2), Some(vec!['a', 'b']));
        assert_eq!(pipe.take_fds(2), Some(vec!['c']));
    }
}
