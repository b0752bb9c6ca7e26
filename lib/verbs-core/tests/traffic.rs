//! The traffic of queue pairs and completion queues, and a queue pair that lives elsewhere.

mod pair;

use pair::{End, Setup, pair, settle};
use verbs_core::Traffic;
use verbs_core::types::{Error, Opcode, QpState, SendFlags, WcStatus};

fn traffic(end: &End) -> Traffic {
    end.context.query_qp(end.qp).unwrap().traffic
}

#[test]
fn requests_messages_and_errors_are_counted() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(1, 0, 100);
    left.send(1, 0, 40);
    // One that does not complete counts, too.
    let mut quiet = left.one_sided(2, Opcode::RdmaWrite, (0, 8), (64, right.key));
    quiet.flags = SendFlags::empty();
    left.post(quiet);
    settle(&mut left, &mut right);
    let sent = Traffic {
        sends: 2,
        sent_bytes: 48,
        stored_bytes: 8,
        ..Traffic::default()
    };
    let received = Traffic {
        receives: 1,
        received_bytes: 40,
        ..Traffic::default()
    };
    assert_eq!((traffic(&left), traffic(&right)), (sent, received));
    assert_eq!(left.context.cq_traffic(left.send_cq), Ok((1, 1)));
    assert_eq!(left.send_results(), [(1, WcStatus::Success)]);
    assert_eq!(left.context.cq_traffic(left.send_cq), Ok((0, 1)));
    // A wrong key, and a receive that is flushed with it.
    right.receive(2, 0, 100);
    left.post(left.one_sided(3, Opcode::RdmaWrite, (0, 8), (64, right.key ^ 1)));
    settle(&mut left, &mut right);
    assert_eq!(traffic(&left), Traffic { errors: 1, ..sent });
    assert_eq!(
        traffic(&right),
        Traffic {
            errors: 1,
            ..received
        }
    );
}

#[test]
fn a_state_that_was_come_to_elsewhere_is_followed() {
    let (mut left, _) = pair(&Setup::default());
    let (context, qp) = (&mut left.context, left.qp);
    assert_eq!(context.follow_state(qp, QpState::Rts), Ok(()));
    for wrong in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Sqd] {
        assert_eq!(context.follow_state(qp, wrong), Err(Error::Invalid));
    }
    for state in [QpState::Sqe, QpState::Err] {
        assert_eq!(context.follow_state(qp, state), Ok(()));
        assert_eq!(context.query_qp(qp).unwrap().state, state);
    }
    assert_eq!(context.follow_state(qp, QpState::Rts), Err(Error::Invalid));
    assert_eq!(context.follow_state(99, QpState::Err), Err(Error::NotFound));
}
