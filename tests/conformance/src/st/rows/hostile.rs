//! A peer that breaks the rules: fixed violations, each of which its victim must find, and random
//! stores.

use alloc::format;
use alloc::vec::Vec;

use st_core::queue::{LINE, Layout};
use st_core::record::{Parameters, RECORD_BYTES, Record};

use super::six::stream;
use crate::errno::{EAGAIN, EPROTO};
use crate::st::bench::{Bench, Checked, End, Ends, Place, Side, ensure, number::*};
use crate::st::call::Call;

/// A violation of the rules.
#[derive(Clone, Copy, Debug)]
enum Nonsense {
    /// A slot with an invalid kind.
    Kind,
    /// Only the first slot of a descriptor of two.
    Half,
    /// More slots taken than were filled.
    Credit,
    /// A record that is none.
    Record,
    /// Memory whose end is beyond the address space.
    Memory,
}

const ALL: [Nonsense; 5] = [
    Nonsense::Kind,
    Nonsense::Half,
    Nonsense::Credit,
    Nonsense::Record,
    Nonsense::Memory,
];

const CHANNELS: u32 = 4;
const SLOTS: u32 = 64;
/// Offsets in a queue window: the count of slots of channel 0 that were taken; its first slot;
/// within a slot, the kind and the sequence number.
const TAKEN: u64 = 0;
const FIRST_SLOT: u64 = (CHANNELS as u64) * (LINE as u64);
const KIND: u64 = 56;
const SEQUENCE: u64 = 60;

pub(super) fn nonsense(bench: &mut Bench<'_>) -> Checked {
    let others = bench.ends_joined()?;
    for kind in ALL {
        let named = |what| format!("{kind:?}: {what}");
        let peer = Hostile::meet(bench).map_err(named)?;
        peer.spoil(bench, kind).map_err(named)?;
        let a = peer.a;
        let found = match kind {
            Nonsense::Credit => fill_up(bench, a),
            Nonsense::Half => {
                let call = Call::Receive {
                    handle: a.slot,
                    given: 1,
                    payload: 1,
                };
                bench.fails((Side::A, call), EPROTO)
            }
            _ => bench.fails(a.pull(true, 0, 0, 0), EPROTO),
        };
        found.map_err(named)?;
        bench.fails(a.pull(true, 0, 0, 0), EPROTO).map_err(named)?;
        bench
            .fails(a.push(Some(1), 0, 0, 0), EPROTO)
            .map_err(named)?;
        peer.part(bench, others)?;
    }
    let seed = bench.driver().seed();
    for round in 0..RANDOM_ROUNDS {
        let named = |what| format!("seed {seed:#x}, round {round}: {what}");
        let peer = Hostile::meet(bench).map_err(named)?;
        let numbers = Numbers(seed.wrapping_add(round));
        peer.storm(bench, numbers).map_err(named)?;
        peer.part(bench, others).map_err(named)?;
    }
    Ok(())
}

/// Pushes headers until the victim checks credits.
fn fill_up(bench: &mut Bench<'_>, end: End) -> Checked {
    // There are a quarter more places than slots; credit is checked when no place is left.
    const PLACES: u64 = (SLOTS + SLOTS / 4) as u64;
    for number in 0..PLACES {
        let reply = bench.call(end.push(Some(number), 0, 0, 0))?;
        if reply.result == Err(EPROTO) {
            return Ok(());
        }
        ensure(reply.result == Ok(0), || format!("push {number}: {reply}"))?;
    }
    bench.fails(end.push(Some(PLACES), 0, 0, 0), EPROTO)
}

/// Connections with a peer that stores random words, and the number of words for each.
const RANDOM_ROUNDS: u64 = 6;
const RANDOM_STORES: u64 = 40;

/// Random numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn number(&mut self) -> u64 {
        // Never 0, from which the generator would not move.
        let mut number = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        self.0 = number;
        number
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.number() >> 16) % end
    }

    /// A place in A's queue window: in the words of channel 0, in its first slots, or anywhere.
    fn place(&mut self) -> u64 {
        const LINE_BYTES: u64 = LINE as u64;
        match self.below(3) {
            0 => 4 * self.below(LINE_BYTES / 4),
            1 => FIRST_SLOT + LINE_BYTES * self.below(8) + KIND + 4 * self.below(2),
            _ => 4 * self.below(LINE_BYTES * u64::from(CHANNELS * (1 + SLOTS)) / 4),
        }
    }

    /// A word that is valid in some place, or any word.
    fn value(&mut self) -> u64 {
        match self.below(3) {
            0 => self.below(5),
            1 => u64::from(u32::MAX) - self.below(3),
            _ => self.number() & u64::from(u32::MAX),
        }
    }
}

/// A peer of A's that makes SCIF's calls at B.
struct Hostile {
    a: End,
    /// The slot of its connection at B.
    socket: u64,
    /// The address at B where A's queue window is mapped; 0 in the simulator.
    window: u64,
}

impl Hostile {
    fn meet(bench: &mut Bench<'_>) -> Checked<Hostile> {
        if bench.place() == Place::Sim {
            let ends = bench.ends_joined()?;
            return Ok(Hostile {
                a: ends.a,
                socket: ends.b.socket.slot,
                window: 0,
            });
        }
        let (listener, socket, port) = (bench.slot(), bench.slot(), bench.port());
        let here = |call| (Side::B, call);
        bench.ok(here(Call::Scif {
            socket: listener,
            port,
        }))?;
        let client = bench.socket_with(Side::A, &[(ST_BYPASS, 1)])?;
        let connecting = bench.begin(bench.connect(client, port))?;
        bench.ok(here(Call::ScifAccept {
            socket: listener,
            into: socket,
        }))?;
        let layout = Layout::new(CHANNELS, SLOTS).ok_or("no layout")?;
        let length = (layout.bytes() as u64).next_multiple_of(4096);
        let own = bench.reply(here(Call::ScifRegister { socket, length }))?;
        let request = bench.reply(here(Call::ScifRecv { socket }))?.extra;
        let bytes: Vec<u8> = request.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes: [u8; RECORD_BYTES] = bytes.try_into().map_err(|_| "a short record")?;
        let Ok(Record::Request(told)) = Record::decode(&bytes) else {
            return Err(format!("A begins with {request:?}"));
        };
        let answer = Record::Answer(Parameters {
            port: port as u16,
            key: 88,
            bypass: true,
            channels: CHANNELS,
            slots: SLOTS,
            window: own.result.unwrap_or(0),
        });
        bench.gives(here(record(socket, &answer.encode())), 72)?;
        bench.ends(connecting, Ok(0))?;
        let offset = told.window as u64;
        let window = bench.reply(here(Call::ScifMap {
            socket,
            offset,
            length,
        }))?;
        Ok(Hostile {
            a: bench.attach(client, 0)?,
            socket,
            window: window.result.unwrap_or(0) as u64,
        })
    }

    /// Stores a word of 4 bytes into A's queue window.
    fn store(&self, bench: &mut Bench<'_>, at: u64, value: u64) -> Checked {
        let Hostile { socket, window, .. } = *self;
        let call = match bench.place() {
            Place::Sim => Call::Scribble {
                socket,
                offset: at,
                value,
            },
            _ => Call::Store4 {
                address: window + at,
                value,
            },
        };
        bench.ok((Side::B, call))
    }

    /// Stores random words while A pushes and pulls. A's calls find nothing, or a header, or the
    /// violation. At the end it stores an impossible credit, which A must find.
    fn storm(&self, bench: &mut Bench<'_>, mut numbers: Numbers) -> Checked {
        let a = self.a;
        bench.ok(a.socket.nonblocking(true))?;
        for _ in 0..RANDOM_STORES {
            let (at, value) = (numbers.place(), numbers.value());
            self.store(bench, at, value)?;
            let call = match numbers.below(3) {
                0 => a.push(Some(numbers.number()), 0, 0, 0),
                1 => a.pull(true, 0, 0, 0),
                _ => {
                    let (handle, given, payload) = (a.slot, 1, 1);
                    (
                        Side::A,
                        Call::Receive {
                            handle,
                            given,
                            payload,
                        },
                    )
                }
            };
            let reply = bench.call(call)?;
            let is_known = matches!(reply.result, Ok(0) | Err(EAGAIN | EPROTO));
            ensure(is_known, || {
                format!("{value:#x} at {at}: {call:?} gave {reply}")
            })?;
        }
        bench.ok(a.socket.nonblocking(false))?;
        self.store(bench, TAKEN, u64::from(u32::MAX))?;
        fill_up(bench, a)
    }

    /// A leaves, and other connections still work.
    fn part(&self, bench: &mut Bench<'_>, others: Ends) -> Checked {
        bench.ok(self.a.detach())?;
        bench.ok(self.a.socket.close())?;
        stream(bench, others.a, others.b, 100)?;
        stream(bench, others.b, others.a, 100)
    }

    fn spoil(&self, bench: &mut Bench<'_>, kind: Nonsense) -> Checked {
        let socket = self.socket;
        match kind {
            Nonsense::Kind => {
                self.store(bench, FIRST_SLOT + KIND, 99)?;
                self.store(bench, FIRST_SLOT + SEQUENCE, 1)
            }
            Nonsense::Half => {
                // A header of level 0 with payload.
                self.store(bench, FIRST_SLOT + KIND, 3)?;
                self.store(bench, FIRST_SLOT + SEQUENCE, 1)
            }
            Nonsense::Credit => self.store(bench, TAKEN, 1000),
            Nonsense::Record => {
                let call = record(socket, &[0x5a; RECORD_BYTES]);
                bench.gives((Side::B, call), 72).map(drop)
            }
            Nonsense::Memory => {
                let region = st_core::region::Region {
                    base: u64::MAX - 100,
                    length: 4096,
                    offset: 1 << 40,
                    origin: 0,
                    generation: 1,
                };
                let announce = Record::Announce { channel: 0, region };
                let call = record(socket, &announce.encode());
                bench.gives((Side::B, call), 72).map(drop)
            }
        }
    }
}

/// A call that sends a record.
fn record(socket: u64, bytes: &[u8; RECORD_BYTES]) -> Call {
    let word = |index: usize| {
        let from = bytes.get(8 * index..8 * index + 8);
        let word = from.and_then(|bytes| bytes.first_chunk());
        word.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    Call::ScifSend {
        socket,
        w0: word(0),
        w1: word(1),
        w2: word(2),
        w3: word(3),
        w4: word(4),
        w5: word(5),
        w6: word(6),
        w7: word(7),
        w8: word(8),
    }
}
