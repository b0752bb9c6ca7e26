//! `ib-perf`: measures latency and bandwidth of RDMA verbs, like perftest. Start `ib-perf -s` on
//! one node, then `ib-perf NODE` on another or on the same one.
//!
//! Names of the tests (`--test`, and `test` in the JSON lines, see `scif_perf::report`):
//!
//! | test | unit | what |
//! | --- | --- | --- |
//! | `send_lat` | ns | half of the time of a message and one back |
//! | `write_lat` | ns | half of the time of an RDMA WRITE and one back, both by polling |
//! | `read_lat` | ns | an RDMA READ, until its completion |
//! | `atomic_lat` | ns | a fetch-and-add, until its completion |
//! | `send_bw`, `write_bw`, `read_bw` | bytes_per_s | requests of this size, many under way |
//! | `atomic_rate` | per_s | fetch-and-adds per second, many under way |
//!
//! A test of bandwidth also prints its requests per second, in a line of its own: `send_rate`,
//! `write_rate`, `read_rate`. These are no names for `--test`.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
runtime::main!(verbs_tools::perf::main);

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
