//! `bench-linux`: what two Linux guests reach with what Linux offers them: TCP over virtio-net,
//! memory shared by `ivshmem`, and RDMA verbs by `rdma_rxe`. `make bench` boots the guests and
//! reads the results on the console.
//!
//! `bench-linux server` answers. `bench-linux client <address> <subject> <effort>` measures and
//! prints a line of JSON for each result, with a progress line (`# …`) before it. The subject is
//! `tcp` (with the shared memory) or `rdma`. The effort is `full`, `brief` (only what ours is
//! compared with) or `quick` (the measures of `brief` in less time).

mod memory;
mod protocol;
mod rdma;
mod report;
mod tcp;

use std::io::Result;
use std::process::ExitCode;

/// The effort of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of repetitions of each measure. One more comes first and is dropped.
    pub repetitions: usize,
    /// Number of round trips in a repetition.
    pub round_trips: u64,
    /// Number of connections in a repetition, made and closed.
    pub connections: u64,
    /// Rough length of a repetition of a stream in milliseconds.
    pub stream_ms: u64,
    /// Rough length of a repetition of a copy in milliseconds.
    pub copy_ms: u64,
    /// Whether streams and copies of all sizes are measured, or only what ours is compared with.
    pub all: bool,
}

const FULL: Effort = Effort {
    repetitions: 5,
    round_trips: 500,
    connections: 50,
    stream_ms: 120,
    copy_ms: 25,
    all: true,
};
const BRIEF: Effort = Effort { all: false, ..FULL };
const QUICK: Effort = Effort {
    repetitions: 2,
    round_trips: 200,
    connections: 20,
    stream_ms: 50,
    ..BRIEF
};

/// Runs the program, given the words after its name.
pub fn run(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["server"] => tcp::serve(),
        ["client", address, subject, effort] => match (measures(subject), effort_of(effort)) {
            (Some(measures), Some(effort)) => client(address, measures, effort),
            _ => return usage(),
        },
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-linux: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: bench-linux server | bench-linux client <address> tcp|rdma full|brief|quick");
    ExitCode::from(2)
}

/// A function that measures a part of a subject.
type Measure = fn(&mut protocol::Server, Effort) -> Result<()>;

/// Returns the functions for the parts of a subject.
fn measures(subject: &str) -> Option<&'static [Measure]> {
    match subject {
        "tcp" => Some(&[tcp::measure, memory::measure]),
        "rdma" => Some(&[rdma::measure]),
        _ => None,
    }
}

fn effort_of(name: &str) -> Option<Effort> {
    match name {
        "full" => Some(FULL),
        "brief" => Some(BRIEF),
        "quick" => Some(QUICK),
        _ => None,
    }
}

fn client(address: &str, measures: &[Measure], effort: Effort) -> Result<()> {
    let mut server = protocol::Server::connect(address)?;
    for measure in measures {
        measure(&mut server, effort)?;
    }
    server.end()
}
