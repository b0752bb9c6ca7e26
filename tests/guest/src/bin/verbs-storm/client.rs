//! Clients: messages, writes, reads and atomic operations, with an answer to each message.

use alloc::string::String;

use guest_tests::pattern::Random;
use runtime::time::{Duration, sleep};
use scif::{Options, PortId, RecvFlags};
use verbs::Remote;

use super::end::{CONSTANT, End, SLOT, SLOTS, WORD, byte};
use super::{Deadline, Step, TIME_LIMIT, Tally, Trouble, wrong};

/// Messages without an answer, at most: fewer than slots.
const MOST_WITHOUT_ANSWER: u32 = 8;
/// Kinds of messages.
pub const PLAIN: u32 = 1;
pub const DATA: u32 = 2;
pub const LEAVE: u32 = 3;
/// Bytes of what the server says first: address and key of its memory.
pub const PLACE: usize = 12;

/// Runs sessions until it is killed, or one that must succeed.
pub fn run(seed: u64, to: PortId, once: bool) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut tally = Tally::new(seed);
    let deadline = Deadline::from_now();
    loop {
        match session(&mut random, to, once) {
            Ok(was_lost) => {
                tally.add(was_lost);
                match (once, was_lost) {
                    (true, false) => return Ok(()),
                    _ if once && deadline.has_passed() => return Err("the server dies".into()),
                    _ => {}
                }
            }
            Err(Trouble::Gone) if once && deadline.has_passed() => {
                return Err("there is no server".into());
            }
            Err(Trouble::Gone) => sleep(Duration::from_millis(5)),
            Err(Trouble::Wrong(what)) => return Err(what),
        }
    }
}

/// A session with a server.
struct Session {
    end: End,
    /// The server's memory.
    far: (u64, u32),
    sent: u32,
    answered: u32,
    counted: u64,
}

/// One session; whether the server was lost.
fn session(random: &mut Random, to: PortId, is_patient: bool) -> Step<bool> {
    let limit = if is_patient {
        TIME_LIMIT
    } else {
        Duration::from_millis(200)
    };
    let connected = Options::new().retry_for(limit).connect(to);
    let endpoint = connected.map_err(|_| Trouble::Gone)?;
    let end = End::new(&endpoint)?;
    let mut place = [0; PLACE];
    match endpoint.recv(&mut place, RecvFlags::BLOCK) {
        Ok(PLACE) => {}
        _ => return Err(Trouble::Gone),
    }
    let (address, key) = place.split_at(8);
    let far = (
        u64::from_le_bytes(address.try_into().unwrap_or_default()),
        u32::from_le_bytes(key.try_into().unwrap_or_default()),
    );
    let mut session = Session {
        end,
        far,
        sent: 0,
        answered: 0,
        counted: 0,
    };
    let count = 20 + random.up_to(200) as u32;
    let was_lost = !session.play(random, count)?;
    session.end.close()?;
    Ok(was_lost)
}

impl Session {
    fn place(&self, at: usize) -> Remote {
        let (address, key) = self.far;
        Remote {
            address: address + at as u64,
            key,
        }
    }

    /// Sends this number of messages and leaves. `false`: the server was lost.
    fn play(&mut self, random: &mut Random, count: u32) -> Step<bool> {
        while self.sent < count {
            if !self.request(random)? {
                return self.lost();
            }
            while self.sent - self.answered >= MOST_WITHOUT_ANSWER {
                if !self.look()? {
                    return self.lost();
                }
            }
        }
        let deadline = Deadline::from_now();
        while self.answered < self.sent || self.end.outstanding() > 0 {
            if !self.look()? {
                return self.lost();
            }
            if deadline.has_passed() {
                return wrong("answers do not come");
            }
        }
        self.end.send([LEAVE, self.sent, 0, 0])?;
        while self.end.outstanding() > 0 {
            if !self.look()? {
                return self.lost();
            }
        }
        Ok(true)
    }

    fn lost(&mut self) -> Step<bool> {
        self.end.is_lost(self.answered > 0)?;
        Ok(false)
    }

    /// Takes what has completed. `false`: something has failed.
    fn look(&mut self) -> Step<bool> {
        let goes_on = self.end.finish_sends()?;
        let Some(messages) = self.end.messages()? else {
            return Ok(false);
        };
        for [kind, number, ..] in messages {
            if (kind, number) != (PLAIN, self.answered) {
                return wrong(alloc::format!("answer {number}, not {}", self.answered));
            }
            self.answered += 1;
        }
        Ok(goes_on)
    }

    /// Waits for all sends; `false`: one has failed.
    fn flush(&mut self) -> Step<bool> {
        let deadline = Deadline::from_now();
        while self.end.outstanding() > 0 {
            if !self.look()? {
                return Ok(false);
            }
            if deadline.has_passed() {
                return wrong("a send hangs");
            }
        }
        Ok(true)
    }

    fn request(&mut self, random: &mut Random) -> Step<bool> {
        let posted = |error: verbs::Error| super::end::gone(&error);
        match random.up_to(5) {
            1 => {
                // Data, and a message that tells of it.
                let length = 1 + random.up_to(SLOT as u64 - 1) as usize;
                let at = (self.sent % SLOTS) as usize * SLOT;
                let number = self.sent;
                let bytes: alloc::vec::Vec<u8> = (0..length).map(|at| byte(number, at)).collect();
                self.end.store(at, &bytes)?;
                let segment = self.end.segment(at, length)?;
                let id = self.end.number();
                let written = self.end.pair.write(id, &[segment], self.place(at));
                written.map_err(posted)?;
                self.message(DATA, length as u32)?;
            }
            2 => {
                if !self.flush()? {
                    return Ok(false);
                }
                let length = 1 + random.up_to(SLOT as u64 - 1) as usize;
                let at = (self.sent % SLOTS) as usize * SLOT;
                let segment = self.end.segment(at, length)?;
                let id = self.end.number();
                let read = self.end.pair.read(id, &[segment], self.place(CONSTANT));
                read.map_err(posted)?;
                if !self.flush()? {
                    return Ok(false);
                }
                let found = self.end.load(at, length)?;
                let wanted = (0..length).map(|at| byte(7, at));
                if !found.into_iter().eq(wanted) {
                    return wrong("a read brings other bytes");
                }
            }
            3 => {
                if !self.flush()? {
                    return Ok(false);
                }
                let before = self.end.segment(WORD, 8)?;
                let id = self.end.number();
                let place = self.place(WORD);
                let added = self.end.pair.fetch_and_add(id, before, place, 1);
                added.map_err(posted)?;
                if !self.flush()? {
                    return Ok(false);
                }
                let found = self.end.load(WORD, 8)?;
                let found = u64::from_le_bytes(found.try_into().unwrap_or_default());
                if found != self.counted {
                    return wrong(alloc::format!("counted {found}, not {}", self.counted));
                }
                self.counted += 1;
            }
            _ => self.message(PLAIN, 0)?,
        }
        self.look()
    }

    fn message(&mut self, kind: u32, length: u32) -> Step {
        let number = self.sent;
        self.sent += 1;
        self.end.send([kind, number, length, !number])
    }
}
