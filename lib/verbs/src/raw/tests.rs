//! Tests of a context whose daemon dies.

use std::cell::Cell;
use std::rc::Rc;

use hal::testing::host::{self, Request};
use syscall::error::{EIO, ENODEV, Error};
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use verbs_core::types::QpType;
use verbs_core::work::{Capacity, QpInit};

use super::Context;
use crate::daemon::Name;
use crate::error::Error as Failure;

const GROUP: [u8; 16] = [0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
const LID: u16 = 0xc001;
const QP: u32 = 5;

/// A context with a queue pair for datagrams, on a system that does whatever is asked until the
/// daemon dies, and what kills the daemon.
fn with_daemon(test: impl FnOnce(&Context, &dyn Fn())) {
    let is_dead = Rc::new(Cell::new(false));
    let kill = is_dead.clone();
    let mut next = 0;
    let answer = move |request: Request<'_>| match request {
        Request::Open(_) | Request::Dup(..) => {
            next += 1;
            Ok(next)
        }
        Request::Call(..) if is_dead.get() => Err(Error::new(ENODEV)),
        _ => Ok(0),
    };
    host::play(answer, || {
        let context = Context::open(|_| Ok(())).expect("a context");
        let mut state = context.lock();
        let core = &mut state.engine.core;
        let pd = core.alloc_pd().expect("a domain");
        let cq = core.create_cq(1).expect("a queue");
        let init = QpInit {
            kind: QpType::Ud,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            capacity: Capacity::default(),
            signal_all: false,
        };
        core.create_qp(QP, init).expect("a queue pair");
        drop(state);
        let mut daemon = context.daemon();
        let request = abi::CreateQp::default();
        let (name, command) = (Name::Qp(QP), Command::CreateQp);
        let made = daemon.make::<_, abi::CreateQpAnswer>(name, command, &request, &[]);
        made.expect("a handle");
        drop(daemon);
        test(&context, &|| kill.set(true));
    });
}

/// Makes the queue pair a member of a group, of which no daemon knows.
fn attach(context: &Context) {
    let attached = {
        let core = &mut context.lock().engine.core;
        core.attach_multicast(QP, GROUP, LID)
    };
    attached.expect("a member");
}

#[test]
fn a_member_of_a_group_can_leave_and_end_without_a_daemon() {
    with_daemon(|context, kill| {
        attach(context);
        kill();
        assert_eq!(context.detach_multicast(QP, GROUP, LID), Ok(()));
        let again = context.detach_multicast(QP, GROUP, LID);
        assert_eq!(again, Err(Failure::Invalid));
        assert_eq!(context.destroy_qp(QP), Ok(()));
    });
}

#[test]
fn a_member_that_joins_again_in_vain_stays_a_member() {
    with_daemon(|context, kill| {
        let join = || context.attach_multicast(QP, GROUP, LID);
        let is_member = || context.lock().engine.core.is_member(QP, &GROUP);
        kill();
        let lost = Err(Failure::from_errno(EIO));
        assert_eq!((join(), is_member()), (lost, false));
        attach(context);
        assert_eq!((join(), is_member()), (lost, true));
    });
}
