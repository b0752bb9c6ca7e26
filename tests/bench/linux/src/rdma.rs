//! RDMA verbs between the guests by Linux's `rdma_rxe`, which sends them as UDP. The programs are
//! the pingpong of rdma-core and the bandwidth test of perftest, as Debian packages them. The
//! client's guest starts the same program as the server's guest and reads its output.

use crate::Effort;
use crate::protocol::{Job, Server};
use crate::report::{self, Unit};
use std::io::{Error, Result};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes in a message of the round trips, and of the transfers.
const SHORT: u64 = 64;
const LONG: u64 = 1 << 20;
/// The port on which both programs listen.
const PORT: u16 = 18515;
/// Longest time a program may take until it listens.
const START: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(20);

/// A program that runs in both guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// SEND there and back, while both sides poll.
    Polling,
    /// SEND there and back, while both sides sleep until an event.
    Sleeping,
    /// RDMA WRITE one way.
    Write,
}

const PROGRAMS: [Program; 3] = [Program::Polling, Program::Sleeping, Program::Write];

impl Program {
    /// Returns the program's number in a job.
    pub fn number(self) -> u64 {
        match self {
            Self::Polling => 0,
            Self::Sleeping => 1,
            Self::Write => 2,
        }
    }

    /// Returns the program with a number.
    pub fn of_number(number: u64) -> Option<Self> {
        PROGRAMS
            .into_iter()
            .find(|program| program.number() == number)
    }

    /// Starts the program as the server, or as the client of an address.
    fn start(self, bytes: u64, count: u64, address: Option<&str>) -> Result<Child> {
        // The second GID of the device is that of the IPv4 address.
        let (name, words): (_, &[&str]) = match self {
            Self::Polling => ("/usr/bin/ibv_rc_pingpong", &["-g", "1"]),
            Self::Sleeping => ("/usr/bin/ibv_rc_pingpong", &["-g", "1", "-e"]),
            Self::Write => ("/usr/bin/ib_write_bw", &["-x", "1", "-F"]),
        };
        Command::new(name)
            .args(["-d", "rxe0"])
            .args(words)
            .args(["-s", &bytes.to_string(), "-n", &count.to_string()])
            .args(address)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
    }

    /// Parses the result: nanoseconds of a round trip, or bytes per second.
    fn read(self, output: &str) -> Option<f64> {
        match self {
            Self::Polling | Self::Sleeping => microseconds(output).map(|time| time * 1e3),
            Self::Write => mebibytes(output).map(|rate| rate * (1 << 20) as f64),
        }
    }
}

/// Parses the microseconds of a round trip: `2000 iters in 6.48 seconds = 3239.32 usec/iter`.
fn microseconds(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .find_map(|line| line.strip_suffix(" usec/iter"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Parses the mean rate in MiB per second: the fourth number of the only line that is all numbers.
fn mebibytes(output: &str) -> Option<f64> {
    let numbers = |line: &str| -> Option<Vec<f64>> {
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    };
    let mut rows = output.lines().filter_map(numbers);
    rows.find_map(|row| row.get(3).copied())
}

/// The server's part of a program. Calls `listening` when the client may start.
pub fn serve(
    program: Program,
    bytes: u64,
    count: u64,
    listening: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let mut child = program.start(bytes, count, None)?;
    let start = Instant::now();
    while !listens(&std::fs::read_to_string("/proc/net/tcp")?)
        && !listens(&std::fs::read_to_string("/proc/net/tcp6")?)
    {
        if child.try_wait()?.is_some() || start.elapsed() > START {
            return Err(ended(child));
        }
        std::thread::sleep(RETRY);
    }
    listening()?;
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(ended(child)),
    }
}

/// Returns whether the kernel's table of TCP sockets has one that listens on the programs' port.
fn listens(table: &str) -> bool {
    let port = format!(":{PORT:04X}");
    table.lines().any(|line| {
        let mut columns = line.split_whitespace();
        columns.nth(1).is_some_and(|local| local.ends_with(&port)) && columns.nth(1) == Some("0A")
    })
}

fn ended(mut child: Child) -> Error {
    // A program that has ended cannot be killed; only its status matters.
    let _ = child.kill();
    Error::other(format!(
        "a program of RDMA verbs failed: {:?}",
        child.wait()
    ))
}

/// Measures all round trips and transfers.
pub fn measure(server: &mut Server, effort: Effort) -> Result<()> {
    let few = (effort.round_trips / 5).max(1);
    let long = (effort.round_trips / 25).max(1);
    for (test, program, bytes, count) in [
        ("rxe_rtt", Program::Polling, SHORT, few),
        ("rxe_event_rtt", Program::Sleeping, SHORT, few),
        ("rxe_write", Program::Write, LONG, long),
    ] {
        report::progress(&format!("RDMA verbs, {bytes} bytes: {test}"));
        let mut all = Vec::new();
        for repetition in 0..=effort.repetitions {
            let value = once(server, program, bytes, count)?;
            if repetition > 0 {
                all.push(vec![value]);
            }
        }
        let unit = match program {
            Program::Write => Unit::BytesPerSecond,
            _ => Unit::Nanoseconds,
        };
        report::result(test, bytes, unit, &all);
    }
    Ok(())
}

fn once(server: &mut Server, program: Program, bytes: u64, count: u64) -> Result<f64> {
    server.start(Job::Verbs {
        program,
        bytes,
        count,
    })?;
    server.wait()?;
    let child = program.start(bytes, count, Some(server.address()))?;
    let output = child.wait_with_output()?;
    // Wait until the server is ready for the next job.
    server.wait()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match (output.status.success(), program.read(&text)) {
        (true, Some(value)) => Ok(value),
        _ => Err(Error::other(format!("{program:?} printed: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_numbers() {
        for program in PROGRAMS {
            assert_eq!(Program::of_number(program.number()), Some(program));
        }
        assert_eq!(Program::of_number(3), None);
    }

    #[test]
    fn what_the_programs_print_is_read() {
        let pingpong = "  local address:  LID 0x0000, QPN 0x000012, PSN 0xd4eec2\n\
             256000 bytes in 6.48 seconds = 0.32 Mbit/sec\n\
             2000 iters in 6.48 seconds = 3239.32 usec/iter\n";
        assert_eq!(Program::Sleeping.read(pingpong), Some(3_239_320.0));
        assert_eq!(Program::Polling.read("2000 iters in vain\n"), None);
        let bandwidth = " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n \
             1048576    20             12.50              8.00    \t\t   0.000008\n\
             ---------------------------------------\n";
        assert_eq!(Program::Write.read(bandwidth), Some(8.0 * 1048576.0));
        assert_eq!(Program::Write.read("nothing\n"), None);
    }

    #[test]
    fn a_socket_that_listens_is_noticed() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let row = |port, state| format!("{head}   0: 00000000:{port} 00000000:0000 {state} 0:0\n");
        assert!(listens(&row("4853", "0A")));
        assert!(!listens(&row("4853", "01")));
        assert!(!listens(&row("4854", "0A")));
    }
}
