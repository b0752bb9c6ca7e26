//! Tests of a context whose daemon dies.

use std::cell::Cell;
use std::rc::Rc;

use hal::testing::host::{self, Request};
use syscall::error::{EIO, ENODEV, Error};
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use verbs_core::table::Id;
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

/// Before its XRC domain has a shared receive queue, the receiving half of a connection belongs to
/// no protection domain of the program.
#[test]
fn a_receiving_half_needs_and_keeps_no_protection_domain() {
    with_daemon(|context, _| {
        let before = context.counts().pds;
        let domain = context.open_xrcd().expect("an XRC domain");
        let unused = Id(0);
        let init = QpInit {
            kind: QpType::XrcRecv,
            pd: unused,
            send_cq: unused,
            recv_cq: unused,
            srq: None,
            xrcd: Some(domain),
            capacity: Capacity::default(),
            signal_all: false,
        };
        let early = context.create_qp(init, 0).expect("one without a domain");
        let pd = context.alloc_pd().expect("a domain");
        let late = context.create_qp(init, 0).expect("one beside a domain");
        assert_eq!(context.dealloc_pd(pd), Ok(()));
        for number in [early, late] {
            assert_eq!(context.close_xrcd(domain), Err(Failure::Busy));
            assert_eq!(context.destroy_qp(number), Ok(()));
        }
        assert_eq!(context.close_xrcd(domain), Ok(()));
        assert_eq!(context.counts().pds, before);
    });
}
