//! Registering memory: which memory, at which offsets, and with what rights.
#![no_std]
#![no_main]

use scif::{Endpoint, Errno, Error, Memory, Protection, RegisterOptions, RmaFlags};
use scif_examples::{Result, ensure, hear, play, tell};

runtime::main!(main);

const PAGE: usize = 4096;

fn main() -> i32 {
    play(5005, server, client)
}

fn server(endpoint: &Endpoint) -> Result {
    // The best kind: made by the daemon, contiguous where possible.
    let memory = Memory::new(4 * PAGE)?;
    let window = endpoint.register(&memory)?;
    ensure(
        window.offset() % PAGE as i64 == 0,
        "offsets are whole pages",
    )?;
    memory.copy_in(100, b"from the daemon's memory")?;

    // Any other memory will do, too: its pages are pinned where they are, and stay the program's.
    let ordinary = Memory::ordinary(PAGE)?;
    ordinary.copy_in(0, b"from ordinary memory")?;
    let options = RegisterOptions::new()
        .fixed(0x10_0000)
        .protection(Protection::READ);
    let read_only = endpoint.register_with(&ordinary, 0..PAGE, options)?;
    let mut text = [0; 20];
    ordinary.copy_out(0, &mut text)?;
    ensure(&text == b"from ordinary memory", "the content has changed")?;

    // A fixed offset can be taken once.
    let again = endpoint
        .register_with(&memory, 0..PAGE, options)
        .map(|_| ());
    ensure(
        again == Err(Error::Scif(Errno::AddressInUse)),
        "it was taken twice",
    )?;

    // A part of memory may be a window too, or several.
    let part = endpoint.register_with(&memory, PAGE..2 * PAGE, RegisterOptions::new())?;
    ensure(part.offset() != window.offset(), "windows never overlap")?;

    tell(endpoint, window.offset())?;
    hear(endpoint)?;
    // Dropping a window unregisters it as well; this call reports errors.
    read_only.unregister()?;
    tell(endpoint, 0)?;
    hear(endpoint)?;
    Ok(())
}

fn client(endpoint: &Endpoint) -> Result {
    let offset = hear(endpoint)?;
    let mut text = [0; 24];
    endpoint.vread_from(&mut text, offset + 100, RmaFlags::SYNC)?;
    ensure(&text == b"from the daemon's memory", "wrong content")?;
    endpoint.vread_from(&mut text[..20], 0x10_0000, RmaFlags::SYNC)?;
    ensure(&text[..20] == b"from ordinary memory", "wrong content")?;

    // The window's protection holds, and nothing beside windows can be reached.
    let denied = endpoint.vwrite_to(b"x", 0x10_0000, RmaFlags::SYNC);
    ensure(
        denied == Err(Error::Scif(Errno::AccessDenied)),
        "a read-only window was written",
    )?;
    let nothing = endpoint.vread_from(&mut text, 0x20_0000, RmaFlags::SYNC);
    ensure(
        nothing == Err(Error::Scif(Errno::NoSuchAddress)),
        "there is no window there",
    )?;

    tell(endpoint, 0)?;
    hear(endpoint)?;
    let gone = endpoint.vread_from(&mut text, 0x10_0000, RmaFlags::SYNC);
    ensure(
        gone == Err(Error::Scif(Errno::NoSuchAddress)),
        "it was unregistered",
    )?;
    tell(endpoint, 0)
}
