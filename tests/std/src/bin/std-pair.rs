//! Rust's standard library between two nodes: connections of SCIF as `Read` and `Write`, the
//! network, Scheduled Transfers and RDMA verbs, whose errors all are `std::io::Error`.
//!
//! `std-pair serve` serves one client, `std-pair NODE` is that client, against the server on that
//! node. The status is the number of steps that failed.

use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use scif::{Endpoint, Memory, Options, PortId};
use st::Deadline;
use std_tests::{status, step};
use verbs::{Access, QpType, QueuePair, Remote, Settings, WcStatus};

/// Where the server listens: one port for each step.
const BYTES: u16 = 4110;
const LINES: u16 = 4111;
const NETWORK: u16 = 4112;
const TRANSFERS: u16 = 4113;
const VERBS: u16 = 4114;

/// How long a client waits for its server to listen.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// One side of a step; the node is the server's.
type Side = fn(u16) -> io::Result<()>;

/// A step: its name, what the server does and what the client does.
const STEPS: [(&str, Side, Side); 5] = [
    ("bytes of SCIF", serve_bytes, send_bytes),
    ("lines of SCIF", serve_lines, send_lines),
    ("network", serve_network, use_network),
    ("transfers", serve_transfers, transfer),
    ("verbs", serve_verbs, use_verbs),
];

fn main() {
    let word = std::env::args().nth(1).expect("serve, or a node");
    let passed = STEPS.map(|(name, serve, call)| {
        step(name, || {
            match word.as_str() {
                "serve" => serve(scif::nodes().unwrap().own),
                node => call(node.parse().unwrap()),
            }
            .unwrap();
        })
    });
    std::process::exit(status(&passed));
}

/// A pattern in which no two pages are the same.
fn pattern(length: usize, seed: u8) -> Vec<u8> {
    let byte = |at: usize| (at ^ (at >> 8).wrapping_mul(31)) as u8 ^ seed;
    (0..length).map(byte).collect()
}

fn connect(node: u16, port: u16) -> io::Result<Endpoint> {
    let options = Options::new().retry_for(TIME_LIMIT);
    Ok(options.connect(PortId::new(node, port))?)
}

fn ensure(condition: bool, what: &str) -> io::Result<()> {
    match condition {
        true => Ok(()),
        false => Err(io::Error::other(what)),
    }
}

// ---- Connections of SCIF ----

const SENT: usize = 3_000_001;

/// Reads until the client has gone, and compares.
fn serve_bytes(_own: u16) -> io::Result<()> {
    let (mut peer, _) = scif::Listener::bind(BYTES)?.accept()?;
    let mut copy = Vec::new();
    peer.read_to_end(&mut copy)?;
    ensure(copy == pattern(SENT, 1), "other bytes")?;
    // The connection has ended: nothing can be written any more.
    let ended = peer.write(b"x").map_err(|error| error.kind());
    ensure(
        ended == Err(ErrorKind::ConnectionReset),
        "written to nobody",
    )
}

fn send_bytes(server: u16) -> io::Result<()> {
    let mut peer = connect(server, BYTES)?;
    ensure(peer.as_fd().as_raw_fd() == peer.as_raw_fd(), "descriptor")?;
    let bytes = pattern(SENT, 1);
    ensure(io::copy(&mut &bytes[..], &mut peer)? == 3_000_001, "length")?;
    peer.flush()
}

/// Several connections at once, each by a thread; each line back in capitals.
fn serve_lines(_own: u16) -> io::Result<()> {
    let listener = scif::Listener::bind(LINES)?;
    ensure(listener.as_fd().as_raw_fd() >= 0, "descriptor")?;
    thread::scope(|scope| {
        let accept = || -> io::Result<_> { Ok(listener.accept()?.0) };
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let peer = accept();
                scope.spawn(move || capitals(&peer?))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap())
    })
}

fn capitals(peer: &Endpoint) -> io::Result<()> {
    for line in BufReader::new(peer).lines() {
        writeln!(&*peer, "{}", line?.to_uppercase())?;
    }
    Ok(())
}

/// One thread writes, another reads, and both share the endpoint.
fn send_lines(server: u16) -> io::Result<()> {
    let lines: String = (0..500).map(|number| format!("line {number}\n")).collect();
    let one = || {
        let peer = connect(server, LINES)?;
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut back = vec![0; lines.len()];
                (&peer).read_exact(&mut back).map(|()| back)
            });
            let mut writer = BufWriter::with_capacity(100, &peer);
            writer.write_all(lines.as_bytes())?;
            writer.flush()?;
            let back = reader.join().unwrap()?;
            ensure(back == lines.to_uppercase().as_bytes(), "other lines")
        })
    };
    thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(one));
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap())
    })
}

// ---- The network ----

/// Answers each connection with its own bytes, once all of them have come.
fn serve_network(_own: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, NETWORK))?;
    for _ in 0..2 {
        let (mut stream, _) = listener.accept()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        stream.write_all(&bytes)?;
    }
    Ok(())
}

/// By the name and by the address of the node.
fn use_network(server: u16) -> io::Result<()> {
    let name = format!("node{server}");
    let stream = patiently(|| TcpStream::connect((name.as_str(), NETWORK)))?;
    let address = stream.peer_addr()?;
    ensure(address.port() == NETWORK, "another port")?;
    exchange(stream)?;
    exchange(TcpStream::connect(address)?)
}

fn exchange(mut stream: TcpStream) -> io::Result<()> {
    let bytes = pattern(400_000, 2);
    stream.write_all(&bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    ensure(back == bytes, "other bytes")
}

/// Tries again while nobody listens.
fn patiently<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && start.elapsed() < TIME_LIMIT => {
            }
            result => return result,
        }
        thread::sleep(Duration::from_millis(20));
    }
}

// ---- Scheduled Transfers ----

const BLOCK: usize = 8192;

/// The memory that the client puts into; each header says where a block is.
fn serve_transfers(_own: u16) -> io::Result<()> {
    let listener = st::Listener::bind(TRANSFERS)?;
    let link = listener.accept()?;
    let same = link.as_fd().as_raw_fd() == link.endpoint().as_raw_fd();
    ensure(same, "another descriptor")?;
    let (mut tx, mut rx) = link.channel(0)?.split();
    let memory = Memory::new(4 * BLOCK).map_err(scif::Error::from)?;
    let region = tx.map(memory)?;
    let mut bytes = vec![0; BLOCK];
    for number in 0..16_u64 {
        let [name, at]: [u64; 2] = rx.pull()?;
        ensure(name == number, "another block")?;
        region
            .copy_out(at as usize, &mut bytes)
            .map_err(scif::Error::from)?;
        ensure(bytes == pattern(BLOCK, number as u8), "other bytes")?;
        tx.push(&number)?;
    }
    // The client ends the connection.
    let end = rx.pull::<u64>().map_err(io::Error::from);
    let end = end.map_err(|error| error.kind());
    ensure(end == Err(ErrorKind::ConnectionReset), "another end")
}

fn transfer(server: u16) -> io::Result<()> {
    let options = st::Options::new().retry_for(TIME_LIMIT);
    let link = st::connect(PortId::new(server, TRANSFERS), &options)?;
    let (mut tx, mut rx) = link.channel(0)?.split();
    let memory = tx.remote(Deadline::Never)?;
    for number in 0..16_u64 {
        let at = number % 4 * BLOCK as u64;
        tx.put_with(&pattern(BLOCK, number as u8), memory.at(at)?, &[number, at])?;
        ensure(rx.pull::<u64>()? == number, "another answer")?;
    }
    let outside = memory.at(4 * BLOCK as u64 + 1);
    ensure(
        outside.is_err_and(|error| io::Error::from(error).raw_os_error() == Some(6)),
        "a place outside",
    )
}

// ---- RDMA verbs ----

const LENGTH: usize = 64 * 1024;

/// A queue pair, and what belongs to it.
struct Verbs {
    context: verbs::Context,
    region: verbs::MemoryRegion,
    channel: verbs::CompletionChannel,
    queue: verbs::CompletionQueue,
    pair: QueuePair,
}

impl Verbs {
    /// One that is initialized.
    fn open() -> io::Result<Self> {
        let device = verbs::devices()?.into_iter().next();
        let device = device.ok_or(ErrorKind::NotFound)?;
        let context = device.open(|worker| {
            thread::spawn(move || worker.run());
            Ok(())
        })?;
        let domain = context.protection_domain()?;
        let channel = context.completion_channel()?;
        let queue = context.completion_queue_with(16, &channel, 7)?;
        let pair = domain.queue_pair(QpType::Rc, &queue, &queue).build()?;
        pair.init(&Settings::default())?;
        let memory = Memory::new(LENGTH).map_err(scif::Error::from)?;
        let region = domain.register(memory, Access::LOCAL_WRITE | Access::REMOTE)?;
        queue.request_notification(false)?;
        Ok(Self {
            context,
            region,
            channel,
            queue,
            pair,
        })
    }

    /// Waits for the first completion, asleep.
    fn completion(&self) -> io::Result<verbs::WorkCompletion> {
        ensure(self.channel.next()? == 7, "another queue")?;
        let mut completions = Vec::new();
        self.queue.poll(16, &mut completions)?;
        ensure(completions.len() == 1, "another number of completions")?;
        ensure(completions[0].status == WcStatus::Success, "a status")?;
        self.queue.request_notification(false)?;
        Ok(completions[0])
    }
}

/// Writes into the client's memory, where the client has said by the connection.
fn serve_verbs(_own: u16) -> io::Result<()> {
    let (peer, _) = scif::Listener::bind(VERBS)?.accept()?;
    let own = Verbs::open()?;
    own.pair.meet(&peer, &Settings::default())?;
    let mut place = [0; 12];
    (&peer).read_exact(&mut place)?;
    let (address, key) = place.split_at(8);
    let to = Remote {
        address: u64::from_le_bytes(address.try_into().unwrap()),
        key: u32::from_le_bytes(key.try_into().unwrap()),
    };
    own.region
        .copy_in(0, &pattern(LENGTH, 3))
        .map_err(scif::Error::from)?;
    let all = [own.region.segment(0..LENGTH)?];
    own.pair.write_with(5, &all, to, 0x1234)?;
    ensure(own.completion()?.id == 5, "another request")?;
    // The client closes when it has looked at its memory.
    ensure((&peer).bytes().next().is_none(), "more bytes")
}

fn use_verbs(server: u16) -> io::Result<()> {
    let peer = connect(server, VERBS)?;
    let own = Verbs::open()?;
    let descriptors = [own.channel.as_fd().as_raw_fd(), own.context.as_raw_fd()];
    ensure(descriptors[0] != descriptors[1], "the same descriptor")?;
    own.pair.receive(9, &[])?;
    own.pair.meet(&peer, &Settings::default())?;
    let place = own.region.remote(0);
    let mut words = place.address.to_le_bytes().to_vec();
    words.extend(place.key.to_le_bytes());
    (&peer).write_all(&words)?;
    let completion = own.completion()?;
    ensure((completion.id, completion.immediate) == (9, 0x1234), "data")?;
    let mut bytes = vec![0; LENGTH];
    own.region
        .copy_out(0, &mut bytes)
        .map_err(scif::Error::from)?;
    ensure(bytes == pattern(LENGTH, 3), "other bytes")
}
