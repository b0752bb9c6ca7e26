//! Reports of a library that moves data itself, and the files that show them.

use syscall::error::{EINVAL, EIO, Error};
use verbs_abi::call::{REPORT_CQS, REPORT_QPS, REPORT_SRQS};
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use zerocopy::{FromBytes, IntoBytes};

use super::fixture::*;
use crate::files;

/// The number of the library's queue pair.
const NUMBER: u32 = 0x44_0000;

/// The fixture's program with a queue pair that a library runs, and its handle.
fn with_pair() -> (Fixture, u32) {
    let mut fixture = Fixture::new();
    let provider = abi::CreateQpProvider {
        qpn: NUMBER,
        reserved: 0,
    };
    let request = [create_qp().as_bytes(), provider.as_bytes()].concat();
    let answer = fixture
        .run(&plain(Command::CreateQp, &request, 32))
        .unwrap();
    let handle = u32::read_from_prefix(&answer).unwrap().0;
    for (mut change, state) in [(to_init(), 1), (to_rtr(), 2), (to_rts(), 3)] {
        change.qp_handle = handle;
        assert!(fixture.give(Command::ModifyQp, &change).is_ok(), "{state}");
    }
    (fixture, handle)
}

fn report(qp_handle: u32, state: u32, sends: u64) -> abi::QpReport {
    abi::QpReport {
        qp_handle,
        state,
        queued_sends: 3,
        queued_receives: 4,
        sends,
        sent_bytes: 10 * sends,
        receives: 5,
        received_bytes: 500,
        errors: 1,
        stored_bytes: 4 * sends,
        loaded_bytes: 12,
    }
}

fn line(fixture: &Fixture, file: &str, handle: u32) -> String {
    let Some(files::Found::Text(index)) = files::find(file) else {
        panic!("no file {file}");
    };
    let text = files::text(index, &fixture.device, files::Viewer { uid: UID });
    let found = text
        .lines()
        .find(|line| line.split(' ').nth(1) == Some(&format!("{handle}")));
    found.unwrap_or_else(|| panic!("{text}")).into()
}

#[test]
fn reports_are_seen_in_the_tables_and_counted_once() {
    let (mut fixture, handle) = with_pair();
    for sends in [100, 150] {
        let report = report(handle, 3, sends);
        let taken = fixture
            .device
            .report(fixture.context, REPORT_QPS, report.as_bytes());
        assert_eq!(taken, Ok(1));
    }
    let found = line(&fixture, "qps", handle);
    assert!(found.contains(" RC RTS "), "{found}");
    assert!(found.ends_with(" 3 4 150 1500 5 500 1 7"), "{found}");
    let counters = [
        "sends",
        "sent_bytes",
        "receives",
        "received_bytes",
        "errors",
    ];
    let counters = counters.map(|name| fixture.counter(name));
    assert_eq!(counters, [150, 1500, 5, 500, 1]);
    let cq = abi::CqReport {
        cq_handle: CQ,
        waiting: 2,
        completions: 9,
    };
    let srq = abi::SrqReport {
        srq_handle: SRQ,
        queued: 6,
        limit: 4,
    };
    let (device, context) = (&mut fixture.device, fixture.context);
    assert_eq!(device.report(context, REPORT_CQS, cq.as_bytes()), Ok(1));
    assert_eq!(device.report(context, REPORT_SRQS, srq.as_bytes()), Ok(1));
    assert_eq!(line(&fixture, "cqs", CQ), format!("1 {CQ} 16 2 9 - 7"));
    assert_eq!(
        line(&fixture, "srqs", SRQ),
        format!("1 {SRQ} 8 1 4 6 {PD} 7")
    );
}

#[test]
fn an_error_that_is_reported_is_the_state_from_which_it_is_changed() {
    let (mut fixture, handle) = with_pair();
    const ERR: u32 = 6;
    for (state, expected) in [(2, "RTS"), (77, "RTS"), (ERR, "ERR"), (3, "ERR")] {
        let report = report(handle, state, 0);
        let taken = fixture
            .device
            .report(fixture.context, REPORT_QPS, report.as_bytes());
        assert_eq!(taken, Ok(1));
        let found = line(&fixture, "qps", handle);
        assert!(found.contains(&format!(" RC {expected} ")), "{found}");
    }
    let mut change = to_rts();
    change.qp_handle = handle;
    let refused = fixture.give(Command::ModifyQp, &change);
    assert_eq!(refused, Err(EINVAL));
    let reset = abi::ModifyQp {
        qp_handle: handle,
        attr_mask: 1,
        ..Default::default()
    };
    assert!(fixture.give(Command::ModifyQp, &reset).is_ok());
}

#[test]
fn reports_of_nothing_change_nothing() {
    let (mut fixture, handle) = with_pair();
    let before = line(&fixture, "qps", handle);
    let all = [
        report(NONE, 6, 1),
        report(CQ, 6, 1),
        // The daemon runs this one itself.
        report(QP, 6, 1),
    ];
    let (device, context) = (&mut fixture.device, fixture.context);
    assert_eq!(device.report(context, REPORT_QPS, all.as_bytes()), Ok(0));
    assert_eq!(device.report(context, REPORT_CQS, &[]), Ok(0));
    let invalid = Err(Error::new(EINVAL));
    let whole = report(handle, 6, 1);
    let short = &whole.as_bytes()[..71];
    assert_eq!(device.report(context, REPORT_QPS, short), invalid);
    assert_eq!(device.report(context, 99, whole.as_bytes()), invalid);
    device.close(context);
    let gone = device.report(context, REPORT_QPS, whole.as_bytes());
    assert_eq!(gone, Err(Error::new(EIO)));
    let (fixture, handle) = with_pair();
    assert_eq!(line(&fixture, "qps", handle), before);
}

#[test]
fn what_is_reported_has_passed_the_port() {
    let (mut fixture, handle) = with_pair();
    let counters = |fixture: &Fixture| {
        let all = ["xmit_packets", "xmit_data", "rcv_packets", "rcv_data"];
        all.map(|name| {
            let path = format!("class/infiniband/scif0/ports/1/counters/port_{name}");
            let Some(files::Found::Text(index)) = files::find(&path) else {
                panic!("no file {path}");
            };
            files::text(index, &fixture.device, files::Viewer { uid: UID })
        })
    };
    assert_eq!(counters(&fixture), ["0\n"; 4]);
    let bytes = report(handle, 3, 20);
    let context = fixture.context;
    let taken = fixture.device.report(context, REPORT_QPS, bytes.as_bytes());
    assert_eq!(taken, Ok(1));
    // The bytes of verbs' messages pass streams, so they are counted with those of streams.
    assert_eq!(counters(&fixture), ["20\n", "20\n", "5\n", "3\n"]);
    let peer = u64::from(fixture.device.shared.node) + 1;
    let table = format!("node out in written read\n{peer} 5000 40 800 8\n");
    fixture.device.note_scif(&table, [0, 0]);
    assert_eq!(counters(&fixture), ["22\n", "1470\n", "6\n", "15\n"]);
    assert_eq!(fixture.device.traffic().sent_bytes, 5880);
}
