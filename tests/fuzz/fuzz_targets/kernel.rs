//! The kernel's bookkeeping under arbitrary system-call arguments, each structure against a plain
//! model of it: address spaces, descriptor tables, pipes, requests, events, timers, frames.
#![no_main]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arbitrary::{Arbitrary, Result, Unstructured};
use kernel_core::area::{Area, AreaList, Backing, PAGE, Prot};
use kernel_core::buddy::{self, Buddy, Frame, MAX_ORDER};
use kernel_core::calendar::DateTime;
use kernel_core::events::{FileKey, Registry};
use kernel_core::pipe::{PIPE_CAPACITY, PipeBuffer, PipeState};
use kernel_core::requests::{Answer, Reply, Requests, TagError};
use kernel_core::slots::{MAX_SLOTS, SlotTable, UPPER_TAG};
use kernel_core::timers::TimerQueue;
use libfuzzer_sys::fuzz_target;

/// Pages of an object from one number on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    first: usize,
}

impl Backing for Run {
    fn split(&mut self, offset: usize) -> Self {
        assert_eq!(offset % PAGE, 0);
        Run {
            first: self.first + offset / PAGE,
        }
    }

    fn continues(&self, len: usize, next: &Self) -> bool {
        self.first + len / PAGE == next.first
    }
}

/// The contents of a page of the model.
type Page = (usize, Prot);

/// Pages the model knows.
const SPACE_PAGES: usize = 64;

fn check_areas(list: &AreaList<Run>, model: &BTreeMap<usize, Page>) {
    let mut seen = BTreeMap::new();
    let mut end = 0;
    for (base, area) in list.iter() {
        assert!(base >= end && area.len > 0, "areas overlap or are empty");
        assert_eq!((base % PAGE, area.len % PAGE), (0, 0));
        end = base + area.len;
        for page in 0..area.len / PAGE {
            seen.insert(base / PAGE + page, (area.backing.first + page, area.prot));
        }
    }
    assert_eq!(seen, *model);
}

fn address_space(input: &mut Unstructured<'_>) -> Result<()> {
    let mut list = AreaList::default();
    let mut model = BTreeMap::<usize, Page>::new();
    while !input.is_empty() {
        let first = usize::from(u8::arbitrary(input)?) % SPACE_PAGES;
        let pages = 1 + usize::from(u8::arbitrary(input)?) % 16;
        let range = first..(first + pages).min(SPACE_PAGES);
        let (addr, len) = (range.start * PAGE, range.len() * PAGE);
        let prot = Prot::from_bits_truncate(u8::arbitrary(input)?);
        match u8::arbitrary(input)? % 6 {
            0 | 1 => {
                list.remove(addr, len);
                let object = usize::from(u8::arbitrary(input)? % 4) * 1000 + first;
                let area = Area {
                    len,
                    prot,
                    max_prot: Prot::all(),
                    pinned: false,
                    backing: Run { first: object },
                };
                list.insert(addr, area);
                model.extend(
                    range
                        .clone()
                        .map(|page| (page, (object + page - first, prot))),
                );
            }
            2 => {
                let taken = list.remove(addr, len);
                let bytes: usize = taken.values().map(|area| area.len).sum();
                let before = model.len();
                model.retain(|page, _| !range.contains(page));
                assert_eq!(bytes / PAGE, before - model.len());
            }
            3 => {
                list.protect(addr, len, prot);
                for (_, page) in model.range_mut(range.clone()) {
                    page.1 = prot;
                }
            }
            4 => {
                let covered = range.clone().all(|page| model.contains_key(&page));
                assert_eq!(list.covers(addr, len), covered);
                let some = list.overlapping(addr, len).next().is_some();
                assert_eq!(some, model.range(range.clone()).next().is_some());
                // Whatever a system call's arguments are.
                let [addr, len] = <[usize; 2]>::arbitrary(input)?;
                let covers = list.covers(addr, len);
                assert!(!covers || len <= SPACE_PAGES * PAGE);
                let _ = (list.find(addr), list.overlapping(addr, len).count());
            }
            _ => {
                let (min, end) = (range.start * PAGE, SPACE_PAGES * PAGE);
                let wanted = (1 + usize::from(u8::arbitrary(input)? % 32)) * PAGE;
                check_hole(&list, &model, wanted, min, end);
            }
        }
        check_areas(&list, &model);
    }
    Ok(())
}

/// The lowest of the smallest holes, looked for page by page.
fn check_hole(
    list: &AreaList<Run>,
    model: &BTreeMap<usize, Page>,
    wanted: usize,
    min: usize,
    end: usize,
) {
    let mut best: Option<(usize, usize)> = None;
    let mut start = None;
    for page in min / PAGE..=end / PAGE {
        if page * PAGE < end && !model.contains_key(&page) {
            start.get_or_insert(page * PAGE);
        } else if let Some(first) = start.take() {
            let hole = (page * PAGE - first, first);
            if hole.0 >= wanted && best.is_none_or(|best| hole < best) {
                best = Some(hole);
            }
        }
    }
    let found = list.find_hole(wanted, min, end);
    assert_eq!(found, best.map(|(_, first)| first));
}

fn slots(input: &mut Unstructured<'_>) -> Result<()> {
    let mut table = SlotTable::new();
    let mut model = BTreeMap::new();
    while !input.is_empty() {
        let number = slot_number(input)?;
        match u8::arbitrary(input)? % 6 {
            0 | 1 => {
                let value = u8::arbitrary(input)?;
                let fits = number & !UPPER_TAG < MAX_SLOTS;
                let expected = fits && !model.contains_key(&number);
                assert_eq!(table.insert(number, value).is_ok(), expected);
                model.entry(number).or_insert(value);
                model.retain(|number, _| number & !UPPER_TAG < MAX_SLOTS);
            }
            2 => assert_eq!(table.remove(number), model.remove(&number)),
            3 => {
                let mut numbers = vec![number];
                for _ in 0..u8::arbitrary(input)? % 4 {
                    numbers.push(slot_number(input)?);
                }
                let once: BTreeSet<_> = numbers.iter().collect();
                let all = once.len() == numbers.len();
                let all = all && numbers.iter().all(|number| model.contains_key(number));
                let taken = table.remove_all(&numbers);
                assert_eq!(taken.is_ok(), all);
                let expected = numbers.iter().filter(|_| all);
                let expected: Vec<u8> = expected.filter_map(|n| model.remove(n)).collect();
                assert_eq!(taken.unwrap_or_default(), expected);
            }
            4 => {
                let mut numbers = vec![number];
                for _ in 0..u8::arbitrary(input)? % 4 {
                    numbers.push(slot_number(input)?);
                }
                let entries = vec![7; numbers.len()];
                let once: BTreeSet<_> = numbers.iter().collect();
                let free = |number: &&usize| {
                    **number & !UPPER_TAG < MAX_SLOTS && !model.contains_key(*number)
                };
                let all = once.len() == numbers.len() && numbers.iter().all(|n| free(&n));
                assert_eq!(table.insert_all(&numbers, entries).is_ok(), all);
                if all {
                    model.extend(numbers.into_iter().map(|number| (number, 7)));
                }
            }
            _ => {
                let size = usize::from(u16::arbitrary(input)?);
                let _ = table.resize(number, size);
                let huge = usize::arbitrary(input)? | 1 << 20;
                assert!(table.resize(number, huge).is_err());
            }
        }
        assert_eq!(table.len(), model.len());
    }
    let all: BTreeMap<usize, u8> = table
        .iter()
        .map(|(number, value)| (number, *value))
        .collect();
    assert_eq!(all, model);
    Ok(())
}

/// A descriptor number: small, at the limit, or any.
fn slot_number(input: &mut Unstructured<'_>) -> Result<usize> {
    let number = match u8::arbitrary(input)? % 8 {
        0 => return usize::arbitrary(input),
        1 => MAX_SLOTS - 1 + usize::from(u8::arbitrary(input)? & 1),
        _ => usize::from(u8::arbitrary(input)? & 15),
    };
    Ok(if bool::arbitrary(input)? {
        number | UPPER_TAG
    } else {
        number
    })
}

fn pipe(input: &mut Unstructured<'_>) -> Result<()> {
    let mut pipe = PipeBuffer::<u8>::new();
    let mut bytes = VecDeque::new();
    let mut fds = VecDeque::new();
    let (mut reader, mut writer) = (true, true);
    pipe.make_writer();
    while !input.is_empty() {
        let count = usize::from(u16::arbitrary(input)?);
        match u8::arbitrary(input)? % 8 {
            0 | 1 => {
                let data: Vec<u8> = (0..count).map(|at| at as u8).collect();
                let room = PIPE_CAPACITY - bytes.len();
                let pushed = pipe.push(&data);
                assert_eq!(pushed, count.min(room));
                bytes.extend(&data[..pushed]);
            }
            2 | 3 => {
                let run = pipe.peek(count).to_vec();
                assert!(run.len() <= count && (!run.is_empty() || count == 0 || bytes.is_empty()));
                let expected: Vec<u8> = bytes.drain(..run.len()).collect();
                assert_eq!(run, expected);
                pipe.consume(run.len());
            }
            4 => {
                let list: Vec<u8> = (0..count % 9).map(|at| at as u8).collect();
                let mut rest = list.clone();
                let pushed = pipe.push_fds(&mut rest).expect("memory for a short list");
                assert_eq!(pushed + rest.len(), list.len());
                fds.extend(&list[..pushed]);
            }
            5 => {
                let taken = pipe.take_fds(count % 9).expect("memory for a short list");
                let expected: Vec<u8> = fds.drain(..taken.len()).collect();
                assert_eq!(taken, expected);
            }
            6 if reader => {
                reader = false;
                assert_eq!(pipe.close_reader(), !writer);
            }
            7 if writer => {
                writer = false;
                assert_eq!(pipe.close_writer(), !reader);
            }
            _ => {}
        }
        assert_eq!(pipe.room(), PIPE_CAPACITY - bytes.len());
        let read = match (bytes.is_empty(), writer) {
            (false, _) => PipeState::Ready,
            (true, true) => PipeState::Wait,
            (true, false) => PipeState::Gone,
        };
        assert_eq!(pipe.read_state(), read);
        assert_eq!(pipe.write_state(count) == PipeState::Gone, !reader);
        assert_eq!(pipe.fd_read_state() == PipeState::Ready, !fds.is_empty());
    }
    Ok(())
}

/// A request in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Waiting { has_client: bool, files: usize },
    Answered,
}

fn requests(input: &mut Unstructured<'_>) -> Result<()> {
    let mut requests = Requests::<u32, u8, u64>::new();
    let mut model = BTreeMap::<u32, Stage>::new();
    let mut cancelled = BTreeSet::new();
    while !input.is_empty() {
        let tag = u32::from(u8::arbitrary(input)? % 12);
        match u8::arbitrary(input)? % 9 {
            0 | 1 => {
                let files = usize::from(u8::arbitrary(input)? % 4);
                let has_client = bool::arbitrary(input)?;
                let begun = requests.begin(has_client.then_some(9), vec![1; files]);
                let tag = begun.expect("tags have not run out");
                let stage = Stage::Waiting { has_client, files };
                assert_eq!(model.insert(tag, stage), None, "a tag twice");
                cancelled.remove(&tag);
            }
            2 | 3 => {
                let errno = i32::from(u8::arbitrary(input)?);
                let reply = match u8::arbitrary(input)? % 3 {
                    0 => Reply::Fd(3),
                    1 => Reply::Fds,
                    _ => Reply::Value {
                        result: Err(errno),
                        extra: 0,
                        notify_on_detach: false,
                    },
                };
                let answered = requests.answer(tag, reply);
                match model.get(&tag).copied() {
                    None => assert!(matches!(answered, Err((TagError::Unknown, _)))),
                    Some(Stage::Answered) => {
                        assert!(matches!(answered, Err((TagError::Answered, _))));
                    }
                    Some(Stage::Waiting { has_client, .. }) => {
                        let settled = answered.expect("a request that waits can be answered");
                        assert_eq!(settled.waiter.is_some(), has_client);
                        assert!(!has_client || settled.unclaimed.is_none());
                        if has_client {
                            model.insert(tag, Stage::Answered);
                        } else {
                            model.remove(&tag);
                        }
                    }
                }
            }
            4 => {
                let taken = requests.take(tag);
                assert_eq!(taken.is_some(), model.get(&tag) == Some(&Stage::Answered));
                if taken.is_some() {
                    let cancelled = cancelled.remove(&tag);
                    // The client takes EINTR for a signal.
                    let interrupted = matches!(taken, Some(Answer::Value { result: Err(4), .. }));
                    assert!(cancelled || !interrupted);
                    model.remove(&tag);
                }
            }
            5 => {
                if requests.cancel(tag) {
                    assert!(matches!(model.get(&tag), Some(Stage::Waiting { .. })));
                    cancelled.insert(tag);
                }
                assert!(!requests.cancel(tag), "told twice");
            }
            6 => {
                let left = requests.abandon(tag, 5);
                match model.get_mut(&tag) {
                    Some(Stage::Waiting { has_client, .. }) => {
                        assert!(left.is_none());
                        *has_client = false;
                    }
                    known => {
                        let (answer, left) = left.expect("nobody keeps what is left");
                        assert_eq!((answer.is_some(), left), (known.is_some(), 5));
                        model.remove(&tag);
                    }
                }
            }
            7 => {
                let files = usize::from(u8::arbitrary(input)? % 4);
                let old = requests.put_files(tag as usize, vec![2; files]);
                match model.get_mut(&tag) {
                    Some(Stage::Waiting { files: known, .. }) => {
                        let old = old.map_or(usize::MAX, |old| old.len());
                        assert_eq!(old, core::mem::replace(known, files));
                    }
                    _ => assert!(matches!(old, Err((_, new)) if new.len() == files)),
                }
            }
            _ => {
                let taken = requests.take_files(tag as usize);
                match model.get_mut(&tag) {
                    Some(Stage::Waiting { files, .. }) => {
                        let taken = taken.map_or(usize::MAX, |taken| taken.len());
                        assert_eq!(taken, core::mem::take(files));
                    }
                    _ => assert!(taken.is_err()),
                }
            }
        }
        assert_eq!(requests.len(), model.len());
    }
    // The daemon dies: every client that waits is woken, once.
    let waiting = |stage: &&Stage| matches!(stage, Stage::Waiting { .. });
    let expected = model.values().filter(waiting).count();
    let (mut failed, mut from) = (0, 0);
    while let Some((tag, _)) = requests.fail_next(from, 5) {
        failed += 1;
        from = tag + 1;
    }
    assert_eq!(failed, expected);
    assert!(requests.fail_next(0, 5).is_none());
    Ok(())
}

fn events(input: &mut Unstructured<'_>) -> Result<()> {
    const QUEUES: usize = 1;
    let mut registry = Registry::new(QUEUES);
    let mut model = BTreeMap::<(FileKey, usize, usize), usize>::new();
    while !input.is_empty() {
        let file = FileKey {
            scheme: usize::from(u8::arbitrary(input)? % 3),
            number: usize::from(u8::arbitrary(input)? % 4),
        };
        let queue = usize::from(u8::arbitrary(input)? % 4);
        let id = usize::from(u8::arbitrary(input)? % 2);
        let flags = usize::from(u8::arbitrary(input)? % 4);
        match u8::arbitrary(input)? % 6 {
            0..3 => {
                registry.subscribe(file, queue, id, 0, flags);
                if flags == 0 {
                    model.remove(&(file, queue, id));
                } else {
                    model.insert((file, queue, id), flags);
                }
            }
            3 => {
                let mut told = Vec::new();
                registry.trigger(file, flags, 1, |notice| told.push(notice));
                // Each watcher of the file itself gets one event.
                for (&(watched, queue, id), wanted) in &model {
                    let wanted = wanted & flags;
                    let heard = |notice: &&kernel_core::events::Notice| {
                        (notice.queue, notice.id, notice.flags) == (queue, id, wanted)
                    };
                    let count = told.iter().filter(heard).count();
                    assert!(watched != file || wanted == 0 || count > 0);
                }
                assert!(
                    told.len() <= 2 * model.len(),
                    "news that goes round for ever"
                );
            }
            4 => {
                registry.forget_file(file);
                model.retain(|&(watched, _, _), _| watched != file);
            }
            _ => {
                let flags_of = |model: &BTreeMap<(FileKey, usize, usize), usize>| {
                    let mut all = BTreeMap::<FileKey, usize>::new();
                    for (&(watched, _, _), flags) in model {
                        *all.entry(watched).or_default() |= flags;
                    }
                    all
                };
                let before = flags_of(&model);
                let mut told = BTreeMap::new();
                let mut last = None;
                while let Some((file, flags)) = registry.forget_queue(queue, last) {
                    assert_eq!(told.insert(file, flags), None, "told twice");
                    last = Some(file);
                }
                model.retain(|&(_, owner, _), _| owner != queue);
                let after = flags_of(&model);
                let mut less = BTreeMap::new();
                for (watched, flags) in before {
                    let left = after.get(&watched).copied().unwrap_or_default();
                    if left != flags {
                        less.insert(watched, left);
                    }
                }
                assert_eq!(told, less);
            }
        }
        let files: BTreeSet<FileKey> = model.keys().map(|&(file, _, _)| file).collect();
        assert_eq!(registry.counts(), (files.len(), model.len()));
        let mine = model.iter().filter(|((watched, _, _), _)| *watched == file);
        let wanted = mine.fold(0, |all, (_, flags)| all | flags);
        assert_eq!(registry.wanted(file), wanted);
    }
    Ok(())
}

fn timers(input: &mut Unstructured<'_>) -> Result<()> {
    let mut queue = TimerQueue::new();
    let mut pending = BTreeMap::new();
    let mut count = 0_u32;
    while !input.is_empty() {
        let time = if bool::arbitrary(input)? {
            u64::from(u8::arbitrary(input)?)
        } else {
            u64::arbitrary(input)?
        };
        match u8::arbitrary(input)? % 3 {
            0 => {
                pending.insert(queue.add(time, count), count);
                count += 1;
            }
            1 => {
                let index = time as usize % pending.len().max(1);
                if let Some((&id, &what)) = pending.iter().nth(index) {
                    assert_eq!(queue.cancel(id), Some(what));
                    assert_eq!(queue.cancel(id), None);
                    pending.remove(&id);
                }
            }
            _ => {
                let next = queue.next_deadline();
                let expired = queue.pop_expired(time);
                assert_eq!(expired.is_some(), next.is_some_and(|next| next <= time));
                if expired.is_some() {
                    assert_eq!(pending.pop_first().map(|(_, what)| what), expired);
                }
            }
        }
    }
    Ok(())
}

fn frames(input: &mut Unstructured<'_>) -> Result<()> {
    const FRAMES: u32 = 3000;
    let mut table = vec![Frame::HOLE; FRAMES as usize];
    let mut words = vec![0; buddy::words_for(table.len())];
    let mut buddy = Buddy::new(&mut table, &mut words);
    let holes = u32::from(u8::arbitrary(input)?);
    buddy.add_free(holes, FRAMES / 2);
    buddy.add_used(FRAMES / 2, FRAMES / 2 + 10);
    // Beyond the table, and some for the second time.
    buddy.add_free(FRAMES / 4, FRAMES + 100);
    let total = (FRAMES - holes) as usize;
    assert_eq!((buddy.total(), buddy.free()), (total, total - 10));
    let mut refs: BTreeMap<u32, u32> = (FRAMES / 2..FRAMES / 2 + 10).map(|at| (at, 1)).collect();
    while !input.is_empty() {
        match u8::arbitrary(input)? % 4 {
            0 | 1 => {
                let count = usize::from(u16::arbitrary(input)?) % 1200;
                let Some(first) = buddy.alloc(count) else {
                    continue;
                };
                assert!((1..=1 << MAX_ORDER).contains(&count));
                assert_eq!(first as usize % count.next_power_of_two(), 0);
                for frame in first..first + count as u32 {
                    assert!(buddy.is_ram(frame.into()) && frame >= holes);
                    assert_eq!(refs.insert(frame, 1), None, "a frame twice");
                }
            }
            choice => {
                let index = usize::from(u16::arbitrary(input)?) % refs.len().max(1);
                let Some(frame) = refs.keys().nth(index).copied() else {
                    continue;
                };
                let count = refs.get_mut(&frame).expect("found above");
                if choice == 2 {
                    buddy.retain(frame);
                    *count += 1;
                } else {
                    *count -= 1;
                    assert_eq!(buddy.drop_ref(frame), *count == 0);
                    refs.retain(|_, count| *count > 0);
                }
            }
        }
        assert_eq!(buddy.free(), total - refs.len());
    }
    for (frame, count) in refs {
        assert_eq!(buddy.refs(frame), count);
        (0..count).for_each(|_| _ = buddy.drop_ref(frame));
    }
    assert_eq!(buddy.free(), total);
    Ok(())
}

fn clock(input: &mut Unstructured<'_>) -> Result<()> {
    let raw = <[u8; 6]>::arbitrary(input)?;
    let [binary, hours24] = <[bool; 2]>::arbitrary(input)?;
    let date = DateTime::from_registers(raw, binary, hours24);
    if let Some(seconds) = date.unix_seconds() {
        let days = seconds / 86400;
        let years = u64::from(date.year - 1970);
        assert!((365 * years..366 * (years + 1)).contains(&days), "{date:?}");
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let mut input = Unstructured::new(rest);
    // Input that ends early is an input like any other.
    let _ = match first % 8 {
        0 => address_space(&mut input),
        1 => slots(&mut input),
        2 => pipe(&mut input),
        3 => requests(&mut input),
        4 => events(&mut input),
        5 => timers(&mut input),
        6 => frames(&mut input),
        _ => clock(&mut input),
    };
});
