//! One side's memory as the other sees it: a page with words for both, and a large area that the
//! measuring side copies from and to. The side that does not measure sleeps, except when it plays
//! ping-pong.

use alloc::vec::Vec;

use platform::dma::{Allocator, Buffer, Scattered};
use platform::mem::{Cache, PAGE, Region, map_physical};
use runtime::time::{Duration, Instant, sleep};

use crate::link::Link;
use crate::meeting::Meeting;
use crate::{Failure, copies, failed, pingpong};

/// Words of the control page. Each is written by one side: the ball, the command and its argument
/// by the other node, the rest by the owner.
pub const BALL: usize = 0;
const COMMAND: usize = 64;
const ARGUMENT: usize = 72;
const ANSWER: usize = 128;
const ANSWERED: usize = 136;
const PIECES: usize = 256;
/// Pieces of the exported area that can be listed.
const MAX_PIECES: usize = (PAGE - PIECES - 8) / 16;

/// What the measuring side can ask for.
#[derive(Clone, Copy)]
pub enum Command {
    /// Play ping-pong, so many times.
    Play = 1,
    /// Fill the exported area with the pattern of a seed.
    Fill = 2,
    /// The checksum of so many bytes of the exported area.
    Sum = 3,
    /// End.
    Leave = 4,
}

/// How long the measuring side waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A contiguous piece of the peer's exported area.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Where it is in [`Station::aperture`].
    pub offset: usize,
    pub bytes: usize,
}

/// This side's memory and the view of the peer's.
pub struct Station {
    pub control: Region,
    pub peer_control: Region,
    /// The own area that the peer reaches.
    pub exported: Region,
    /// The part of the peer's memory that holds its exported area.
    pub aperture: Region,
    pub pieces: Vec<Piece>,
    /// Own memory that nobody else reaches, with [`copies::SLACK`] bytes more.
    pub private: Region,
    /// Keeps what was allocated.
    _memory: (Buffer, Scattered, Scattered),
    _meeting: Meeting,
}

impl Station {
    /// Allocates `bytes` of memory to be exported and as much for private use, and finds the
    /// peer's.
    pub fn open(link: &Link, bytes: usize) -> Result<Self, Failure> {
        let allocator = Allocator::new().map_err(failed("memory for devices (are you root?)"))?;
        let buffer = allocator.allocate(PAGE).map_err(failed("memory"))?;
        let exported = scattered(&allocator, bytes)?;
        let private = scattered(&allocator, bytes + copies::SLACK)?;
        let control = buffer.region().clone();
        let mut listed = Vec::new();
        for piece in exported.pieces() {
            listed.push((piece.physical, piece.bytes as u64));
        }
        if listed.len() > MAX_PIECES {
            return Err("free memory is too fragmented: use a smaller --size".into());
        }
        write_pieces(&control, &listed).map_err(failed("the control page"))?;
        let (meeting, theirs) = Meeting::meet(&link.meeting, link.side, buffer.physical())?;
        let peer_control = map_physical(link.aperture + theirs, PAGE, Cache::WriteBack);
        let peer_control = peer_control.map_err(failed("mapping the peer's control page"))?;
        let listed = read_pieces(&peer_control).map_err(failed("the peer's control page"))?;
        let first = listed.iter().map(|piece| piece.0).min();
        let end = listed.iter().map(|piece| piece.0 + piece.1).max();
        let (first, end) = first.zip(end).ok_or("the peer has no memory to copy")?;
        let aperture = map_physical(
            link.aperture + first,
            (end - first) as usize,
            Cache::WriteBack,
        );
        let pieces = listed.iter().map(|&(physical, bytes)| Piece {
            offset: (physical - first) as usize,
            bytes: bytes as usize,
        });
        Ok(Self {
            control,
            peer_control,
            exported: exported.region().clone(),
            aperture: aperture.map_err(failed("mapping the peer's memory"))?,
            pieces: pieces.collect(),
            private: private.region().clone(),
            _memory: (buffer, exported, private),
            _meeting: meeting,
        })
    }

    /// Has the peer do something. Returns at once: what it answers comes by
    /// [`answer`](Self::answer).
    pub fn order(&self, command: Command, argument: u64) -> Result<(), Failure> {
        let order = || {
            let number = self.peer_control.read::<u64>(COMMAND)? >> 8;
            self.peer_control.write(ARGUMENT, argument)?;
            let word = (number + 1) << 8 | command as u64;
            self.peer_control.store_release_u64(COMMAND, word)
        };
        order().map_err(failed("ordering"))
    }

    /// Waits for the answer to the last order.
    pub fn answer(&self) -> Result<u64, Failure> {
        let look = || {
            let ordered = self.peer_control.read::<u64>(COMMAND)? >> 8;
            let answered = self.peer_control.load_acquire_u64(ANSWERED)?;
            let answer = self.peer_control.read::<u64>(ANSWER)?;
            Ok((ordered == answered).then_some(answer))
        };
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let answer = look().map_err(|error: platform::Error| failed("waiting")(error))?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            sleep(Duration::from_millis(1));
        }
        Err("the peer does not answer".into())
    }

    /// Ends the peer's part.
    pub fn dismiss(&self) -> Result<(), Failure> {
        self.order(Command::Leave, 0)?;
        self.answer().map(|_| ())
    }

    /// Plays along until the measuring side says that it is over.
    pub fn serve(&self) -> Result<(), Failure> {
        let mut done = 0;
        let mut last = Instant::now();
        while last.elapsed() < PATIENCE {
            let word = self.control.load_acquire_u64(COMMAND);
            let word = word.map_err(failed("the control page"))?;
            if word >> 8 == done {
                sleep(Duration::from_millis(1));
                continue;
            }
            let argument = self.control.read(ARGUMENT);
            let argument = argument.map_err(failed("the control page"))?;
            let command = word & 0xff;
            let answer = match command {
                command if command == Command::Play as u64 => pingpong::play(self, argument)?,
                command if command == Command::Fill as u64 => copies::fill(self, argument)?,
                command if command == Command::Sum as u64 => copies::sum(self, argument)?,
                command if command == Command::Leave as u64 => 0,
                _ => return Err("an order nobody knows".into()),
            };
            done = word >> 8;
            let answered = || {
                self.control.write(ANSWER, answer)?;
                self.control.store_release_u64(ANSWERED, done)
            };
            answered().map_err(failed("the control page"))?;
            if command == Command::Leave as u64 {
                // Its memory must not be somebody else's before the other side has looked.
                sleep(Duration::from_millis(100));
                return Ok(());
            }
            last = Instant::now();
        }
        Err("the measuring side does not say anything".into())
    }
}

fn scattered(allocator: &Allocator, bytes: usize) -> Result<Scattered, Failure> {
    let fill = || {
        let mut memory = allocator.reserve(bytes)?;
        while allocator.fill(&mut memory)? {}
        Ok(memory)
    };
    fill().map_err(|error: platform::Error| {
        alloc::format!(
            "{} MiB of memory: {error}; use a smaller --size",
            bytes >> 20
        )
    })
}

fn write_pieces(control: &Region, pieces: &[(u64, u64)]) -> platform::Result<()> {
    control.write(PIECES, pieces.len() as u64)?;
    for (index, (physical, bytes)) in pieces.iter().enumerate() {
        control.write(PIECES + 8 + 16 * index, *physical)?;
        control.write(PIECES + 16 + 16 * index, *bytes)?;
    }
    Ok(())
}

fn read_pieces(control: &Region) -> platform::Result<Vec<(u64, u64)>> {
    let count = control.read::<u64>(PIECES)?.min(MAX_PIECES as u64);
    let mut pieces = Vec::new();
    for index in 0..count as usize {
        let physical = control.read(PIECES + 8 + 16 * index)?;
        pieces.push((physical, control.read(PIECES + 16 + 16 * index)?));
    }
    Ok(pieces)
}
