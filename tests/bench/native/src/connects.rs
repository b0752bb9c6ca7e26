//! Connections that are made and closed: by both drivers on one thread and without interrupts, and
//! by UNIX sockets, also on one thread. Both include all the work of connecting, accepting and
//! closing; ours lacks the programs' requests to their drivers.

use std::os::unix::net::{UnixListener, UnixStream};
use std::task::Poll;

use hal::clock::ticks;
use scif_abi::PortId;
use scif_core::{ConnectMode, Owner};
use scif_perf::report::Unit;

use crate::base::turn;
use crate::memory::{self, Node, PORT, Second, said};
use crate::{Failure, Settings, Test};

/// Number of connections in a repetition: the memory of a node's rings is never freed.
const CONNECTIONS: usize = 100;
/// Number of turns of both drivers after which a step must have happened.
const TURNS: usize = 100;

/// Returns both tests.
pub fn tests() -> Result<Vec<Test<'static>>, Failure> {
    let unit = Unit::Nanoseconds;
    Ok(vec![
        Test::new("native_unix_connect", 1, unit, unix),
        Test::new("native_connect", 1, unit, ours),
    ])
}

fn unix(settings: &Settings) -> Result<Vec<f64>, Failure> {
    let path = std::env::temp_dir().join(format!("bench-native-{}", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    let connect = || {
        let client = UnixStream::connect(&path)?;
        let (server, _) = listener.accept()?;
        drop((client, server));
        Ok::<_, std::io::Error>(())
    };
    let samples = timed(settings, || connect().map_err(Failure::from));
    std::fs::remove_file(&path)?;
    samples
}

fn ours(settings: &Settings) -> Result<Vec<f64>, Failure> {
    let mut nodes = memory::linked(Second::Ours)?;
    let server = &mut nodes[1];
    let listener = server.endpoint;
    let bound = server.engine.bind(listener, PORT);
    bound.map_err(said("bind"))?;
    let listening = server.engine.listen(listener, 1);
    listening.map_err(said("listen"))?;
    timed(settings, || connect_and_close(&mut nodes))
}

/// Returns the nanoseconds of each connection, after one that does not count.
fn timed(
    settings: &Settings,
    mut connect: impl FnMut() -> Result<(), Failure>,
) -> Result<Vec<f64>, Failure> {
    connect()?;
    let mut samples = Vec::new();
    for _ in 0..CONNECTIONS {
        let start = ticks();
        connect()?;
        samples.push(settings.rate.between(start, ticks()));
    }
    Ok(samples)
}

/// Lets both drivers take turns until a step returns a value.
fn until<T>(
    nodes: &mut [Node; 2],
    what: &str,
    mut step: impl FnMut(&mut [Node; 2]) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    for _ in 0..TURNS {
        if let Some(value) = step(nodes)? {
            return Ok(value);
        }
        nodes.iter_mut().for_each(turn);
    }
    Err(format!("{what} does not end").into())
}

/// Returns the number of pages that the connections of both nodes have.
fn pages(nodes: &[Node; 2]) -> usize {
    nodes.iter().map(|node| node.engine.stats().pages).sum()
}

fn connect_and_close(nodes: &mut [Node; 2]) -> Result<(), Failure> {
    let before = pages(nodes);
    let [client, server] = nodes;
    let (owner, listener) = (Owner::default(), server.endpoint);
    let opened = client.engine.open(owner);
    let end = opened.map_err(said("open"))?;
    let to = PortId::new(client.peer, PORT);
    let (memory, mode) = (&mut client.memory, ConnectMode::Blocking);
    let connecting = client.engine.connect(memory, end, to, mode);
    connecting.map_err(said("connect"))?;
    let accepted = until(nodes, "accept", |[_, server]| {
        let memory = &mut server.memory;
        match server.engine.accept_start(memory, listener, owner) {
            Ok(accepted) => Ok(Some(accepted)),
            Err(scif_abi::Error::WouldBlock) => Ok(None),
            Err(error) => Err(said("accept")(error)),
        }
    })?;
    until(nodes, "connect", |[client, _]| {
        match client.engine.connect_result(end) {
            Poll::Ready(result) => result.map(Some).map_err(said("connect")),
            Poll::Pending => Ok(None),
        }
    })?;
    until(nodes, "accept", |[_, server]| {
        match server.engine.accept_finish(accepted) {
            Poll::Ready(result) => result.map(Some).map_err(said("accept")),
            Poll::Pending => Ok(None),
        }
    })?;
    let [client, server] = nodes;
    client.engine.close(&mut client.memory, end);
    turn(client);
    turn(server);
    server.engine.close(&mut server.memory, accepted);
    // Wait until both nodes have released their ends.
    until(nodes, "closing", |nodes| {
        Ok((pages(nodes) == before).then_some(()))
    })
}
