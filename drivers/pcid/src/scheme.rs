//! The `pci` scheme: a directory per function with its driver channel, and raw access for tools.
//!
//! ```text
//! /scheme/pci/                         directory of functions
//! /scheme/pci/0000--00--1f.2/          directory: channel
//! /scheme/pci/0000--00--1f.2/channel   driver channel, exclusive (ENOLCK)
//! /scheme/pci/access                   raw configuration access by CALL
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hal::pci::config::{self, ConfigSpace};
use hal::pci::protocol::{Address, MAX_REQUEST_BYTES, Request};
use pci_types::PciAddress;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use scheme::{Handles, SchemeDaemon, list_directory, tree};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{
    EACCES, EBADF, EINVAL, EISDIR, EMSGSIZE, ENOENT, ENOLCK, ENOTDIR, EOPNOTSUPP, EOVERFLOW, Error,
    Result,
};
use syscall::flag::{EventFlags, MODE_CHR, MODE_DIR};

use crate::driver;
use crate::function::Function;

/// Longest raw access, in bytes: a whole configuration space.
const MAX_ACCESS_BYTES: usize = 4096;

/// The scheme's state.
pub struct PciScheme {
    space: ConfigSpace,
    functions: BTreeMap<Address, Function>,
    handles: Handles<Handle>,
}

struct Handle {
    kind: Kind,
    /// Opened for its status only: no reading, writing or driving.
    stat_only: bool,
}

enum Kind {
    Root,
    Function,
    Channel {
        address: Address,
        response: VecDeque<u8>,
    },
    Access,
}

impl Kind {
    fn is_directory(&self) -> bool {
        matches!(self, Kind::Root | Kind::Function)
    }

    fn mode(&self) -> u16 {
        if self.is_directory() {
            MODE_DIR | 0o755
        } else {
            MODE_CHR | 0o600
        }
    }
}

impl PciScheme {
    /// The scheme over the functions of a scan.
    pub fn new(space: ConfigSpace, functions: BTreeMap<Address, Function>) -> Self {
        Self {
            space,
            functions,
            handles: Handles::default(),
        }
    }

    /// The object that a path names. Takes no function yet.
    fn resolve(&self, path: &str) -> Result<Kind> {
        let not_found = Error::new(ENOENT);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if first.is_empty() {
            return Ok(Kind::Root);
        }
        if first == "access" {
            return if rest.is_empty() {
                Ok(Kind::Access)
            } else {
                Err(Error::new(ENOTDIR))
            };
        }
        let address = Address::parse(first).ok_or(not_found)?;
        if !self.functions.contains_key(&address) {
            return Err(not_found);
        }
        match rest {
            "" => Ok(Kind::Function),
            "channel" => Ok(Kind::Channel {
                address,
                response: VecDeque::new(),
            }),
            _ => Err(not_found),
        }
    }

    /// Reads or writes configuration space in whole words. A write to a part of a word reads the
    /// word and writes it back whole, which clears neighbouring bits that a written 1 clears.
    fn access(&self, payload: &mut [u8], metadata: &[u64]) -> Result<usize> {
        let [verb, place] = *metadata.first_chunk().ok_or(Error::new(EINVAL))?;
        let write = match verb {
            1 => false,
            2 => true,
            _ => return Err(Error::new(EINVAL)),
        };
        if place >> 44 != 0 {
            return Err(Error::new(EINVAL));
        }
        if payload.len() > MAX_ACCESS_BYTES {
            return Err(Error::new(EMSGSIZE));
        }
        let (segment, bus) = ((place >> 28) as u16, (place >> 20) as u8);
        let (device, function) = ((place >> 15 & 31) as u8, (place >> 12 & 7) as u8);
        let address = PciAddress::new(segment, bus, device, function);
        let start = (place & 0xfff) as usize;
        let end = start + payload.len();
        if end > usize::from(self.space.function_bytes()) {
            return Err(Error::new(EOVERFLOW));
        }
        if write {
            self.write_words(address, start, payload);
        } else {
            for (offset, byte) in (start..).zip(payload.iter_mut()) {
                let word = config::read(&self.space, address, (offset & !3) as u16);
                *byte = (word >> (offset % 4 * 8)) as u8;
            }
        }
        Ok(payload.len())
    }

    fn write_words(&self, address: PciAddress, start: usize, payload: &[u8]) {
        let end = start + payload.len();
        for register in (start & !3..end).step_by(4) {
            let mut bytes = config::read(&self.space, address, register as u16).to_le_bytes();
            for (index, byte) in bytes.iter_mut().enumerate() {
                let offset = register + index;
                if let Some(value) = offset.checked_sub(start).and_then(|at| payload.get(at)) {
                    *byte = *value;
                }
            }
            config::write(
                &self.space,
                address,
                register as u16,
                u32::from_le_bytes(bytes),
            );
        }
    }
}

impl SchemeSync for PciScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.handles.add(Handle {
            kind: Kind::Root,
            stat_only: false,
        }))
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        if !matches!(self.handles.get(dir)?.kind, Kind::Root) {
            return Err(Error::new(EACCES));
        }
        let kind = self.resolve(path.trim_matches('/'))?;
        let stat_only = tree::check_open(kind.is_directory(), flags)?;
        if !stat_only {
            if !kind.is_directory() && ctx.uid != 0 {
                return Err(Error::new(EACCES));
            }
            if let Kind::Channel { address, .. } = &kind {
                let function = self.functions.get_mut(address).ok_or(Error::new(ENOENT))?;
                if function.taken {
                    return Err(Error::new(ENOLCK));
                }
                function.taken = true;
            }
        }
        Ok(self.handles.open(Handle { kind, stat_only }))
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        stat.st_mode = self.handles.get(id)?.kind.mode();
        Ok(())
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        let handle = self.handles.get(id)?;
        match &handle.kind {
            _ if handle.stat_only => Err(Error::new(EBADF)),
            Kind::Root => {
                let names: Vec<String> = self
                    .functions
                    .keys()
                    .map(|address| address.to_string())
                    .collect();
                let directories = names.iter().map(|name| (&**name, DirentKind::Directory));
                list_directory(buf, opaque, directories)
            }
            Kind::Function => list_directory(buf, opaque, [("channel", DirentKind::CharDev)]),
            Kind::Channel { .. } | Kind::Access => Err(Error::new(ENOTDIR)),
        }
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        _offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        let handle = self.handles.get_mut(id)?;
        let Kind::Channel { address, response } = &mut handle.kind else {
            return Err(Error::new(EBADF));
        };
        if handle.stat_only {
            return Err(Error::new(EBADF));
        }
        // One request at a time: the driver must read the last response first.
        if !response.is_empty() || buf.len() > MAX_REQUEST_BYTES {
            return Err(Error::new(EINVAL));
        }
        // Copied before it is decoded: the client can change the buffer meanwhile.
        let mut message = [0; MAX_REQUEST_BYTES];
        let message = &mut message[..buf.len()];
        message.copy_from_slice(buf);
        let request = Request::decode(message).map_err(|_| Error::new(EINVAL))?;
        let function = self.functions.get_mut(address).ok_or(Error::new(EBADF))?;
        response.extend(driver::respond(&self.space, function, request).encode());
        Ok(buf.len())
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        _offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        let handle = self.handles.get_mut(id)?;
        match &mut handle.kind {
            _ if handle.stat_only => Err(Error::new(EBADF)),
            Kind::Root | Kind::Function => Err(Error::new(EISDIR)),
            Kind::Access => Err(Error::new(EBADF)),
            Kind::Channel { response, .. } if response.is_empty() => Err(Error::new(EINVAL)),
            Kind::Channel { response, .. } => {
                let count = buf.len().min(response.len());
                buf.iter_mut()
                    .zip(response.drain(..count))
                    .for_each(|(to, from)| *to = from);
                Ok(count)
            }
        }
    }

    fn call(
        &mut self,
        id: usize,
        payload: &mut [u8],
        metadata: &[u64],
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        let handle = self.handles.get(id)?;
        match handle.kind {
            Kind::Access if !handle.stat_only => self.access(payload, metadata),
            _ => Err(Error::new(EOPNOTSUPP)),
        }
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        let waiting = match &self.handles.get(id)?.kind {
            Kind::Channel { response, .. } => !response.is_empty(),
            _ => return Ok(EventFlags::empty()),
        };
        let ready = if waiting {
            EventFlags::EVENT_READ
        } else {
            EventFlags::EVENT_WRITE
        };
        Ok(flags & ready)
    }

    fn on_close(&mut self, id: usize) {
        let Some(Handle {
            kind: Kind::Channel { address, .. },
            stat_only: false,
        }) = self.handles.remove(id)
        else {
            return;
        };
        if let Some(function) = self.functions.get_mut(&address) {
            function.release(&self.space);
        }
    }
}

impl SchemeDaemon for PciScheme {}
