//! Calls that do not wait: EAGAIN, connects that are collected, readiness by poll and by events.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use guest_tests::{Suite, counter, pair, settled, text};
use hal::event::Queue;
use hal::kernel::ends_abandoned_requests;
use libredox::Fd;
use libredox::flag::{O_NONBLOCK, O_RDWR};
use runtime::thread;
use runtime::time::{Duration, Instant};
use scif::{Endpoint, Errno, Error, Listener, PollEntry, PortId, Readiness, RecvFlags, SendFlags};
use syscall::flag::EventFlags;

runtime::main!(main);

/// For what comes at once, unless the machine is starved.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Bytes that no endpoint's ring can take at once.
const LARGER_THAN_A_RING: usize = 2 << 20;

fn main() -> i32 {
    let mut suite = Suite::new("scif-nonblock");
    suite.check("transfers by file", files());
    suite.check("transfers by call", calls());
    suite.check("connect that is collected", collect());
    suite.check("connect that is refused", refused());
    suite.check(
        "open that connects in the background",
        connect_in_background(),
    );
    suite.check("accept without waiting", accept());
    suite.check("poll", polling());
    suite.check("poll times out", time_out());
    suite.check("events", events());
    suite.check("a poll that is over watches nothing", polled());
    suite.check(
        "a poll sees what any entry of an endpoint asks for",
        polled_twice(),
    );
    suite.check(
        "Scheduled Transfers that are set up watch nothing",
        set_up(),
    );
    suite.check(
        "a connection taken by try_accept is watched no more",
        tried(),
    );
    suite.finish()
}

/// Fails with what was found unless `condition`.
fn expect(condition: bool, what: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what.into()) }
}

fn errno<T>(result: scif::Result<T>) -> i32 {
    result.map_or_else(Error::errno, |_| 0)
}

fn files() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    client.set_nonblocking(true).map_err(text("fcntl"))?;
    let mut buffer = [0; 64];
    expect(
        errno(client.read(&mut buffer)) == 11,
        "an empty ring is not EAGAIN",
    )?;
    let file = |bytes: &[u8]| libredox::call::write(client.fd(), bytes);
    let large = alloc::vec![1; LARGER_THAN_A_RING];
    let fitted = file(&large).map_err(text("write"))?;
    expect(
        fitted > 0 && fitted < large.len(),
        "a write larger than the ring took everything",
    )?;
    let full = file(&[1; 64]).map_err(|error| error.errno());
    expect(full == Err(11), "a full ring is not EAGAIN")?;
    let mut received = 0;
    while received < fitted {
        received += server.read(&mut buffer).map_err(text("read"))?;
    }
    expect(
        file(&[1; 64]) == Ok(64),
        "no room after everything was read",
    )
}

fn calls() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    let mut buffer = [0; 64];
    let none = client.recv(&mut buffer, RecvFlags::empty());
    expect(none == Ok(0), "an empty ring does not give 0")?;
    let mut sent = 0;
    loop {
        match client
            .send(&[7; 1000], SendFlags::empty())
            .map_err(text("send"))?
        {
            0 => break,
            count => sent += count,
        }
    }
    expect(sent >= 1000, "hardly anything fitted")?;
    let mut received = 0;
    loop {
        match server
            .recv(&mut buffer, RecvFlags::empty())
            .map_err(text("recv"))?
        {
            0 => break,
            count => received += count,
        }
    }
    expect(received == sent, "not everything came")
}

fn listener() -> Result<(Listener, PortId), String> {
    let listener = Listener::bind(0).map_err(text("listen"))?;
    let own = scif::nodes().map_err(text("nodes"))?.own;
    let port = listener.port().map_err(text("port"))?;
    Ok((listener, PortId::new(own, port)))
}

fn nonblocking() -> Result<Endpoint, String> {
    let client = Endpoint::open().map_err(text("open"))?;
    client.set_nonblocking(true).map_err(text("fcntl"))?;
    Ok(client)
}

fn collect() -> Result<(), String> {
    let (listener, to) = listener()?;
    let client = nonblocking()?;
    let in_progress = Errno::InProgress.errno();
    expect(
        errno(client.connect(to)) == in_progress,
        "the first connect is not EINPROGRESS",
    )?;
    expect(
        errno(client.connect(to)) == in_progress,
        "the second one neither",
    )?;
    let out = Readiness::OUT;
    expect(
        client.readiness(out) == Ok(Readiness::empty()),
        "ready before the accept",
    )?;
    let _accepted = listener.accept().map_err(text("accept"))?;
    expect(
        client.readiness(out) == Ok(out),
        "not ready after the accept",
    )?;
    let port = client.connect(to).map_err(text("collecting"))?;
    expect(port >= 1088, "the local port is not a free one")?;
    let connected = Errno::IsConnected.errno();
    expect(
        errno(client.connect(to)) == connected,
        "a fourth connect is not EISCONN",
    )
}

fn refused() -> Result<(), String> {
    // A port that is not given out to the client itself.
    let to = PortId::new(scif::nodes().map_err(text("nodes"))?.own, 4010);
    let client = nonblocking()?;
    let first = errno(client.connect(to));
    let second = errno(client.connect(to));
    let (progress, refusal) = (Errno::InProgress.errno(), Errno::ConnectionRefused.errno());
    expect(
        (first, second) == (progress, refusal),
        "it is not refused when collected",
    )?;
    // The same endpoint tries again, and succeeds once an endpoint listens.
    let listener = Listener::bind(to.port()).map_err(text("listen"))?;
    expect(errno(client.connect(to)) == progress, "no second attempt")?;
    let _accepted = listener.accept().map_err(text("accept"))?;
    client
        .connect(to)
        .map(|_| ())
        .map_err(text("second attempt"))
}

fn connect_in_background() -> Result<(), String> {
    let (listener, to) = listener()?;
    let path = alloc::format!("/scheme/scif/{to}");
    let file = Fd::open(&path, O_RDWR | O_NONBLOCK, 0).map_err(text("open"))?;
    let early = file.write(b"x").map_err(|error| error.errno());
    expect(early == Err(11), "a write before the accept is not EAGAIN")?;
    let (server, _) = listener.accept().map_err(text("accept"))?;
    expect(file.write(b"hello") == Ok(5), "no write after the accept")?;
    let mut buffer = [0; 5];
    server
        .recv(&mut buffer, RecvFlags::BLOCK)
        .map_err(text("recv"))?;
    expect(&buffer == b"hello", "other bytes came")
}

fn accept() -> Result<(), String> {
    let (listener, to) = listener()?;
    expect(
        matches!(listener.try_accept(), Ok(None)),
        "accepted without a request",
    )?;
    let client = nonblocking()?;
    let _ = client.connect(to);
    let accepted = listener.try_accept().map_err(text("accept"))?;
    let (_, peer) = accepted.ok_or("nothing accepted though a request waits")?;
    let local = client.local().map_err(text("local"))?;
    expect(peer == local, "the peer's name is another")
}

fn polling() -> Result<(), String> {
    let (listener, to) = listener()?;
    let client = nonblocking()?;
    let _ = client.connect(to);
    let mut entries = [PollEntry::new(&listener, Readiness::IN)];
    let count = scif::poll(&mut entries, Some(TIME_LIMIT)).map_err(text("poll"))?;
    expect(
        count == 1 && entries[0].revents == Readiness::IN,
        "a request is not seen",
    )?;
    let (server, _) = listener.accept().map_err(text("accept"))?;
    client.connect(to).map_err(text("collect"))?;
    server.send(b"x", SendFlags::BLOCK).map_err(text("send"))?;
    let mut entries = [
        PollEntry::new(&client, Readiness::IN | Readiness::OUT),
        PollEntry::new(&listener, Readiness::IN),
    ];
    let count = scif::poll(&mut entries, None).map_err(text("poll"))?;
    let both = Readiness::IN | Readiness::OUT;
    expect(
        count == 1 && entries[0].revents == both,
        "a byte and room are not seen",
    )?;
    drop(server);
    let mut entries = [PollEntry::new(&client, Readiness::empty())];
    let count = scif::poll(&mut entries, Some(TIME_LIMIT)).map_err(text("poll"))?;
    expect(
        count == 1 && entries[0].revents.contains(Readiness::HUP),
        "the hang-up is not seen",
    )
}

fn time_out() -> Result<(), String> {
    let (listener, _) = listener()?;
    let start = Instant::now();
    let mut entries = [PollEntry::new(&listener, Readiness::IN)];
    let limit = Duration::from_millis(200);
    let count = scif::poll(&mut entries, Some(limit)).map_err(text("poll"))?;
    expect(
        count == 0 && start.elapsed() >= limit,
        "it came back too early",
    )
}

fn events() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    let mut queue = Queue::new().map_err(text("queue"))?;
    let read = EventFlags::EVENT_READ;
    queue
        .subscribe(server.fd(), read, 1)
        .map_err(text("subscribe"))?;
    let mut ready = alloc::vec::Vec::new();
    let short = Some(Duration::from_millis(100));
    queue.wait(short, &mut ready).map_err(text("wait"))?;
    expect(ready.is_empty(), "an event though nothing is there")?;
    client.send(b"x", SendFlags::BLOCK).map_err(text("send"))?;
    queue
        .wait(Some(TIME_LIMIT), &mut ready)
        .map_err(text("wait"))?;
    expect(
        ready.iter().any(|event| event.flags.contains(read)),
        "no event for a byte",
    )?;
    drop(client);
    server.read(&mut [0; 8]).map_err(text("read"))?;
    expect(
        errno(server.read(&mut [0; 8])) == 104,
        "no reset after the last byte",
    )
}

/// Waits until so many files are watched by event queues. The end of a queue is told to the driver
/// without waiting.
fn until_watched(files: u64) -> Result<(), String> {
    let now = settled(|| counter("watched"), &Ok(files))?;
    match now == files {
        true => Ok(()),
        false => Err(alloc::format!("{now} files are watched, not {files}")),
    }
}

fn polled() -> Result<(), String> {
    // Redox does not tell daemons of the end of a queue.
    if !ends_abandoned_requests() {
        return Ok(());
    }
    let before = counter("watched")?;
    let (_client, server) = pair().map_err(text("pair"))?;
    until_watched(before)?;
    let mut entries = [PollEntry::new(&server, Readiness::IN)];
    let count = scif::poll(&mut entries, Some(Duration::from_millis(20)));
    expect(count == Ok(0), "something is there")?;
    until_watched(before)
}

/// Two entries of one endpoint, the last of which does not ask for what happens.
fn polled_twice() -> Result<(), String> {
    let (client, server) = pair().map_err(text("pair"))?;
    let mut left = 0;
    while let Ok(sent @ 1..) = client.send(&[7; 4096], SendFlags::empty()) {
        left += sent;
    }
    let before = counter("watched")?;
    let polling = thread::spawn(move || {
        let mut entries = [
            PollEntry::new(&client, Readiness::OUT),
            PollEntry::new(&client, Readiness::IN),
        ];
        let count = scif::poll(&mut entries, None);
        (count, entries.map(|entry| entry.revents))
    });
    let polling = polling.map_err(text("spawn"))?;
    until_watched(before + 1)?;
    let mut bytes = [0; 4096];
    while left > 0 {
        let taken = server.recv(&mut bytes, RecvFlags::empty());
        left -= taken.map_err(text("recv"))?;
    }
    let (count, ready) = polling.join().map_err(text("join"))?;
    expect(
        count == Ok(1) && ready == [Readiness::OUT, Readiness::empty()],
        "room is not seen beside an entry for bytes",
    )
}

/// A listener of Scheduled Transfers, and where to connect to it.
fn st_listener() -> Result<(st::Listener, PortId), String> {
    let listener = st::Listener::bind(0).map_err(text("listen"))?;
    let own = scif::nodes().map_err(text("nodes"))?.own;
    let to = PortId::new(own, listener.port().map_err(text("port"))?);
    Ok((listener, to))
}

/// A listener has a queue for the connections that are being set up, a wait with a deadline one for
/// its connection, and setting up waits with a deadline.
fn set_up() -> Result<(), String> {
    if !ends_abandoned_requests() {
        return Ok(());
    }
    let before = counter("watched")?;
    let (listener, to) = st_listener()?;
    let accepting = thread::spawn(move || listener.accept().map(|link| (link, listener)));
    let accepting = accepting.map_err(text("spawn"))?;
    // Watched are the listener and the connection that says nothing yet.
    let mute = scif::Options::new().connect(to).map_err(text("connect"))?;
    until_watched(before + 2)?;
    let near = st::Connection::request(mute, &st::Options::new()).map_err(text("request"))?;
    let (far, _listener) = accepting
        .join()
        .map_err(text("join"))?
        .map_err(text("accept"))?;
    until_watched(before + 1)?;
    let (mut there, mut answers) = near.channel(0).map_err(text("channel"))?.split();
    let (mut back, mut asked) = far.channel(0).map_err(text("channel"))?.split();
    let soon = st::Deadline::after_ms(20).map_err(text("deadline"))?;
    let nothing = answers.pull_until::<u64>(soon);
    expect(nothing == Err(st::Error::TimedOut), "a header of nobody")?;
    until_watched(before + 2)?;
    // Both sleep for each other in the driver, so the queue is given up.
    answers.set_waiting(st::Waiting::Sleep);
    asked.set_waiting(st::Waiting::Sleep);
    let echo = thread::spawn(move || {
        while let Ok(number) = asked.pull::<u64>() {
            if back.push(&number).is_err() {
                break;
            }
        }
    });
    let echo = echo.map_err(text("spawn"))?;
    for number in 0..100_u64 {
        there.push(&number).map_err(text("push"))?;
        let back = answers.pull::<u64>().map_err(text("pull"))?;
        expect(back == number, "another header")?;
    }
    let given_up = until_watched(before + 1);
    near.say_end();
    echo.join().map_err(text("join"))?;
    given_up
}

/// A connection that a wait of the listener's has watched, and that comes out of a call without
/// waiting.
fn tried() -> Result<(), String> {
    if !ends_abandoned_requests() {
        return Ok(());
    }
    let before = counter("watched")?;
    let (listener, to) = st_listener()?;
    let request = |endpoint| {
        let request = move || st::Connection::request(endpoint, &st::Options::new());
        thread::spawn(request).map_err(text("spawn"))
    };
    let accepting = thread::spawn(move || listener.accept().map(|link| (link, listener)));
    let accepting = accepting.map_err(text("spawn"))?;
    let mute = scif::Options::new().connect(to).map_err(text("connect"))?;
    until_watched(before + 2)?;
    // The wait ends with another one.
    let other = scif::Options::new().connect(to).map_err(text("connect"))?;
    let other = request(other)?;
    let accepted = accepting.join().map_err(text("join"))?;
    let (_first, listener) = accepted.map_err(text("accept"))?;
    let _other = other.join().map_err(text("join"))?;
    until_watched(before + 2)?;
    let asked = request(mute)?;
    let mut taken = None;
    let found = settled(
        || {
            taken = listener.try_accept().map_err(text("try_accept"))?;
            Ok(taken.is_some())
        },
        &Ok::<bool, String>(true),
    );
    expect(found?, "no connection comes out of try_accept")?;
    let _asked = asked.join().map_err(text("join"))?;
    until_watched(before + 1)
}
