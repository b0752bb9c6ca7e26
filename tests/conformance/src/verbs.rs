//! RDMA verbs (docs/verbs.md): the results of each command, each change of state, each wrong
//! request and each loss, as rows that are tested, and the page that is written from them.
//!
//! | module | rows |
//! | --- | --- |
//! | [`commands`] | every command with every error condition, by the device's commands |
//! | [`transitions`] | every change of state with every bit of the mask |
//! | [`rows`] | wrong requests with what both ends see; states, datagrams, memory, peers |
//! | [`list`] | the cases of rdma-core's own tests, and what shows each of them here |
//!
//! Rows run in three places: between two contexts in the simulator, between two programs of a
//! booted node, and between host and card. A row without a case in a place says why.

pub mod bench;
pub mod changes;
pub mod commands;
pub mod end;
pub mod list;
pub mod names;
pub mod page;
pub mod parts;
pub mod rows;
pub mod run;
pub mod transitions;
mod watch;

use verbs_core::types::{WcFlags, WcOpcode, WcStatus};
use verbs_core::work::WorkCompletion;

use bench::{Bench, Checked, Place};

/// A row with a case of its own.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    case: fn(&mut Bench<'_>) -> Checked,
    /// Places where the case does not run, with the reasons.
    pub except: &'static [(Place, &'static str)],
}

/// A row that runs everywhere.
const fn row(name: &'static str, case: fn(&mut Bench<'_>) -> Checked) -> Row {
    Row {
        name,
        case,
        except: &[],
    }
}

impl Row {
    const fn except(mut self, places: &'static [(Place, &'static str)]) -> Row {
        self.except = places;
        self
    }

    /// The situation, and what both ends see, from `rows.txt`.
    pub fn words(&self) -> Option<(&'static str, &'static str)> {
        let mut lines = include_str!("verbs/rows/rows.txt").lines();
        lines.find_map(|line| {
            let (name, rest) = line.split_once(" | ")?;
            rest.split_once(" | ").filter(|_| name == self.name)
        })
    }

    /// The case, if it runs in this place.
    pub fn case(&self, place: Place) -> Option<fn(&mut Bench<'_>) -> Checked> {
        let runs = self.except.iter().all(|(other, _)| *other != place);
        runs.then_some(self.case)
    }
}

/// Word `at` of a reply; 0 beyond its end.
pub(crate) fn word(words: &[u64], at: usize) -> u64 {
    words.get(at).copied().unwrap_or_default()
}

/// Words that a completion is encoded in.
const WC_WORDS: usize = 8;

fn wc_to_words(wc: &WorkCompletion) -> [u64; WC_WORDS] {
    [
        wc.id,
        wc.status as u64,
        wc.opcode as u64,
        wc.byte_len.into(),
        wc.immediate.into(),
        u64::from(wc.qp) << 32 | u64::from(wc.src_qp),
        u64::from(wc.slid) << 8 | u64::from(wc.service_level),
        wc.flags.bits().into(),
    ]
}

fn wc_of_words(words: &[u64]) -> Option<WorkCompletion> {
    use WcOpcode::*;
    use WcStatus::*;
    let statuses = [
        Success,
        LocLenErr,
        LocQpOpErr,
        LocProtErr,
        WrFlushErr,
        MwBindErr,
        RemInvReqErr,
        RemAccessErr,
        RemOpErr,
        RetryExcErr,
        RnrRetryExcErr,
    ];
    let opcodes = [
        Send,
        RdmaWrite,
        RdmaRead,
        CompSwap,
        FetchAdd,
        BindMw,
        LocalInv,
        Recv,
        RecvRdmaWithImm,
    ];
    let at = |index: usize| word(words, index);
    Some(WorkCompletion {
        id: at(0),
        status: statuses
            .into_iter()
            .find(|status| *status as u64 == at(1))?,
        opcode: opcodes.into_iter().find(|opcode| *opcode as u64 == at(2))?,
        byte_len: at(3) as u32,
        immediate: at(4) as u32,
        qp: (at(5) >> 32) as u32,
        src_qp: at(5) as u32,
        slid: (at(6) >> 8) as u16,
        service_level: at(6) as u8,
        flags: WcFlags::from_bits_truncate(at(7) as u32),
    })
}
