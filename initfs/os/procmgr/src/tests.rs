//! Tests of the table with contexts that are only records.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use syscall::error::{EAGAIN, ECHILD, EEXIST, EINVAL, EPERM, ESRCH, EWOULDBLOCK, Error, Result};

use crate::process::{Attributes, Pid, State};
use crate::signals::{Choice, Runs};
use crate::table::{Contexts, End, FOR_ROOT, INIT, MAX_PROCESSES, Table, Wanted};

#[derive(Clone, Debug, Default)]
struct Record {
    token: usize,
    killed: bool,
    /// How many others were killed before it.
    killed_after: usize,
    end: Option<End>,
    has_begun: bool,
    /// How often it was asked whether it has begun, a system call.
    asked: usize,
    euid: u32,
    name: String,
    dropped: bool,
}

type Records = Rc<RefCell<Vec<Record>>>;

struct FakeContext {
    number: usize,
    records: Records,
}

impl Drop for FakeContext {
    fn drop(&mut self) {
        self.records.borrow_mut()[self.number].dropped = true;
    }
}

#[derive(Default)]
struct Fake {
    records: Records,
    fail: RefCell<bool>,
}

impl Fake {
    fn context(&self) -> FakeContext {
        let mut records = self.records.borrow_mut();
        records.push(Record::default());
        FakeContext {
            number: records.len() - 1,
            records: Rc::clone(&self.records),
        }
    }
}

impl Contexts for Fake {
    type Context = FakeContext;
    type Given = FakeContext;

    fn create(&self, token: usize) -> Result<FakeContext> {
        if *self.fail.borrow() {
            return Err(Error::new(EAGAIN));
        }
        self.adopt(self.context(), token)
    }

    fn adopt(&self, context: FakeContext, token: usize) -> Result<FakeContext> {
        self.records.borrow_mut()[context.number].token = token;
        Ok(context)
    }

    fn set_attributes(&self, context: &FakeContext, attributes: &Attributes<'_>) -> Result<()> {
        let record = &mut self.records.borrow_mut()[context.number];
        record.euid = attributes.euid;
        record.name = attributes.name.into();
        Ok(())
    }

    fn kill(&self, context: &FakeContext) -> Result<()> {
        let mut records = self.records.borrow_mut();
        let others = records.iter().filter(|record| record.killed).count();
        let record = &mut records[context.number];
        (record.killed, record.killed_after) = (true, others);
        Ok(())
    }

    fn end(&self, context: &FakeContext) -> Option<End> {
        self.records.borrow()[context.number].end
    }

    fn has_begun(&self, context: &FakeContext) -> bool {
        let record = &mut self.records.borrow_mut()[context.number];
        record.asked += 1;
        record.has_begun
    }
}

/// A table with a running init; the second value are the contexts, init's first.
fn table() -> (Table<Fake>, Records) {
    let fake = Fake::default();
    let records = Rc::clone(&fake.records);
    let first = fake.context();
    let mut table = Table::new(fake);
    let init = table.create_init().unwrap();
    assert_eq!(init, INIT);
    table.opened(init, 1000);
    table.add_thread(init, Some(first)).unwrap();
    table.started(init);
    (table, records)
}

fn child(table: &mut Table<Fake>, parent: Pid) -> Pid {
    let pid = table.fork(parent, Runs::Another).unwrap();
    table.opened(pid, 1000 + pid as usize);
    table.started(pid);
    pid
}

/// Lets the kernel report the end of a context.
fn report(table: &mut Table<Fake>, records: &Records, number: usize, end: End) {
    records.borrow_mut()[number].end = Some(end);
    let token = records.borrow()[number].token;
    table.thread_event(token);
}

fn errno<T>(result: Result<T>) -> i32 {
    result.err().map_or(0, |error| error.errno)
}

#[test]
fn the_first_thread_is_killed_last() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.add_thread(pid, None).unwrap();
    table.add_thread(pid, None).unwrap();
    table.end(pid, 9);
    let after = |number: usize| records.borrow()[number].killed_after;
    assert_eq!([1, 2, 3].map(after), [2, 1, 0]);
}

#[test]
fn a_program_that_is_replaced_keeps_one_thread() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    let second = table.add_thread(pid, None).unwrap();
    table.add_thread(pid, None).unwrap();
    assert_eq!(errno(table.end_others(pid, 9)), ESRCH);
    // The second thread is the one that stays.
    assert_eq!(table.end_others(pid, second).unwrap(), 2);
    let killed = |records: &Records| {
        records
            .borrow()
            .iter()
            .map(|it| it.killed)
            .collect::<Vec<_>>()
    };
    assert_eq!(killed(&records), [false, true, false, true]);
    report(&mut table, &records, 1, End::Ended);
    assert_eq!(table.end_others(pid, second).unwrap(), 1);
    // The kernel knows of the end before the table does.
    records.borrow_mut()[3].end = Some(End::Ended);
    assert_eq!(table.end_others(pid, second).unwrap(), 0);
    report(&mut table, &records, 3, End::Ended);
    // The process goes on, and its end is that of the thread that is left.
    assert_eq!(table.wait(INIT, Wanted::Any, true).unwrap(), None);
    report(&mut table, &records, 2, End::Ended);
    assert_eq!(table.wait(INIT, Wanted::Any, true).unwrap(), Some((pid, 0)));
    assert_eq!(errno(table.end_others(pid, second)), ESRCH);
}

#[test]
fn exit_reaches_the_parent_once() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    assert_eq!(errno(table.wait(INIT, Wanted::Any, false)), EWOULDBLOCK);
    assert_eq!(table.wait(INIT, Wanted::Any, true).unwrap(), None);

    table.end(pid, 7 << 8);
    assert!(records.borrow()[1].killed);
    // The wait must not end before the kernel has reported the end of the context.
    assert_eq!(errno(table.wait(INIT, Wanted::Any, false)), EWOULDBLOCK);
    table.thread_event(records.borrow()[1].token);
    assert_eq!(errno(table.wait(INIT, Wanted::Any, false)), EWOULDBLOCK);
    assert!(table.take_changed().is_empty());

    report(&mut table, &records, 1, End::Ended);
    assert!(records.borrow()[1].dropped);
    assert_eq!(table.take_changed(), [1000]);
    assert_eq!(
        table
            .wait(INIT, Wanted::Child(99), true)
            .err()
            .unwrap()
            .errno,
        ECHILD
    );
    let wanted = Wanted::Child(pid.into());
    assert_eq!(
        table.wait(INIT, wanted, false).unwrap(),
        Some((pid, 7 << 8))
    );
    assert_eq!(errno(table.wait(INIT, wanted, false)), ECHILD);
}

#[test]
fn the_first_status_counts() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.end(pid, 1 << 8);
    table.kill(INIT, pid as usize, 9).unwrap();
    report(&mut table, &records, 1, End::Exception(11));
    assert_eq!(
        table.wait(INIT, Wanted::Any, false).unwrap(),
        Some((pid, 1 << 8))
    );
}

#[test]
fn an_exception_ends_all_threads() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.add_thread(pid, None).unwrap();
    report(&mut table, &records, 2, End::Exception(11));
    assert!(records.borrow()[1].killed);
    assert_eq!(errno(table.add_thread(pid, None)), ESRCH);
    assert_eq!(errno(table.fork(pid, Runs::Another)), ESRCH);
    report(&mut table, &records, 1, End::Ended);
    assert_eq!(
        table.wait(INIT, Wanted::Any, false).unwrap(),
        Some((pid, 11))
    );
}

#[test]
fn a_thread_may_end_alone() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.add_thread(pid, None).unwrap();
    report(&mut table, &records, 1, End::Ended);
    assert_eq!(table.process(pid).unwrap().state, State::Running);
    report(&mut table, &records, 2, End::Ended);
    assert_eq!(
        table.wait(INIT, Wanted::Any, false).unwrap(),
        Some((pid, 0))
    );
}

#[test]
fn orphans_go_to_init() {
    let (mut table, records) = table();
    let parent = child(&mut table, INIT);
    let living = child(&mut table, parent);
    let dead = child(&mut table, parent);
    records.borrow_mut()[2].has_begun = true;
    table.end(dead, 3 << 8);
    report(&mut table, &records, 3, End::Ended);
    table.take_changed();
    table.end(parent, 0);
    report(&mut table, &records, 1, End::Ended);
    assert_eq!(table.process(living).unwrap().parent, INIT);
    assert_eq!(table.take_changed(), [1000]);
    let mut statuses = Vec::new();
    while let Ok(Some(status)) = table.wait(INIT, Wanted::Any, true) {
        statuses.push(status);
    }
    assert_eq!(statuses, [(parent, 0), (dead, 3 << 8)]);
}

#[test]
fn a_process_that_nobody_can_start_goes_away() {
    let (mut table, records) = table();
    let pid = table.fork(INIT, Runs::Another).unwrap();
    table.opened(pid, 5);
    table.opened(pid, 6);
    table.closed(pid, 5);
    assert!(!records.borrow()[1].killed);
    table.closed(pid, 6);
    assert!(records.borrow()[1].killed);
    report(&mut table, &records, 1, End::Ended);
    assert_eq!(errno(table.process(pid)), ESRCH);
    assert_eq!(errno(table.wait(INIT, Wanted::Any, true)), ECHILD);
    // A thread of init may wait for any child; 1000 is init's handle.
    assert!(table.take_changed().contains(&1000));
    // Its parent ended between the request for the handle that starts it and its use.
    let pid = child(&mut table, INIT);
    table.closed(pid, 1000 + pid as usize);
    assert!(records.borrow()[2].killed);
    // One that runs needs no handle.
    let pid = child(&mut table, INIT);
    records.borrow_mut()[3].has_begun = true;
    table.closed(pid, 1000 + pid as usize);
    assert!(!records.borrow()[3].killed);
    assert_eq!(table.process(pid).unwrap().state, State::Running);
}

#[test]
fn a_process_that_its_parent_has_not_started_ends_with_it() {
    let (mut table, records) = table();
    let parent = child(&mut table, INIT);
    // The child's own descriptors have a handle of it, which nobody can close.
    let lost = table.fork(parent, Runs::Another).unwrap();
    table.opened(lost, 5);
    let asked_for = child(&mut table, parent);
    let running = child(&mut table, parent);
    records.borrow_mut()[4].has_begun = true;
    table.end(parent, 9);
    report(&mut table, &records, 1, End::Killed);
    let killed = |number: usize| records.borrow()[number].killed;
    assert_eq!([2, 3, 4].map(killed), [true, true, false]);
    for (number, pid) in [(2, lost), (3, asked_for)] {
        report(&mut table, &records, number, End::Killed);
        assert_eq!(errno(table.process(pid)), ESRCH);
        assert!(records.borrow()[number].dropped);
    }
    assert_eq!(table.process(running).unwrap().parent, INIT);
}

#[test]
fn children_are_asked_once_whether_they_have_begun_when_their_parent_ends() {
    let (mut table, records) = table();
    let parent = child(&mut table, INIT);
    for number in 2..42 {
        child(&mut table, parent);
        records.borrow_mut()[number].has_begun = number < 22;
    }
    records
        .borrow_mut()
        .iter_mut()
        .for_each(|record| record.asked = 0);
    table.end(parent, 0);
    report(&mut table, &records, 1, End::Ended);
    let records = records.borrow();
    let killed = records
        .iter()
        .skip(2)
        .filter(|record| record.killed)
        .count();
    let asked = records.iter().skip(2).map(|record| record.asked).max();
    assert_eq!((killed, asked), (20, Some(1)));
}

#[test]
fn a_program_that_is_replaced_ends_the_children_that_its_other_threads_were_making() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.add_thread(pid, None).unwrap();
    let lost = table.fork(pid, Runs::Another).unwrap();
    table.opened(lost, 5);
    let running = child(&mut table, pid);
    records.borrow_mut()[4].has_begun = true;
    assert_eq!(table.end_others(pid, 0).unwrap(), 1);
    // The other thread may still start it.
    assert!(!records.borrow()[3].killed);
    report(&mut table, &records, 2, End::Killed);
    assert_eq!(table.end_others(pid, 0).unwrap(), 0);
    assert!(records.borrow()[3].killed && !records.borrow()[4].killed);
    report(&mut table, &records, 3, End::Killed);
    assert_eq!(errno(table.process(lost)), ESRCH);
    assert_eq!(table.process(running).unwrap().parent, pid);
}

#[test]
fn a_thread_that_nobody_can_start_goes_away() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    records.borrow_mut()[1].has_begun = true;
    let number = table.add_thread(pid, None).unwrap();
    table.thread_opened(pid, number);
    table.thread_opened(pid, number);
    table.thread_closed(pid, number);
    assert!(!records.borrow()[2].killed);
    table.thread_closed(pid, number);
    assert!(records.borrow()[2].killed);
    report(&mut table, &records, 2, End::Killed);
    assert!(records.borrow()[2].dropped);
    assert_eq!(errno(table.thread(pid, number)), ESRCH);
    // One that runs needs no handle.
    let number = table.add_thread(pid, None).unwrap();
    records.borrow_mut()[3].has_begun = true;
    table.thread_opened(pid, number);
    table.thread_closed(pid, number);
    // The first thread of a process goes with the process.
    let other = child(&mut table, INIT);
    table.thread_opened(other, 0);
    table.thread_closed(other, 0);
    assert!(!records.borrow()[3].killed && !records.borrow()[4].killed);
}

#[test]
fn a_process_whose_last_thread_is_killed_ends_by_a_signal() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.add_thread(pid, None).unwrap();
    report(&mut table, &records, 2, End::Killed);
    assert_eq!(table.process(pid).unwrap().state, State::Running);
    report(&mut table, &records, 1, End::Killed);
    let ended = table.wait(INIT, Wanted::Any, false).unwrap();
    assert_eq!(ended, Some((pid, 9)));
}

#[test]
fn failure_to_make_a_context_leaves_nothing() {
    let (mut table, _) = table();
    *table.contexts().fail.borrow_mut() = true;
    assert_eq!(errno(table.fork(INIT, Runs::Another)), EAGAIN);
    assert_eq!(errno(table.wait(INIT, Wanted::Any, true)), ECHILD);
}

#[test]
fn the_table_is_bounded() {
    let (mut table, _) = table();
    let user = child(&mut table, INIT);
    table.set_ids(user, [1000; 3], [1000; 3]).unwrap();
    while table.fork(user, Runs::Another).is_ok() {}
    assert_eq!(errno(table.fork(user, Runs::Another)), EAGAIN);
    assert_eq!(errno(table.add_thread(user, None)), EAGAIN);
    // Root has some left.
    for _ in 0..FOR_ROOT {
        table.fork(INIT, Runs::Another).unwrap();
    }
    assert_eq!(errno(table.fork(INIT, Runs::Another)), EAGAIN);
    assert_eq!(errno(table.add_thread(INIT, None)), EAGAIN);
    assert!(table.listing().lines().count() <= MAX_PROCESSES + 1);
}

/// The sets of signals to catch and to ignore, by their numbers.
fn choice(caught: &[usize], ignored: &[usize]) -> Choice {
    let set = |numbers: &[usize]| {
        numbers
            .iter()
            .fold(0, |set, number| set | 1 << (number - 1))
    };
    Choice {
        caught: set(caught),
        ignored: set(ignored),
    }
}

#[test]
fn a_caught_signal_waits_for_its_process_and_an_ignored_one_is_lost() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    let sender = child(&mut table, INIT);
    table.set_ids(sender, [0; 3], [0; 3]).unwrap();
    let before = table.choose_signals(pid, choice(&[10, 15, 20, 9, 19], &[1, 9]));
    assert_eq!(before, Ok(Choice::default()));
    let chosen = table.process(pid).unwrap().signals.choice();
    assert_eq!(
        chosen,
        choice(&[10, 15, 20], &[1]),
        "9 and 19 stay as they are"
    );
    assert_eq!(errno(table.fetch_signal(pid)), EWOULDBLOCK);
    for number in [15, 10, 1, 0, 15, 20] {
        table.kill(sender, pid as usize, number).unwrap();
    }
    assert_eq!(errno(table.kill(sender, pid as usize, 19)), EINVAL);
    assert_eq!(errno(table.kill(sender, pid as usize, 21)), EINVAL);
    table.kill(pid, pid as usize, 10).unwrap();
    let mut fetched = || {
        let arrival = table.fetch_signal(pid)?;
        Ok(arrival.map(|arrival| (arrival.number, arrival.from.pid)))
    };
    assert_eq!(
        fetched(),
        Ok(Some((10, sender))),
        "the first of each number"
    );
    assert_eq!(fetched(), Ok(Some((15, sender))));
    assert_eq!(fetched(), Ok(Some((20, sender))));
    assert_eq!(fetched(), Err(Error::new(EWOULDBLOCK)));
    assert!(!records.borrow()[1].killed);
    // Without anything to catch there is an end.
    table.choose_signals(pid, choice(&[], &[1])).unwrap();
    assert_eq!(table.fetch_signal(pid), Ok(None));
    // What is no longer caught ends it, and so does what cannot be caught.
    table.choose_signals(pid, choice(&[15], &[])).unwrap();
    table.kill(sender, pid as usize, 10).unwrap();
    assert_eq!(table.process(pid).unwrap().state, State::Ending(10));
}

#[test]
fn a_caught_signal_wakes_who_fetches_signals() {
    let (mut table, _) = table();
    let pid = child(&mut table, INIT);
    table.opened(pid, 77);
    table.choose_signals(pid, choice(&[2], &[3])).unwrap();
    table.take_changed();
    table.kill(INIT, pid as usize, 3).unwrap();
    assert!(table.take_changed().is_empty());
    table.kill(INIT, pid as usize, 2).unwrap();
    assert!(table.take_changed().contains(&77));
}

#[test]
fn a_parent_that_catches_sigchld_is_told_of_the_end_of_each_child() {
    let (mut table, records) = table();
    let parent = child(&mut table, INIT);
    table
        .choose_signals(parent, choice(&[17, 12], &[13]))
        .unwrap();
    let first = child(&mut table, parent);
    let chosen = |table: &Table<Fake>, pid| table.process(pid).unwrap().signals.choice();
    assert_eq!(chosen(&table, first), choice(&[], &[13]), "another program");
    let same = table.fork(parent, Runs::SameProgram).unwrap();
    assert_eq!(chosen(&table, same), choice(&[17, 12], &[13]));
    table.kill(INIT, parent as usize, 12).unwrap();
    let second = table.fork(parent, Runs::SameProgram).unwrap();
    assert_eq!(
        errno(table.fetch_signal(second)),
        EWOULDBLOCK,
        "but not with the signals"
    );
    table.kill(INIT, first as usize, 9).unwrap();
    assert_eq!(table.fetch_signal(parent).unwrap().unwrap().number, 12);
    assert_eq!(
        errno(table.fetch_signal(parent)),
        EWOULDBLOCK,
        "it has not ended yet"
    );
    report(&mut table, &records, 2, End::Ended);
    let arrival = table.fetch_signal(parent).unwrap().unwrap();
    assert_eq!((arrival.number, arrival.from.pid), (17, first));
    assert_eq!(arrival.from.status, Some(9));
    assert_eq!(table.wait(parent, Wanted::Any, true), Ok(Some((first, 9))));
}

#[test]
fn children_of_a_parent_that_ignores_their_ends_leave_nothing() {
    let (mut table, records) = table();
    let parent = child(&mut table, INIT);
    table.choose_signals(parent, choice(&[], &[17, 1])).unwrap();
    let first = child(&mut table, parent);
    let chosen = table.process(first).unwrap().signals.choice();
    assert_eq!(
        chosen,
        choice(&[], &[1]),
        "another program has not asked for it"
    );
    assert_eq!(errno(table.wait(parent, Wanted::Any, false)), EWOULDBLOCK);
    table.take_changed();
    table.kill(INIT, first as usize, 9).unwrap();
    report(&mut table, &records, 2, End::Ended);
    assert!(
        !table.take_changed().is_empty(),
        "a wait must be tried again"
    );
    assert_eq!(errno(table.wait(parent, Wanted::Any, false)), ECHILD);
    assert_eq!(errno(table.process(first)), ESRCH);
}

#[test]
fn users_may_signal_only_their_own() {
    let (mut table, records) = table();
    let [mine, other, root] = [0; 3].map(|_| child(&mut table, INIT));
    table.set_ids(mine, [1000; 3], [1000; 3]).unwrap();
    table.set_ids(other, [1001; 3], [1001; 3]).unwrap();
    assert_eq!(records.borrow()[1].euid, 1000);
    let own = child(&mut table, mine);
    assert_eq!(errno(table.kill(mine, other as usize, 9)), EPERM);
    assert_eq!(errno(table.kill(mine, root as usize, 0)), EPERM);
    assert_eq!(errno(table.kill(mine, INIT as usize, 9)), EPERM);
    assert_eq!(errno(table.kill(mine, 77, 9)), ESRCH);
    assert_eq!(errno(table.kill(mine, own as usize, 19)), EINVAL);
    assert_eq!(errno(table.kill(mine, own as usize, 65)), EINVAL);
    assert_eq!(errno(table.kill(mine, own as usize, u64::MAX)), EINVAL);
    table.kill(mine, own as usize, 0).unwrap();
    table.kill(mine, own as usize, 17).unwrap();
    assert_eq!(table.process(own).unwrap().state, State::Running);
    table.kill(mine, own as usize, 15).unwrap();
    report(&mut table, &records, 4, End::Ended);
    assert_eq!(
        table.wait(mine, Wanted::Any, false).unwrap(),
        Some((own, 15))
    );
}

#[test]
fn a_signal_that_would_stop_some_of_a_group_gets_to_the_others() {
    const SIGTSTP: usize = 20;
    let (mut table, _) = table();
    let leader = child(&mut table, INIT);
    table.new_session(leader).unwrap();
    let [second, third] = [0; 2].map(|_| child(&mut table, leader));
    let group = (leader as usize).wrapping_neg();
    let send = |table: &mut Table<Fake>| table.kill(INIT, group, SIGTSTP as u64);
    assert_eq!(errno(send(&mut table)), EINVAL);
    for pid in [leader, third] {
        table.choose_signals(pid, choice(&[SIGTSTP], &[])).unwrap();
    }
    send(&mut table).unwrap();
    for (pid, arrived) in [(leader, true), (second, false), (third, true)] {
        let fetched = table.fetch_signal(pid).ok().flatten();
        let number = fetched.map(|arrival| arrival.number);
        assert_eq!(number, arrived.then_some(SIGTSTP), "{pid}");
    }
}

#[test]
fn kill_all_spares_init_and_its_session_and_the_sender() {
    let (mut table, _) = table();
    let [service, sender, other] = [0; 3].map(|_| child(&mut table, INIT));
    assert_eq!(errno(table.kill(sender, usize::MAX, 9)), ESRCH);
    table.new_session(sender).unwrap();
    table.new_session(other).unwrap();
    table.kill(sender, usize::MAX, 9).unwrap();
    let state = |pid| table.process(pid).unwrap().state;
    assert_eq!(state(INIT), State::Running);
    assert_eq!(state(service), State::Running);
    assert_eq!(state(sender), State::Running);
    assert_eq!(state(other), State::Ending(9));
}

#[test]
fn only_root_takes_any_id() {
    const KEEP: u32 = u32::MAX;
    let (mut table, _) = table();
    let pid = child(&mut table, INIT);
    table.set_ids(pid, [1000, 1000, 1001], [5, 5, 5]).unwrap();
    assert_eq!(errno(table.set_ids(pid, [KEEP, 0, KEEP], [KEEP; 3])), EPERM);
    assert_eq!(errno(table.set_ids(pid, [KEEP; 3], [0; 3])), EPERM);
    table.set_ids(pid, [KEEP, 1001, KEEP], [KEEP; 3]).unwrap();
    assert_eq!(table.process(pid).unwrap().users.effective, 1001);
    assert_eq!(table.process(pid).unwrap().meta().ruid, 1000);
}

#[test]
fn names_fit_a_listing() {
    let (mut table, records) = table();
    let pid = child(&mut table, INIT);
    table.rename(pid, b"a b\nc\0rest").unwrap();
    assert_eq!(records.borrow()[1].name, "a_b_c");
    assert_eq!(errno(table.rename(pid, &[0xFF, 0xFE])), EINVAL);
    table.rename(pid, &[b'x'; 100]).unwrap();
    assert_eq!(table.process(pid).unwrap().name.len(), 32);
    // A program's name is cut wherever the limit is, also in the middle of a character.
    let long = "x".repeat(31) + "é";
    table.rename(pid, long.as_bytes()).unwrap();
    table.rename(pid, &long.as_bytes()[..32]).unwrap();
    assert_eq!(table.process(pid).unwrap().name, "x".repeat(31));
    assert_eq!(errno(table.rename(pid, &long.as_bytes()[1..32])), EINVAL);
    assert!(
        table
            .listing()
            .starts_with("pid ppid uid status name\n1 0 0 running init\n2 1 0 ")
    );
}

#[test]
fn groups_and_sessions() {
    let (mut table, _) = table();
    let first = child(&mut table, INIT);
    let second = child(&mut table, INIT);
    assert_eq!(table.group(first, 0).unwrap(), INIT);
    table.set_group(INIT, first, 0).unwrap();
    table.set_group(second, 0, first).unwrap();
    assert_eq!(table.group(INIT, second).unwrap(), first);
    assert_eq!(errno(table.set_group(second, first, 0)), ESRCH);
    assert_eq!(errno(table.set_group(second, 0, 99)), EPERM);
    assert_eq!(errno(table.new_session(first)), EPERM);
    table.new_session(second).unwrap();
    assert_eq!(table.session(INIT, second).unwrap(), second);
    assert_eq!(errno(table.set_group(second, 0, 0)), EPERM);
    let third = child(&mut table, first);
    assert_eq!(
        table
            .wait(first, Wanted::Group(first.into()), true)
            .unwrap(),
        None
    );
    assert_eq!(
        errno(table.wait(first, Wanted::Group(third.into()), true)),
        ECHILD
    );
}

#[test]
fn there_is_one_init() {
    let (mut table, records) = table();
    assert_eq!(errno(table.create_init()), EEXIST);
    let child = child(&mut table, INIT);
    table.end(child, 1 << 8);
    report(&mut table, &records, 1, End::Ended);
    assert_eq!(table.init_status(), None);
    table.end(INIT, 101 << 8);
    report(&mut table, &records, 0, End::Ended);
    assert_eq!(table.init_status(), Some(101 << 8));
    assert_eq!(errno(table.create_init()), EEXIST);
}
