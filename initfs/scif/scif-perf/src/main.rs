//! Measures SCIF: latency, bandwidth, the costs of connecting, registering and mapping, and how
//! they grow with the number of connections, windows and the like. Start `scif-perf -s` on one
//! node, then `scif-perf NODE` on another or on the same one.
//!
//! Names of the tests (`--test`, and `test` in the JSON lines, see `scif_perf::report`):
//!
//! | test | size | unit | what |
//! | --- | --- | --- | --- |
//! | `pio_rtt` | 8 | ns | a word and back through mapped windows, both sides polling |
//! | `ring_rtt` | 64 | ns | the same with 64 bytes and an index: a plain ring |
//! | `pio_write`, `pio_read` | bytes | bytes_per_s | copies to and from a mapped window |
//! | `rma_write`, `rma_read` | bytes | bytes_per_s | between windows, SYNC |
//! | `vrma_write`, `vrma_read` | bytes | bytes_per_s | of a buffer (`scif_vwriteto`, …), SYNC |
//! | `marked_write` | bytes | bytes_per_s | between windows, each with a mark and a wait for it |
//! | `signaled_write` | bytes | bytes_per_s | the same, each with a signal to the peer's memory |
//! | `local_copy` | bytes | bytes_per_s | the copy routine, between own buffers |
//! | `msg_rtt_poll` | bytes | ns | a message and one back, both sides polling |
//! | `msg_rtt_block` | bytes | ns | the same, both sides asleep until it comes |
//! | `msg_rtt_usual` | bytes | ns | the same, by blocking calls that wait as by default |
//! | `stream`, `stream_read` | bytes | bytes_per_s | messages to and from the peer |
//! | `file_stream`, `file_stream_read` | bytes | bytes_per_s | the same by `write` and `read` |
//! | `register`, `unregister` | bytes | ns | one window |
//! | `map`, `unmap` | bytes | ns | one mapping |
//! | `connect`, `close` | 1 | ns | one connection |
//! | `pairs` | pairs | per_s | round trips of 64 bytes by this number of pairs of threads |
//! | `idle_rtt` | connections | ns | round trip of 64 bytes beside idle connections |
//! | `windows_rma`, `windows_rtt` | windows | ns | RMA of 4 KiB, round trip, beside windows |
//! | `pages_rma`, `pages_rtt` | pages | ns | the same beside mapped pages |
//! | `st_rtt` | 8 | ns | a header by push and pull and one back (Scheduled Transfers) |
//! | `st_put_rtt` | 8 | ns | the same, each header after 8 bytes that are put |
//! | `st_stream` | 32 | bytes_per_s | headers one way |
//! | `st_stream_several` | 32 | bytes_per_s | the same, 16 sent and taken by a call |
//! | `st_put`, `st_get` | bytes | bytes_per_s | put and get |
//! | `st_idle_rtt` | connections | ns | as `st_rtt`, by waits for it and for idle ones |
//! | `rdma_write_rtt` | 8 | ns | a word by RDMA WRITE and one back, both polling memory |
//! | `rdma_send_rtt` | 64 | ns | a SEND and one back, by polled queues or completion channels |
//! | `rdma_stream` | 64 | bytes_per_s | SENDs one way, one of 16 signaled |
//! | `rdma_write`, `rdma_read` | bytes | bytes_per_s | RDMA WRITE and READ, until they complete |
//! | `rdma_pairs_rtt` | queue pairs | ns | a SEND and one back over each queue pair in turn |
//! | `nodes_rtt` | nodes | ns | round trip of 64 bytes with this number of nodes online |
//!
//! `path` in a line is `bypass` (the calls of the library) or `file` (`read` and `write`); `wait`
//! is `poll`, `yield` (polling that lets others run, inside one node) or `block`.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
runtime::main!(scif_perf::perf::main);

/// On the development machine there is nothing to measure.
#[cfg(not(target_os = "redox"))]
fn main() {
    eprintln!("scif-perf runs inside the image only");
}
