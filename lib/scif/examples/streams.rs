//! Endpoints as byte streams for generic code, through the traits of `embedded-io`; and endpoints
//! made with options.
#![no_std]
#![no_main]

extern crate alloc;

use embedded_io::{Read, Write};
use scif::{Options, PortId};
use scif_examples::{Result, ensure, node_number, report};

runtime::main!(main);

const PORT: u16 = 5002;
const LINES: usize = 1000;

fn main() -> i32 {
    match runtime::env::args().nth(1).as_deref() {
        Some("serve") => report(server()),
        Some(node) => report(client(node)),
        None => report(Err("say `serve`, or the node where it serves".into())),
    }
}

/// Writes lines by the traits alone: this function knows nothing of SCIF.
fn write_lines<W: Write>(mut to: W) -> core::result::Result<(), W::Error> {
    for number in 0..LINES {
        let line = alloc::format!("line {number}\n");
        to.write_all(line.as_bytes())?;
    }
    to.flush()
}

/// Counts the lines until the end of the stream. It knows nothing of SCIF either.
fn count_lines<R: Read>(mut from: R) -> core::result::Result<usize, R::Error> {
    let mut buffer = [0; 256];
    let mut lines = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(lines),
            count => {
                lines += buffer[..count]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count()
            }
        }
    }
}

fn client(node: &str) -> Result {
    let to = PortId::new(node_number(node)?, PORT);
    // Waits until an endpoint listens, with the ready-made endpoint of the other examples.
    drop(scif_examples::connect(to)?);
    // Port 0 is any; root may ask for one below 1024.
    let endpoint = Options::new().port(0).connect(to)?;
    write_lines(endpoint)?;
    Ok(())
}

fn server() -> Result {
    let listener = Options::new().port(PORT).backlog(1).listen()?;
    let (probe, _) = listener.accept()?;
    ensure(
        count_lines(probe)? == 0,
        "the first connection sends nothing",
    )?;
    let (endpoint, peer) = listener.accept()?;
    let lines = count_lines(endpoint)?;
    runtime::println!("{lines} lines from {peer}");
    ensure(lines == LINES, "lines are missing")
}
