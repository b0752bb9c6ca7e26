//! Marks and signals of both sides' transfers, between 1 MiB of each.

use alloc::string::String;

use guest_tests::peer::Peer;
use guest_tests::windows::{Remote, compare, difference, fill};
use guest_tests::{settled, text};
use scif::{Errno, Error, Initiator, Memory, RmaFlags, Signal, raw};

use crate::{PAGE, both_windows, expect};

/// Marks of the own and of the peer's transfers.
pub fn marks(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, 1 << 20)?;
    let endpoint = &remote.endpoint;
    let memory = Memory::new(1 << 20).map_err(text("memory"))?;
    let (window, there) = both_windows(&remote, &memory)?;
    for round in 1..20 {
        fill(&memory, 0, memory.len(), round).map_err(text("filling"))?;
        let half = memory.len() / 2;
        for part in [0..half, half..memory.len()] {
            let at = there + part.start as i64;
            let part = window.part(part).map_err(text("part"))?;
            let written = endpoint.write_to(part, at, RmaFlags::empty());
            written.map_err(text("write"))?;
        }
        let mark = endpoint.fence_mark(Initiator::Own).map_err(text("mark"))?;
        endpoint.fence_wait(mark).map_err(text("wait"))?;
        // Waiting again for what is done does not wait.
        endpoint.fence_wait(mark).map_err(text("second wait"))?;
        remote.compare(0, memory.len(), round, false)?;

        remote.fill(0, memory.len(), 1000 + round)?;
        let started = remote.transfer(true, there, memory.len(), window.offset(), 0);
        started.map_err(text("the peer's write"))?;
        let mark = endpoint.fence_mark(Initiator::Peer).map_err(text("mark"))?;
        endpoint.fence_wait(mark).map_err(text("wait"))?;
        let wrong = compare(&memory, 0, memory.len(), 1000 + round, false);
        if let Some(at) = wrong.map_err(text("comparing"))? {
            return Err(difference(at, memory.len()));
        }
    }
    for flags in [0, 3, 4, 8, 0x11, 0x21] {
        let bad = raw::fence_mark(endpoint.fd(), flags).map_err(Error::from_errno);
        expect("mark flags", bad, Errno::InvalidArgument)?;
    }
    for mark in [-1, i32::MIN, i32::MAX - 7] {
        let bad = raw::fence_wait(endpoint.fd(), mark).map_err(Error::from_errno);
        expect("a mark never given", bad, Errno::InvalidArgument)?;
    }
    Ok(())
}

/// Signals behind the transfers of either side, to either side.
pub fn signals(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, 1 << 20)?;
    let endpoint = &remote.endpoint;
    let memory = Memory::new(1 << 20).map_err(text("memory"))?;
    let (window, there) = both_windows(&remote, &memory)?;
    let data = memory.len() - PAGE;
    let flag = data + 8;
    let signal = |offset: i64, value| Signal {
        offset: offset + flag as i64,
        value,
    };
    let mut round = 0;
    for initiator in [Initiator::Own, Initiator::Peer] {
        for (here, away) in [(true, false), (false, true), (true, true)] {
            round += 1;
            let (to, from) = (round + 100, round + 200);
            match initiator {
                Initiator::Own => {
                    fill(&memory, 0, data, to).map_err(text("filling"))?;
                    let part = window.part(0..data).map_err(text("part"))?;
                    let written = endpoint.write_to(part, there, RmaFlags::empty());
                    written.map_err(text("write"))?;
                }
                Initiator::Peer => {
                    remote.fill(0, data, from)?;
                    let started = remote.transfer(true, there, data, window.offset(), 0);
                    started.map_err(text("the peer's write"))?;
                }
            }
            let local = here.then(|| signal(window.offset(), round));
            let distant = away.then(|| signal(there, round));
            let sent = endpoint.fence_signal(initiator, local, distant);
            sent.map_err(text("signal"))?;
            if here {
                let came = settled(|| memory.load_acquire_u64(flag), &Ok(round));
                if came != Ok(round) {
                    return Err(alloc::format!("signal {round} did not come: {came:?}"));
                }
            }
            if away {
                remote.wait_for(flag, round)?;
            }
            match initiator {
                Initiator::Own => remote.compare(0, data, to, false)?,
                Initiator::Peer => {
                    let wrong = compare(&memory, 0, data, from, false);
                    if let Some(at) = wrong.map_err(text("comparing"))? {
                        return Err(difference(at, data));
                    }
                }
            }
        }
    }
    let bad = |local: Option<i64>, distant: Option<i64>| {
        let to = |offset| Signal { offset, value: 1 };
        endpoint.fence_signal(Initiator::Own, local.map(to), distant.map(to))
    };
    let (own, end) = (window.offset(), memory.len() as i64);
    expect("no signal", bad(None, None), Errno::InvalidArgument)?;
    expect(
        "odd offset",
        bad(Some(own + 2), None),
        Errno::InvalidArgument,
    )?;
    let odd = bad(None, Some(there + 1));
    expect("odd remote offset", odd, Errno::InvalidArgument)?;
    let last = bad(Some(own + end - 4), None);
    expect("4 bytes are left", last, Errno::NoSuchAddress)?;
    let outside = bad(None, Some(there + end));
    expect("behind the window", outside, Errno::NoSuchAddress)
}
