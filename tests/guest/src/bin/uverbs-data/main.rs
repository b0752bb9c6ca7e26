//! Programs that post and poll by commands of the device of RDMA verbs and have no library: all
//! operations within a context, between two, with a program of the library; errors; memory that is
//! not the program's, or is unmapped while it is registered; programs that are killed.
//!
//! `uverbs-data`, as root, on one node. `uverbs-data serve` serves `uverbs-data NODE` on that node.
#![no_std]
#![no_main]

extern crate alloc;

mod end;
mod kinds;
mod peers;

use alloc::format;
use alloc::string::String;

use guest_tests::uverbs::{Context, present};
use guest_tests::{Suite, counter, settled, text};
use runtime::process::Command as Program;
use runtime::time::{Duration, sleep};
use scif::Memory;
use syscall::error::{EFAULT, ENOMEM};
use verbs_abi::command::Command::*;
use verbs_abi::records as abi;
use verbs_core::types::{Opcode, SendFlags, WcStatus};

use crate::end::{ALL, BYTES, Checked, End, Send, register};

runtime::main!(main);

/// A request that was carried out.
pub const OK: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

fn main() -> i32 {
    match runtime::env::args().nth(1).as_deref() {
        None => {}
        Some("linger") => return linger(),
        Some("register") => return kinds::register_for_ever(),
        Some("serve") => return peers::serve(),
        Some(node) => return node.parse().map_or(64, peers::client),
    }
    let mut suite = Suite::new("uverbs-data");
    let before = present();
    let pins = || counter("pinned_pages");
    let pinned = pins();
    suite.check("a context with itself", within());
    suite.check("two contexts", between());
    suite.check("errors of keys and places", keys());
    suite.check("no receive, and a receive that is too short", receives());
    suite.check("what is flushed", flushed());
    suite.check("memory that is not there", absent());
    suite.check("memory that is unmapped", unmapped());
    suite.check("a region without memory", without_memory());
    suite.check("inline data", kinds::inline());
    suite.check("datagrams", kinds::datagrams());
    suite.check("a shared receive queue", kinds::shared());
    suite.check("a region that gets other memory", kinds::other_memory());
    suite.check("regions of the same memory", kinds::same_addresses());
    suite.check(
        "regions of memory that comes to the same place",
        kinds::other_pages(),
    );
    suite.check("a program of the library", peers::library());
    suite.equal("what is left", settled(present, &before), before.clone());
    for round in 0..3 {
        suite.check("a program that is killed", killed());
        let name = format!("what is left of number {round}");
        suite.equal(&name, settled(present, &before), before.clone());
    }
    suite.check(
        "killed while pages are borrowed",
        kinds::killed_while_borrowing(),
    );
    let left = settled(present, &before);
    suite.equal("what is left of those", left, before.clone());
    suite.equal("pages that are pinned", settled(pins, &pinned), pinned);
    suite.finish()
}

/// A send of a part of the memory to a place of the peer's.
pub fn send(opcode: Opcode, at: usize, length: usize, to: &End<'_>, remote: usize) -> Send {
    Send {
        opcode,
        at,
        length,
        remote: to.address.memory + remote as u64,
        key: to.address.key,
        numbers: (0, 0),
        flags: SendFlags::empty(),
    }
}

/// All operations from one to the other.
pub fn traffic(one: &End<'_>, other: &End<'_>) -> Checked {
    for (seed, length) in [(1, 1), (2, 3000), (3, 100_000)] {
        one.fill(seed, 0, length)?;
        let receive = other.element(200_000, length, other.address.key);
        other.receive(10, receive)?;
        one.send(20, &send(Opcode::Send, 0, length, other, 0))?;
        one.expect(&[(20, OK)])?;
        let received = other.wait(1)?;
        if received[0].status != 0 || received[0].byte_len as usize != length {
            return Err(format!("received {received:?}"));
        }
        other.has(seed, 200_000, length)?;
        one.send(21, &send(Opcode::RdmaWrite, 0, length, other, 400_001))?;
        one.expect(&[(21, OK)])?;
        other.has(seed, 400_001, length)?;
        other.fill(seed + 10, 600_000, length)?;
        one.send(22, &send(Opcode::RdmaRead, 700_000, length, other, 600_000))?;
        one.expect(&[(22, OK)])?;
        one.has(seed + 10, 700_000, length)?;
    }
    other
        .receive(11, other.element(0, 0, other.address.key))
        .and_then(|()| one.send(23, &send(Opcode::RdmaWriteWithImm, 0, 64, other, 8192)))?;
    one.expect(&[(23, OK)])?;
    let received = other.wait(1)?;
    if (received[0].status, received[0].imm_data) != (0, 0x1234_5678) {
        return Err(format!("immediate: {received:?}"));
    }
    let word = |end: &End<'_>, at| end.memory.read::<u64>(at).map_err(text("word"));
    other
        .memory
        .write::<u64>(16384, 5)
        .map_err(text("word of the peer"))?;
    let mut add = send(Opcode::AtomicFetchAndAdd, 24576, 8, other, 16384);
    add.numbers = (3, 0);
    let mut swap = send(Opcode::AtomicCmpAndSwp, 24584, 8, other, 16384);
    swap.numbers = (8, 77);
    one.send(24, &add)?;
    one.send(25, &swap)?;
    one.expect(&[(24, OK), (25, OK)])?;
    let found = (word(one, 24576)?, word(one, 24584)?, word(other, 16384)?);
    match found == (5, 8, 77) {
        true => Ok(()),
        false => Err(format!("atomic: {found:?}")),
    }
}

fn both(one: End<'_>, other: End<'_>) -> Checked {
    one.join(&other, 7)?;
    traffic(&one, &other)?;
    traffic(&other, &one)?;
    one.end()?;
    other.end()
}

fn within() -> Checked {
    let context = Context::begun().map_err(text("open"))?;
    both(End::new(&context, ALL)?, End::new(&context, ALL)?)
}

fn between() -> Checked {
    let contexts = [Context::begun(), Context::begun()];
    let [Ok(one), Ok(other)] = &contexts else {
        return Err("open".into());
    };
    both(End::new(one, ALL)?, End::new(other, ALL)?)
}

/// Two that are connected, for one error, which is the last that they do.
pub fn with_pair(rnr_retry: u8, check: impl FnOnce(&End<'_>, &End<'_>) -> Checked) -> Checked {
    let contexts = [Context::begun(), Context::begun()];
    let [Ok(first), Ok(second)] = &contexts else {
        return Err("open".into());
    };
    let (one, other) = (End::new(first, ALL)?, End::new(second, ALL)?);
    one.join(&other, rnr_retry)?;
    check(&one, &other)?;
    one.end()?;
    other.end()
}

fn keys() -> Checked {
    let whole = |end: &End<'_>, at, length| end.element(at, length, end.address.key);
    with_pair(7, |one, other| {
        let element = one.element(0, 64, one.address.key + 1);
        one.send_element(1, &send(Opcode::Send, 0, 64, other, 0), element)?;
        one.expect(&[(1, WcStatus::LocProtErr)])
    })?;
    // Beyond the end of the region, and before it.
    for at in [BYTES - 63, 0_usize.wrapping_sub(1)] {
        with_pair(7, |one, other| {
            let element = abi::Element {
                addr: one.address.memory.wrapping_add(at as u64),
                ..whole(one, 0, 64)
            };
            one.send_element(2, &send(Opcode::Send, 0, 64, other, 0), element)?;
            one.expect(&[(2, WcStatus::LocProtErr)])
        })?;
    }
    with_pair(7, |one, other| {
        let mut write = send(Opcode::RdmaWrite, 0, 64, other, 0);
        write.key += 1;
        one.send(3, &write)?;
        one.expect(&[(3, WcStatus::RemAccessErr)])
    })?;
    with_pair(7, |one, other| {
        one.send(4, &send(Opcode::RdmaWrite, 0, 64, other, BYTES - 63))?;
        one.expect(&[(4, WcStatus::RemAccessErr)])
    })
}

fn receives() -> Checked {
    with_pair(1, |one, other| {
        one.send(1, &send(Opcode::Send, 0, 64, other, 0))?;
        one.expect(&[(1, WcStatus::RnrRetryExcErr)])
    })?;
    with_pair(7, |one, other| {
        other.receive(2, other.element(0, 63, other.address.key))?;
        one.send(3, &send(Opcode::Send, 0, 64, other, 0))?;
        one.expect(&[(3, WcStatus::RemInvReqErr)])?;
        other.expect(&[(2, WcStatus::LocLenErr)])
    })?;
    with_pair(7, |one, other| {
        other.receive(4, other.element(0, 64, other.address.key + 1))?;
        one.send(5, &send(Opcode::Send, 0, 64, other, 0))?;
        one.expect(&[(5, WcStatus::RemOpErr)])?;
        other.expect(&[(4, WcStatus::LocProtErr)])
    })
}

fn flushed() -> Checked {
    let to_error = |end: &End<'_>| {
        let request = abi::ModifyQp {
            qp_handle: end.qp,
            attr_mask: 1,
            qp_state: 6,
            ..Default::default()
        };
        end.context.give(ModifyQp, &request).map_err(text("to ERR"))
    };
    with_pair(7, |one, other| {
        for id in [1, 2] {
            one.receive(id, one.element(0, 64, one.address.key))?;
        }
        one.send(3, &send(Opcode::Send, 0, 64, other, 0))?;
        to_error(one)?;
        let mut found = one.wait(3)?;
        found.sort_by_key(|of| of.wr_id);
        let found = found.iter().map(|of| (of.wr_id, of.status));
        let flushed = FLUSHED as u32;
        match found.eq([(1, flushed), (2, flushed), (3, flushed)]) {
            true => Ok(()),
            false => Err("other completions".into()),
        }
    })?;
    // The peer's queue pair is destroyed.
    let contexts = [Context::begun(), Context::begun()];
    let [Ok(first), Ok(second)] = &contexts else {
        return Err("open".into());
    };
    let (one, other) = (End::new(first, ALL)?, End::new(second, ALL)?);
    one.join(&other, 7)?;
    traffic(&one, &other)?;
    one.receive(5, one.element(0, 64, one.address.key))?;
    one.send(6, &send(Opcode::Send, 0, 64, &other, 0))?;
    one.send(7, &send(Opcode::Send, 0, 64, &other, 0))?;
    other.end()?;
    let mut found = one.wait(3)?;
    found.sort_by_key(|of| of.wr_id);
    let found: alloc::vec::Vec<_> = found.iter().map(|of| (of.wr_id, of.status)).collect();
    let lost = WcStatus::RetryExcErr as u32;
    let flushed = FLUSHED as u32;
    match found == [(5, flushed), (6, lost), (7, flushed)] {
        true => one.end(),
        false => Err(format!("{found:?}")),
    }
}

fn absent() -> Checked {
    let context = Context::begun().map_err(text("open"))?;
    let end = End::new(&context, ALL)?;
    let other_memory = Memory::ordinary(3 * 4096).map_err(text("memory"))?;
    let start = other_memory.address() as u64;
    drop(other_memory);
    let domain = (end.pd, ALL);
    let last = end.address.memory + BYTES as u64 - 4096;
    for (what, start, length) in [
        ("unmapped memory", start, 3 * 4096),
        ("the kernel's half", 1 << 47, 4096),
        ("the null page", 0, 4096),
        // Too large to be there as a whole.
        ("more than there is", last, 200 << 20),
    ] {
        match register(&context, domain, (start, length)) {
            Err(EFAULT) => {}
            found => return Err(format!("{what}: {found:?}")),
        }
    }
    let text_of_program = main as fn() -> i32 as usize as u64;
    let code = text_of_program - text_of_program % 4096;
    match register(&context, domain, (code, 64)) {
        Err(EFAULT) => {}
        found => return Err(format!("code as memory to be written: {found:?}")),
    }
    match register(&context, (end.pd, 0), (code, 64)) {
        Ok(region) => {
            let mr_handle = region.mr_handle;
            let ended = context.give(DeregMr, &abi::DeregMr { mr_handle });
            ended.map_err(text("end of the code"))?;
        }
        found => return Err(format!("code as memory to be read: {found:?}")),
    }
    match register(&context, domain, (end.address.memory, 1 << 29)) {
        Err(ENOMEM) => {}
        found => return Err(format!("more than the limit: {found:?}")),
    }
    end.end()
}

/// Registered pages stay what they are when their program unmaps them: neither the daemon nor
/// memory that is mapped there afterwards notices.
fn unmapped() -> Checked {
    with_pair(7, |one, other| {
        let memory = Memory::ordinary(4 * 4096).map_err(text("memory"))?;
        let start = memory.address() as u64;
        memory.fill(0, 4096, 9).map_err(text("fill"))?;
        let region = register(other.context, (other.pd, ALL), (start, 4 * 4096));
        let region = region.map_err(text("region"))?;
        drop(memory);
        let write = Send {
            remote: start,
            key: region.rkey,
            ..send(Opcode::RdmaWrite, 0, 4096, other, 0)
        };
        one.fill(4, 0, 4096)?;
        one.send(1, &write)?;
        let mut read = Send {
            opcode: Opcode::RdmaRead,
            at: 8192,
            ..write
        };
        one.send(2, &read)?;
        one.expect(&[(1, OK), (2, OK)])?;
        one.has(4, 8192, 4096)?;
        // Other memory of the program.
        let new = Memory::ordinary(64 * 4096).map_err(text("memory"))?;
        new.fill(0, new.len(), 0x55).map_err(text("fill"))?;
        one.send(3, &write)?;
        read.at = 16384;
        one.send(4, &read)?;
        one.expect(&[(3, OK), (4, OK)])?;
        one.has(4, 16384, 4096)?;
        let mut found = alloc::vec![0; new.len()];
        new.copy_out(0, &mut found).map_err(text("look"))?;
        if found.iter().any(|byte| *byte != 0x55) {
            return Err("other memory was changed".into());
        }
        let mr_handle = region.mr_handle;
        let ended = other.context.give(DeregMr, &abi::DeregMr { mr_handle });
        ended.map_err(text("end of the region"))?;
        one.send(5, &write)?;
        one.expect(&[(5, WcStatus::RemAccessErr)])
    })
}

/// A region of a program that has not sent its address space.
fn bare_region(end: &End<'_>) -> Checked<abi::RegMrAnswer> {
    let request = abi::RegMr {
        start: end.address.memory,
        length: BYTES as u64,
        hca_va: end.address.memory,
        pd_handle: end.pd,
        access_flags: ALL,
        ..Default::default()
    };
    end.context.ask(RegMr, &request).map_err(text("region"))
}

/// The daemon has no way to the memory of such a region, nor has a peer.
fn without_memory() -> Checked {
    let end = |one: &End<'_>, mr_handle| {
        let ended = one.context.give(DeregMr, &abi::DeregMr { mr_handle });
        ended.map_err(text("end of the region"))
    };
    with_pair(7, |one, other| {
        let region = bare_region(one)?;
        let element = one.element(0, 64, region.lkey);
        let write = Send {
            remote: one.address.memory,
            key: region.rkey,
            ..send(Opcode::RdmaWrite, 0, 64, other, 0)
        };
        one.send_element(1, &send(Opcode::Send, 0, 64, other, 0), element)?;
        one.expect(&[(1, WcStatus::LocProtErr)])?;
        other.send(2, &write)?;
        // Its peer has failed by then, or refuses the key.
        let found = other.wait(1)?;
        if found[0].status == 0 {
            return Err("memory was reached that the daemon has no way to".into());
        }
        end(one, region.mr_handle)
    })?;
    with_pair(7, |one, other| {
        let region = bare_region(one)?;
        one.receive(3, one.element(0, 64, region.lkey))?;
        other.send(4, &send(Opcode::Send, 0, 64, one, 0))?;
        other.expect(&[(4, WcStatus::RemOpErr)])?;
        one.expect(&[(3, WcStatus::LocProtErr)])?;
        end(one, region.mr_handle)
    })
}

/// Waits with traffic under way to be killed.
fn linger() -> i32 {
    let run = || -> Checked {
        with_pair(7, |one, other| {
            traffic(one, other)?;
            other.receive(1, other.element(0, 64, other.address.key))?;
            for id in 0..8 {
                one.send(id, &send(Opcode::Send, 0, 64, other, 0))?;
            }
            runtime::println!("ready");
            sleep(Duration::from_secs(600));
            Ok(())
        })
    };
    i32::from(run().is_err())
}

fn killed() -> Checked {
    let mut child = Program::new("uverbs-data")
        .arg("linger")
        .spawn()
        .map_err(text("starting"))?;
    let has_posted = || {
        let now = guest_tests::uverbs::text("qps").unwrap_or_default();
        // Queued sends of one of its queue pairs.
        now.lines().any(|line| line.split(' ').nth(11) == Some("7"))
    };
    let is_there = settled(has_posted, &true);
    child.kill().map_err(text("killing"))?;
    child.wait().map_err(text("waiting"))?;
    match is_there {
        true => Ok(()),
        false => Err::<(), String>("it has no sends that wait".into()),
    }
}
