//! What a process does with signals, and those that wait for it.

use alloc::collections::BTreeMap;

use libredox::protocol::{SIGCHLD, SIGCONT};

/// Number of a process; 0 means none.
pub type Pid = u32;

/// The highest number of a signal.
pub const HIGHEST: usize = 64;
pub(crate) const SIGKILL: usize = 9;
const SIGSTOP: usize = 19;

/// What a signal does to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// It ends the process.
    Kill,
    /// It waits until the process fetches it.
    Wait,
}

/// The process that has sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its number.
    pub pid: Pid,
    /// Its real user.
    pub uid: u32,
    /// The status with which it has ended, for the signal of its end.
    pub status: Option<usize>,
}

/// A signal that a process has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The signal.
    pub number: usize,
    /// Who has sent it.
    pub from: Sender,
}

/// What a child runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The program of its parent, which handles the same signals.
    SameProgram,
    /// Another program.
    Another,
}

/// Signals by their numbers: signal n is bit n - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Those that wait until the process fetches them.
    pub caught: u64,
    /// Those that have no effect.
    pub ignored: u64,
}

/// The signals of a process.
#[derive(Debug, Default)]
pub struct Signals {
    choice: Choice,
    /// At most one of each number waits, the first one that came.
    waiting: BTreeMap<usize, Sender>,
}

fn bit(number: usize) -> u64 {
    1 << (number - 1)
}

impl Signals {
    /// Those of a child, for which none waits yet. A child that runs the same program catches the
    /// same ones.
    pub fn of_child(&self, runs: Runs) -> Signals {
        let choice = match runs {
            Runs::SameProgram => self.choice,
            // A program that has not asked for it wants to know how its children end.
            Runs::Another => Choice {
                caught: 0,
                ignored: self.choice.ignored & !bit(SIGCHLD),
            },
        };
        Signals {
            choice,
            waiting: BTreeMap::new(),
        }
    }

    /// Chooses anew. Returns the former choice. Signals that wait stay.
    pub fn choose(&mut self, choice: Choice) -> Choice {
        let fixed = bit(SIGKILL) | bit(SIGSTOP);
        let choice = Choice {
            caught: choice.caught & !fixed,
            ignored: choice.ignored & !fixed,
        };
        core::mem::replace(&mut self.choice, choice)
    }

    /// Whether the process does not want to know how its children end, as it ignores SIGCHLD.
    pub fn forgets_children(&self) -> bool {
        self.choice.ignored & bit(SIGCHLD) != 0
    }

    /// The present choice.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// What a signal does. `None` if there is no such signal, or if it would stop the process,
    /// which is not supported.
    pub fn effect(&self, number: usize) -> Option<Effect> {
        const SIGTTOU: usize = 22;
        const SIGURG: usize = 23;
        const SIGWINCH: usize = 28;
        match number {
            0 => Some(Effect::Nothing),
            1..=HIGHEST if self.choice.ignored & bit(number) != 0 => Some(Effect::Nothing),
            1..=HIGHEST if self.choice.caught & bit(number) != 0 => Some(Effect::Wait),
            SIGCHLD | SIGCONT | SIGURG | SIGWINCH => Some(Effect::Nothing),
            SIGSTOP..=SIGTTOU => None,
            1..=HIGHEST => Some(Effect::Kill),
            _ => None,
        }
    }

    /// Lets a signal wait.
    pub fn arrive(&mut self, number: usize, from: Sender) {
        self.waiting.entry(number).or_insert(from);
    }

    /// Fetches the signal with the lowest number.
    pub fn fetch(&mut self) -> Option<Arrival> {
        let (number, from) = self.waiting.pop_first()?;
        Some(Arrival { number, from })
    }
}

/// Number of bytes of an arrival.
pub const ARRIVAL_BYTES: usize = 16;

/// The bytes of an arrival, in the form that clients read: number, sender, its user, and its status
/// or all ones, as words of 32 bits.
pub fn arrival_bytes(arrival: &Arrival) -> [u8; ARRIVAL_BYTES] {
    let mut bytes = [0; ARRIVAL_BYTES];
    let status = arrival.from.status.map_or(u32::MAX, |status| status as u32);
    let Sender { pid, uid, .. } = arrival.from;
    let words = [arrival.number as u32, pid, uid, status];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
