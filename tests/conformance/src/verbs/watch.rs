//! Checks of a row: completions, events, states, and the objects that are left at its end.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use verbs_core::context::Counts;
use verbs_core::table::Id;
use verbs_core::types::{EventType, QpState, WcStatus};
use verbs_core::work::WorkCompletion;

use super::bench::{Bench, Checked, Qp, Side, Thing, Verbs, same};
use super::word;

/// Most words of completions in a reply; a message of a place has room for them.
const MOST_WORDS: usize = 48;

/// Number of polls before an expected change counts as missing.
pub const LOOKS: usize = 4000;

/// Number of polls for a change that must not happen.
const FEW_LOOKS: usize = 4;

impl Bench<'_> {
    // ---- Completions ----

    /// Takes the completions that a queue has.
    fn drain(&mut self, side: Side, cq: Id) -> Checked<Vec<WorkCompletion>> {
        let take = |end: &mut dyn Verbs| {
            let mut words = Vec::new();
            while words.len() < MOST_WORDS
                && let Some(found) = end.poll_cq(cq)?
            {
                words.extend(super::wc_to_words(&found));
            }
            Ok(words)
        };
        let words = self.ok("poll_cq", side, take)?;
        let entries = words.chunks_exact(super::WC_WORDS);
        Ok(entries.filter_map(super::wc_of_words).collect())
    }

    /// Waits for this number of completions.
    ///
    /// # Errors
    /// They do not come.
    pub fn completions(
        &mut self,
        side: Side,
        cq: Id,
        count: usize,
    ) -> Checked<Vec<WorkCompletion>> {
        let mut found = Vec::new();
        for _ in 0..LOOKS {
            found.extend(self.drain(side, cq)?);
            if found.len() >= count {
                return Ok(found);
            }
            self.driver.pause();
        }
        Err(format!("{} of {count} completions: {found:?}", found.len()))
    }

    fn results(
        &mut self,
        what: &str,
        (side, cq): (Side, Id),
        expected: &[(u64, WcStatus)],
    ) -> Checked<Vec<WorkCompletion>> {
        let found = self.completions(side, cq, expected.len());
        let found = found.map_err(|why| format!("{what}: {why}, not {expected:?}"))?;
        let results: Vec<_> = found.iter().map(|wc| (wc.id, wc.status)).collect();
        same(what, &results[..], expected)?;
        Ok(found)
    }

    /// Checks that sends complete with these results.
    ///
    /// # Errors
    /// They do not.
    pub fn sent(&mut self, qp: &Qp, expected: &[(u64, WcStatus)]) -> Checked<Vec<WorkCompletion>> {
        self.results("sends", (qp.side, qp.sends), expected)
    }

    /// Checks that receives complete with these results.
    ///
    /// # Errors
    /// They do not.
    pub fn received(
        &mut self,
        qp: &Qp,
        expected: &[(u64, WcStatus)],
    ) -> Checked<Vec<WorkCompletion>> {
        self.results("receives", (qp.side, qp.receives), expected)
    }

    /// Checks that nothing completes for a while.
    ///
    /// # Errors
    /// Some request does.
    pub fn quiet(&mut self) -> Checked {
        for _ in 0..FEW_LOOKS {
            self.driver.pause();
            for qp in self.qps.clone() {
                for (what, cq) in [("sends", qp.sends), ("receives", qp.receives)] {
                    let more = self.drain(qp.side, cq)?;
                    if !more.is_empty() {
                        return Err(format!("more {what} at {:?}: {more:?}", qp.side));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that so many waits, each of this many nanoseconds, have passed since then and no
    /// further one, if the place has a clock of its own.
    ///
    /// # Errors
    /// Fewer or more have passed.
    pub fn took(&mut self, since: Option<u64>, waits: u64, each: u64) -> Checked {
        let (Some(since), Some(now)) = (since, self.driver.now()) else {
            return Ok(());
        };
        let passed = now.saturating_sub(since);
        match (waits * each..(waits + 1) * each).contains(&passed) {
            true => Ok(()),
            false => Err(format!("{passed} ns, not {waits} times {each} ns")),
        }
    }

    // ---- Events and states ----

    fn take_events(&mut self, side: Side) -> Checked<Vec<(u64, u64)>> {
        let take = |end: &mut dyn Verbs| {
            let mut words = Vec::new();
            while let Some((kind, about)) = end.next_event() {
                words.extend([u64::from(kind as u32), about.into()]);
            }
            Ok(words)
        };
        let words = self.ok("events", side, take)?;
        let pairs = words.chunks_exact(2);
        Ok(pairs.map(|pair| (word(pair, 0), word(pair, 1))).collect())
    }

    /// Checks that these events come, about the objects with these numbers.
    ///
    /// # Errors
    /// They do not.
    pub fn events(&mut self, side: Side, expected: &[(EventType, u32)]) -> Checked {
        let wanted = expected
            .iter()
            .map(|(kind, about)| (u64::from(*kind as u32), u64::from(*about)));
        let wanted: Vec<_> = wanted.collect();
        let mut found = Vec::new();
        for _ in 0..LOOKS {
            found.extend(self.take_events(side)?);
            if found.len() >= wanted.len() {
                break;
            }
            self.driver.pause();
        }
        same(&format!("events at {side:?}"), found, wanted)
    }

    /// Waits until the queue pair has this state.
    ///
    /// # Errors
    /// It never has.
    pub fn state(&mut self, qp: &Qp, expected: QpState) -> Checked {
        let number = qp.number;
        let mut found = 0;
        for _ in 0..LOOKS {
            let look = |end: &mut dyn Verbs| Ok(vec![end.query_qp(number)?.state as u64]);
            found = word(&self.ok("query_qp", qp.side, look)?, 0);
            if found == expected as u64 {
                return Ok(());
            }
            self.driver.pause();
        }
        Err(format!("state of {:?}: {found}, not {expected:?}", qp.side))
    }

    /// The number of sends and of receives that are queued.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn queued(&mut self, qp: &Qp) -> Checked<(u64, u64)> {
        let number = qp.number;
        let look = |end: &mut dyn Verbs| {
            let (sends, receives) = end.query_qp(number)?.queued;
            Ok(vec![sends as u64, receives as u64])
        };
        let words = self.ok("query_qp", qp.side, look)?;
        Ok((word(&words, 0), word(&words, 1)))
    }

    // ---- The end of a row ----

    /// Checks that nothing more happens, then destroys all objects and checks that nothing is
    /// left.
    ///
    /// # Errors
    /// There were more completions or events, or objects are left.
    pub fn clear(&mut self) -> Checked {
        let quiet = self.quiet();
        let mut events = Ok(());
        for side in [Side::A, Side::B] {
            let more = self.take_events(side)?;
            events = events.and(same(&format!("more events at {side:?}"), more, vec![]));
        }
        let destroyed = self.destroy();
        quiet.and(events).and(destroyed)?;
        for side in [Side::A, Side::B] {
            self.is_empty(side)?;
        }
        Ok(())
    }

    fn destroy(&mut self) -> Checked {
        self.qps.clear();
        let mut first = Ok(());
        while let Some((side, thing)) = self.things.pop() {
            let destroy = |end: &mut dyn Verbs| match thing {
                Thing::Pd(pd) => end.dealloc_pd(pd),
                Thing::Cq(cq) => end.destroy_cq(cq),
                Thing::Srq(srq) => end.destroy_srq(srq),
                Thing::Key(key) => end.deregister(key),
                Thing::Mw(pd, key) => end.dealloc_mw(pd, key),
                Thing::Ah(pd, ah) => end.destroy_ah(pd, ah),
                Thing::Xrcd(domain) => end.close_xrcd(domain),
                Thing::Qp(number) => end.destroy_qp(number),
            };
            let gone = self.run(&format!("destroying {thing:?}"), side, destroy);
            first = first.and(gone);
        }
        first
    }

    fn is_empty(&mut self, side: Side) -> Checked {
        let mut found = String::new();
        for _ in 0..LOOKS {
            let look = |end: &mut dyn Verbs| {
                let rest = end.counts();
                // A lane for datagrams lives as long as its context.
                let rest = Counts { lanes: 0, ..rest };
                let is_empty = rest == Counts::default();
                Ok(vec![is_empty.into(), end.exposed()])
            };
            let words = self.ok("counts", side, look)?;
            if words == [1, 0] {
                return Ok(());
            }
            found = format!("{words:?}");
            self.driver.pause();
        }
        Err(format!("something is left at {side:?}: {found}"))
    }
}
