//! The channel between PCI drivers and pcid, both directions, and pcid's scheme over a simulated
//! machine: messages mean the same when they are written and read again; whatever a client asks,
//! a function has one driver at most, and in the end none.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Result, Unstructured};
use hal::pci::config::ConfigSpace;
use hal::pci::protocol::{Address, FunctionConfig, MAX_REQUEST_BYTES, Request, Response};
use hal::pci::simulated::{SimulatedFunction, SimulatedMachine};
use libfuzzer_sys::fuzz_target;
use pci_types::PciAddress;
use pcid::function::Function;
use pcid::scan;
use pcid::scheme::PciScheme;
use redox_scheme::scheme::SchemeSync;
use scheme::SchemeLoop;
use scheme::fake::FakeSocket;
use syscall::error::Error;
use syscall::flag::{O_DIRECTORY, O_STAT};
use syscall::schemev2::{Opcode, Sqe};

/// Bytes as messages of either side.
fn messages(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        assert!(bytes.len() <= MAX_REQUEST_BYTES, "{request:?}");
        assert_eq!(request.encode(), bytes);
    }
    if let Ok(response) = Response::decode(bytes) {
        let written = response.encode();
        // A configuration may be without the field of the ROM, which is one byte when written.
        let length = written.len() - 8;
        let may_grow = matches!(response, Response::Config(FunctionConfig { rom: None, .. }));
        assert!(length == bytes.len() || may_grow && length == bytes.len() + 1);
        assert_eq!(written[..8], (length as u64).to_le_bytes());
        assert_eq!(Response::decode(&written[8..]), Ok(response));
    }
    if let Ok(name) = core::str::from_utf8(bytes)
        && let Some(address) = Address::parse(name)
    {
        assert_eq!(address.to_string(), name.to_ascii_lowercase());
    }
}

/// A machine of a few functions with any registers; some of them make sense.
fn machine(input: &mut Unstructured<'_>) -> Result<(SimulatedMachine, Vec<Address>)> {
    let mut machine = SimulatedMachine::default();
    let mut places = Vec::new();
    for _ in 0..input.int_in_range(1..=4)? {
        let address = Address {
            segment: 0,
            bus: input.int_in_range(0..=2)?,
            device: input.int_in_range(0..=31)?,
            function: input.int_in_range(0..=7)?,
        };
        let kind = input.int_in_range(0..=2)?;
        let class = if kind == 1 { [6, 4, 0] } else { [5, 0, 0] };
        let mut function = SimulatedFunction::new(0x1af4, 0x1110, class, kind)
            .register(0x04, 1 << 20, 0xffff)
            .register(0x34, 0x40, 0)
            .register(0x18, 0x0002_0100, !0);
        for _ in 0..input.int_in_range(0..=12)? {
            let offset = usize::from(u8::arbitrary(input)?);
            function = function.register(offset, u32::arbitrary(input)?, u32::arbitrary(input)?);
        }
        machine = machine.with(address, function);
        places.push(address);
    }
    Ok((machine, places))
}

struct Client {
    scheme: PciScheme,
    root: usize,
}

impl Client {
    fn request(&mut self, opcode: u8, args: [u64; 6]) -> hal::Result<usize> {
        let socket = FakeSocket::default();
        let request = Sqe {
            opcode,
            tag: 1,
            args,
            ..Sqe::default()
        };
        socket.send(request);
        SchemeLoop::with_transport(socket.clone())
            .poll(&mut self.scheme)
            .expect("a socket that works");
        match socket.answer() {
            Some(answer) => Error::demux(answer.result as usize),
            None => Ok(0),
        }
    }

    /// A request with a buffer: its number, the handle, the buffer and the words behind.
    fn with(
        &mut self,
        opcode: Opcode,
        id: usize,
        buffer: &mut [u8],
        words: [u64; 3],
    ) -> hal::Result<usize> {
        let (address, length) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
        let [first, second, third] = words;
        self.request(
            opcode as u8,
            [id as u64, address, length, first, second, third],
        )
    }

    fn open(&mut self, path: &str, flags: usize, uid: u32) -> hal::Result<usize> {
        let mut path = path.as_bytes().to_vec();
        self.with(
            Opcode::OpenAt,
            self.root,
            &mut path,
            [flags as u64, 0, uid.into()],
        )
    }

    fn close(&mut self, id: usize) {
        let closed = self.request(Opcode::CloseMsg as u8, [id as u64, 0, 0, 0, 0, 0]);
        assert_eq!(closed, Ok(0));
    }
}

fn scheme(input: &mut Unstructured<'_>) -> Result<()> {
    let (machine, places) = machine(input)?;
    let space = ConfigSpace::simulated(machine);
    // Looking everywhere takes longer than all the rest.
    let functions = if !input.ratio(63, 64)? {
        scan::scan(&space)
    } else {
        let function = |place: &Address| {
            let Address {
                bus,
                device,
                function,
                ..
            } = *place;
            let address = PciAddress::new(place.segment, bus, device, function);
            (*place, Function::read(&space, address))
        };
        places.iter().map(function).collect()
    };
    let names: Vec<String> = functions.keys().map(Address::to_string).collect();
    let mut scheme = PciScheme::new(space, functions);
    let root = scheme.scheme_root().expect("the root can be opened");
    let mut client = Client { scheme, root };
    let mut open = Vec::new();
    // The channels that are open for driving.
    let mut channels = BTreeMap::new();
    let result = play(&mut client, &names, &mut open, &mut channels, input);
    for id in open {
        client.close(id);
    }
    for name in &names {
        let channel = client.open(&format!("{name}/channel"), 0, 0);
        client.close(channel.expect("every function is free in the end"));
    }
    result
}

fn play(
    client: &mut Client,
    names: &[String],
    open: &mut Vec<usize>,
    channels: &mut BTreeMap<usize, String>,
    input: &mut Unstructured<'_>,
) -> Result<()> {
    while !input.is_empty() {
        let id = match open[..] {
            [] => client.root,
            _ => *input.choose(open)?,
        };
        match u8::arbitrary(input)? % 8 {
            0 => {
                let name = names.get(input.int_in_range(0..=3)?).cloned();
                let name = name.unwrap_or_default();
                let is_root = input.ratio(7, 8)?;
                let flags = *input.choose(&[0, O_DIRECTORY, O_STAT, O_STAT | O_DIRECTORY])?;
                let path = match u8::arbitrary(input)? % 5 {
                    0 => "access".to_string(),
                    1 => name.clone(),
                    2 => <&str>::arbitrary(input)?.to_string(),
                    _ => format!("{name}/channel"),
                };
                let opened = client.open(&path, flags, u32::from(!is_root));
                let Ok(id) = opened else { continue };
                if path.ends_with("/channel") && flags & O_STAT == 0 {
                    assert!(is_root, "a channel for a user");
                    let is_taken = channels.values().any(|other| *other == name);
                    assert!(!is_taken, "two drivers of {name}");
                    channels.insert(id, name);
                }
                open.push(id);
            }
            1 => {
                open.retain(|other| *other != id);
                channels.remove(&id);
                if id != client.root {
                    client.close(id);
                }
            }
            2 => {
                let length = input.int_in_range(0..=80)?;
                let mut bytes = input.bytes(length)?.to_vec();
                let written = client.with(Opcode::Write, id, &mut bytes, [u64::MAX, 0, 0]);
                assert!(written.is_err() || channels.contains_key(&id));
            }
            3 => {
                let offset = u16::from(u8::arbitrary(input)?) * 4;
                let request = if bool::arbitrary(input)? {
                    Request::ReadConfig(offset)
                } else {
                    Request::WriteConfig(offset, u32::arbitrary(input)?)
                };
                let mut bytes = request.encode();
                let _ = client.with(Opcode::Write, id, &mut bytes, [u64::MAX, 0, 0]);
            }
            4 => {
                let mut bytes = vec![0; input.int_in_range(0..=200)?];
                let _ = client.with(Opcode::Read, id, &mut bytes, [u64::MAX, 0, 0]);
            }
            5 => {
                let mut bytes = vec![0; 2048];
                let read = client.with(Opcode::Read, id, &mut bytes, [u64::MAX, 0, 0]);
                // The whole of it, or the rest after a shorter read.
                if let Ok(count) = read
                    && count >= 8
                    && bytes[..8] == (count as u64 - 8).to_le_bytes()
                {
                    assert!(Response::decode(&bytes[8..count]).is_ok());
                }
            }
            6 => {
                let mut bytes = vec![0; input.int_in_range(0..=300)?];
                let [verb, place] = [u64::from(u8::arbitrary(input)? & 3), u64::arbitrary(input)?];
                let _ = client.with(Opcode::Call, id, &mut bytes, [verb, place & 0x3f_ffff, 0]);
            }
            _ => {
                let mut bytes = vec![0; input.int_in_range(0..=600)?];
                let words = <[u64; 3]>::arbitrary(input)?;
                if bool::arbitrary(input)? {
                    let opcode = *input.choose(&WITH_BUFFER)?;
                    let _ = client.with(opcode, id, &mut bytes, words);
                } else {
                    let opcode = *input.choose(&WITHOUT_BUFFER)? as u8;
                    let [first, second, third] = words;
                    let _ = client.request(opcode, [id as u64, first, second, third, 0, 0]);
                }
            }
        }
    }
    Ok(())
}

/// Requests with a buffer that the handlers above do not make.
const WITH_BUFFER: [Opcode; 6] = [
    Opcode::Dup,
    Opcode::Fpath,
    Opcode::Fstat,
    Opcode::Fstatvfs,
    Opcode::Futimens,
    Opcode::Getdents,
];

/// Requests whose words are only numbers.
const WITHOUT_BUFFER: [Opcode; 7] = [
    Opcode::Fchmod,
    Opcode::Fcntl,
    Opcode::Fevent,
    Opcode::Fsize,
    Opcode::Fsync,
    Opcode::Ftruncate,
    Opcode::MmapPrep,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    messages(rest);
    if first % 2 == 1 {
        // Input that ends early is an input like any other.
        let _ = scheme(&mut Unstructured::new(rest));
    }
});
