//! Bad input: each gives the documented error, and the daemon lives on.
//!
//! `scif-errors [NODE]`: with a node that is online and has no listener on ports 4000 to 4999.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::{String, ToString};

use guest_tests::{Suite, pair, text};
use libredox::Fd;
use libredox::flag::{O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use runtime::probe::syscall;
use runtime::process::Command;
use scif::{Endpoint, Errno, Error, Listener};
use scif_abi::call::Call;
use syscall::error::{
    EACCES, EBADF, ECONNREFUSED, EFAULT, EINVAL, EISCONN, EISDIR, ENAMETOOLONG, ENODEV, ENOENT,
    ENOTCONN, ENOTDIR, ENOTTY,
};
use syscall::flag::CallFlags;

runtime::main!(main);

/// A user other than root.
const NOBODY: u32 = 1000;

fn main() -> i32 {
    if runtime::env::args().nth(1).as_deref() == Some("as-user") {
        return as_user();
    }
    let mut suite = Suite::new("scif-errors");
    paths(&mut suite);
    states(&mut suite);
    calls(&mut suite);
    pointers(&mut suite);
    suite.check(
        "ports below 1024 are refused to others than root",
        unprivileged(),
    );
    suite.check("the daemon lives on", alive());
    suite.finish()
}

fn open(path: &str, flags: i32) -> i32 {
    Fd::open(path, flags, 0).map_or_else(|error| error.errno(), |_| 0)
}

fn paths(suite: &mut Suite) {
    let own = scif::nodes().map_or(0, |nodes| nodes.own).to_string();
    let peer = runtime::env::args().nth(1).unwrap_or_else(|| own.clone());
    let at = |node: &str, rest: &str| alloc::format!("{node}/{rest}");
    let long_word = "x".repeat(300);
    let long_path = "1/".repeat(2500);
    let table = [
        ("foo".into(), O_RDONLY, ENOENT),
        ("foo/bar".into(), O_RDONLY, ENOENT),
        ("-1/2050".into(), O_RDWR, ENOENT),
        (at(&own, "x"), O_RDWR, EINVAL),
        (at(&own, "65536"), O_RDWR, EINVAL),
        (at(&own, "-1"), O_RDWR, EINVAL),
        (at(&own, "0"), O_RDWR, EINVAL),
        (at(&own, "2050/x"), O_RDWR, EINVAL),
        (at(&own, "99999999999999999999"), O_RDWR, EINVAL),
        ("listen/x".into(), O_RDWR, EINVAL),
        ("listen/70000".into(), O_RDWR, EINVAL),
        ("accept/0".into(), O_RDWR, EINVAL),
        ("accept/4001".into(), O_RDWR | O_NONBLOCK, EINVAL),
        ("99/2050".into(), O_RDWR, ENODEV),
        ("65535/2050".into(), O_RDWR, ENODEV),
        ("70000/2050".into(), O_RDWR, ENODEV),
        ("99".into(), O_RDONLY, ENODEV),
        (at(&own, "4002"), O_RDWR, ECONNREFUSED),
        (at(&peer, "4002"), O_RDWR, ECONNREFUSED),
        ("nodes".into(), O_WRONLY, EACCES),
        ("stats".into(), O_RDWR, EACCES),
        ("nodes/x".into(), O_RDONLY, ENOTDIR),
        ("nodes".into(), O_RDONLY | O_DIRECTORY, ENOTDIR),
        ("listen".into(), O_WRONLY, EISDIR),
        (long_word.clone(), O_RDONLY, ENAMETOOLONG),
        (at(&own, &long_word), O_RDWR, ENAMETOOLONG),
        (long_path, O_RDWR, ENAMETOOLONG),
    ];
    for (path, flags, errno) in table {
        let shown: String = path.chars().take(24).collect();
        let name = alloc::format!("open of {shown} with flags {flags:#x}");
        suite.equal(
            &name,
            open(&alloc::format!("/scheme/scif/{path}"), flags),
            errno,
        );
    }
}

fn errno<T>(result: scif::Result<T>) -> i32 {
    result.map_or_else(Error::errno, |_| 0)
}

fn states(suite: &mut Suite) {
    let listener = match Listener::bind(4003) {
        Ok(listener) => listener,
        Err(error) => return suite.check("listening on 4003", Err(error.to_string())),
    };
    suite.equal(
        "listening twice",
        open("/scheme/scif/listen/4003", O_RDWR),
        EINVAL,
    );
    suite.equal(
        "binding twice",
        errno(listener.as_endpoint().bind(4004)),
        EISCONN,
    );
    suite.equal(
        "reading from a listener",
        errno(listener.as_endpoint().read(&mut [0; 4])),
        ENOTCONN,
    );
    let directory = Fd::open("/scheme/scif", O_RDONLY, 0);
    let read = directory.and_then(|directory| directory.read(&mut [0; 16]));
    suite.equal(
        "reading a directory",
        read.map_err(|error| error.errno()),
        Err(EISDIR),
    );

    if let Ok(endpoint) = Endpoint::open() {
        suite.equal(
            "reading unbound",
            errno(endpoint.read(&mut [0; 4])),
            ENOTCONN,
        );
        let none = endpoint.send(&[], scif::SendFlags::BLOCK);
        suite.equal("sending nothing unbound", none, Ok(0));
        suite.equal(
            "binding to a port in use",
            errno(endpoint.bind(4003)),
            EINVAL,
        );
        suite.equal("binding to a free port", errno(endpoint.bind(4005)), 0);
        suite.equal(
            "binding a bound endpoint",
            errno(endpoint.bind(4006)),
            EINVAL,
        );
        let own = scif::nodes().map_or(0, |nodes| nodes.own);
        let to = |node, port| scif::PortId::new(node, port);
        suite.equal(
            "connecting to port 0",
            errno(endpoint.connect(to(own, 0))),
            EINVAL,
        );
        suite.equal(
            "connecting to no node",
            errno(endpoint.connect(to(99, 1))),
            ENODEV,
        );
        let refused = Errno::ConnectionRefused.errno();
        suite.equal(
            "connecting to nobody",
            errno(endpoint.connect(to(own, 4007))),
            refused,
        );
        suite.equal(
            "its port is kept",
            endpoint.local().map(|local| local.port()),
            Ok(4005),
        );
        suite.equal(
            "a backlog of 0",
            errno(endpoint.listen(0).map(|_| ())),
            EINVAL,
        );
    }
    if let Ok((client, server)) = pair() {
        suite.equal(
            "connecting twice",
            errno(client.connect(scif::PortId::new(0, 1))),
            EISCONN,
        );
        suite.equal(
            "listening when connected",
            errno(server.listen(1).map(|_| ())),
            EISCONN,
        );
        suite.equal(
            "sending to nobody",
            errno(client.send(b"x", scif::SendFlags::BLOCK)),
            104,
        );
    }
}

fn calls(suite: &mut Suite) {
    let endpoint = Fd::open("/scheme/scif/endpoint", O_RDWR, 0);
    let text_file = Fd::open("/scheme/scif/nodes", O_RDONLY, 0);
    let (Ok(endpoint), Ok(text_file)) = (endpoint, text_file) else {
        return suite.check("descriptors", Err("they cannot be opened".into()));
    };
    let call = |file: &Fd, payload: &mut [u8], metadata: [u64; 3]| {
        let result = file.call_rw(payload, CallFlags::empty(), &metadata);
        result.map_or_else(|error| error.errno(), |_| 0)
    };
    suite.equal(
        "an unknown operation",
        call(&endpoint, &mut [], [4242, 0, 0]),
        EINVAL,
    );
    suite.equal(
        "a port too large",
        call(&endpoint, &mut [], [Call::BIND, 65536, 0]),
        EINVAL,
    );
    let accept = [Call::ACCEPT_REQUEST, 0, 0];
    suite.equal(
        "a short structure",
        call(&endpoint, &mut [0; 15], accept),
        EINVAL,
    );
    suite.equal(
        "a long structure",
        call(&endpoint, &mut [0; 17], accept),
        EINVAL,
    );
    suite.equal(
        "accept without listening",
        call(&endpoint, &mut [0; 16], accept),
        EINVAL,
    );
    let register = [Call::ACCEPT_REGISTER, 77, 0];
    suite.equal(
        "an unknown connection",
        call(&endpoint, &mut [], register),
        ENOENT,
    );
    suite.equal(
        "flags that do not exist",
        call(&endpoint, &mut [0; 4], [Call::SEND, 6, 0]),
        EINVAL,
    );
    suite.equal(
        "a call on a text file",
        call(&text_file, &mut [], [Call::POLL, 1, 0]),
        ENOTTY,
    );
    let closed = Fd::new(60_000);
    suite.equal(
        "a closed descriptor",
        call(&closed, &mut [], [Call::POLL, 1, 0]),
        EBADF,
    );
    let _ = closed.into_raw();
    let dup = endpoint.dup(b"nonsense").map_err(|error| error.errno());
    suite.equal("an unknown dup", dup, Err(EINVAL));
}

/// Buffers that are no memory. The kernel may notice only when it copies the answer, so what a read
/// took from the ring is gone.
fn pointers(suite: &mut Suite) {
    let Ok((client, server)) = pair() else {
        return suite.check("pair", Err("no connection".into()));
    };
    // Enough for every read below: none may wait.
    let _ = server.send(&[1; 1000], scif::SendFlags::BLOCK);
    let fd = client.fd();
    let error = |result: usize| (result as isize).unsigned_abs() as i32;
    for (name, address) in [("page 0", 16), ("the kernel half", usize::MAX - 65536)] {
        let read = syscall(syscall::SYS_READ, [fd, address, 100, 0, 0, 0]);
        suite.equal(&alloc::format!("reading into {name}"), error(read), EFAULT);
        let write = syscall(syscall::SYS_WRITE, [fd, address, 100, 0, 0, 0]);
        suite.equal(&alloc::format!("writing from {name}"), error(write), EFAULT);
    }
}

fn unprivileged() -> Result<(), String> {
    let mut child = Command::new("scif-errors")
        .arg("as-user")
        .uid(NOBODY)
        .spawn()
        .map_err(text("start"))?;
    let status = child.wait().map_err(text("wait"))?;
    if status.success() {
        Ok(())
    } else {
        Err(alloc::format!("as a user: {status:?}"))
    }
}

/// Run as a user: status 0 when everything is as it should be, else the number of what is not.
fn as_user() -> i32 {
    let endpoint = match Endpoint::open() {
        Ok(endpoint) => endpoint,
        Err(_) => return 1,
    };
    let refused = [
        open("/scheme/scif/listen/1023", O_RDWR) == EACCES,
        open("/scheme/scif/accept/1", O_RDWR) == EACCES,
        errno(endpoint.bind(80)) == EACCES,
        errno(endpoint.bind(1024)) == 0,
        open("/scheme/scif/nodes", O_RDONLY) == 0,
    ];
    match refused.iter().position(|fine| !fine) {
        None => 0,
        Some(index) => 2 + index as i32,
    }
}

fn alive() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    client
        .send(b"still here", scif::SendFlags::BLOCK)
        .map_err(text("send"))?;
    let mut buffer = [0; 10];
    server
        .recv(&mut buffer, scif::RecvFlags::BLOCK)
        .map_err(text("recv"))?;
    if &buffer == b"still here" {
        Ok(())
    } else {
        Err(alloc::format!("{buffer:?}"))
    }
}
