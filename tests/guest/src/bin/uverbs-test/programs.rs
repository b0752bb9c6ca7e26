//! Programs that end or are killed with everything open, that wait for the port, other users, and
//! limits.

use alloc::string::String;

use guest_tests::uverbs::{Context, ROOT, bytes, present, text};
use guest_tests::{settled, text as as_text};
use libredox::Fd;
use libredox::flag::O_WRONLY;
use runtime::process::Command as Program;
use runtime::time::{Duration, sleep};
use runtime::{fd, fs};
use syscall::error::{EACCES, EINVAL, ENOMEM, EPERM};
use verbs_abi::command::Command::{CreateQp, ModifyQp, RegMr};
use verbs_abi::records as abi;

use crate::world::{World, create_qp, errno, reg_mr, to_init};

/// A user.
const USER: u32 = 1000;

/// Ends with everything open.
pub fn leave() -> i32 {
    match World::full() {
        Ok(world) => {
            core::mem::forget(world);
            0
        }
        Err(errno) => errno,
    }
}

/// Waits with everything open to be killed.
pub fn linger() -> i32 {
    match World::full() {
        Ok(_world) => {
            runtime::println!("ready");
            sleep(Duration::from_secs(600));
            1
        }
        Err(errno) => errno,
    }
}

pub fn run(role: &str, kill: bool) -> Result<(), String> {
    let mut child = Program::new("uverbs-test")
        .arg(role)
        .spawn()
        .map_err(as_text("starting"))?;
    if kill {
        let has_objects = || present().is_ok_and(|now| count(&now, "qps") == 1);
        if !settled(has_objects, &true) {
            return Err("it has made no queue pair".into());
        }
        child.kill().map_err(as_text("killing"))?;
    }
    let status = child.wait().map_err(as_text("waiting"))?;
    match status.success() || kill {
        true => Ok(()),
        false => Err(alloc::format!("{status}")),
    }
}

pub fn count(counters: &[(String, u64)], name: &str) -> u64 {
    let mut named = counters.iter().filter(|(counter, _)| counter == name);
    named.next().map_or(0, |(_, value)| *value)
}

pub fn user() -> Result<(), String> {
    let _world = World::new().map_err(as_text("objects"))?;
    let mut program = Program::new("uverbs-test");
    let mut child = program
        .arg("user")
        .uid(USER)
        .gid(USER)
        .spawn()
        .map_err(as_text("starting"))?;
    let status = child.wait().map_err(as_text("waiting"))?;
    match status.success() {
        true => Ok(()),
        false => Err(alloc::format!("{status}")),
    }
}

/// The view of another user while root has a context; each exit status says what was wrong.
pub fn as_user() -> i32 {
    let lines = |path: &str| text(path).map(|text| text.lines().count());
    if lines("contexts") != Ok(1) || lines("qps") != Ok(1) || lines("mrs") != Ok(1) {
        return 11;
    }
    let Ok(world) = World::new() else {
        return 12;
    };
    if lines("contexts") != Ok(2) || lines("qps") != Ok(2) || lines("mrs") != Ok(2) {
        return 13;
    }
    let raw = abi::CreateQp {
        qp_type: 8,
        ..create_qp()
    };
    if errno(world.context.raw(CreateQp, bytes(&raw), 32)) != EPERM {
        return 14;
    }
    let privileged = abi::ModifyQp {
        attr_mask: 1 << 6,
        qkey: 1 << 31,
        ..to_init()
    };
    if world.context.give(ModifyQp, &privileged) != Err(EPERM) {
        return 15;
    }
    let opened = Fd::open(&alloc::format!("{ROOT}/limits"), O_WRONLY, 0);
    if opened.map_err(|error| error.errno()).map(|_| ()) != Err(EACCES) {
        return 16;
    }
    0
}

pub fn limits() -> Result<(), String> {
    let path = alloc::format!("{ROOT}/limits");
    let before = fs::read_to_string(&path).map_err(as_text("reading limits"))?;
    let set = |text: &str| {
        let file = Fd::open(&path, O_WRONLY, 0).map_err(|error| error.errno())?;
        let written = fd::write(file.raw(), text.as_bytes());
        written.map(|_| ()).map_err(|error| error.errno)
    };
    if set("locked_pages_per_user many\n") != Err(EINVAL) {
        return Err("nonsense is a limit".into());
    }
    let world = World::new().map_err(as_text("objects"))?;
    set("locked_pages_per_user 9\n").map_err(as_text("setting a limit"))?;
    let region = || errno(world.context.raw(RegMr, bytes(&reg_mr()), 12));
    // Four pages are there.
    let found = [region(), region()];
    set(&before).map_err(as_text("setting limits back"))?;
    let after = region();
    match (found, after) {
        ([0, ENOMEM], 0) => Ok(()),
        other => Err(alloc::format!("{other:?}")),
    }
}

/// Waits until the port has gone and come again; each exit status says what was wrong.
pub fn port() -> i32 {
    const PORT_ACTIVE: u8 = 9;
    const PORT_ERR: u8 = 10;
    let Ok(context) = Context::begun() else {
        return 11;
    };
    let Ok(events) = context.events("async") else {
        return 12;
    };
    for (expected, status) in [(PORT_ERR, 13), (PORT_ACTIVE, 14)] {
        let mut record = [0; 16];
        // The port's number, and the type.
        if events.read(&mut record) != Ok(16) || (record[0], record[8]) != (1, expected) {
            return status;
        }
    }
    0
}
