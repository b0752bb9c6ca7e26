//! Kinds of requests and queues beside messages and one-sided operations, and memory that changes.

use alloc::format;

use guest_tests::text;
use guest_tests::uverbs::{Context, counter};
use runtime::process::Command as Program;
use runtime::time::{Duration, sleep};
use scif::Memory;
use syscall::error::EINVAL;
use verbs_abi::command::Command::*;
use verbs_abi::records as abi;
use verbs_core::types::{Opcode, SendFlags, WcStatus};

use crate::end::{ALL, BYTES, Checked, DATAGRAMS, End, INLINE, QKEY, RELIABLE, Send, register};
use crate::{OK, send, with_pair};

/// Bytes in front of a datagram in its receive.
const HEAD: usize = 40;
/// `IBV_REREG_MR_CHANGE_TRANSLATION`.
const OTHER_MEMORY: u32 = 1;
/// Counters of what queue pairs have moved.
const COUNTERS: [&str; 5] = [
    "sends",
    "sent_bytes",
    "receives",
    "received_bytes",
    "errors",
];
/// `IBV_WC_WITH_IMM`.
const WITH_IMMEDIATE: u32 = 2;
/// Programs that are killed while they register memory.
const KILLS: u64 = 12;

/// Inline data is what was there when it was posted.
pub fn inline() -> Checked {
    let counters = || -> Checked<[u64; 5]> {
        let mut found = [0; 5];
        for (place, name) in found.iter_mut().zip(COUNTERS) {
            *place = counter(name).map_err(text("counter"))?;
        }
        Ok(found)
    };
    let before = counters()?;
    with_pair(7, |one, other| {
        let length = INLINE as usize;
        let inline = Send {
            flags: SendFlags::INLINE,
            ..send(Opcode::Send, 0, length, other, 0)
        };
        one.fill(1, 0, length)?;
        one.send(1, &inline)?;
        // No receive has been there until now.
        one.fill(2, 0, length)?;
        other.receive(2, other.element(0, length, other.address.key))?;
        one.expect(&[(1, OK)])?;
        other.expect(&[(2, OK)])?;
        other.has(1, 0, length)?;
        let write = Send {
            flags: SendFlags::INLINE,
            ..send(Opcode::RdmaWrite, 0, length, other, 8192)
        };
        one.send(3, &write)?;
        one.expect(&[(3, OK)])?;
        other.has(2, 8192, length)?;
        let key = one.address.key;
        let bad = [
            one.element(0, length + 1, key),
            one.element(0, length, key + 1),
            one.element(BYTES - 8, length, key),
        ];
        for element in bad {
            let posted = one.try_send(4, &inline, element);
            if posted != Err(EINVAL) {
                return Err(format!("{element:?}: {posted:?}"));
            }
        }
        // A read has nowhere to put what it reads.
        let read = Send {
            flags: SendFlags::INLINE,
            ..send(Opcode::RdmaRead, 0, 8, other, 0)
        };
        match one.try_send(5, &read, one.element(0, 8, key)) {
            Err(EINVAL) => Ok(()),
            posted => Err(format!("an inline read: {posted:?}")),
        }
    })?;
    // The device's counters have the two that were sent, the message that arrived, nothing else.
    let after = counters()?;
    let more: [u64; 5] = core::array::from_fn(|at| after[at].wrapping_sub(before[at]));
    let bytes = u64::from(INLINE);
    match more == [2, 2 * bytes, 1, bytes, 0] {
        true => Ok(()),
        false => Err(format!("{COUNTERS:?} have grown by {more:?}")),
    }
}

/// Datagrams between two contexts.
pub fn datagrams() -> Checked {
    let contexts = [Context::begun(), Context::begun()];
    let [Ok(first), Ok(second)] = &contexts else {
        return Err("open".into());
    };
    let one = End::of_type(first, ALL, DATAGRAMS, false)?;
    let other = End::of_type(second, ALL, DATAGRAMS, false)?;
    for end in [&one, &other] {
        end.open()?;
    }
    let to = abi::CreateAh {
        pd_handle: one.pd,
        attr: abi::AhAttributes {
            dlid: other.address.lid,
            port_num: 1,
            ..Default::default()
        },
        ..Default::default()
    };
    let to: abi::CreateAhAnswer = first.ask(CreateAh, &to).map_err(text("address"))?;
    for (seed, length) in [(1, 1_usize), (2, 4096)] {
        one.fill(seed, 0, length)?;
        let receive = other.element(0, HEAD + length, other.address.key);
        other.receive(10, receive)?;
        let datagram = Send {
            remote: u64::from(to.ah_handle) | u64::from(other.address.qpn) << 32,
            key: QKEY,
            ..send(Opcode::SendWithImm, 0, length, &other, 0)
        };
        one.send(20, &datagram)?;
        one.expect(&[(20, OK)])?;
        let received = other.wait(1)?;
        let of = &received[0];
        let found = (of.status, of.byte_len as usize, of.imm_data, of.wc_flags);
        let origin = (of.src_qp, of.slid);
        if found != (0, HEAD + length, 0x1234_5678, WITH_IMMEDIATE)
            || origin != (one.address.qpn, one.address.lid)
        {
            return Err(format!("received {received:?}"));
        }
        other.has(seed, HEAD, length)?;
        // With another key it is dropped.
        other.receive(11, receive)?;
        one.send(21, &Send { key: 7, ..datagram })?;
        one.send(22, &datagram)?;
        one.expect(&[(21, OK), (22, OK)])?;
        other.expect(&[(11, OK)])?;
    }
    let ended = first.give(DestroyAh, &to.ah_handle);
    ended.map_err(text("end of the address"))?;
    one.end()?;
    other.end()
}

/// Messages into a shared receive queue.
pub fn shared() -> Checked {
    let contexts = [Context::begun(), Context::begun()];
    let [Ok(first), Ok(second)] = &contexts else {
        return Err("open".into());
    };
    let one = End::new(first, ALL)?;
    let other = End::of_type(second, ALL, RELIABLE, true)?;
    one.join(&other, 7)?;
    for round in 0..4_u8 {
        let at = usize::from(round) * 4096;
        let receive = other.element(at, 4096, other.address.key);
        other.receive(u64::from(round), receive)?;
    }
    for round in 0..4_u8 {
        let at = usize::from(round) * 4096;
        one.fill(round, at, 4096)?;
        one.send(10, &send(Opcode::Send, at, 4096, &other, 0))?;
        one.expect(&[(10, OK)])?;
        other.expect(&[(u64::from(round), OK)])?;
        other.has(round, at, 4096)?;
    }
    // The next one waits for a receive.
    one.fill(9, 0, 64)?;
    one.send(11, &send(Opcode::Send, 0, 64, &other, 0))?;
    other.receive(5, other.element(0, 64, other.address.key))?;
    one.expect(&[(11, OK)])?;
    other.expect(&[(5, OK)])?;
    other.has(9, 0, 64)?;
    one.end()?;
    other.end()
}

/// REREG_MR with other memory: the new key leads there, the former one nowhere.
pub fn other_memory() -> Checked {
    with_pair(7, |one, other| {
        let memories = [Memory::ordinary(8192), Memory::ordinary(8192)];
        let [Ok(former), Ok(new)] = &memories else {
            return Err("memory".into());
        };
        former.fill(0, 8192, 0x11).map_err(text("fill"))?;
        new.fill(0, 8192, 0x22).map_err(text("fill"))?;
        let start = |memory: &Memory| memory.address() as u64;
        let region = register(other.context, (other.pd, ALL), (start(former), 8192));
        let region = region.map_err(text("region"))?;
        let change = abi::ReregMr {
            mr_handle: region.mr_handle,
            flags: OTHER_MEMORY,
            start: start(new),
            length: 8192,
            hca_va: start(new),
            pd_handle: other.pd,
            access_flags: ALL,
            ..Default::default()
        };
        let sent = other.context.send_space();
        sent.map_err(text("address space"))?;
        let changed: abi::ReregMrAnswer = other
            .context
            .ask(ReregMr, &change)
            .map_err(text("other memory"))?;
        let read = Send {
            remote: start(new),
            key: changed.rkey,
            ..send(Opcode::RdmaRead, 0, 4096, other, 0)
        };
        one.send(1, &read)?;
        one.expect(&[(1, OK)])?;
        let byte = one.memory.read::<u8>(0).map_err(text("look"))?;
        let late = Send {
            remote: start(former),
            key: region.rkey,
            ..send(Opcode::RdmaWrite, 0, 64, other, 0)
        };
        one.send(2, &late)?;
        one.expect(&[(2, WcStatus::RemAccessErr)])?;
        let kept = former.read::<u8>(0).map_err(text("look"))?;
        let mr_handle = region.mr_handle;
        let ended = other.context.give(DeregMr, &abi::DeregMr { mr_handle });
        ended.map_err(text("end of the region"))?;
        match (byte, kept) {
            (0x22, 0x11) => Ok(()),
            found => Err(format!("read, kept: {found:x?}")),
        }
    })
}

/// Registers memory again and again, to be killed meanwhile.
pub fn register_for_ever() -> i32 {
    let run = || -> Checked {
        let context = Context::begun().map_err(text("open"))?;
        let pd: abi::AllocPdAnswer = context
            .ask(AllocPd, &abi::AllocPd::default())
            .map_err(text("domain"))?;
        let memory = Memory::ordinary(4 * BYTES).map_err(text("memory"))?;
        let place = (memory.address() as u64, memory.len() as u64);
        loop {
            let region = register(&context, (pd.pd_handle, ALL), place);
            let mr_handle = region.map_err(text("region"))?.mr_handle;
            let ended = context.give(DeregMr, &abi::DeregMr { mr_handle });
            ended.map_err(text("end of the region"))?;
        }
    };
    i32::from(run().is_err())
}

pub fn killed_while_borrowing() -> Checked {
    for round in 0..KILLS {
        let commands = || counter("commands").map_err(text("counter"));
        let before = commands()?;
        let mut child = Program::new("uverbs-data")
            .arg("register")
            .spawn()
            .map_err(text("starting"))?;
        // GET_CONTEXT, ALLOC_PD and some that register.
        while commands()? < before + 4 {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_micros(300 * round));
        child.kill().map_err(text("killing"))?;
        child.wait().map_err(text("waiting"))?;
    }
    Ok(())
}

/// A region of one page of an end; `access` of the owner and of peers.
fn page_region(end: &End<'_>, start: u64, access: u32) -> Checked<abi::RegMrAnswer> {
    let region = register(end.context, (end.pd, access), (start, 4096));
    region.map_err(text("region"))
}

fn end_region(end: &End<'_>, region: &abi::RegMrAnswer) -> Checked {
    let mr_handle = region.mr_handle;
    let ended = end.context.give(DeregMr, &abi::DeregMr { mr_handle });
    ended.map_err(text("end of a region"))
}

/// Regions with the same addresses have each their own rights, whichever came last: what arrives by
/// the key that may be written is stored.
pub fn same_addresses() -> Checked {
    const READ_BY_PEERS: u32 = 4;
    for order in [[1, READ_BY_PEERS], [READ_BY_PEERS, 1]] {
        with_pair(7, |one, other| {
            let memory = Memory::ordinary(4096).map_err(text("memory"))?;
            let start = memory.address() as u64;
            let regions = [
                page_region(other, start, order[0])?,
                page_region(other, start, order[1])?,
            ];
            let writable = &regions[usize::from(order[0] != 1)];
            let element = abi::Element {
                addr: start,
                length: 64,
                lkey: writable.lkey,
            };
            other.receive(1, element)?;
            one.fill(7, 0, 64)?;
            one.send(2, &send(Opcode::Send, 0, 64, other, 0))?;
            one.expect(&[(2, OK)])?;
            other.expect(&[(1, OK)])?;
            let mut found = [[0; 64]; 2];
            memory.copy_out(0, &mut found[0]).map_err(text("look"))?;
            one.memory
                .copy_out(0, &mut found[1])
                .map_err(text("look at the sent"))?;
            if found[0] != found[1] {
                return Err(format!("what was received is not there, order {order:?}"));
            }
            end_region(other, &regions[0])?;
            end_region(other, &regions[1])
        })?;
    }
    Ok(())
}

/// Memory at an address that was used before.
fn memory_at(start: usize) -> Checked<Memory> {
    let mut others = alloc::vec![];
    for _ in 0..64 {
        let memory = Memory::ordinary(4096).map_err(text("memory"))?;
        match memory.address() == start {
            true => return Ok(memory),
            false => others.push(memory),
        }
    }
    Err("no other memory comes to the address".into())
}

/// Regions with the same addresses and other pages: a peer reaches the pages of the key that it
/// has, and no others.
pub fn other_pages() -> Checked {
    for order in [[ALL, 1], [1, ALL]] {
        with_pair(7, |one, other| {
            let former = Memory::ordinary(4096).map_err(text("memory"))?;
            let start = former.address();
            let first = page_region(other, start as u64, order[0])?;
            drop(former);
            let memory = memory_at(start)?;
            memory.fill(0, 4096, 0x55).map_err(text("fill"))?;
            let second = page_region(other, start as u64, order[1])?;
            let is_second = order[1] == ALL;
            let key = if is_second { second.rkey } else { first.rkey };
            let write = Send {
                remote: start as u64,
                key,
                ..send(Opcode::RdmaWrite, 0, 4096, other, 0)
            };
            one.memory.fill(0, 4096, 0xaa).map_err(text("fill"))?;
            one.send(1, &write)?;
            one.expect(&[(1, OK)])?;
            let mut found = [0; 4096];
            memory.copy_out(0, &mut found).map_err(text("look"))?;
            let wanted = if is_second { 0xaa } else { 0x55 };
            if found != [wanted; 4096] {
                return Err(format!("other pages were written, order {order:?}"));
            }
            end_region(other, &first)?;
            end_region(other, &second)
        })?;
    }
    Ok(())
}
