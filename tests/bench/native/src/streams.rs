//! Streams of the operating system: UNIX sockets, pipes and TCP on loopback, between two threads
//! on two cores.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use hal::clock::ticks;
use scif_perf::report::Unit;

use crate::{Failure, Settings, Test, threads};

/// One end of a connection: the file to write to and the file to read from.
struct End {
    write: Box<dyn Write + Send>,
    read: Box<dyn Read + Send>,
}

fn unix() -> std::io::Result<[End; 2]> {
    let (first, second) = UnixStream::pair()?;
    let end = |stream: UnixStream| -> std::io::Result<End> {
        Ok(End {
            read: Box::new(stream.try_clone()?),
            write: Box::new(stream),
        })
    };
    Ok([end(first)?, end(second)?])
}

fn pipes() -> std::io::Result<[End; 2]> {
    let (there, back): ((PipeReader, PipeWriter), _) = (pipe()?, pipe()?);
    let end = |read: PipeReader, write: PipeWriter| End {
        write: Box::new(write),
        read: Box::new(read),
    };
    Ok([end(back.0, there.1), end(there.0, back.1)])
}

fn tcp() -> std::io::Result<[End; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let first = TcpStream::connect(listener.local_addr()?)?;
    let (second, _) = listener.accept()?;
    let end = |stream: TcpStream| -> std::io::Result<End> {
        stream.set_nodelay(true)?;
        Ok(End {
            read: Box::new(stream.try_clone()?),
            write: Box::new(stream),
        })
    };
    Ok([end(first)?, end(second)?])
}

/// Makes both ends of a connection.
type Connect = fn() -> std::io::Result<[End; 2]>;

/// The kinds of connection.
const KINDS: [(&str, Connect); 3] = [("unix", unix), ("pipe", pipes), ("tcp", tcp)];

/// Starts the second thread on its core. It ends with the connection.
fn start(serve: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new().spawn(move || {
        if threads::pin(1).is_err() {
            eprintln!("bench-native: the second thread is not bound");
        }
        // An error is the end of the connection, which the first thread notices as well.
        let _ = serve();
    })?;
    Ok(())
}

/// Returns the tests of round trips of `size` bytes.
pub fn round_trips(size: usize) -> Result<Vec<Test<'static>>, Failure> {
    let mut tests = Vec::new();
    for (name, connect) in KINDS {
        let [mut client, mut server] = connect()?;
        start(move || {
            let mut buffer = vec![0; size];
            loop {
                server.read.read_exact(&mut buffer)?;
                server.write.write_all(&buffer)?;
            }
        })?;
        let (message, mut back) = (vec![0x5a; size], vec![0; size]);
        let run = move |settings: &Settings| {
            let mut samples = Vec::new();
            let end = ticks() + settings.rate.ticks(settings.budget_ns);
            let mut last = ticks();
            while last < end {
                client.write.write_all(&message)?;
                client.read.read_exact(&mut back)?;
                let now = ticks();
                samples.push(settings.rate.between(last, now));
                last = now;
            }
            match back == message {
                true => Ok(samples),
                false => Err("wrong bytes came back".into()),
            }
        };
        let name = format!("native_{name}_rtt");
        tests.push(Test::new(&name, size, Unit::Nanoseconds, run));
    }
    Ok(tests)
}

/// Returns the tests of streams of messages of `size` bytes.
pub fn streams(size: usize) -> Result<Vec<Test<'static>>, Failure> {
    /// Number of messages in a sample. The other end answers with a byte when it has them all.
    const MESSAGES: usize = 1000;
    let mut tests = Vec::new();
    for (name, connect) in KINDS {
        let [mut client, mut server] = connect()?;
        start(move || {
            let mut buffer = vec![0; size];
            loop {
                for _ in 0..MESSAGES {
                    server.read.read_exact(&mut buffer)?;
                }
                server.write.write_all(&[buffer[size - 1]])?;
            }
        })?;
        let message = vec![0xa5; size];
        let run = move |settings: &Settings| {
            let mut samples = Vec::new();
            let end = ticks() + settings.rate.ticks(settings.budget_ns);
            let mut last = ticks();
            while last < end {
                for _ in 0..MESSAGES {
                    client.write.write_all(&message)?;
                }
                let mut answer = [0];
                client.read.read_exact(&mut answer)?;
                if answer != [0xa5] {
                    return Err("wrong bytes arrived".into());
                }
                let now = ticks();
                let nanoseconds = settings.rate.between(last, now).max(1.0);
                samples.push((MESSAGES * size) as f64 * 1e9 / nanoseconds);
                last = now;
            }
            Ok(samples)
        };
        let name = format!("native_{name}_stream");
        tests.push(Test::new(&name, size, Unit::BytesPerSecond, run));
    }
    Ok(tests)
}
