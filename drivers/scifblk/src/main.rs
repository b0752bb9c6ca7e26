//! scifblk: offers memory of this node as a disk to other nodes, or serves the disks that nodes
//! offer as files.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod attach;
#[cfg(target_os = "redox")]
mod serve;

#[cfg(target_os = "redox")]
mod program {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::time::Duration;

    use scifblk::hello::MAX_BYTES;
    use scifblk::parse_size;

    use crate::{attach, serve};

    runtime::main!(main);

    /// The longest sleep in an event queue, if there is a limit. Redox's kernel does not report to
    /// event queues that a daemon has died, so there the program checks regularly whether the SCIF
    /// driver runs.
    pub fn longest_sleep() -> Option<Duration> {
        const LOOK: Duration = Duration::from_secs(1);
        (!hal::kernel::ends_abandoned_requests()).then_some(LOOK)
    }

    const USAGE: &str = "\
usage: scifblk serve SIZE   offers memory of this node as a disk (bytes, or with K or M)
       scifblk attach       makes the disks of all nodes files below /scheme/disk.scif";

    fn main() -> i32 {
        runtime::logging::init("scifblk");
        let arguments: Vec<String> = runtime::env::args().skip(1).collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = match words[..] {
            ["serve", size] => match parse_size(size) {
                Some(bytes) if bytes > 0 && bytes <= MAX_BYTES && bytes % 4096 == 0 => {
                    serve::run(bytes)
                }
                _ => {
                    runtime::eprintln!(
                        "scifblk: SIZE {size}: must be a multiple of 4096 bytes, from 4K to {}M",
                        MAX_BYTES >> 20
                    );
                    return 2;
                }
            },
            ["attach"] => attach::run(),
            ["--help"] => {
                runtime::println!("{USAGE}");
                return 0;
            }
            _ => {
                runtime::eprintln!("{USAGE}");
                return 2;
            }
        };
        match result {
            Ok(()) => 0,
            Err(error) => {
                log::error!("{}: {error}", words.join(" "));
                1
            }
        }
    }
}

/// The driver runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
