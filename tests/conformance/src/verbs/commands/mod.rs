//! Every command of user verbs with every error condition: the commands and their sizes in bytes,
//! and the answer to each. The layout is that of Linux's header `ib_user_verbs.h`, written here a
//! second time rather than taken from `verbs-abi`.
//!
//! Conditions of the frame are tried with every command; conditions of single commands are in
//! `refusals.txt`. A refused command changes nothing.

mod table;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use verbs_abi::command::Command::{self, *};
use verbs_abi::handles::{HANDLES, Handle, ObjectType};

use super::bench::Checked;
use super::run::Totals;
use crate::errno::{EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP, Errno};

use table::{
    AH, CQ, FREE_CQ, FREE_PD, GOOD, Good, INIT, MISSING, MR, MW, NONE, ONE, PD, QP, RECEIVE, RTR,
    RTS, SEND, SRQ, UD, XRCD, behind_bytes, good,
};
pub use table::{Field, Refusal, frame, put, refusals};

/// A device that executes commands.
pub trait Device {
    /// Opens a context, and leaves the former one.
    ///
    /// # Errors
    /// The errors of the place.
    fn open(&mut self) -> Checked;
    /// Executes a command by `call`, with this number of bytes of room for the answer.
    ///
    /// # Errors
    /// The errors of the command.
    fn call(&mut self, bytes: &[u8], room: usize) -> Result<Vec<u8>, Errno>;
    /// Executes a command by `write`.
    ///
    /// # Errors
    /// The errors of the command.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno>;
    /// The counts of all objects.
    ///
    /// # Errors
    /// The errors of the place.
    fn present(&mut self) -> Checked<Vec<u64>>;
    /// Leaves the context as the end of its program does. Returns its answer to later commands;
    /// `None` if nothing is left that could answer.
    ///
    /// # Errors
    /// The errors of the place.
    fn gone(&mut self) -> Checked<Option<Errno>>;
    /// Whether the caller is root.
    fn is_root(&self) -> bool;
}

/// A run of all rows on a device.
struct Runner<'a> {
    device: &'a mut dyn Device,
    totals: Totals,
    place: &'a str,
    print: &'a mut dyn FnMut(&str),
    /// Whether the context has only the bench's objects.
    is_fresh: bool,
    before: Vec<u64>,
}

/// The result of a command: the error, or `None`.
type Ending = Option<Errno>;

fn ending<T>(result: Result<T, Errno>) -> Ending {
    result.err()
}

impl Runner<'_> {
    /// Opens a context with one object of each type, if the present one is not fresh.
    fn bench(&mut self) -> Checked {
        if core::mem::replace(&mut self.is_fresh, true) {
            return Ok(());
        }
        self.device.open()?;
        let makes: [(Command, &[Field], Option<u64>); 12] = [
            (GetContext, &[], None),
            (AllocPd, &[], Some(PD)),
            (CreateCq, &[], Some(CQ)),
            (CreateSrq, &[], Some(SRQ)),
            (CreateQp, &[], Some(QP)),
            (RegMr, &[], Some(MR)),
            (CreateAh, &[], Some(AH)),
            (OpenXrcd, &[], Some(XRCD)),
            (CreateCq, &[], Some(FREE_CQ)),
            (AllocPd, &[], Some(FREE_PD)),
            (AllocMw, &[], Some(MW)),
            (CreateQp, &[(53, 1, 4)], Some(UD)),
        ];
        for (command, fields, handle) in makes {
            let answer = self.give(command, false, fields, &[])?;
            let answer = answer.map_err(|errno| format!("{command:?}: {errno}"))?;
            let found = answer.first_chunk().map(|word| u32::from_le_bytes(*word));
            if handle.is_some() && found.map(u64::from) != handle {
                return Err(format!(
                    "{command:?} gave the handle {found:?}, not {handle:?}"
                ));
            }
        }
        self.before = self.device.present()?;
        Ok(())
    }

    fn give(
        &mut self,
        command: Command,
        is_extended: bool,
        fields: &[Field],
        behind: &[Field],
    ) -> Checked<Result<Vec<u8>, Errno>> {
        let row = good(command, is_extended).ok_or("no such command")?;
        let mut request = row.request(fields);
        if !behind.is_empty() {
            request.resize(row.request + behind_bytes(command), 0);
        }
        for (at, count, value) in behind {
            put(&mut request, (row.request + at, *count, *value));
        }
        let bytes = frame(command, is_extended, &request, row.room());
        Ok(self.device.call(&bytes, row.room()))
    }

    /// Checks that a refused command has not changed the counts of objects.
    fn unchanged(&mut self, what: &str) -> Checked {
        let now = self.device.present()?;
        match now == self.before {
            true => Ok(()),
            false => Err(format!("{what} changed {:?} to {now:?}", self.before)),
        }
    }

    fn expect(&mut self, what: &str, found: Ending, wanted: Ending) -> Checked {
        if wanted.is_none() {
            self.is_fresh = false;
        }
        match found == wanted {
            true => Ok(()),
            false => {
                self.is_fresh = false;
                Err(format!("{what}: {found:?}, not {wanted:?}"))
            }
        }
    }

    fn report(&mut self, name: &str, found: Checked) {
        let name = format!("{} {name}", self.place);
        if found.is_err() {
            self.is_fresh = false;
        }
        self.totals.report(&name, found, self.print);
    }

    // ---- Conditions of every command ----

    fn works(&mut self, row: &Good) -> Checked {
        self.bench()?;
        let found = self.device.call(&row.frame(&[]), row.room());
        let enough = found.as_ref().map_or(0, Vec::len) >= row.answer || row.result.is_some();
        self.is_fresh = false;
        self.expect("as it is", ending(found), row.result)?;
        enough.then_some(()).ok_or("a short answer".into())
    }

    fn short_request(&mut self, row: &Good) -> Checked {
        self.bench()?;
        let request = row.request(&[]);
        for length in (0..row.request).step_by(row.word()) {
            let bytes = frame(row.command, row.is_extended, &request[..length], row.room());
            let found = ending(self.device.call(&bytes, row.room()));
            self.expect(&format!("{length} bytes"), found, Some(ENOSPC))?;
        }
        self.unchanged("a short request")
    }

    fn short_room(&mut self, row: &Good) -> Checked {
        self.bench()?;
        for room in (0..row.answer).step_by(row.word()) {
            let bytes = frame(row.command, row.is_extended, &row.request(&[]), room);
            let found = ending(self.device.call(&bytes, room));
            self.expect(&format!("room of {room}"), found, Some(ENOSPC))?;
        }
        self.unchanged("a small room")
    }

    fn lengths(&mut self, row: &Good) -> Checked {
        self.bench()?;
        let whole = row.frame(&[]);
        for length in 0..whole.len() {
            let found = ending(self.device.write(&whole[..length]));
            self.expect(&format!("{length} bytes of it"), found, Some(EINVAL))?;
        }
        let longer = [&whole[..], &[0; 4]].concat();
        let found = ending(self.device.write(&longer));
        self.expect("more than it says", found, Some(EINVAL))?;
        self.unchanged("a wrong length")
    }

    fn flags(&mut self, row: &Good) -> Checked {
        self.bench()?;
        for bit in 8..31 {
            let mut bytes = row.frame(&[]);
            bytes[bit / 8] |= 1 << (bit % 8);
            let found = ending(self.device.call(&bytes, row.room()));
            self.expect(&format!("bit {bit} of the number"), found, Some(EINVAL))?;
        }
        self.unchanged("unknown flags")
    }

    fn too_early(&mut self, row: &Good) -> Checked {
        self.is_fresh = false;
        self.device.open()?;
        let begins = row.command == GetContext;
        let wanted = if begins { None } else { Some(EINVAL) };
        let found = ending(self.device.call(&row.frame(&[]), row.room()));
        self.expect("before GET_CONTEXT", found, wanted)
    }

    fn other_form(&mut self, row: &Good) -> Checked {
        if good(row.command, !row.is_extended).is_some() {
            return Ok(());
        }
        self.bench()?;
        let bytes = frame(row.command, !row.is_extended, &[0; 128], 256);
        let found = ending(self.device.call(&bytes, 256));
        self.expect("the other form", found, Some(EOPNOTSUPP))?;
        self.unchanged("the other form")
    }

    fn of_nobody(&mut self, row: &Good) -> Checked {
        self.bench()?;
        let found = self.device.gone()?;
        self.is_fresh = false;
        let again = match found {
            // Nothing is left that could answer.
            None => return Ok(()),
            Some(errno) => errno,
        };
        let found = ending(self.device.call(&row.frame(&[]), row.room()));
        self.expect("the context has gone", found, Some(again))
    }

    fn extended_only(&mut self, row: &Good) -> Checked {
        if !row.is_extended {
            return Ok(());
        }
        self.bench()?;
        let mut reserved = row.frame(&[]);
        reserved[20] = 1;
        let found = ending(self.device.call(&reserved, row.room()));
        self.expect("reserved 1", found, Some(EINVAL))?;
        let request = [&row.request(&[])[..], &[1; 8]].concat();
        let unknown = frame(row.command, true, &request, row.room());
        let found = ending(self.device.call(&unknown, row.room()));
        self.expect("bytes that nobody knows", found, Some(EOPNOTSUPP))?;
        let mut nowhere = row.frame(&[]);
        nowhere[8..16].fill(0);
        if row.room() > 0 {
            let found = ending(self.device.write(&nowhere));
            self.expect("room without a place", found, Some(EINVAL))?;
        }
        let mut no_room = frame(row.command, true, &row.request(&[]), 0);
        no_room[8] = 1;
        let found = ending(self.device.write(&no_room));
        self.expect("a place without room", found, Some(EINVAL))?;
        self.unchanged("a wrong extended header")?;
        let request = [&row.request(&[])[..], &[0; 8]].concat();
        let longer = frame(row.command, true, &request, row.room());
        let found = ending(self.device.call(&longer, row.room()));
        self.expect("zeros that nobody knows", found, row.result)
    }

    fn handles(&mut self, row: &Good) -> Checked {
        if row.is_extended {
            return Ok(());
        }
        for Handle { offset, of, .. } in HANDLES.iter().filter(|of| of.command == row.command) {
            let other = if *of == ObjectType::Pd { MR } else { PD };
            for (handle, wanted) in [(NONE, ENOENT), (0xffff_ffff, ENOENT), (other, EINVAL)] {
                self.bench()?;
                let found = self.give(row.command, false, &[(*offset, 4, handle)], &[])?;
                let what = format!("handle {handle} at {offset}");
                self.expect(&what, ending(found), Some(wanted))?;
                self.unchanged(&what)?;
            }
        }
        Ok(())
    }

    // ---- Conditions of one ----

    fn refusal(&mut self, row: &Refusal) -> Checked {
        self.is_fresh &= row.before.is_empty();
        self.bench()?;
        for (command, fields) in &row.before {
            let done = self.give(*command, false, fields, &[])?;
            done.map_err(|errno| format!("before it, {command:?}: {errno}"))?;
        }
        let before = self.device.present()?;
        let wanted = if self.device.is_root() {
            row.of_root
        } else {
            row.result
        };
        let found = self.give(row.command, row.is_extended, &row.fields, &row.behind)?;
        self.is_fresh &= row.before.is_empty();
        self.expect(row.when, ending(found), wanted)?;
        let now = self.device.present()?;
        match wanted.is_none() || now == before {
            true => Ok(()),
            false => Err(format!("{} changed {before:?} to {now:?}", row.when)),
        }
    }

    fn missing(&mut self) -> Checked {
        self.bench()?;
        let numbers = MISSING.map(Command::number).into_iter().chain(41..256);
        for number in numbers {
            for is_extended in [false, true] {
                let mut bytes = frame(GetContext, is_extended, &[0; 64], 64);
                bytes[0] = number as u8;
                let found = ending(self.device.call(&bytes, 64));
                let what = format!("number {number}, extended {is_extended}");
                self.expect(&what, found, Some(EOPNOTSUPP))?;
            }
        }
        self.unchanged("a number without a command")
    }

    fn other_context(&mut self) -> Checked {
        // Handles of another program, or of an earlier one, have no meaning here.
        self.bench()?;
        self.is_fresh = false;
        self.device.open()?;
        let begun = self.give(GetContext, false, &[], &[])?;
        begun.map_err(|errno| format!("GET_CONTEXT: {errno}"))?;
        for Handle { command, .. } in HANDLES {
            let found = self.give(command, false, &[], &[])?;
            self.expect(&format!("{command:?}"), ending(found), Some(ENOENT))?;
        }
        Ok(())
    }

    /// Fills a queue to its size.
    fn full(&mut self) -> Checked {
        self.is_fresh = false;
        self.bench()?;
        self.is_fresh = false;
        for fields in [INIT, RTR, RTS] {
            let done = self.give(ModifyQp, false, fields, &[])?;
            done.map_err(|errno| format!("MODIFY_QP: {errno}"))?;
        }
        let queues = [
            (PostSend, SEND, 4),
            (PostRecv, RECEIVE, 4),
            (PostSrqRecv, RECEIVE, 8),
        ];
        for (command, behind, places) in queues {
            for place in 0..=places {
                let wanted = if place < places { None } else { Some(ENOMEM) };
                let found = self.give(command, false, ONE, behind)?;
                self.expect(&format!("{command:?} {place}"), ending(found), wanted)?;
            }
        }
        Ok(())
    }
}

/// A condition to try with each command.
type Frames<'a> = (&'static str, fn(&mut Runner<'a>, &Good) -> Checked);

fn frames<'a>() -> [Frames<'a>; 10] {
    [
        ("works", Runner::works),
        ("short-request", Runner::short_request),
        ("short-room", Runner::short_room),
        ("lengths", Runner::lengths),
        ("flags", Runner::flags),
        ("too-early", Runner::too_early),
        ("other-form", Runner::other_form),
        ("gone", Runner::of_nobody),
        ("extended", Runner::extended_only),
        ("handles", Runner::handles),
    ]
}

/// The conditions of [`frames`] in words, each with its result.
const FRAMES: [(&str, &str); 10] = [
    (
        "as it should be",
        "works (GET_CONTEXT a second time `EINVAL`, OPEN_QP `EOPNOTSUPP`)",
    ),
    (
        "the request is shorter than its structure, by each word",
        "`ENOSPC`",
    ),
    (
        "the room is smaller than the answer, by each word",
        "`ENOSPC`",
    ),
    (
        "fewer bytes are written than it says, each number of them; 4 more",
        "`EINVAL`",
    ),
    ("each unknown flag in the number", "`EINVAL`"),
    ("before GET_CONTEXT", "`EINVAL`"),
    (
        "extended where there is a plain one only, and the other way round",
        "`EOPNOTSUPP`",
    ),
    ("the context has gone", "`EIO`"),
    (
        "extended: reserved field, room without a place, a place without room; bytes that are not \
         0 behind what is known; zeros there",
        "`EINVAL`; `EOPNOTSUPP`; works",
    ),
    (
        "each handle: of nothing, of nothing with all bits; of another type",
        "`ENOENT`; `EINVAL`",
    ),
];

/// Runs all rows.
pub fn run(place: &str, device: &mut dyn Device, print: &mut dyn FnMut(&str)) -> Totals {
    let mut runner = Runner {
        device,
        totals: Totals::default(),
        place,
        print,
        is_fresh: false,
        before: Vec::new(),
    };
    for row in GOOD {
        for (name, condition) in frames() {
            let found = condition(&mut runner, row);
            runner.report(&format!("{} {name}", row.name()), found);
        }
    }
    for (number, row) in (1..).zip(refusals()) {
        let name = row.as_ref().map(|row| row.when.replace(": ", ", "));
        let found = match &row {
            Some(row) => runner.refusal(row),
            None => Err("no condition".into()),
        };
        runner.report(
            &format!("refusal {number}, {}", name.unwrap_or_default()),
            found,
        );
    }
    let missing = runner.missing();
    runner.report("missing commands", missing);
    let other = runner.other_context();
    runner.report("handles of another context", other);
    let full = runner.full();
    runner.report("full queues", full);
    let totals = runner.totals;
    totals.finish(&format!("commands, {place}"), print);
    totals
}

/// Whether a command has this name.
pub fn is_known(name: &str) -> bool {
    GOOD.iter().any(|row| row.name() == name)
}

/// The section of the page.
pub fn page() -> String {
    let mut page = format!(
        "Of each of the {} commands (extended forms counted apart):\n\n| condition | what it \
         gives |\n| --- | --- |\n",
        GOOD.len()
    );
    for (condition, gives) in FRAMES {
        page += &format!("| {condition} | {gives} |\n");
    }
    page += "| the numbers 6, 7, 10, 12, 15, 22 and 41 to 255, plain and extended | \
             `EOPNOTSUPP` |\n| handles of another context | `ENOENT` |\n| a send, a receive, a \
             shared receive more than the queue holds | `ENOMEM` |\n\nConditions of their \
             own:\n\n| command | condition | what it gives |\n| --- | --- | --- |\n";
    for row in refusals().into_iter().flatten() {
        let text = |ending: Ending| ending.map_or("works".into(), |errno| format!("`{errno}`"));
        let mut gives = text(row.result);
        if row.of_root != row.result {
            gives += &format!("; root: {}", text(row.of_root));
        }
        let name = match row.is_extended {
            true => format!("{:?}, extended", row.command),
            false => format!("{:?}", row.command),
        };
        page += &format!("| {name} | {} | {gives} |\n", row.when);
    }
    page
}

/// Counters in the file `stats` that count present objects.
const PRESENT: [&str; 13] = [
    "pds",
    "mrs",
    "cqs",
    "qps",
    "srqs",
    "ahs",
    "xrcds",
    "mws",
    "memberships",
    "objects",
    "locked_pages",
    "ports",
    "slots",
];

/// The values of these counters in the file.
pub fn present(stats: &str) -> Vec<u64> {
    let value = |name: &&str| {
        let mut lines = stats.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.trim().parse().ok())
    };
    PRESENT.iter().filter_map(value).collect()
}

/// The answer of a context that has gone.
pub const GONE: Errno = EIO;
