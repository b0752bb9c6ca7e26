//! The device of RDMA verbs by its commands: each right, each too short, each with wrong handles,
//! each object destroyed while it is used; files and events; programs that end or are killed with
//! everything open.
//!
//! `uverbs-test`, as root, on one node.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::uverbs::{Context, Errno, ROOT, bytes, command, present, text};
use guest_tests::{Suite, settled};
use hal::event::Queue;
use libredox::Fd;
use libredox::flag::{O_NONBLOCK, O_RDONLY, O_WRONLY};
use runtime::time::Duration;
use runtime::{fd, fs};
use syscall::error::{
    EACCES, EAGAIN, EBADF, EBUSY, EFAULT, EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP,
};
use syscall::flag::{EventFlags, F_SETFL, O_CREAT};
use verbs_abi::call;
use verbs_abi::command::Command::*;
use verbs_abi::handles::{HANDLES, Handle, ObjectType};
use verbs_abi::records as abi;

mod programs;
mod world;

use crate::programs::{as_user, leave, limits, linger, port, run, user};
use crate::world::*;

runtime::main!(main);

fn main() -> i32 {
    match runtime::env::args().nth(1).as_deref() {
        None => {}
        Some("leave") => return leave(),
        Some("linger") => return linger(),
        Some("user") => return as_user(),
        Some("port") => return port(),
        Some(_) => return 2,
    }
    let mut suite = Suite::new("uverbs-test");
    let before = present();
    suite.holds("the file stats can be read", before.is_ok());
    files(&mut suite);
    good(&mut suite);
    short(&mut suite);
    handles(&mut suite);
    used(&mut suite);
    refused(&mut suite);
    shapes(&mut suite);
    events(&mut suite);
    suite.equal(
        "what is left of these",
        settled(present, &before),
        before.clone(),
    );
    suite.check(
        "a program that ends with everything open",
        run("leave", false),
    );
    suite.equal(
        "what is left of it",
        settled(present, &before),
        before.clone(),
    );
    for round in 0..3 {
        suite.check(
            "a program that is killed with everything open",
            run("linger", true),
        );
        let name = alloc::format!("what is left of number {round}");
        suite.equal(&name, settled(present, &before), before.clone());
    }
    suite.check("another user", user());
    suite.check("limits", limits());
    suite.equal("what is left in the end", settled(present, &before), before);
    suite.finish()
}

fn files(suite: &mut Suite) {
    let line = |path: &str| text(path).unwrap_or_default();
    let class = "class/infiniband/scif0";
    suite.equal(
        "the name of the device",
        line("class/infiniband_verbs/uverbs0/ibdev"),
        "scif0\n".into(),
    );
    suite.equal(
        "the version of the interface",
        line("class/infiniband_verbs/abi_version"),
        "6\n".into(),
    );
    suite.equal(
        "the type of the node",
        line(&alloc::format!("{class}/node_type")),
        "1: CA\n".into(),
    );
    suite.equal(
        "the identifier",
        line(&alloc::format!("{class}/ports/1/lid")),
        "0x1\n".into(),
    );
    let state = || text("class/infiniband/scif0/ports/1/state");
    suite.equal(
        "the port",
        settled(state, &Ok("4: ACTIVE\n".into())),
        Ok("4: ACTIVE\n".into()),
    );
    let names = |path: &str| {
        let entries = fs::read_dir(&alloc::format!("{ROOT}/{path}")).and_then(Iterator::collect);
        let entries: Vec<fs::DirEntry> = entries.map_err(|error| error.errno)?;
        Ok::<_, Errno>(
            entries
                .into_iter()
                .map(|entry| entry.file_name().into())
                .collect::<Vec<String>>(),
        )
    };
    let list = |names: &[&str]| {
        Ok(names
            .iter()
            .copied()
            .map(String::from)
            .collect::<Vec<String>>())
    };
    suite.equal(
        "the class tree",
        names("class"),
        list(&["infiniband", "infiniband_mad", "infiniband_verbs"]),
    );
    suite.equal("the devices", names("class/infiniband"), list(&["scif0"]));
    for (path, flags, expected) in [
        ("uverbs1", O_RDONLY, ENOENT),
        ("stats/x", O_RDONLY, syscall::error::ENOTDIR),
        ("class", O_RDONLY, syscall::error::EISDIR),
        ("stats", O_WRONLY, EACCES),
    ] {
        let opened = Fd::open(&alloc::format!("{ROOT}/{path}"), flags, 0);
        let found = opened.map_or_else(|error| error.errno(), |_| 0);
        suite.equal(&alloc::format!("open of {path}"), found, expected);
    }
}

fn good(suite: &mut Suite) {
    let Ok(world) = World::new() else {
        return suite.holds("objects of each type", false);
    };
    for (command, request, room, expected) in requests() {
        let result = world.context.raw(command, &request, room);
        let name = alloc::format!("{command:?}");
        match (result, expected) {
            (Ok(answer), 0) => suite.equal(&name, answer.len() <= room, true),
            (result, expected) => suite.equal(&name, errno(result), expected),
        }
    }
}

fn short(suite: &mut Suite) {
    let Ok(world) = World::new() else {
        return suite.holds("objects for short commands", false);
    };
    for (number, request, room, _) in requests() {
        let mut found = Vec::new();
        let whole = command(number, &request, room);
        // Without its last word, cut off, without room, too long.
        let less = request.len() - 4;
        // Requests in lists may be left out.
        if !matches!(number, PostRecv | PostSrqRecv) {
            found.push(errno(world.context.raw(number, &request[..less], room)) == ENOSPC);
        }
        let cut = whole.get(..whole.len() - 1).unwrap_or_default();
        found.push(errno(world.context.execute(cut, 0)) == EINVAL);
        let written = fd::write(world.context.0.raw(), &[&whole[..], &[0; 4]].concat());
        found.push(written.map_err(|error| error.errno) == Err(EINVAL));
        if room > 0 && number != PollCq {
            found.push(errno(world.context.raw(number, &request, 0)) == ENOSPC);
        }
        let name = alloc::format!("{number:?} too short");
        suite.holds(&name, found.iter().all(|is_right| *is_right));
    }
}

fn handles(suite: &mut Suite) {
    let Ok(world) = World::new() else {
        return suite.holds("objects for wrong handles", false);
    };
    for (command, request, room, _) in requests() {
        let Some(Handle { offset: at, of, .. }) = HANDLES.iter().find(|of| of.command == command)
        else {
            continue;
        };
        let other = if *of == ObjectType::Pd { MR } else { PD };
        let give = |handle: u32| {
            let mut request = request.clone();
            request[*at..*at + 4].copy_from_slice(&handle.to_ne_bytes());
            errno(world.context.raw(command, &request, room))
        };
        let found = [give(NONE), give(u32::MAX), give(other)];
        let name = alloc::format!("{command:?} with wrong handles");
        suite.equal(&name, found, [ENOENT, ENOENT, EINVAL]);
    }
}

fn used(suite: &mut Suite) {
    let Ok(world) = World::new() else {
        return suite.holds("objects that are used", false);
    };
    let context = &world.context;
    let cq = abi::DestroyCq {
        cq_handle: CQ,
        ..Default::default()
    };
    let srq = abi::DestroySrq {
        srq_handle: SRQ,
        ..Default::default()
    };
    let with_srq = abi::CreateQp {
        srq_handle: SRQ,
        is_srq: 1,
        ..create_qp()
    };
    let made = context.ask::<_, abi::CreateQpAnswer>(CreateQp, &with_srq);
    suite.holds("a queue pair with a shared receive queue", made.is_ok());
    let pd = abi::DeallocPd { pd_handle: PD };
    suite.equal(
        "a domain that is used",
        context.give(DeallocPd, &pd),
        Err(EBUSY),
    );
    let busy = errno(context.raw(DestroyCq, bytes(&cq), 8));
    suite.equal("a completion queue that is used", busy, EBUSY);
    let busy = errno(context.raw(DestroySrq, bytes(&srq), 4));
    suite.equal("a shared receive queue that is used", busy, EBUSY);
    for qp_handle in [QP, made.map_or(NONE, |made| made.qp_handle)] {
        let qp = abi::DestroyQp {
            qp_handle,
            ..Default::default()
        };
        let ended = context.raw(DestroyQp, bytes(&qp), 4);
        suite.holds("a queue pair ends", ended.is_ok());
    }
    suite.equal(
        "then the queue ends",
        errno(context.raw(DestroyCq, bytes(&cq), 8)),
        0,
    );
    suite.equal(
        "and the other one",
        errno(context.raw(DestroySrq, bytes(&srq), 4)),
        0,
    );
    let mr = abi::DeregMr { mr_handle: MR };
    let ah = abi::DestroyAh { ah_handle: AH };
    suite.equal("and the region", context.give(DeregMr, &mr), Ok(()));
    suite.equal(
        "the address still uses the domain",
        context.give(DeallocPd, &pd),
        Err(EBUSY),
    );
    suite.equal("and the address", context.give(DestroyAh, &ah), Ok(()));
    suite.equal("and the domain", context.give(DeallocPd, &pd), Ok(()));
    suite.equal("once", context.give(DeallocPd, &pd), Err(ENOENT));
}

/// Commands that are refused for other reasons; the host's tests have the whole table.
fn refused(suite: &mut Suite) {
    let Ok(world) = World::new() else {
        return suite.holds("objects for refusals", false);
    };
    let context = &world.context;
    let mut check = |name: &str, number, request: &[u8], room, expected| {
        suite.equal(name, errno(context.raw(number, request, room)), expected);
    };
    let second = abi::GetContext::default();
    check(
        "a second GET_CONTEXT",
        GetContext,
        bytes(&second),
        8,
        EINVAL,
    );
    for number in [ModifyAh, QueryAh, RegSmr, QueryMr, BindMw, PeekCq] {
        check(
            &alloc::format!("{number:?}"),
            number,
            &[0; 32],
            32,
            EOPNOTSUPP,
        );
    }
    let no_bytes = abi::RegMr {
        length: 0,
        ..reg_mr()
    };
    check("a region of nothing", RegMr, bytes(&no_bytes), 12, EINVAL);
    let remote = abi::RegMr {
        access_flags: 2,
        ..reg_mr()
    };
    check(
        "a peer that may write alone",
        RegMr,
        bytes(&remote),
        12,
        EINVAL,
    );
    let raw = abi::CreateQp {
        qp_type: 8,
        ..create_qp()
    };
    check("raw packets", CreateQp, bytes(&raw), 32, EOPNOTSUPP);
    check("no such channel", CreateCq, bytes(&create_cq(5)), 8, EBADF);
    let file = abi::OpenXrcd {
        fd: 1,
        oflags: O_CREAT as u32,
        ..Default::default()
    };
    check("a domain by a file", OpenXrcd, bytes(&file), 4, EBADF);
    let unknown = abi::ModifyQp {
        attr_mask: 1 << 21,
        ..to_init()
    };
    check(
        "an unknown attribute",
        ModifyQp,
        bytes(&unknown),
        0,
        EOPNOTSUPP,
    );
    check("reset to error", ModifyQp, bytes(&to_error()), 0, EINVAL);
    check("to init", ModifyQp, bytes(&to_init()), 0, 0);
    for id in 0..4 {
        check("a receive", PostRecv, &receive(QP, id), 4, 0);
    }
    check("a receive too many", PostRecv, &receive(QP, 9), 4, ENOMEM);
    check("to error", ModifyQp, bytes(&to_error()), 0, 0);
    let poll = abi::PollCq {
        cq_handle: CQ,
        ne: 8,
        ..Default::default()
    };
    let found = context.raw(PollCq, bytes(&poll), 8 + 8 * 48);
    let found = found.map(|answer| (answer.len(), answer.first().copied()));
    suite.equal(
        "four receives are flushed",
        found,
        Ok((8 + 4 * 48, Some(4))),
    );
}

/// The ways to give a command.
fn shapes(suite: &mut Suite) {
    let Ok(context) = Context::open() else {
        return suite.holds("a context", false);
    };
    let fd = context.0.raw();
    let write = |bytes: &[u8]| fd::write(fd, bytes).map_err(|error| error.errno);
    let read = || {
        let mut buffer = [0; 64];
        let count = fd::read_once(fd, &mut buffer).map_err(|error| error.errno)?;
        Ok::<_, Errno>(buffer.get(..count).unwrap_or_default().to_vec())
    };
    let early = write(&command(AllocPd, &[0; 8], 4));
    suite.equal("nothing before GET_CONTEXT", early, Err(EINVAL));
    suite.equal(
        "GET_CONTEXT by write",
        write(&command(GetContext, &[0; 8], 8)),
        Ok(16),
    );
    suite.equal(
        "its answer by read",
        read(),
        Ok([255, 255, 255, 255, 1, 0, 0, 0].to_vec()),
    );
    suite.equal("once", read(), Ok(Vec::new()));
    let elsewhere = command(AllocPd, &0x1000_u64.to_ne_bytes(), 4);
    suite.equal("an answer for an address", write(&elsewhere), Err(EFAULT));
    suite.equal(
        "a domain by write",
        write(&command(AllocPd, &[0; 8], 4)),
        Ok(16),
    );
    suite.equal("its handle by read", read(), Ok([0; 4].to_vec()));
    let other = Context::begun();
    let pd = abi::DeallocPd { pd_handle: 0 };
    let result = other.and_then(|other| other.give(DeallocPd, &pd));
    suite.equal("means nothing elsewhere", result, Err(ENOENT));
    suite.equal(
        "and can be given up",
        write(&command(DeallocPd, &[0; 4], 0)),
        Ok(12),
    );
    let mut small = command(QueryDevice, &[0; 8], 176);
    let called = fd::call_rw(fd, &mut small, &[call::EXECUTE]).map_err(|error| error.errno);
    suite.equal("a call without room for the answer", called, Err(EFAULT));
    let called = fd::call_rw(fd, &mut small, &[9]).map_err(|error| error.errno);
    suite.equal("an unknown call", called, Err(EINVAL));
}

fn events(suite: &mut Suite) {
    let Ok((world, [events, channel])) = World::full() else {
        return suite.holds("descriptors of events", false);
    };
    let context = &world.context;
    let number = fd::call(channel.raw(), &[call::CHANNEL_NUMBER]);
    suite.equal(
        "the channel's number",
        number.map_err(|error| error.errno),
        Ok(0),
    );
    let mut name = [0; 64];
    let length = fd::fpath(channel.raw(), &mut name).unwrap_or(0);
    let path = name.get(..length).unwrap_or_default();
    suite.equal(
        "the channel's name",
        path,
        b"/scheme/infiniband/uverbs0/channel/0",
    );
    for fd in [&events, &channel] {
        let flags = fd::fcntl(fd.raw(), F_SETFL, O_NONBLOCK as usize);
        suite.holds("without waiting", flags.is_ok());
        let read = fd.read(&mut [0; 16]).map_err(|error| error.errno());
        suite.equal("there is nothing", read, Err(EAGAIN));
    }
    let Ok(mut queue) = Queue::new() else {
        return suite.holds("an event queue", false);
    };
    let subscribed = queue.subscribe(channel.raw(), EventFlags::EVENT_READ, ());
    suite.holds("events of the channel", subscribed.is_ok());
    // The queue with the channel gets a queue pair of its own.
    let cq_handle = XRCD + 1;
    let on_channel = abi::CreateQp {
        recv_cq_handle: cq_handle,
        ..create_qp()
    };
    let Ok(qp) = context.ask::<_, abi::CreateQpAnswer>(CreateQp, &on_channel) else {
        return suite.holds("a queue pair on the channel", false);
    };
    let with = |request: abi::ModifyQp| abi::ModifyQp {
        qp_handle: qp.qp_handle,
        ..request
    };
    suite.equal("to init", context.give(ModifyQp, &with(to_init())), Ok(()));
    suite.equal(
        "to error",
        context.give(ModifyQp, &with(to_error())),
        Ok(()),
    );
    let arm = abi::ReqNotifyCq {
        cq_handle,
        solicited_only: 0,
    };
    suite.equal("armed", context.give(ReqNotifyCq, &arm), Ok(()));
    let posted = context.raw(PostRecv, &receive(qp.qp_handle, 5), 4);
    suite.holds("a receive that is flushed", posted.is_ok());
    let mut ready = Vec::new();
    let waited = queue.wait(Some(Duration::from_secs(20)), &mut ready);
    suite.equal(
        "the event queue tells",
        (waited.is_ok(), ready.len()),
        (true, 1),
    );
    let mut record = [0; 16];
    let read = channel
        .read(&mut record[..7])
        .map_err(|error| error.errno());
    suite.equal("too small a buffer", read, Err(EINVAL));
    let read = channel.read(&mut record).map_err(|error| error.errno());
    suite.equal("one record", (read, record[0]), (Ok(8), 0xc0));
    let qp = abi::DestroyQp {
        qp_handle: qp.qp_handle,
        ..Default::default()
    };
    suite.equal(
        "its queue pair ends",
        errno(context.raw(DestroyQp, bytes(&qp), 4)),
        0,
    );
    let cq = abi::DestroyCq {
        cq_handle,
        ..Default::default()
    };
    let ended: Result<abi::DestroyCqAnswer, Errno> = context.ask(DestroyCq, &cq);
    let counts = ended.map(|ended| (ended.comp_events_reported, ended.async_events_reported));
    suite.equal("how many were read", counts, Ok((1, 0)));
    drop(world);
    let end = || events.read(&mut [0; 16]).map_err(|error| error.errno());
    suite.equal("the end of the context", settled(end, &Err(EIO)), Err(EIO));
}
