//! This machine's frames by their holders, for tests that search for lost ones.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use runtime::println;

use crate::{Suite, at_rest, counter, text};

/// The text instead of numbers on Redox's kernel, which counts no frames.
const NOT_COUNTED: &str = "this kernel counts no frames";

/// The holder of the kernel's objects.
const HEAP: &str = "kernel heap";
/// The holder of bounce buffers that no request holds.
const IDLE_BOUNCE: &str = "idle bounce";

/// The holder of blocks of closed connections that the driver keeps for the next ones.
const SPARE: &str = "spare blocks";
/// Frames of them at most.
const MOST_SPARE: u64 = 256;
/// The driver, to whose frames they belong.
const DRIVER: &str = "micd";
/// Bytes of a frame.
const FRAME: u64 = 4096;

/// Frames in use, by holder. One frame is 4 KiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    free: u64,
    /// A user of memory: a part of the kernel, or the programs of a name, and its count.
    parts: Vec<(String, u64)>,
}

impl Frames {
    /// As the kernel counts now (`sys/stat`, `sys/context`).
    ///
    /// # Errors
    /// A description of the missing part.
    pub fn now() -> Result<Self, String> {
        let stat = runtime::fs::read_to_string("/scheme/sys/stat").map_err(text("stat"))?;
        if !hal::kernel::ends_abandoned_requests() && !stat.contains("frames_") {
            return Err(NOT_COUNTED.into());
        }
        let table = runtime::fs::read_to_string("/scheme/sys/context").map_err(text("context"))?;
        // A driver that is not there keeps nothing.
        let spare = counter("spare_bytes").map_or(0, |bytes| bytes / FRAME);
        if spare > MOST_SPARE {
            return Err(format!("{spare} spare frames; at most {MOST_SPARE} may be"));
        }
        Self::parse(&stat, &table, spare)
    }

    /// As soon as they are at rest: what ended before may still give frames back.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub fn at_rest() -> Result<Self, String> {
        at_rest(Self::now, |_| true)
    }

    fn parse(stat: &str, table: &str, spare: u64) -> Result<Self, String> {
        let frames = |name: &str| -> Result<u64, String> {
            let value = stat.lines().find_map(|line| line.strip_prefix(name));
            let value = value.and_then(|value| value.strip_prefix(": ")?.trim().parse().ok());
            value.ok_or_else(|| format!("sys/stat has no {name}"))
        };
        let free = frames("frames_free")?;
        let mut parts = Vec::new();
        for (name, line) in [
            (HEAP, "frames_heap"),
            ("page tables", "frames_tables"),
            ("kernel stacks", "frames_stacks"),
            (IDLE_BOUNCE, "frames_bounce_idle"),
        ] {
            parts.push((String::from(name), frames(line)?));
        }
        let held = frames("frames_bounce")?.checked_sub(frames("frames_bounce_idle")?);
        let held = held.ok_or("sys/stat has more idle bounce buffers than there are")?;
        parts.push((String::from("held bounce"), held));
        for (_, name, own) in programs(table)? {
            match parts.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += own,
                None => parts.push((String::from(name), own)),
            }
        }
        if let Some((_, own)) = parts.iter_mut().find(|(name, _)| name == DRIVER) {
            let kept = own.checked_sub(spare);
            *own = kept.ok_or("stats and sys/context are of different moments")?;
            parts.push((String::from(SPARE), spare));
        }
        let known: u64 = parts.iter().map(|(_, count)| count).sum();
        let others = frames("frames_total")?.checked_sub(free + known);
        let others = others.ok_or("sys/stat and sys/context are of different moments")?;
        parts.push((String::from("shared, or of no program"), others));
        Ok(Self { free, parts })
    }

    /// The number of frames that are free no more since then; negative when there are more. Bounce
    /// buffers that no request holds are left out: a daemon keeps as many as requests waited for it
    /// at the same time, up to the kernel's limit. So are the driver's spare blocks, of which there
    /// are more or fewer with the order in which connections came and went.
    pub fn lost_since(&self, before: &Self) -> i64 {
        let held = |frames: &Self| frames.count(IDLE_BOUNCE) + frames.count(SPARE);
        let kept = held(self) - held(before);
        before.free as i64 - self.free as i64 - kept
    }

    /// These frames as the beginning of a further check: with as many in the kernel's heap as
    /// `before`, if there were more. By the order in which they come and go its objects are in
    /// fewer pages or in more, and a page that comes back is none that is lost.
    fn into_beginning(mut self, before: &Self) -> Self {
        let most = before.count(HEAP).cast_unsigned();
        if let Some((_, count)) = self.parts.iter_mut().find(|(name, _)| name == HEAP) {
            let less = most.saturating_sub(*count);
            *count += less;
            self.free = self.free.saturating_sub(less);
        }
        self
    }

    /// The frames of a holder.
    fn count(&self, name: &str) -> i64 {
        let part = self.parts.iter().find(|(part, _)| part == name);
        part.map_or(0, |(_, count)| *count as i64)
    }

    /// The holders that have more frames than then, or fewer.
    pub fn changes_since(&self, before: &Self) -> String {
        let is_new = |(name, _): &&(String, u64)| !before.parts.iter().any(|(n, _)| n == name);
        let names = before.parts.iter().chain(self.parts.iter().filter(is_new));
        let changes = names.filter_map(|(name, _)| {
            let change = self.count(name) - before.count(name);
            (change != 0).then(|| format!("{name} {change:+}"))
        });
        let changes: Vec<String> = changes.collect();
        format!("{} lost: {}", self.lost_since(before), changes.join(", "))
    }
}

/// Looks until at most `most` frames are lost since `before` and nothing changes any more, and
/// prints the holders that have more or fewer. What was found is the next check's `before`, with
/// as many frames in the kernel's heap as there were. Where frames are not counted there is
/// nothing to check, which is printed.
pub fn check(suite: &mut Suite, name: &str, before: &mut Result<Frames, String>, most: i64) {
    if before.as_ref().is_err_and(|error| error == NOT_COUNTED) {
        println!("{name}: {NOT_COUNTED}");
        return;
    }
    let found = before.clone().and_then(|before| {
        let is_enough = |now: &Frames| now.lost_since(&before) <= most;
        let now = at_rest(Frames::now, |now| now.as_ref().is_ok_and(is_enough))?;
        let changes = now.changes_since(&before);
        println!("{name}: {changes}");
        let is_in = is_enough(&now);
        Ok((is_in, changes, now.into_beginning(&before)))
    });
    let (result, now) = match found {
        Ok((true, _, now)) => (Ok(()), Ok(now)),
        Ok((false, changes, now)) => (Err(format!("{changes}; at most {most} may be")), Ok(now)),
        Err(error) => (Err(error.clone()), Err(error)),
    };
    suite.check(name, result);
    *before = now;
}

/// Process, name and own frames of each process in the table, whose threads have a line each.
fn programs(table: &str) -> Result<Vec<(u64, &str, u64)>, String> {
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let at = head.find("OWN").ok_or("sys/context has no column OWN")?;
    let mut programs: Vec<(u64, &str, u64)> = Vec::new();
    for line in lines {
        let parsed = || {
            let pid = line.split_whitespace().next()?.parse().ok()?;
            let (own, name) = line.get(at..)?.split_once(' ')?;
            Some((pid, name.trim(), own.parse().ok()?))
        };
        let program = parsed().ok_or_else(|| format!("sys/context: {line:?}"))?;
        // The first daemons share a number.
        let is_same = |other: &(u64, &str, u64)| (other.0, other.1) == (program.0, program.1);
        if !programs.iter().any(is_same) {
            programs.push(program);
        }
    }
    Ok(programs)
}
