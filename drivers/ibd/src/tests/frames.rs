//! Tests of the frame of a command, which all commands share.

use syscall::error::{EINVAL, EIO, ENOENT, ENOSPC, EOPNOTSUPP};
use verbs_abi::command::Command;
use verbs_abi::handles::{HANDLES, Handle, ObjectType};

use super::fixture::{Fixture, MR, NONE, PD, QP, extended, good, plain};
use crate::command;
use crate::device::Device;

/// A command of the fixture's program.
fn frame(command: Command, is_extended: bool) -> (Vec<u8>, i32) {
    let (request, room, errno) = good(command, is_extended);
    match is_extended {
        true => (extended(command, &request, room), errno),
        false => (plain(command, &request, room), errno),
    }
}

#[test]
fn every_command_does_what_it_says() {
    for (command, is_extended, _, answer) in command::table() {
        let (bytes, errno) = frame(command, is_extended);
        let result = Fixture::new().run(&bytes);
        match errno {
            0 => assert!(result.unwrap().len() >= answer, "{command:?}"),
            errno => assert_eq!(result, Err(errno), "{command:?}"),
        }
    }
}

#[test]
fn commands_that_linux_does_not_have_either() {
    let mut fixture = Fixture::new();
    let known = |command| command::table().any(|(of, ..)| of == command);
    let missing: Vec<Command> = Command::ALL.into_iter().filter(|of| !known(*of)).collect();
    use Command::*;
    assert_eq!(
        missing,
        [ModifyAh, QueryAh, RegSmr, QueryMr, BindMw, PeekCq]
    );
    for command in missing {
        assert_eq!(fixture.run(&plain(command, &[0; 64], 64)), Err(EOPNOTSUPP));
    }
    for number in (41..256).map(u32::to_ne_bytes) {
        for is_extended in [0, 0x80] {
            let mut bytes = [0; 64];
            bytes[..4].copy_from_slice(&number);
            bytes[3] |= is_extended;
            bytes[4] = if is_extended == 0 { 16 } else { 5 };
            assert_eq!(fixture.run(&bytes), Err(EOPNOTSUPP), "{number:?}");
        }
    }
}

#[test]
fn plain_commands_have_no_extended_form_and_the_other_way_round() {
    for command in Command::ALL {
        let mut of_it = command::table().filter(|(of, ..)| *of == command);
        if of_it.any(|(_, is_extended, ..)| is_extended) {
            continue;
        }
        let result = Fixture::new().run(&extended(command, &[0; 128], 64));
        assert_eq!(result, Err(EOPNOTSUPP), "{command:?}");
    }
}

#[test]
fn a_short_request_or_room_is_refused() {
    for (command, is_extended, request_bytes, answer_bytes) in command::table() {
        if command == Command::GetContext {
            continue;
        }
        let (request, room, _) = good(command, is_extended);
        let name = format!("{command:?}, extended {is_extended}");
        let mut fixture = Fixture::new();
        let before = fixture.objects();
        let word = if is_extended { 8 } else { 4 };
        let with = |request: &[u8], room| match is_extended {
            true => extended(command, request, room),
            false => plain(command, request, room),
        };
        for length in (0..request_bytes).step_by(word) {
            let result = fixture.run(&with(&request[..length], room));
            assert_eq!(result, Err(ENOSPC), "{name}: request of {length}");
        }
        for length in (0..answer_bytes).step_by(word) {
            let result = fixture.run(&with(&request, length));
            assert_eq!(result, Err(ENOSPC), "{name}: room of {length}");
        }
        // A frame that was cut off anywhere.
        let whole = with(&request, room);
        for length in 0..whole.len() {
            let result = fixture.run(&whole[..length]);
            assert_eq!(result, Err(EINVAL), "{name}: {length} bytes of it");
        }
        assert_eq!(fixture.run(&[&whole[..], &[0; 4]].concat()), Err(EINVAL));
        assert_eq!(fixture.objects(), before, "{name}");
    }
}

#[test]
fn nothing_goes_before_get_context_and_it_goes_once() {
    for (command, is_extended, ..) in command::table() {
        let mut device = Device::new(0);
        let owner = crate::context::Owner { pid: 1, uid: 1 };
        let context = device.open(owner).unwrap();
        let mut fixture = Fixture {
            device,
            context,
            now: 0,
        };
        let (bytes, _) = frame(command, is_extended);
        let begins = command == Command::GetContext;
        let first = fixture.run(&bytes).map(|_| ());
        assert_eq!(
            first,
            if begins { Ok(()) } else { Err(EINVAL) },
            "{command:?}"
        );
        assert_eq!(
            fixture.run(&frame(Command::GetContext, false).0).is_ok(),
            !begins
        );
    }
}

#[test]
fn handles_are_checked_for_what_they_are() {
    use Command::*;
    for Handle {
        command,
        offset: at,
        of,
    } in HANDLES
    {
        let other = if of == ObjectType::Pd { MR } else { PD };
        let (mut request, room, _) = good(command, false);
        for (handle, errno) in [(NONE, ENOENT), (u32::MAX, ENOENT), (other, EINVAL)] {
            request[at..at + 4].copy_from_slice(&handle.to_ne_bytes());
            let mut fixture = Fixture::new();
            let before = fixture.objects();
            let result = fixture.run(&plain(command, &request, room));
            assert_eq!(result, Err(errno), "{command:?} of {handle}");
            assert_eq!(fixture.objects(), before, "{command:?}");
        }
    }
    // Whatever is wrong with a handle of CREATE_QP, it is an invalid argument.
    for (at, other) in [(16, MR), (20, QP), (24, QP)] {
        for handle in [NONE, other] {
            let (mut request, room, _) = good(CreateQp, false);
            request[at..at + 4].copy_from_slice(&u32::to_ne_bytes(handle));
            let result = Fixture::new().run(&plain(CreateQp, &request, room));
            assert_eq!(result, Err(EINVAL), "{handle} at {at}");
        }
    }
}

#[test]
fn a_context_that_has_gone_answers_nothing() {
    let mut fixture = Fixture::new();
    fixture.device.close(fixture.context);
    let (bytes, _) = frame(Command::AllocPd, false);
    assert_eq!(fixture.run(&bytes), Err(EIO));
}

#[test]
fn handles_mean_nothing_in_another_context() {
    let mut fixture = Fixture::new();
    let own = fixture.context;
    let owner = crate::context::Owner { pid: 8, uid: 1001 };
    fixture.context = fixture.device.open(owner).unwrap();
    fixture.run(&frame(Command::GetContext, false).0).unwrap();
    for command in [
        Command::DeallocPd,
        Command::DeregMr,
        Command::DestroyCq,
        Command::DestroyQp,
        Command::DestroySrq,
        Command::DestroyAh,
        Command::CloseXrcd,
        Command::QueryQp,
        Command::ModifyQp,
    ] {
        assert_eq!(
            fixture.run(&frame(command, false).0),
            Err(ENOENT),
            "{command:?}"
        );
    }
    fixture.device.close(fixture.context);
    fixture.context = own;
    assert!(fixture.run(&frame(Command::QueryQp, false).0).is_ok());
}

#[test]
fn no_bytes_make_the_daemon_stumble() {
    let mut state = 5_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let mut fixture = Fixture::new();
    for round in 0..60_000 {
        let rows: Vec<_> = command::table().collect();
        let (command, is_extended, ..) = rows[random() as usize % rows.len()];
        let (mut request, room, _) = good(command, is_extended);
        // Fields with likely and unlikely values.
        for _ in 0..random() % 4 {
            let at = random() as usize % request.len().max(1);
            if let Some(byte) = request.get_mut(at) {
                *byte = if random() % 2 == 0 {
                    random() as u8
                } else {
                    (random() % 12) as u8
                };
            }
        }
        let more = random() as usize % 3 * 16;
        request.extend((0..more).map(|_| random() as u8));
        let bytes = match is_extended {
            true => extended(command, &request, room),
            false => plain(command, &request, room),
        };
        let _ = fixture.run(&bytes);
        if round % 500 == 0 {
            fixture.device.close(fixture.context);
            let left = fixture.objects();
            assert!(left.iter().all(|count| *count == 0), "{left:?}");
            fixture = Fixture::new();
        }
    }
}
