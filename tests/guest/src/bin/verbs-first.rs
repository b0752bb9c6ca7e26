//! RDMA in fifty lines: `verbs-first` is a server, `verbs-first NODE` writes into its memory.
#![no_std]
#![no_main]

extern crate alloc;

use runtime::{env, println, thread};
use scif::{Listener, Memory, PortId, RecvFlags, SendFlags};
use verbs::{Access, Error, QpType, Remote, Result, Settings, WcStatus};

runtime::main!(main);

fn main() -> i32 {
    let server = env::args().nth(1).and_then(|node| node.parse().ok());
    let said = run(server).inspect_err(|error| println!("verbs-first: {error}"));
    i32::from(said.is_err())
}

fn run(server: Option<u16>) -> Result<()> {
    let device = verbs::devices()?.remove(0);
    let context = device.open(|worker| {
        thread::spawn(move || worker.run())?;
        Ok(())
    })?;
    let (domain, queue) = (context.protection_domain()?, context.completion_queue(16)?);
    let region = domain.register(Memory::new(4096)?, Access::REMOTE | Access::LOCAL_WRITE)?;
    let pair = domain.queue_pair(QpType::Rc, &queue, &queue).build()?;
    pair.init(&Settings::default())?;
    pair.receive(0, &[region.segment(2048..2112)?])?;
    let connection = match server {
        Some(node) => verbs::connect(PortId::new(node, 2073))?,
        None => Listener::bind(2073)?.accept()?.0,
    };
    pair.meet(&connection, &Settings::default())?;
    // The server says where its memory is; the client writes there, and says so by a message.
    let (mut address, mut key) = (
        region.remote(0).address.to_le_bytes(),
        region.key().to_le_bytes(),
    );
    if server.is_none() {
        connection.send(&address, SendFlags::BLOCK)?;
        connection.send(&key, SendFlags::BLOCK)?;
    } else {
        connection.recv(&mut address, RecvFlags::BLOCK)?;
        connection.recv(&mut key, RecvFlags::BLOCK)?;
        let (address, key) = (u64::from_le_bytes(address), u32::from_le_bytes(key));
        region.write(0, 0x5eed_u64)?;
        pair.write(1, &[region.segment(0..8)?], Remote { address, key })?;
        pair.send(2, &[region.segment(0..1)?])?;
    }
    let (mut done, expected) = (alloc::vec![], if server.is_none() { 1 } else { 2 });
    while done.len() < expected {
        queue.poll(expected, &mut done)?;
    }
    let is_good = done.iter().all(|of| of.status == WcStatus::Success);
    let is_there = region.read::<u64>(0)? == 0x5eed;
    if is_good && is_there {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}
