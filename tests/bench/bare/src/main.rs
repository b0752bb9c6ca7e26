//! `scif-bare`: measures what two nodes can do at most through the same aperture and the same
//! doorbells, without SCIF. The results are the limits with which the figures of `scif-perf` are
//! compared.
//!
//! This is `scif-perf` with more tests, so that one program can measure a limit and our value in
//! turn, within milliseconds of each other (`--test bare_pingpong+pio_rtt`). SCIF carries the
//! orders to the other side and the addresses of its memory; the measured accesses do not go
//! through it. The program must run as root, because it maps device memory.
//!
//! | test | size | unit | what |
//! | --- | --- | --- | --- |
//! | `bare_pingpong` | 8 | ns | both sides poll a word of their own memory and store the other's |
//! | `bare_write` | bytes | bytes_per_s | own memory to the peer's, through the aperture |
//! | `bare_read` | bytes | bytes_per_s | the peer's memory to the own |
//! | `bare_copy_read` | bytes | bytes_per_s | messages one after the other, which the peer reads |
//! | `bare_doorbell` | 8 | ns | a doorbell and one back, both sides asleep until it comes |
//! | `bare_doorbell_own`, `…_peer` | 8 | ns | the same beside a computing thread on that node |
//!
//! A limit must be the best possible value, also under an emulator whose speed depends on
//! addresses: pages whose numbers differ by a multiple of a large power of two evict each other
//! from its address cache. So each limit is measured at several places and copies with several
//! routines, in turn. Each has a line of its own (key `routine`); the best one counts.
#![no_std]
#![no_main]

extern crate alloc;

mod copies;
mod doorbells;
mod link;
mod node;
mod pingpong;
mod streams;

use scif_perf::perf::{Extra, Program};

runtime::main!(main);

const HELP: &str = "\
scif-bare: scif-perf with tests of what two nodes can do without SCIF; run it as root on both
  bare_pingpong bare_doorbell bare_doorbell_own bare_doorbell_peer bare_write
  bare_read bare_copy_read
  for example: scif-bare -s, and on node 0: scif-bare 1 --test bare_pingpong+pio_rtt
";

fn main() -> i32 {
    runtime::logging::init("scif-bare");
    scif_perf::perf::main_with(Program {
        help: HELP,
        tests: &[
            Extra {
                name: "bare_pingpong",
                run: pingpong::run,
            },
            Extra {
                name: "bare_doorbell",
                run: doorbells::run,
            },
            Extra {
                name: "bare_doorbell_own",
                run: doorbells::run_beside_own,
            },
            Extra {
                name: "bare_doorbell_peer",
                run: doorbells::run_beside_peer,
            },
            Extra {
                name: "bare_write",
                run: copies::write,
            },
            Extra {
                name: "bare_read",
                run: copies::read,
            },
            Extra {
                name: "bare_copy_read",
                run: streams::run,
            },
        ],
        serve: Some(node::serve),
    })
}
