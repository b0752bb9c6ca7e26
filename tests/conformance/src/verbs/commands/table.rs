//! The table of commands, and the conditions of `refusals.txt`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use verbs_abi::command::Command::{self, *};

use crate::errno::{EBADF, EBUSY, EINVAL, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP, EPERM, Errno};

/// A field of a request: its offset, its bytes, its value.
pub type Field = (usize, usize, u64);

/// A request that works, unless it has a `result`.
pub struct Good {
    pub command: Command,
    pub is_extended: bool,
    pub request: usize,
    pub answer: usize,
    pub fields: &'static [Field],
    /// The error of the request on the bench's objects; `None` if it works.
    pub result: Option<Errno>,
}

const fn plain(command: Command, request: usize, answer: usize, fields: &'static [Field]) -> Good {
    Good {
        command,
        is_extended: false,
        request,
        answer,
        fields,
        result: None,
    }
}

const fn extended(
    command: Command,
    request: usize,
    answer: usize,
    fields: &'static [Field],
) -> Good {
    Good {
        is_extended: true,
        ..plain(command, request, answer, fields)
    }
}

const fn refused(good: Good, errno: Errno) -> Good {
    Good {
        result: Some(errno),
        ..good
    }
}

// Handles of the bench's objects, in the order in which they are made.
pub const PD: u64 = 0;
pub const CQ: u64 = 1;
pub const SRQ: u64 = 2;
pub const QP: u64 = 3;
pub const MR: u64 = 4;
pub const AH: u64 = 5;
pub const XRCD: u64 = 6;
pub const FREE_CQ: u64 = 7;
pub const FREE_PD: u64 = 8;
pub const MW: u64 = 9;
pub const UD: u64 = 10;
pub const NONE: u64 = 99;
const NO_CHANNEL: u64 = u32::MAX as u64;
const CREATE: u64 = 0x0200_0000;

/// The masks for INIT (STATE, PKEY_INDEX, PORT and ACCESS_FLAGS), for INIT of a UD queue pair, for
/// RTR, and for RTS.
const TO_INIT: u64 = 1 | 1 << 3 | 1 << 4 | 1 << 5;
const TO_INIT_UD: u64 = 1 | 1 << 4 | 1 << 5 | 1 << 6;
const TO_RTR: u64 = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
const TO_RTS: u64 = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
pub const INIT: &[Field] = &[(64, 4, QP), (68, 4, TO_INIT), (96, 1, 1), (104, 1, 1)];
pub const INIT_UD: &[Field] = &[(64, 4, UD), (68, 4, TO_INIT_UD), (96, 1, 1), (104, 1, 1)];
pub const RTR: &[Field] = &[
    (64, 4, QP),
    (68, 4, TO_RTR),
    (20, 2, 1),
    (31, 1, 1),
    (84, 4, 0x44_0000),
    (96, 1, 2),
    (98, 1, 5),
    (102, 1, 1),
    (103, 1, 12),
];
pub const RTS: &[Field] = &[
    (64, 4, QP),
    (68, 4, TO_RTS),
    (96, 1, 3),
    (101, 1, 1),
    (105, 1, 14),
    (106, 1, 7),
    (107, 1, 7),
];

/// All commands that have a function.
#[rustfmt::skip]
pub const GOOD: &[Good] = &[
    refused(plain(GetContext, 8, 8, &[]), EINVAL),
    plain(QueryDevice, 8, 176, &[]),
    extended(QueryDevice, 8, 184, &[]),
    plain(QueryPort, 16, 40, &[(8, 1, 1)]),
    plain(AllocPd, 8, 4, &[]),
    plain(DeallocPd, 4, 0, &[(0, 4, FREE_PD)]),
    plain(CreateAh, 56, 4, &[(16, 4, PD), (48, 2, 1), (54, 1, 1)]),
    plain(DestroyAh, 4, 0, &[(0, 4, AH)]),
    plain(RegMr, 40, 12, &[(8, 8, 0x5678), (16, 8, 0x1000), (24, 8, 0x5678), (32, 4, PD),
        (36, 4, 7)]),
    plain(ReregMr, 48, 8, &[(8, 4, MR), (12, 4, 4), (44, 4, 1)]),
    plain(DeregMr, 4, 0, &[(0, 4, MR)]),
    plain(AllocMw, 16, 8, &[(8, 4, PD), (12, 1, 1)]),
    plain(DeallocMw, 4, 0, &[(0, 4, MW)]),
    plain(CreateCompChannel, 8, 4, &[]),
    plain(CreateCq, 32, 8, &[(16, 4, 16), (24, 4, NO_CHANNEL)]),
    extended(CreateCq, 32, 16, &[(8, 4, 16), (16, 4, NO_CHANNEL)]),
    plain(ResizeCq, 16, 4, &[(8, 4, CQ), (12, 4, 32)]),
    plain(DestroyCq, 16, 8, &[(8, 4, FREE_CQ)]),
    plain(PollCq, 16, 8, &[(8, 4, CQ), (12, 4, 0)]),
    plain(ReqNotifyCq, 8, 0, &[(0, 4, CQ)]),
    plain(CreateQp, 56, 32, &[(16, 4, PD), (20, 4, CQ), (24, 4, CQ), (28, 4, NONE), (32, 4, 4),
        (36, 4, 4), (40, 4, 1), (44, 4, 1), (53, 1, 2)]),
    extended(CreateQp, 64, 40, &[(8, 4, PD), (12, 4, CQ), (16, 4, CQ), (45, 1, 2)]),
    refused(plain(OpenQp, 32, 32, &[(16, 4, XRCD)]), EOPNOTSUPP),
    plain(QueryQp, 16, 128, &[(8, 4, QP)]),
    plain(ModifyQp, 112, 0, INIT),
    extended(ModifyQp, 120, 0, INIT),
    plain(DestroyQp, 16, 4, &[(8, 4, QP)]),
    plain(PostSend, 24, 4, &[(8, 4, QP), (20, 4, 56)]),
    plain(PostRecv, 24, 4, &[(8, 4, QP), (20, 4, 16)]),
    plain(PostSrqRecv, 24, 4, &[(8, 4, SRQ), (20, 4, 16)]),
    plain(AttachMcast, 24, 0, GROUP),
    refused(plain(DetachMcast, 24, 0, GROUP), EINVAL),
    plain(CreateSrq, 32, 16, &[(16, 4, PD), (20, 4, 8), (24, 4, 1)]),
    plain(ModifySrq, 16, 0, &[(0, 4, SRQ), (4, 4, 2), (12, 4, 4)]),
    plain(QuerySrq, 16, 16, &[(8, 4, SRQ)]),
    plain(DestroySrq, 16, 4, &[(8, 4, SRQ)]),
    plain(OpenXrcd, 16, 4, &[(8, 4, NO_CHANNEL), (12, 4, CREATE)]),
    plain(CloseXrcd, 4, 0, &[(0, 4, XRCD)]),
    plain(CreateXsrq, 48, 16, &[(20, 4, PD), (24, 4, 8), (28, 4, 1), (40, 4, XRCD),
        (44, 4, CQ)]),
];

const GROUP: &[Field] = &[
    (0, 8, 0x12ff),
    (8, 8, 9 << 56),
    (16, 4, UD),
    (20, 2, 0xc001),
];

/// Commands that have no function on Linux either.
pub const MISSING: [Command; 6] = [ModifyAh, QueryAh, RegSmr, QueryMr, BindMw, PeekCq];

/// The changes of the UD queue pair to RTR and RTS.
const RTR_UD: &[Field] = &[(64, 4, UD), (68, 4, 1), (96, 1, 2)];
const RTS_UD: &[Field] = &[(64, 4, UD), (68, 4, 1 | 1 << 16), (96, 1, 3)];
/// A send and a receive with one element, and their sizes in bytes.
pub const SEND: &[Field] = &[(0, 8, 1), (8, 4, 1), (12, 4, 2), (16, 4, 2)];
pub const RECEIVE: &[Field] = &[(0, 8, 1), (8, 4, 1)];
const SEND_BYTES: usize = 56 + 16;
const RECEIVE_BYTES: usize = 16 + 16;
/// One request with one element.
pub const ONE: &[Field] = &[(12, 4, 1), (16, 4, 1)];

/// A command that precedes another one.
pub type Step = (Command, &'static [Field]);

/// A condition of a single command.
pub struct Refusal {
    /// The command.
    pub command: Command,
    /// Whether it is the extended form.
    pub is_extended: bool,
    /// The condition.
    pub when: &'static str,
    /// Commands to execute before it, which work.
    pub before: Vec<Step>,
    /// Fields of the request.
    pub fields: Vec<Field>,
    /// Fields of the list behind the request.
    pub behind: Vec<Field>,
    /// The error; `None` if it works.
    pub result: Option<Errno>,
    /// The error for root.
    pub of_root: Option<Errno>,
}

/// Bytes of the list behind a request.
pub const fn behind_bytes(command: Command) -> usize {
    match command {
        PostSend => SEND_BYTES,
        _ => RECEIVE_BYTES,
    }
}

/// The conditions; `None` for a malformed line.
pub fn refusals() -> Vec<Option<Refusal>> {
    let lines = include_str!("refusals.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(refusal).collect()
}

fn refusal(line: &'static str) -> Option<Refusal> {
    let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
    let [name, when, before, fields, behind, result] = <[_; 6]>::try_from(cells).ok()?;
    let (name, is_extended) = match name.strip_suffix("Ex") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let known = |command: &Command| alloc::format!("{command:?}") == name;
    let command = Command::ALL.into_iter().find(known)?;
    let before: Option<Vec<Step>> = before.split_whitespace().map(step).collect();
    let before = before?;
    let mut all = match before.last() {
        // The request makes the next change of state.
        Some((ModifyQp, INIT)) if command == ModifyQp => RTR.to_vec(),
        Some((ModifyQp, _)) if command == ModifyQp => RTS.to_vec(),
        _ => Vec::new(),
    };
    all.extend(parsed(fields)?);
    let (for_users, for_root) = result.split_once(" / ").unwrap_or((result, result));
    Some(Refusal {
        command,
        is_extended,
        when,
        before,
        fields: all,
        behind: match behind {
            "SEND" => SEND.to_vec(),
            "RECEIVE" => RECEIVE.to_vec(),
            fields => parsed(fields)?,
        },
        result: ending(for_users)?,
        of_root: ending(for_root)?,
    })
}

fn step(word: &str) -> Option<Step> {
    Some(match word {
        "INIT" => (ModifyQp, INIT),
        "RTR" => (ModifyQp, RTR),
        "RTS" => (ModifyQp, RTS),
        "INIT_UD" => (ModifyQp, INIT_UD),
        "RTR_UD" => (ModifyQp, RTR_UD),
        "RTS_UD" => (ModifyQp, RTS_UD),
        "ATTACHED" => (AttachMcast, &[]),
        "SHARED" => (CreateQp, &[(28, 4, SRQ), (54, 1, 1)]),
        "XSRQ" => (CreateXsrq, &[(16, 4, 1)]),
        _ => return None,
    })
}

/// Fields as `where:bytes=value`.
fn parsed(fields: &str) -> Option<Vec<Field>> {
    let field = |word: &str| {
        let (place, value) = word.split_once('=')?;
        let (at, count) = place.split_once(':')?;
        let value = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
        Some((at.parse().ok()?, count.parse().ok()?, value))
    };
    fields.split_whitespace().map(field).collect()
}

/// Parses the result of a command: the name of an error, or that it works.
fn ending(name: &str) -> Option<Option<Errno>> {
    const ERRORS: [Errno; 8] = [
        EBADF, EBUSY, EINVAL, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP, EPERM,
    ];
    let error = |known: &Errno| alloc::format!("{known}") == name;
    match name {
        "works" => Some(None),
        _ => ERRORS.into_iter().find(error).map(Some),
    }
}

/// Stores a field.
pub fn put(bytes: &mut Vec<u8>, (at, count, value): Field) {
    if bytes.len() < at + count {
        bytes.resize(at + count, 0);
    }
    bytes[at..at + count].copy_from_slice(&value.to_le_bytes()[..count]);
}

/// Puts a frame around a request.
pub fn frame(command: Command, is_extended: bool, request: &[u8], room: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let flag = u64::from(is_extended) << 31;
    put(&mut bytes, (0, 4, u64::from(command.number()) | flag));
    match is_extended {
        true => {
            put(&mut bytes, (4, 2, (request.len() / 8) as u64));
            put(&mut bytes, (6, 2, (room / 8) as u64));
            put(&mut bytes, (8, 8, if room > 0 { 0x1000 } else { 0 }));
            put(&mut bytes, (16, 8, 0));
        }
        false => {
            put(&mut bytes, (4, 2, ((8 + request.len()) / 4) as u64));
            put(&mut bytes, (6, 2, (room / 4) as u64));
        }
    }
    bytes.extend(request);
    bytes
}

/// The request of a command that works.
pub fn good(command: Command, is_extended: bool) -> Option<&'static Good> {
    let mut rows = GOOD.iter();
    rows.find(|row| (row.command, row.is_extended) == (command, is_extended))
}

impl Good {
    /// Its name.
    pub fn name(&self) -> String {
        match self.is_extended {
            true => format!("{:?}Ex", self.command),
            false => format!("{:?}", self.command),
        }
    }

    /// Bytes in a word of its frame.
    pub const fn word(&self) -> usize {
        if self.is_extended { 8 } else { 4 }
    }

    /// The request, with some fields changed.
    pub fn request(&self, fields: &[Field]) -> Vec<u8> {
        let mut request = vec![0; self.request];
        for field in self.fields.iter().chain(fields) {
            put(&mut request, *field);
        }
        request
    }

    /// Room for its answer in whole words.
    pub const fn room(&self) -> usize {
        self.answer.next_multiple_of(self.word())
    }

    /// The whole command.
    pub fn frame(&self, fields: &[Field]) -> Vec<u8> {
        frame(
            self.command,
            self.is_extended,
            &self.request(fields),
            self.room(),
        )
    }
}
