//! Two nodes increment one word at the same time with locked instructions: the one whose memory it
//! is directly, the other through the aperture. Nothing may be lost.
//!
//! `scif-atomic wait` on the node that lends the word, `scif-atomic NODE` on the other, both as
//! root: the word is DMA memory whose physical address travels over SCIF, the aperture is found in
//! the configuration space, as micd finds it.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use guest_tests::{Suite, connect_patiently, peer, text};
use hal::dma::Allocator;
use hal::mem::{Cache, Region, map_physical};
use hal::pci::{self, protocol::Address};
use libredox::Fd;
use libredox::flag::O_RDWR;
use scif::{Endpoint, Listener, NodeId, PortId, RecvFlags, SendFlags};
use scif_abi::link::Header;
use syscall::flag::CallFlags;
use zerocopy::FromBytes;

runtime::main!(main);

/// The port on which the lender waits.
const PORT: u16 = 3001;

/// Increments on each side.
const ROUNDS: u64 = 2_000_000;

/// Vendor and device of both functions of a link device, as the first configuration word has them.
const IVSHMEM: u32 = 0x1110_1af4;

/// Reads a word, as `metadata[0]` of a raw configuration access.
const ACCESS_READ: u64 = 1;

/// The lower half of the base address register of the shared memory (BAR 2).
const MEMORY_BAR: u16 = 0x18;

/// The word of the page by which the borrower reports that it begins.
const START: usize = 8;

fn main() -> i32 {
    let mut suite = Suite::new("scif-atomic");
    let arguments = peer::arguments();
    match arguments.first().map(String::as_str) {
        Some("wait") => suite.check("lender", lend()),
        Some(node) => {
            let result = node.parse().map_err(text("node number")).and_then(borrow);
            suite.check("borrower", result);
        }
        None => {
            runtime::eprintln!("usage: scif-atomic wait | scif-atomic NODE");
            return 2;
        }
    }
    suite.finish()
}

/// Lends a word, increments it while the peer does, and checks the sum.
fn lend() -> Result<(), String> {
    let memory = Allocator::new().map_err(text("DMA memory"))?;
    let buffer = memory.allocate(4096).map_err(text("a page"))?;
    let listener = Listener::bind(PORT).map_err(text("listen"))?;
    let (endpoint, _) = listener.accept().map_err(text("accept"))?;
    say(&endpoint, buffer.physical())?;
    // Adding takes less time than the way there.
    while buffer
        .region()
        .load_acquire_u64(START)
        .map_err(text("the mark"))?
        == 0
    {
        core::hint::spin_loop();
    }
    let mixed = increment(buffer.region(), 0)?;
    let mixed_there = hear(&endpoint)?;
    let sum = buffer
        .region()
        .load_acquire_u64(0)
        .map_err(text("the word"))?;
    say(&endpoint, sum)?;
    verdict(sum, mixed.max(mixed_there))
}

/// Increments the word of `node` through the aperture.
fn borrow(node: NodeId) -> Result<(), String> {
    let aperture = Aperture::find(node)?;
    let endpoint = connect_patiently(PortId::new(node, PORT)).map_err(text("connect"))?;
    let physical = hear(&endpoint)?;
    let word = aperture.map(physical)?;
    word.fetch_add_u64(START, 1).map_err(text("the mark"))?;
    let mixed = increment(&word, 0)?;
    say(&endpoint, mixed)?;
    let sum = hear(&endpoint)?;
    verdict(sum, mixed)
}

/// Adds 1 many times; returns how often other programs' additions came in between.
fn increment(word: &Region, offset: usize) -> Result<u64, String> {
    let mut mixed = 0;
    let mut last = None;
    for _ in 0..ROUNDS {
        let before = word.fetch_add_u64(offset, 1).map_err(text("the word"))?;
        if last.is_some_and(|last| before != last + 1) {
            mixed += 1;
        }
        last = Some(before);
    }
    Ok(mixed)
}

fn verdict(sum: u64, mixed: u64) -> Result<(), String> {
    runtime::println!(
        "scif-atomic: sum {sum} of {}, interleaved {mixed} times",
        2 * ROUNDS
    );
    if sum != 2 * ROUNDS {
        return Err(alloc::format!(
            "{} increments of {} are lost",
            2 * ROUNDS - sum,
            2 * ROUNDS
        ));
    }
    if mixed == 0 {
        return Err("the two sides never ran at the same time, so this shows nothing".into());
    }
    Ok(())
}

fn say(endpoint: &Endpoint, value: u64) -> Result<(), String> {
    endpoint
        .send(&value.to_le_bytes(), SendFlags::BLOCK)
        .map(|_| ())
        .map_err(text("send"))
}

fn hear(endpoint: &Endpoint) -> Result<u64, String> {
    let mut bytes = [0; 8];
    match endpoint
        .recv(&mut bytes, RecvFlags::BLOCK)
        .map_err(text("recv"))?
    {
        8 => Ok(u64::from_le_bytes(bytes)),
        count => Err(alloc::format!("the peer went after {count} bytes")),
    }
}

/// Where the RAM of a node begins in this node's address space.
struct Aperture {
    start: u64,
}

impl Aperture {
    /// Looks at all link devices for the one that leads to `node`.
    fn find(node: NodeId) -> Result<Self, String> {
        let own = scif::nodes().map_err(text("node ids"))?.own;
        let access = Fd::open("/scheme/pci/access", O_RDWR, 0).map_err(text("pci/access"))?;
        for doorbell in pci::list().map_err(text("pci"))? {
            let plain = Address {
                function: 1,
                ..doorbell
            };
            let is_link = doorbell.function == 0
                && config(&access, doorbell, 0)? == IVSHMEM
                && config(&access, plain, 0)? == IVSHMEM;
            if !is_link {
                continue;
            }
            let link = bar(&access, doorbell)?;
            let memory = map_physical(link, 4096, Cache::WriteBack).map_err(text("link memory"))?;
            let mut bytes = [0; size_of::<Header>()];
            memory
                .read_bytes(0, &mut bytes)
                .map_err(text("link header"))?;
            let header = Header::read_from_bytes(&bytes).map_err(|_| "link header")?;
            if header.side_of(own).is_some_and(|(_, peer)| peer == node) {
                return Ok(Self {
                    start: bar(&access, plain)?,
                });
            }
        }
        Err(alloc::format!(
            "no link device of node {own} leads to node {node}"
        ))
    }

    fn map(&self, physical: u64) -> Result<Region, String> {
        map_physical(self.start + physical, 4096, Cache::WriteBack).map_err(text("aperture"))
    }
}

fn config(access: &Fd, address: Address, offset: u16) -> Result<u32, String> {
    let place = u64::from(address.segment) << 28
        | u64::from(address.bus) << 20
        | u64::from(address.device) << 15
        | u64::from(address.function) << 12
        | u64::from(offset);
    let mut word = [0; 4];
    access
        .call_ro(&mut word, CallFlags::empty(), &[ACCESS_READ, place])
        .map_err(text("configuration space"))?;
    Ok(u32::from_le_bytes(word))
}

/// The address of a 64-bit memory BAR; its low bits are flags.
fn bar(access: &Fd, address: Address) -> Result<u64, String> {
    let low = config(access, address, MEMORY_BAR)?;
    let high = config(access, address, MEMORY_BAR + 4)?;
    Ok(u64::from(high) << 32 | u64::from(low & !0xf))
}
