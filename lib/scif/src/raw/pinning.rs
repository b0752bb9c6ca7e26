//! Random registrations of a program's memory, checked against a model of pages and frames. The
//! pages stay the program's whatever is registered, and each window is of the frames that were at
//! its addresses when it was made. A sequence that fails is shrunk.
//!
//! `SKIFF_MODEL_RUNS` sequences (400) from the seed `SKIFF_MODEL_SEED` (1).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::str::FromStr;

use client_memory::memory::Memory;
use client_memory::shared;
use hal::testing::host::{self, Request, THREAD};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use scif_abi::call::{MemoryCall, OwnRecord, RegisterRecord};
use scif_abi::flags::Protection;
use syscall::error::{EFAULT, Error};
use zerocopy::FromBytes;

use super::{Call, register, unregister};

const PAGE: usize = hal::mem::PAGE;
const EPD: usize = 3;
const SPACE: usize = 50;
const FIXED: u32 = 4;
/// Pages of the program's memory.
const PAGES: usize = 16;
const READ: usize = 1;
const BOTH: usize = 3;

/// The mapping at a page of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Page {
    /// Names the frame; no two frames have the same name.
    frame: u64,
    /// `READ` or `BOTH`, as a mapping's description has them.
    rights: usize,
}

/// Memory the daemon knows by a token.
#[derive(Clone, Debug)]
struct MemoryObject {
    frames: Vec<u64>,
    writable: bool,
    /// Of the daemon's own: whether a page is still mapped in the program.
    mapped: Option<Vec<bool>>,
}

/// The kernel and the daemon, as far as a program that registers sees them.
#[derive(Default)]
struct World {
    /// By address.
    pages: BTreeMap<usize, Page>,
    objects: BTreeMap<u64, MemoryObject>,
    /// Frames of each window by its offset.
    windows: BTreeMap<i64, Vec<u64>>,
    /// Objects by the descriptor of their handle.
    handles: BTreeMap<usize, u64>,
    /// How far the list of mappings was read.
    listed: usize,
    last: u64,
}

impl World {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn answer(&mut self, request: Request<'_>) -> syscall::error::Result<usize> {
        match request {
            Request::Dup(THREAD, b"addrspace") => {
                self.listed = 0;
                Ok(SPACE)
            }
            Request::Read(SPACE, to) => Ok(self.list(to)),
            Request::Open(_) | Request::Dup(..) => Ok(1000 + self.next() as usize),
            Request::Control(..) => Ok(0),
            Request::Close(fd) => {
                self.handles.remove(&fd);
                Ok(0)
            }
            Request::Call(_, _, [_]) => Ok(1),
            Request::Call(EPD, payload, [Call::REGISTER_OWN, ..]) => self.register_own(payload),
            Request::Call(fd, _, [MemoryCall::PROVIDE, pages, _]) => {
                let frames = (0..*pages).map(|_| self.next()).collect();
                let mapped = Some(vec![true; *pages as usize]);
                Ok(self.insert(fd, frames, true, mapped))
            }
            Request::Call(EPD, payload, [Call::REGISTER, ..]) => self.register(payload),
            Request::Call(EPD, _, [Call::UNREGISTER, offset, _]) => {
                let known = self.windows.remove(&(*offset as i64));
                known.map(|_| 0).ok_or(Error::new(syscall::error::ENXIO))
            }
            Request::Map {
                address,
                bytes,
                flags,
                fd,
                offset,
                ..
            } => self.map(address, bytes, flags, fd, offset),
            Request::Unmap(address, bytes) => {
                (address..address + bytes).step_by(PAGE).for_each(|page| {
                    self.pages.remove(&page);
                });
                Ok(0)
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    /// Mappings of a page each, as many as fit.
    fn list(&mut self, to: &mut [u8]) -> usize {
        let mut count = 0;
        let rest = self.pages.iter().skip(self.listed);
        for (place, (&base, page)) in to.chunks_exact_mut(32).zip(rest) {
            let words = [base, PAGE, page.rights, 0];
            place.copy_from_slice(words.map(usize::to_ne_bytes).as_flattened());
            count += 1;
        }
        self.listed += count;
        32 * count
    }

    fn insert(
        &mut self,
        fd: usize,
        frames: Vec<u64>,
        writable: bool,
        mapped: Option<Vec<bool>>,
    ) -> usize {
        let token = self.next();
        let object = MemoryObject {
            frames,
            writable,
            mapped,
        };
        self.objects.insert(token, object);
        self.handles.insert(fd, token);
        token as usize
    }

    fn register_own(&mut self, payload: &[u8]) -> syscall::error::Result<usize> {
        let record = OwnRecord::read_from_bytes(payload).unwrap();
        let start = record.address.get() as usize;
        let addresses = (start..start + record.length.get() as usize).step_by(PAGE);
        let writable = record.protection.get() & Protection::WRITE.bits() != 0;
        let frame = |address| {
            let page = self.pages.get(&address);
            let page = page.filter(|page| !writable || page.rights == BOTH);
            page.map(|page| page.frame).ok_or(Error::new(EFAULT))
        };
        let frames = addresses.map(frame).collect::<Result<Vec<u64>, _>>()?;
        Ok(self.insert_window(frames))
    }

    fn insert_window(&mut self, frames: Vec<u64>) -> usize {
        let offset = 0x10_0000 + self.last as i64 * 0x10_0000;
        self.last += 1;
        self.windows.insert(offset, frames);
        offset as usize
    }

    fn register(&mut self, payload: &[u8]) -> syscall::error::Result<usize> {
        let record = RegisterRecord::read_from_bytes(payload).unwrap();
        let object = self.objects.get(&record.memory.get());
        let object = object.ok_or(Error::new(EFAULT))?;
        let first = record.memory_offset.get() as usize / PAGE;
        let end = first + record.length.get() as usize / PAGE;
        let writes = record.protection.get() & 2 != 0;
        let frames = object.frames.get(first..end).ok_or(Error::new(EFAULT))?;
        let mapped = object.mapped.as_deref();
        let is_there = mapped.is_none_or(|mapped| mapped[first..end].iter().all(|there| *there));
        if writes && !object.writable || !is_there {
            return Err(Error::new(EFAULT));
        }
        let frames = frames.to_vec();
        Ok(self.insert_window(frames))
    }

    fn map(
        &mut self,
        address: usize,
        bytes: usize,
        flags: u32,
        fd: usize,
        offset: u64,
    ) -> syscall::error::Result<usize> {
        let start = match flags & FIXED {
            0 => host::pages(bytes)?.as_ptr() as usize,
            _ => address,
        };
        for index in 0..bytes / PAGE {
            let token = self.handles.get(&fd);
            let object = token.and_then(|token| self.objects.get(token));
            let frame = match object {
                Some(object) => object.frames[offset as usize / PAGE + index],
                None => self.next(),
            };
            let rights = BOTH;
            self.pages
                .insert(start + index * PAGE, Page { frame, rights });
        }
        Ok(start)
    }

    /// Maps other memory at an address of the program.
    fn replace(&mut self, address: usize) {
        let frame = self.next();
        let old = self.pages.insert(
            address,
            Page {
                frame,
                rights: BOTH,
            },
        );
        let old = old.map(|page| page.frame);
        for object in self.objects.values_mut() {
            let place = object.frames.iter().position(|frame| Some(*frame) == old);
            if let (Some(place), Some(mapped)) = (place, &mut object.mapped) {
                mapped[place] = false;
            }
        }
    }
}

/// An action of the program. Pages are numbers within its memory, which is partly the daemon's.
#[derive(Clone, Debug)]
enum Op {
    Register {
        first: usize,
        pages: usize,
        protection: u32,
    },
    Unregister {
        which: usize,
    },
    /// Maps other memory at these addresses; `told` says whether the library is notified.
    Replace {
        first: usize,
        pages: usize,
        told: bool,
    },
    /// Rights change, by the C library's call.
    Protect {
        first: usize,
        pages: usize,
        rights: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (0..PAGES, 1..6_usize);
    prop_oneof![
        6 => (range(), 1..4_u32).prop_map(|((first, pages), protection)| Op::Register {
            first, pages, protection
        }),
        1 => (0..8_usize).prop_map(|which| Op::Unregister { which }),
        2 => (range(), any::<bool>())
            .prop_map(|((first, pages), told)| Op::Replace { first, pages, told }),
        2 => (range(), prop_oneof![Just(READ), Just(BOTH)])
            .prop_map(|((first, pages), rights)| Op::Protect { first, pages, rights }),
    ]
}

/// Plays a sequence on memory that is ordinary, or the daemon's.
fn play(ops: &[Op], is_daemons: bool) -> Result<(), TestCaseError> {
    let stage = Rc::new(RefCell::new(World::default()));
    let system = stage.clone();
    let answer = move |request: Request<'_>| system.borrow_mut().answer(request);
    host::play(answer, || {
        let memory = match is_daemons {
            true => Memory::new(PAGES * PAGE).unwrap(),
            false => Memory::ordinary(PAGES * PAGE).unwrap(),
        };
        let result = run(&stage, ops, &memory);
        drop(memory);
        result
    })
}

fn run(stage: &Rc<RefCell<World>>, ops: &[Op], memory: &Memory) -> Result<(), TestCaseError> {
    let address = |page: usize| memory.address() + page * PAGE;
    // Offset, pages and frames of the windows that must exist.
    let mut windows: Vec<(i64, usize, Vec<u64>)> = Vec::new();
    for op in ops {
        let before = stage.borrow().pages.clone();
        let mut after = before.clone();
        match *op {
            Op::Register {
                first,
                pages,
                protection,
            } => {
                let pages = pages.min(PAGES - first);
                let found: Vec<Page> = (first..first + pages)
                    .map(|page| before[&address(page)])
                    .collect();
                let writes = protection & 2 != 0;
                let allowed = found.iter().all(|page| !writes || page.rights == BOTH);
                let range = memory.range().part(first * PAGE, pages * PAGE).unwrap();
                let result = register(EPD, range, 0, protection, 0);
                prop_assert_eq!(result.is_ok(), allowed, "{:?} gave {:?}", op, result);
                if let Ok(offset) = result {
                    let frames = found.iter().map(|page| page.frame).collect();
                    windows.push((offset, pages, frames));
                }
            }
            Op::Unregister { which } => {
                if !windows.is_empty() {
                    let (offset, pages, _) = windows.swap_remove(which % windows.len());
                    prop_assert_eq!(unregister(EPD, offset, (pages * PAGE) as u64), Ok(()));
                }
            }
            Op::Replace { first, pages, told } => {
                let pages = pages.min(PAGES - first);
                for page in first..first + pages {
                    stage.borrow_mut().replace(address(page));
                }
                if told {
                    let range = memory.range().part(first * PAGE, pages * PAGE).unwrap();
                    shared::changed(range);
                }
                after = stage.borrow().pages.clone();
            }
            Op::Protect {
                first,
                pages,
                rights,
            } => {
                let pages = pages.min(PAGES - first);
                for page in first..first + pages {
                    after.get_mut(&address(page)).unwrap().rights = rights;
                }
                stage.borrow_mut().pages = after.clone();
                let range = memory.range().part(first * PAGE, pages * PAGE).unwrap();
                shared::changed(range);
            }
        }
        let world = stage.borrow();
        prop_assert_eq!(&world.pages, &after, "the program's pages after {:?}", op);
        for (offset, _, frames) in &windows {
            prop_assert_eq!(&world.windows[offset], frames, "a window after {:?}", op);
        }
        prop_assert_eq!(world.windows.len(), windows.len());
        let held = world.handles.len();
        prop_assert!(held <= 1, "{} memory handles are open after {:?}", held, op);
    }
    Ok(())
}

fn setting<T: FromStr>(name: &str, usual: T) -> T {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text}"))
    })
}

fn runner(runs: u32, seed: u64) -> TestRunner {
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(runs)
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// The daemon asks only whether memory that it provides is mapped anywhere, and the library's
/// table holds one place. So the library maps the memory once, and keeps nothing to map it with
/// again.
#[test]
fn provided_memory_is_mapped_at_one_place() {
    let stage = Rc::new(RefCell::new(World::default()));
    let system = stage.clone();
    let answer = move |request: Request<'_>| system.borrow_mut().answer(request);
    host::play(answer, || {
        let memory = Memory::new(PAGES * PAGE).unwrap();
        let world = stage.borrow();
        let mapped: Vec<u64> = world.pages.values().map(|page| page.frame).collect();
        let objects: Vec<&MemoryObject> = world.objects.values().collect();
        assert_eq!(objects.len(), 1);
        assert_eq!(mapped, objects[0].frames);
        assert!(world.handles.is_empty(), "handles {:?}", world.handles);
        drop(world);
        drop(memory);
    });
}

#[test]
fn windows_are_of_the_program_s_own_pages() {
    let runs = setting("SKIFF_MODEL_RUNS", 400);
    let seed = setting("SKIFF_MODEL_SEED", 1);
    for is_daemons in [false, true] {
        let mut runner = runner(runs, seed);
        let result = runner.run(&vec(op(), 1..40), |ops| play(&ops, is_daemons));
        if let Err(error) = result {
            panic!("seed {seed}, daemon memory {is_daemons}: {error}");
        }
    }
}
