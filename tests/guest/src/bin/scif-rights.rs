//! Rights: ports, files, endpoints, handles that are passed on, kernel-mode calls and
//! mappings, tried by a user other than root.
//!
//! `scif-rights`, as root, on one node.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec;

use client_memory::pages::Pages;
use guest_tests::peer::is_reset;
use guest_tests::{Suite, pair, settled, text};
use hal::copy::Side;
use libredox::Fd;
use libredox::flag::{O_DIRECTORY, O_RDONLY, O_RDWR};
use runtime::process::Command;
use runtime::{fd, fs, path, state};
use scif::kernel::{self, PinnedPages};
use scif::{
    Endpoint, Error, Listener, MapFlags, Memory, Protection, Readiness, RecvFlags, RegisterOptions,
    RmaFlags, SendFlags,
};
use scif_abi::bypass::{BypassRecord, Part};
use scif_abi::call::{AcceptRecord, Call};
use scif_abi::codec::Operation;
use syscall::error::{EACCES, EINVAL, ENXIO, EPERM};
use syscall::flag::{ADDRSPACE_OP_MPROTECT, MapFlags as Rights};
use zerocopy::IntoBytes;

runtime::main!(main);

/// A user.
const USER: u32 = 1000;
/// Number at which a child finds the descriptor that is passed to it.
const PASSED: usize = 5;
/// Bytes of windows.
const WINDOW: usize = 8 * PAGE;
const PAGE: usize = hal::mem::PAGE;
/// Accepted connections are numbered from 1; a stranger tries this number.
const GUESSES: u64 = 64;

type Check = Result<(), String>;

fn main() -> i32 {
    let mut suite = Suite::new("scif-rights");
    match runtime::env::args().nth(1).as_deref() {
        None => root(&mut suite),
        Some("ports") => ports(&mut suite),
        Some("files") => files(&mut suite),
        Some("answer") => suite.check("an inherited endpoint", answer()),
        Some("collect") => suite.check("an endpoint out of a pipe", collect()),
        Some("bind") => suite.check("a descriptor keeps its opener's right", bind()),
        Some("guess") => suite.check("accepted connections of others", guess()),
        Some("kernel") => suite.check("kernel-mode calls", kernel_mode()),
        Some("maps") => maps(&mut suite),
        Some(_) => return 2,
    }
    suite.finish()
}

/// Runs one of the roles as the user, with `passed` as its descriptor.
fn as_user(role: &str, passed: Option<usize>) -> Check {
    let mut command = Command::new("scif-rights");
    command.arg(role).uid(USER).gid(USER);
    if let Some(passed) = passed {
        command.fd(PASSED, passed);
    }
    let mut child = command.spawn().map_err(text("starting"))?;
    match child.wait().map_err(text("waiting"))? {
        status if status.success() => Ok(()),
        status => Err(alloc::format!("{role}: {status}")),
    }
}

fn root(suite: &mut Suite) {
    let bound = Listener::bind(1000).map(drop);
    suite.equal("root binds port 1000", bound, Ok(()));
    suite.check("ports", as_user("ports", None));
    suite.check("what others have", hidden());
    suite.check("inherited", inherited());
    suite.check("duplicated", duplicated());
    suite.check("passed through a pipe", passed());
    suite.check("passed before it is bound", unbound());
    suite.check("accepted and not fetched", unclaimed());
    suite.check("kernel-mode", as_user("kernel", None));
    suite.check("maps", as_user("maps", None));
}

fn expect<T: core::fmt::Debug>(what: &str, result: scif::Result<T>, errno: i32) -> Check {
    match result {
        Err(error) if error.errno() == errno => Ok(()),
        other => Err(alloc::format!("{what}: {other:?}, not error {errno}")),
    }
}

fn ports(suite: &mut Suite) {
    for port in [1, 1001, 1023] {
        let bound = Endpoint::open().and_then(|endpoint| endpoint.bind(port));
        suite.check(
            &alloc::format!("bind to {port}"),
            expect("bind", bound, EACCES),
        );
        for way in ["listen", "accept"] {
            let path = alloc::format!("/scheme/scif/{way}/{port}");
            let opened = Fd::open(&path, O_RDWR, 0).map(drop);
            let errno = opened.map_err(|error| error.errno());
            suite.equal(&alloc::format!("{way}/{port}"), errno, Err(EACCES));
        }
    }
    let bound = Endpoint::open().and_then(|endpoint| endpoint.bind(1024));
    suite.equal("bind to 1024", bound, Ok(1024));
    let bound = Endpoint::open().and_then(|endpoint| endpoint.bind(0));
    suite.holds("bind to any port", bound.is_ok_and(|port| port >= 1024));
}

/// Lines of a text file behind the first.
fn lines(file: &str) -> Result<usize, String> {
    let path = alloc::format!("/scheme/scif/{file}");
    let text = fs::read_to_string(&path).map_err(text(file))?;
    Ok(text.lines().count() - 1)
}

/// The files that show objects.
const FILES: [&str; 4] = ["ports", "connections", "windows", "mappings"];

fn hidden() -> Check {
    let _listener = Listener::bind(2600).map_err(text("listening"))?;
    let (client, server) = pair().map_err(text("pair"))?;
    let memory = Memory::new(WINDOW).map_err(text("memory"))?;
    let window = server.register(&memory).map_err(text("registering"))?;
    let mapping = client.map(window.offset(), WINDOW, Protection::all());
    let _mapping = mapping.map_err(text("mapping"))?;
    for file in FILES {
        if lines(file)? == 0 {
            return Err(alloc::format!("root sees nothing in {file}"));
        }
    }
    as_user("files", None)
}

fn files(suite: &mut Suite) {
    for file in FILES {
        suite.equal(&alloc::format!("lines of {file}"), lines(file), Ok(0));
    }
    let listing = |name: &str| {
        let path = alloc::format!("/scheme/scif/{name}");
        fs::read_dir(&path).map(|entries| entries.flatten().count())
    };
    suite.equal("names in listen", listing("listen").ok(), Some(0));
    let listener = Listener::bind(2601);
    suite.equal("own ports", lines("ports"), Ok(1));
    suite.equal("own names in listen", listing("listen").ok(), Some(1));
    drop(listener);
    let opened = Fd::open("/scheme/scif/limits", O_RDWR, 0).map(drop);
    let errno = opened.map_err(|error| error.errno());
    suite.equal("limits for writing", errno, Err(EACCES));
    let opened = Fd::open("/scheme/scif", O_RDONLY | O_DIRECTORY, 0).map(drop);
    suite.holds("the directory", opened.is_ok());
}

/// Talks over the endpoint that was passed on.
fn talk(endpoint: &Endpoint) -> Check {
    let mut hello = [0; 5];
    let received = endpoint.recv(&mut hello, RecvFlags::BLOCK);
    received.map_err(text("receiving"))?;
    if &hello != b"hello" {
        return Err(alloc::format!("received {hello:?}"));
    }
    let sent = endpoint.send(b"back", SendFlags::BLOCK);
    sent.map(drop).map_err(text("sending"))
}

fn answer() -> Check {
    talk(&Endpoint::from_file(Fd::new(PASSED)))
}

/// The line that the program at the other end of `client` sends.
fn hears(client: &Endpoint, words: &[u8]) -> Check {
    let mut bytes = vec![0; words.len()];
    let received = client.recv(&mut bytes, RecvFlags::BLOCK);
    received.map_err(text("receiving"))?;
    match bytes == words {
        true => Ok(()),
        false => Err(alloc::format!("received {bytes:?}")),
    }
}

fn says(client: &Endpoint, words: &[u8]) -> Check {
    let sent = client.send(words, SendFlags::BLOCK);
    sent.map(drop).map_err(text("sending"))
}

/// Whether the other end's last descriptor has gone.
fn is_over(client: &Endpoint) -> Check {
    let ended = || is_reset(&client.recv(&mut [0], RecvFlags::empty()));
    match settled(ended, &true) {
        true => Ok(()),
        false => Err("the connection goes on without a descriptor".into()),
    }
}

fn inherited() -> Check {
    let (client, server) = pair().map_err(text("pair"))?;
    says(&client, b"hello")?;
    as_user("answer", Some(server.fd()))?;
    hears(&client, b"back")?;
    // The child has ended; our descriptor is still one of the endpoint's.
    says(&server, b"still")?;
    hears(&client, b"still")?;
    drop(server);
    is_over(&client)
}

fn duplicated() -> Check {
    let (client, server) = pair().map_err(text("pair"))?;
    let again = fd::dup(server.fd(), b"").map_err(text("dup"))?;
    let again = Endpoint::from_file(Fd::new(again));
    says(&server, b"one")?;
    drop(server);
    says(&again, b"two")?;
    hears(&client, b"onetwo")?;
    let ready = client.readiness(Readiness::IN).map_err(text("poll"))?;
    if ready.intersects(Readiness::HUP | Readiness::ERR) {
        return Err(alloc::format!(
            "one descriptor was closed, and it is {ready:?}"
        ));
    }
    drop(again);
    is_over(&client)
}

fn passed() -> Check {
    let (client, server) = pair().map_err(text("pair"))?;
    let read = path::open_upper("/scheme/pipe", syscall::flag::O_RDWR).map_err(text("pipe"))?;
    let read = Fd::new(read);
    let write = Fd::new(fd::dup_upper(read.raw(), b"write").map_err(text("pipe"))?);
    says(&client, b"hello")?;
    fd::send_fd(write.raw(), server.fd(), true, &[]).map_err(text("passing"))?;
    drop(server);
    as_user("collect", Some(read.raw()))?;
    hears(&client, b"back")?;
    is_over(&client)
}

fn collect() -> Check {
    let endpoint = fd::receive_fd_upper(PASSED, &[]).map_err(text("collecting"))?;
    talk(&Endpoint::from_file(Fd::new(endpoint)))
}

fn unbound() -> Check {
    let endpoint = Endpoint::open().map_err(text("open"))?;
    as_user("bind", Some(endpoint.fd()))?;
    match endpoint.local().map_err(text("local"))?.port() {
        1002 => Ok(()),
        port => Err(alloc::format!("it is bound to {port}")),
    }
}

fn bind() -> Check {
    let endpoint = Endpoint::from_file(Fd::new(PASSED));
    endpoint.bind(1002).map(drop).map_err(text("bind"))
}

/// A connection that was accepted by number and not fetched is not for others.
fn unclaimed() -> Check {
    let listener = Listener::bind(2602).map_err(text("listening"))?;
    let own = scif::nodes().map_err(text("nodes"))?.own;
    let client = Endpoint::open().map_err(text("open"))?;
    client.set_nonblocking(true).map_err(text("flags"))?;
    // EINPROGRESS.
    let _ = client.connect(scif::PortId::new(own, 2602));
    let mut record = AcceptRecord::default();
    let flags = scif_abi::flags::AcceptFlags::SYNC.bits();
    let request = Call::AcceptRequest { flags, record };
    let [first, second] = request.words();
    let metadata = [request.number(), first, second];
    fd::call_rw(listener.fd(), record.as_mut_bytes(), &metadata).map_err(text("accept"))?;
    as_user("guess", None)?;
    let endpoint = Endpoint::open().map_err(text("open"))?;
    claim(&endpoint, record.handle.get()).map_err(text("fetching it as root"))
}

fn claim(endpoint: &Endpoint, handle: u64) -> runtime::Result<()> {
    let call = Call::AcceptRegister { handle };
    let [first, second] = call.words();
    fd::call(endpoint.fd(), &[call.number(), first, second]).map(drop)
}

fn guess() -> Check {
    for handle in 0..GUESSES {
        let endpoint = Endpoint::open().map_err(text("open"))?;
        if claim(&endpoint, handle).is_ok() {
            return Err(alloc::format!("connection {handle} was fetched"));
        }
    }
    Ok(())
}

fn kernel_mode() -> Check {
    expect(
        "register a client",
        kernel::Registration::new().map(drop),
        EPERM,
    )?;
    let memory = Memory::ordinary(PAGE).map_err(text("memory"))?;
    let pinned = PinnedPages::pin(memory.range(), Protection::all(), MapFlags::empty());
    expect("pin", pinned.map(drop), EPERM)?;
    let (client, server) = pair().map_err(text("pair"))?;
    let memory = Memory::new(PAGE).map_err(text("memory"))?;
    let window = server.register(&memory).map_err(text("registering"))?;
    let got = kernel::get_pages(&client, window.offset(), PAGE as u64).map(drop);
    match got.map_err(Error::errno) {
        Err(EPERM | EACCES) => Ok(()),
        other => Err(alloc::format!("get_pages: {other:?}")),
    }
}

/// Changes the rights of own memory, as `mprotect` does.
fn reprotect(address: usize, bytes: usize, rights: Rights) -> Result<(), i32> {
    let space = fd::dup_upper(state::thread_fd(), b"addrspace").map_err(|error| error.errno)?;
    let space = Fd::new(space);
    let words = [ADDRSPACE_OP_MPROTECT, address, bytes, rights.bits()];
    let record = words.map(usize::to_ne_bytes);
    let changed = fd::write(space.raw(), record.as_flattened());
    changed.map(drop).map_err(|error| error.errno)
}

fn maps(suite: &mut Suite) {
    let result = (|| -> Check {
        let (client, server) = pair().map_err(text("pair"))?;
        let memory = Memory::new(WINDOW).map_err(text("memory"))?;
        for (name, allowed, other) in [
            ("read", Protection::READ, Protection::WRITE),
            ("write", Protection::WRITE, Protection::READ),
        ] {
            let options = RegisterOptions::new().protection(allowed);
            let window = server.register_with(&memory, 0..WINDOW, options);
            let window = window.map_err(text("registering"))?;
            let offset = window.offset();
            for more in [other, Protection::all()] {
                let mapped = client.map(offset, WINDOW, more).map(drop);
                let check = expect("map", mapped, EACCES);
                suite.check(&alloc::format!("{name} window mapped for more"), check);
            }
            let beyond = client.map(offset, WINDOW + PAGE, allowed).map(drop);
            suite.check(
                &alloc::format!("beyond a {name} window"),
                expect("map", beyond, ENXIO),
            );
            let before = client.map(offset - PAGE as i64, WINDOW, allowed).map(drop);
            suite.check(
                &alloc::format!("before a {name} window"),
                expect("map", before, ENXIO),
            );
            let mapping = client.map(offset, WINDOW, allowed).map_err(text("map"))?;
            for rights in [
                Rights::PROT_READ | Rights::PROT_WRITE,
                Rights::PROT_READ | Rights::PROT_EXEC,
            ] {
                // A write-only window cannot be made readable, nor any executable.
                let changed = reprotect(mapping.address(), WINDOW, rights);
                let check = alloc::format!("{name} window made {:#x}", rights.bits());
                suite.equal(&check, changed, Err(EACCES));
            }
            let mut bytes = vec![0; PAGE];
            let denied = match allowed {
                Protection::READ => client.vwrite_to(&bytes, offset, RmaFlags::SYNC),
                _ => client.vread_from(&mut bytes, offset, RmaFlags::SYNC),
            };
            let check = expect("transfer", denied, EACCES);
            suite.check(
                &alloc::format!("transfer that a {name} window forbids"),
                check,
            );
            drop(mapping);
            window.unregister().map_err(text("unregistering"))?;
            let gone = client.map(offset, WINDOW, allowed).map(drop);
            suite.check(
                &alloc::format!("a {name} window that went"),
                expect("map", gone, ENXIO),
            );
        }
        bypass(suite, &client)
    })();
    suite.check("mappings", result);
}

/// The parts of a bypass handle are as large as they are, and reach nothing else.
fn bypass(suite: &mut Suite, client: &Endpoint) -> Check {
    let file = fd::dup(client.fd(), b"bypass").map_err(text("dup"))?;
    let file = Fd::new(file);
    let mut record = BypassRecord::default();
    let info = Call::BypassInfo { record };
    let [first, second] = info.words();
    let metadata = [info.number(), first, second];
    fd::call_rw(file.raw(), record.as_mut_bytes(), &metadata).map_err(text("info"))?;
    let (own, peer) = (record.own_ring_bytes.get(), record.peer_ring_bytes.get());
    let map = |offset: u64, bytes: usize| {
        let all = client_memory::rights::Rights::ALL;
        let mapped = Pages::map(file.raw(), offset, bytes, all, Side::Own, None);
        mapped.map(drop).map_err(|error| error.errno)
    };
    for part in Part::ALL {
        let bytes = part.bytes(own, peer);
        let name = |what: &str| alloc::format!("{part:?} {what}");
        suite.equal(&name("as it is"), map(part.offset(), bytes), Ok(()));
        suite.equal(
            &name("and a page"),
            map(part.offset(), bytes + PAGE),
            Err(EINVAL),
        );
        let behind = part.offset() + bytes as u64;
        suite.equal(&name("and what is behind"), map(behind, PAGE), Err(EINVAL));
    }
    let far = map(1 << 40, PAGE);
    suite.equal("far beyond all parts", far, Err(EINVAL));
    match Endpoint::from_file(file).bind(0) {
        Err(_) => Ok(()),
        Ok(port) => Err(alloc::format!("a bypass handle was bound to {port}")),
    }
}
