//! `scif-pin`: programs' memory pinned where it is, and the calls for other drivers that use it.
//!
//! `scif-pin hold` pins a range and waits to be killed; `scif-pin user` tries, as another user,
//! what only root may do.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use client_memory::mappings::own_space;
use client_memory::pages::Pages;
use client_memory::pin::{self, Pin};
use client_memory::range::Range;
use client_memory::rights::Rights;
use guest_tests::{Suite, pair, settled, text};
use hal::copy::Side;
use hal::mem::{Cache, map_physical};
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use redox_scheme::Socket;
use runtime::probe::{peek, syscall};
use runtime::process::Command;
use runtime::{fs, println, thread};
use scif::kernel::{Client, PinnedPages, Registration, get_pages};
use scif::{
    Endpoint, MapFlags, Memory, NodeId, Protection, RecvFlags, RegisterOptions, RmaFlags,
    SendFlags, raw,
};
use scif_abi::bypass::Part;
use scif_abi::call::{Call, MemoryCall, PinRecord, RegisterRecord};
use scif_abi::codec::Operation as _;
use syscall::Map;
use syscall::error::{
    EACCES, EADDRINUSE, EAGAIN, EFAULT, EINVAL, ENOTCONN, ENXIO, EPERM, ESRCH, Error,
};
use syscall::flag::{ADDRSPACE_OP_MMAP, ADDRSPACE_OP_MPROTECT, CallFlags};
use syscall::number::{SYS_FMAP, SYS_FUNMAP};

runtime::main!(main);

const PAGE: usize = hal::mem::PAGE;
const RW: Protection = Protection::all();
/// Text file: one line for each object of pinned pages.
const PINS: &str = "/scheme/scif/pins";
const LIMITS: &str = "/scheme/scif/limits";

fn main() -> i32 {
    match runtime::env::args().nth(1).as_deref() {
        Some("hold") => return hold(),
        Some("user") => return user(),
        _ => {}
    }
    let mut suite = Suite::new("scif-pin");
    let before = ranges();
    suite.check("pages-stay-where-they-are", in_place());
    suite.equal("ranges-after-windows", settled(ranges, &before), before);
    suite.check("bad-ranges", bad_ranges());
    suite.check("changing-ranges", changing_ranges());
    suite.check("fewer-rights", fewer_rights());
    suite.equal("ranges-after-errors", settled(ranges, &before), before);
    suite.check("killed-owner", killed_owner());
    suite.equal("ranges-after-kill", settled(ranges, &before), before);
    suite.check("rings-of-others", rings());
    suite.equal("ranges-after-rings", settled(ranges, &before), before);
    suite.check("limit", limit());
    suite.check("pinned-pages", pinned_pages());
    suite.check("peer-pages", peer_pages());
    suite.check("probe", probe());
    suite.equal("ranges-at-the-end", settled(ranges, &before), before);
    suite.check("other-users", other_users());
    suite.finish()
}

/// Pinned objects of all users.
fn ranges() -> usize {
    let text = fs::read_to_string(PINS).unwrap_or_default();
    text.lines().count()
}

fn expect<T: PartialEq + core::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(alloc::format!("{what}: {found:?}, expected {wanted:?}"))
    }
}

fn errno<T>(result: scif::Result<T>) -> i32 {
    result.map_or_else(scif::Error::errno, |_| 0)
}

/// Pins any range of addresses, whatever is there: what the library would not send.
fn pin_raw(address: usize, length: usize, protection: Protection) -> Result<Fd, i32> {
    let ask = || -> runtime::Result<Fd> {
        let file = memory_handle()?;
        pin::pin(file.raw(), record(address, length, protection))?;
        Ok(file)
    };
    ask().map_err(|error| error.errno)
}

fn memory_handle() -> runtime::Result<Fd> {
    Ok(Fd::open("/scheme/scif/memory", O_RDWR | O_CLOEXEC, 0)?)
}

fn record(address: usize, length: usize, protection: Protection) -> PinRecord {
    PinRecord {
        space: FOREIGN.into(),
        address: (address as u64).into(),
        length: (length as u64).into(),
        protection: protection.bits().into(),
        flags: 0.into(),
    }
}

/// The number of address spaces that are not this program's.
const FOREIGN: u64 = 7;

/// Pins pages of the address space that was sent as [`FOREIGN`].
fn ask_pin(file: &Fd, record: PinRecord) -> runtime::Result<u64> {
    let call = MemoryCall::Pin { record };
    let mut payload = [0; size_of::<PinRecord>()];
    payload.copy_from_slice(call.payload());
    let token = file.call_rw(&mut payload, CallFlags::empty(), &[call.number(), 0, 0])?;
    Ok(token as u64)
}

/// Pins a range as the library does.
fn pin_range(range: Range<'_>, protection: Protection) -> runtime::Result<Pin> {
    Pin::new(memory_handle, range, protection, 0)
}

/// A window in place: both sides see the same pages, at the same address as before.
fn in_place() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    let memory = Memory::ordinary(6000 * PAGE).map_err(text("memory"))?;
    let last = memory.len() - 8;
    for (offset, value) in [(0, 11_u64), (5 * PAGE, 22), (last, 33)] {
        memory.write(offset, value).map_err(text("write"))?;
    }
    let before = ranges();
    let window = server.register(&memory).map_err(text("register"))?;
    expect("one range more", ranges(), before + 1)?;
    let mapping = client
        .map(window.offset(), memory.len(), Protection::all())
        .map_err(text("map"))?;
    for (offset, value) in [(0, 11_u64), (5 * PAGE, 22), (last, 33)] {
        expect("seen by the peer", mapping.read(offset), Ok(value))?;
    }
    mapping.write(last, 44_u64).map_err(text("write"))?;
    expect("written by the peer", memory.read(last), Ok(44_u64))?;
    memory.write(8, 55_u64).map_err(text("write"))?;
    expect("written by the owner", mapping.read(8), Ok(55_u64))?;
    let mut copy = [0; 8];
    client
        .vread_from(&mut copy, window.offset() + 8, RmaFlags::SYNC)
        .map_err(text("vreadfrom"))?;
    expect("read by copy", u64::from_le_bytes(copy), 55)?;
    window.unregister().map_err(text("unregister"))?;
    // The mapping keeps the pages, though the owner's own view of them goes.
    drop(memory);
    expect("still there", mapping.read(last), Ok(44_u64))
}

/// Ranges that cannot be pinned are refused, and the daemon survives them.
/// Orders a change of an address space in which nothing runs.
fn change(space: &Fd, words: &[usize]) -> Result<(), String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    space.write(&bytes).map(|_| ()).map_err(text("change"))
}

/// Memory that is borrowed from another space, and loses the right to be written there: the daemon
/// must not count on it.
fn fewer_rights() -> Result<(), String> {
    use syscall::flag::MapFlags;
    const THERE: usize = 0x40_0000;
    const BYTES: usize = 2 * PAGE;
    let shared = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
    for is_read_before in [false, true] {
        let own = own_space().map_err(text("space"))?;
        let space = Fd::new(own.dup(b"empty").map_err(text("empty"))?);
        let flags = (shared | MapFlags::MAP_FIXED_NOREPLACE).bits();
        change(
            &space,
            &[ADDRSPACE_OP_MMAP, usize::MAX, 0, THERE, BYTES, flags],
        )?;
        let map = Map {
            offset: THERE,
            size: BYTES,
            flags: shared,
            address: 0,
        };
        let arguments = [
            space.raw(),
            &raw const map as usize,
            size_of::<Map>(),
            0,
            0,
            0,
        ];
        let here = Error::demux(syscall(SYS_FMAP, arguments)).map_err(text("map"))?;
        let reading = MapFlags::PROT_READ.bits();
        change(&space, &[ADDRSPACE_OP_MPROTECT, THERE, BYTES, reading])?;
        if is_read_before {
            expect("content", peek(here), 0)?;
        }
        let pinned = pin_raw(here, BYTES, RW).err();
        expect("to be written", pinned, Some(EFAULT))?;
        let pinned = pin_raw(here, BYTES, Protection::READ).err();
        expect("to be read", pinned, None)?;
        Error::demux(syscall(SYS_FUNMAP, [here, BYTES, 0, 0, 0, 0])).map_err(text("unmap"))?;
    }
    Ok(())
}

fn bad_ranges() -> Result<(), String> {
    let memory = Memory::ordinary(4 * PAGE).map_err(text("memory"))?;
    let address = memory.address();
    let bios = map_physical(0xF_0000, PAGE, Cache::Uncached).map_err(text("BIOS"))?;
    let hole = {
        let gone = Memory::ordinary(2 * PAGE).map_err(text("memory"))?;
        gone.address()
    };
    let program = main as *const () as usize & !(PAGE - 1);
    for (what, address, length, protection, wanted) in [
        ("length 0", address, 0, RW, EINVAL),
        ("incomplete page", address, PAGE + 1, RW, EINVAL),
        ("odd address", address + 8, PAGE, RW, EINVAL),
        (
            "unknown right",
            address,
            PAGE,
            Protection::from_bits_retain(4),
            EINVAL,
        ),
        ("no right", address, PAGE, Protection::empty(), EINVAL),
        ("nothing there", hole, PAGE, RW, EFAULT),
        ("kernel half", 1 << 47, PAGE, RW, EFAULT),
        ("overflow", usize::MAX - PAGE + 1, PAGE, RW, EFAULT),
        (
            "device memory",
            bios.address(),
            PAGE,
            Protection::READ,
            EFAULT,
        ),
        ("read-only code", program, PAGE, RW, EFAULT),
    ] {
        expect(
            what,
            pin_raw(address, length, protection).err(),
            Some(wanted),
        )?;
        let library = pin_range(Range::absent(length), protection);
        if length == 0 || length % PAGE != 0 {
            expect(what, library.err(), Some(Error::new(EINVAL)))?;
        }
    }
    // A descriptor that is no address space, and would block its reader.
    let pipe = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0).map_err(text("pipe"))?;
    let file = memory_handle().map_err(text("open"))?;
    let unknown = ask_pin(&file, record(address, PAGE, RW));
    expect("an unknown space", unknown, Err(Error::new(ESRCH)))?;
    let good = record(address, PAGE, RW);
    let foreign = |space: Fd| pin::send(file.raw(), space, FOREIGN).and(ask_pin(&file, good));
    let result = foreign(pipe);
    expect("a pipe", result, Err(Error::new(EINVAL)))?;
    // A file of the very daemon that is asked.
    let other = memory_handle().map_err(text("open"))?;
    let result = foreign(other);
    expect("a file of the daemon", result, Err(Error::new(EINVAL)))?;
    // A file of a scheme that answers nothing, and would keep everybody's pages waiting.
    let socket = Socket::create().map_err(text("scheme"))?;
    let silent = socket.create_this_scheme_fd(0, 1, 0, 0);
    let silent = Fd::new(silent.map_err(text("file"))?);
    let result = foreign(silent);
    expect("a silent scheme", result, Err(Error::new(EINVAL)))?;
    let good = pin_raw(address, 4 * PAGE, RW);
    expect("a good one", good.map(|_| ()), Ok(()))?;
    let code = pin_raw(program, PAGE, Protection::READ);
    expect("code, to be read", code.map(|_| ()), Ok(()))
}

/// Memory that goes while it is being pinned: an error or not, but never the daemon's end.
fn changing_ranges() -> Result<(), String> {
    let address = {
        let probe = Memory::ordinary(64 * PAGE).map_err(text("memory"))?;
        probe.address()
    };
    let changer = thread::spawn(|| {
        for _ in 0..300 {
            // It comes to the same address again and again.
            let Ok(memory) = Memory::ordinary(64 * PAGE) else {
                return false;
            };
            thread::yield_now();
            drop(memory);
            thread::yield_now();
        }
        true
    });
    let changer = changer.map_err(text("thread"))?;
    let mut pinned = 0;
    let mut refused = 0;
    while !changer.is_finished() {
        match pin_raw(address, 64 * PAGE, RW) {
            Ok(_) => pinned += 1,
            Err(EFAULT) => refused += 1,
            Err(other) => return Err(alloc::format!("error {other}")),
        }
    }
    println!("changing ranges: {pinned} pinned, {refused} refused");
    expect("the changer", changer.join().ok(), Some(true))?;
    let memory = Memory::ordinary(PAGE).map_err(text("memory"))?;
    let after = pin_raw(memory.address(), PAGE, RW);
    expect("the daemon lives", after.map(|_| ()), Ok(()))
}

/// Pins, tells so, waits.
fn hold() -> i32 {
    let held = pair().and_then(|(client, server)| {
        let memory = Memory::ordinary(8 * PAGE)?;
        let offset = raw::register(server.fd(), memory.range(), 0, RW.bits(), 0)?;
        // A mapping of the own window: it and the window would keep each other, if the address
        // space were what is pinned.
        let mapping = client.map(offset, 8 * PAGE, Protection::all())?;
        Ok((client, server, memory, mapping))
    });
    match held {
        Ok(held) => {
            println!("holding");
            thread::sleep(runtime::time::Duration::from_secs(600));
            drop(held);
            0
        }
        Err(error) => {
            println!("scif-pin hold: {error}");
            1
        }
    }
}

fn killed_owner() -> Result<(), String> {
    let before = ranges();
    let mut child = Command::new("scif-pin")
        .arg("hold")
        .spawn()
        .map_err(text("spawn"))?;
    let held = settled(ranges, &(before + 1));
    child.kill().map_err(text("kill"))?;
    child.wait().map_err(text("wait"))?;
    expect("held", held, before + 1)
}

/// The limit on a user's pages concerns these too, except for pages pinned by a driver.
fn limit() -> Result<(), String> {
    let old = fs::read_to_string(LIMITS).map_err(text("limits"))?;
    let set = |text: &str| fs::write(LIMITS, text.as_bytes());
    set("pinned_pages_per_user 16\n").map_err(text("set limit"))?;
    let memory = Memory::ordinary(17 * PAGE).map_err(text("memory"))?;
    let over = pin_range(memory.range(), RW).err();
    let under = memory
        .range()
        .part(0, 16 * PAGE)
        .and_then(|part| pin_range(part, RW));
    let free = PinnedPages::pin(memory.range(), Protection::all(), MapFlags::empty());
    set(&old).map_err(text("restore limit"))?;
    expect("over the limit", over, Some(Error::new(EAGAIN)))?;
    expect("at the limit", under.map(|_| ()), Ok(()))?;
    expect("a driver's", errno(free), 0)
}

/// A program that pins the rings which a bypass client maps keeps their pages. They are not those
/// of the connections that come next, which it would read along.
fn rings() -> Result<(), String> {
    const SECRET: &[u8] = b"nobody else's business";
    let (reader, owner) = pair().map_err(text("pair"))?;
    let (client, server) = pair().map_err(text("pair"))?;
    let bypass = libredox::call::dup(client.fd(), b"bypass").map_err(text("bypass"))?;
    let bypass = Fd::new(bypass);
    let mut kept = Vec::new();
    for part in [Part::Own, Part::PeerQueuePair, Part::PeerRing] {
        // The own part begins with the page of the queue pair.
        let bytes = part.bytes(PAGE as u32, PAGE as u32);
        let (offset, all) = (part.offset(), Rights::ALL);
        let ring = Pages::map(bypass.raw(), offset, bytes, all, Side::Own, None);
        let ring = ring.map_err(text("map"))?;
        let file = memory_handle().map_err(text("open"))?;
        let wanted = record(ring.address(), bytes, RW);
        let token = pin::pin(file.raw(), wanted).map_err(text("pin"))?;
        kept.push((file, token, bytes));
    }
    drop((bypass, client, server));
    let others: Vec<_> = (0..4)
        .map(|_| pair())
        .collect::<Result<_, _>>()
        .map_err(text("pairs"))?;
    for (left, right) in &others {
        for (from, to) in [(left, right), (right, left)] {
            let sent = from.send(SECRET, SendFlags::BLOCK).map_err(text("send"))?;
            let mut found = [0; SECRET.len()];
            to.recv(&mut found, RecvFlags::BLOCK)
                .map_err(text("recv"))?;
            expect("arrived", (sent, &found[..]), (SECRET.len(), SECRET))?;
        }
    }
    for (_file, token, bytes) in &kept {
        let call = Call::Register {
            record: RegisterRecord {
                memory: (*token).into(),
                length: (*bytes as u64).into(),
                protection: RW.bits().into(),
                ..RegisterRecord::default()
            },
        };
        let mut payload = call.payload().to_vec();
        let metadata = [call.number(), 0, 0];
        let flags = CallFlags::empty();
        let offset = libredox::call::call_rw(owner.fd(), &mut payload, flags, &metadata);
        let offset = offset.map_err(text("register"))? as i64;
        let mut content = alloc::vec![0; *bytes];
        let read = reader.vread_from(&mut content, offset, RmaFlags::SYNC);
        read.map_err(text("vreadfrom"))?;
        let is_secret = |bytes: &[u8]| bytes == SECRET;
        expect(
            "read along",
            content.windows(SECRET.len()).any(is_secret),
            false,
        )?;
    }
    Ok(())
}

/// `scif_pin_pages` and what follows from it.
fn pinned_pages() -> Result<(), String> {
    let memory = Memory::ordinary(4 * PAGE).map_err(text("memory"))?;
    memory.write(3 * PAGE, 7_u64).map_err(text("write"))?;
    let (none, all) = (MapFlags::empty(), Protection::all());
    let pin = |range, protection, flags| PinnedPages::pin(range, protection, flags);
    let range = memory.range();
    let fixed = errno(pin(range, all, MapFlags::FIXED));
    expect("FIXED", fixed, EINVAL)?;
    let unknown = errno(pin(range, Protection::from_bits_retain(4), none));
    expect("unknown protection", unknown, EINVAL)?;
    let odd = range.part(8, PAGE).map_err(text("part"))?;
    expect("odd", errno(pin(odd, all, none)), EINVAL)?;
    let empty = range.part(0, 0).map_err(text("part"))?;
    expect("empty", errno(pin(empty, all, none)), EINVAL)?;
    let absent = raw::Range::absent(PAGE);
    expect("absent", errno(pin(absent, all, none)), EFAULT)?;

    let pages = pin(range, all, MapFlags::KERNEL).map_err(text("pin"))?;
    let (first, first_server) = pair().map_err(text("pair"))?;
    let (second, second_server) = pair().map_err(text("pair"))?;
    let unconnected = Endpoint::open().map_err(text("open"))?;
    let register = |endpoint: &Endpoint, offset, flags| pages.register(endpoint, offset, flags);
    let state = errno(register(&unconnected, 0, none));
    expect("not connected", state, ENOTCONN)?;
    let kernel = errno(register(&first_server, 0, MapFlags::KERNEL));
    expect("KERNEL", kernel, EINVAL)?;
    let negative = errno(register(&first_server, -4096, MapFlags::FIXED));
    expect("negative", negative, EINVAL)?;
    let odd = errno(register(&first_server, 8, MapFlags::FIXED));
    expect("odd offset", odd, EINVAL)?;
    let at = register(&first_server, 0x10000, MapFlags::FIXED).map_err(text("register"))?;
    expect("fixed", at, 0x10000)?;
    let overlap = errno(register(&first_server, 0x11000, MapFlags::FIXED));
    expect("overlap", overlap, EADDRINUSE)?;
    let other = register(&second_server, 0, none).map_err(text("register"))?;
    // The windows keep the pages when the handle and the program's own view are gone.
    pages.unpin();
    drop(memory);
    for (endpoint, offset) in [(&first, at), (&second, other)] {
        let mapping = endpoint.map(offset, 4 * PAGE, all).map_err(text("map"))?;
        expect("content", mapping.read(3 * PAGE), Ok(7_u64))?;
    }
    raw::unregister(first_server.fd(), at, 4 * PAGE as u64).map_err(text("unregister"))?;
    let gone = errno(first.map(at, PAGE, all));
    expect("unregistered", gone, ENXIO)
}

/// `scif_get_pages` and `scif_put_pages`.
fn peer_pages() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    let memory = Memory::new(8 * PAGE).map_err(text("memory"))?;
    let options = RegisterOptions::new().protection(Protection::READ);
    let window = server
        .register_with(&memory, 0..memory.len(), options.fixed(0x4000))
        .map_err(text("register"))?;
    let next = server
        .register_with(&memory, 0..PAGE, options.fixed(0xC000))
        .map_err(text("register"))?;
    let page = PAGE as u64;
    let get = |offset, length| get_pages(&client, offset, length);
    for (what, offset, length, wanted) in [
        ("length 0", 0x4000, 0, EINVAL),
        ("odd length", 0x4000, 100, EINVAL),
        ("odd offset", 0x4001, page, EINVAL),
        ("negative offset", -4096, page, EINVAL),
        ("before", 0x3000, page, ENXIO),
        ("across the start", 0x3000, 2 * page, ENXIO),
        ("two windows", 0xB000, 2 * page, ENXIO),
        ("behind", 0xD000, page, ENXIO),
    ] {
        expect(what, errno(get(offset, length)), wanted)?;
    }
    let unconnected = Endpoint::open().map_err(text("open"))?;
    let state = errno(get_pages(&unconnected, 0, page));
    expect("not connected", state, ENOTCONN)?;

    let pages = get(0x5000, 3 * page).map_err(text("get_pages"))?;
    expect("addresses", pages.addresses().len(), 3)?;
    expect("protection", pages.protection(), Protection::READ)?;
    let aligned = pages.addresses().iter().all(|address| address % page == 0);
    expect("whole pages", aligned, true)?;
    let again = get(0x6000, page).map_err(text("get_pages"))?;
    expect("the same page", again.addresses()[0], pages.addresses()[1])?;
    // Ordinary memory of this system belongs to its owner.
    expect("mapped by address", errno(again.map().map(|_| ())), EPERM)?;
    // References outlive the window.
    drop(next);
    window.unregister().map_err(text("unregister"))?;
    expect("unregistered", errno(get(0x5000, page)), ENXIO)?;
    pages.put().map_err(text("put_pages"))?;
    let call = scif_abi::call::Call::PUT_PAGES;
    let metadata = [call, 0x1234_5678, 0];
    let nonsense = libredox::call::call_rw(client.fd(), &mut [], CallFlags::empty(), &metadata);
    expect(
        "put of nothing",
        nonsense.map_err(|error| error.errno()),
        Err(EINVAL),
    )
}

#[derive(Default)]
struct Seen(Vec<NodeId>);

impl Client for Seen {
    fn probe(&mut self, peer: NodeId) {
        self.0.push(peer);
    }
    fn remove(&mut self, peer: NodeId) {
        self.0.retain(|&known| known != peer);
    }
}

/// A registered driver is probed with the nodes that are online.
fn probe() -> Result<(), String> {
    let mut seen = Seen::default();
    let mut registration = Registration::new().map_err(text("register"))?;
    registration.dispatch(&mut seen).map_err(text("dispatch"))?;
    let mut found = seen.0.clone();
    found.sort_unstable();
    let nodes = scif::nodes().map_err(text("nodes"))?;
    expect("nodes", found, nodes.online)?;
    registration.unregister(&mut seen);
    expect("after the end", seen.0, Vec::new())
}

/// Calls for root only, tried by another user.
fn user() -> i32 {
    let refused = |result: i32| result == EPERM || result == EACCES;
    let check = || -> Result<(), String> {
        let memory = Memory::ordinary(PAGE).map_err(text("memory"))?;
        let none = MapFlags::empty();
        let pinned = PinnedPages::pin(memory.range(), Protection::all(), none);
        expect("pin_pages", errno(pinned), EPERM)?;
        expect("register", errno(Registration::new()), EPERM)?;
        let own = pin_range(memory.range(), RW).map(|_| ());
        expect("an ordinary pin", own, Ok(()))?;
        let (client, server) = pair().map_err(text("pair"))?;
        let shared = Memory::new(PAGE).map_err(text("memory"))?;
        let window = server.register(&shared).map_err(text("register"))?;
        let pages = errno(get_pages(&client, window.offset(), PAGE as u64));
        expect("get_pages", refused(pages), true)?;
        let limits = fs::write(LIMITS, b"pinned_pages_per_user 1\n");
        expect("limits", limits.map_err(|error| error.errno), Err(EACCES))
    };
    match check() {
        Ok(()) => 0,
        Err(detail) => {
            println!("scif-pin user: {detail}");
            1
        }
    }
}

fn other_users() -> Result<(), String> {
    let mut child = Command::new("scif-pin")
        .arg("user")
        .uid(1000)
        .gid(1000)
        .spawn()
        .map_err(text("spawn"))?;
    let status = child.wait().map_err(text("wait"))?;
    expect("status", status.to_string(), "exit status 0".to_string())
}
