//! Connected nodes with programs, for tests.

use alloc::vec;
use alloc::vec::Vec;

use verbs_abi::mad::{RegisterAgent2, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Error, Result};
use crate::mad::{GSI_QKEY, Mad, PERMISSIVE_LID, method};
use crate::node::Node;

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Most bytes that are read.
const READ_BYTES: usize = 2 << 20;

/// Connected nodes, between which nothing is lost.
#[derive(Debug)]
pub struct World {
    /// The nodes, by number.
    pub nodes: Vec<Node>,
    /// The time, in nanoseconds.
    pub now: u64,
}

/// A program: its node and its descriptor.
pub type Program = (usize, u64);

impl World {
    /// A fabric of `count` nodes, which are all online.
    pub fn new(count: u16) -> World {
        let mut nodes: Vec<Node> = (0..count).map(Node::new).collect();
        for node in &mut nodes {
            node.set_up(true, 0);
            for other in 0..count {
                node.set_online(other, true, 0);
            }
        }
        let mut world = World { nodes, now: 0 };
        world.run_until_idle();
        world
    }

    /// Carries all datagrams.
    ///
    /// # Panics
    /// A node sends something that is not a record.
    pub fn run_until_idle(&mut self) {
        loop {
            let mut frames = Vec::new();
            for (from, node) in self.nodes.iter_mut().enumerate() {
                while let Some((to, frame)) = node.next_frame() {
                    frames.push((from as u16, to, frame));
                }
            }
            if frames.is_empty() {
                return;
            }
            for (from, to, frame) in frames {
                if let Some(node) = self.nodes.get_mut(usize::from(to)) {
                    assert_eq!(node.receive(from, &frame, self.now), Ok(()));
                }
            }
        }
    }

    /// A program that has opened the file of its node.
    pub fn open(&mut self, node: usize) -> Program {
        (node, self.nodes[node].open())
    }

    /// A program with an agent, which is registered by REGISTER_AGENT2.
    ///
    /// # Panics
    /// The registration is refused.
    pub fn program(&mut self, node: usize, asked: RegisterAgent2) -> Program {
        let program = self.open(node);
        assert_eq!(self.register(program, asked), Ok(0));
        program
    }

    /// Executes REGISTER_AGENT2. Returns the number of the agent.
    ///
    /// # Errors
    /// Those of the request.
    pub fn register(&mut self, at: Program, asked: RegisterAgent2) -> Result<u32> {
        let mut payload = asked.as_bytes().to_vec();
        self.control(at, request::REGISTER_AGENT2, &mut payload)?;
        Ok(u32::read_from_prefix(&payload).map_or(u32::MAX, |(id, _)| id))
    }

    /// Executes a request of `ioctl`.
    ///
    /// # Errors
    /// Those of the request.
    pub fn control(&mut self, at: Program, number: u64, payload: &mut [u8]) -> Result<()> {
        self.nodes[at.0].control(at.1, number, payload)
    }

    /// Writes a message, and lets it arrive.
    ///
    /// # Errors
    /// Those of the write.
    pub fn write(&mut self, at: Program, header: UserMad, mad: &[u8]) -> Result<usize> {
        let bytes = [header.as_bytes(), mad].concat();
        self.write_bytes(at, &bytes)
    }

    /// Writes bytes, and lets the message arrive.
    ///
    /// # Errors
    /// Those of the write.
    pub fn write_bytes(&mut self, at: Program, bytes: &[u8]) -> Result<usize> {
        let written = self.nodes[at.0].write(at.1, bytes, self.now);
        self.run_until_idle();
        written
    }

    /// Reads a message with the longer header.
    ///
    /// # Errors
    /// Those of the read.
    ///
    /// # Panics
    /// The header has another length.
    pub fn read(&mut self, at: Program) -> Result<(UserMad, Vec<u8>)> {
        let mut buffer = vec![0; READ_BYTES];
        let length = self.nodes[at.0].read(at.1, &mut buffer)?;
        let (header, message) =
            UserMad::read_from_prefix(&buffer[..length]).map_err(|_| Error::Invalid)?;
        assert_eq!(header.length as usize, length);
        Ok((header, message.to_vec()))
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        self.now += ns;
        for node in &mut self.nodes {
            node.progress(self.now);
        }
        self.run_until_idle();
    }
}

/// An agent that only sends, and receives the answers.
pub fn sender(qpn: u32, class: u8, version: u8, rmpp_version: u8) -> RegisterAgent2 {
    RegisterAgent2 {
        qpn,
        mgmt_class: class,
        mgmt_class_version: version,
        rmpp_version,
        ..RegisterAgent2::default()
    }
}

/// An agent that receives Get and Send of a vendor's class.
pub fn server(class: u8) -> RegisterAgent2 {
    RegisterAgent2 {
        oui: 0x001405,
        method_mask: [1 << method::GET | 1 << method::SEND, 0],
        ..sender(1, class, 1, 1)
    }
}

/// The header of a message to a port, with an answer expected in 100 ms.
pub fn to(lid: u16, qpn: u32) -> UserMad {
    UserMad {
        timeout_ms: 100,
        qpn: qpn.to_be_bytes(),
        qkey: GSI_QKEY.to_be_bytes(),
        lid: lid.to_be_bytes(),
        ..UserMad::default()
    }
}

/// A datagram.
pub fn mad(class: u8, version: u8, method: u8, number: u16, tid: u32) -> Mad {
    let mut mad = Mad::padded(&[1, class, version, method]);
    mad.header.attribute = number.into();
    mad.header.tid = u64::from(tid).into();
    mad
}

/// A Get of subnet management by a directed route.
pub fn directed(number: u16, modifier: u32, path: &[u8]) -> Mad {
    let mut smp = mad(0x81, 1, method::GET, number, 9).smp();
    smp.header.hops = [0, path.len() as u8];
    smp.header.modifier = modifier.into();
    smp.directed_source = PERMISSIVE_LID.into();
    smp.directed_destination = PERMISSIVE_LID.into();
    smp.initial_path[1..=path.len()].copy_from_slice(path);
    Mad::from_smp(smp)
}
