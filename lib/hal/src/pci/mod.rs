//! PCI functions for drivers: the client side of the `pci` scheme.
//!
//! A driver opens a function's channel, which is exclusive, asks for its configuration, maps BARs
//! and sets up interrupts. [`protocol`] holds the messages, for both sides.

mod codec;
pub mod config;
pub mod msix;
pub mod protocol;
pub mod simulated;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use syscall::error::{EINVAL, EIO, EMSGSIZE, ENODEV, EOPNOTSUPP, EOVERFLOW, Error, Result};
use syscall::flag::CallFlags;

use crate::directory;
use crate::lock::Mutex;
use crate::mem::{self, Cache, Region};
use protocol::{
    Address, Feature, FeatureInfo, FunctionConfig, MAX_RESPONSE_BYTES, Request, Response,
};

/// Register with command (low half) and status.
const COMMAND: u16 = 0x04;
/// Bit of the command register: memory BARs are decoded.
const COMMAND_MEMORY: u32 = 1 << 1;
/// Bit of the command register: the function may write to memory and send interrupts.
const COMMAND_MASTER: u32 = 1 << 2;
/// The value of the command register where no function is.
const COMMAND_NOBODY: u32 = 0xffff;
/// Register of the first base address register.
const FIRST_BAR: u16 = 0x10;
/// The address in a memory BAR's lower register.
const BAR_ADDRESS: u32 = !0xf;

/// The environment variable in which a driver started for one function finds its channel.
pub const CHANNEL_VARIABLE: &str = "PCID_CLIENT_CHANNEL";

/// The function whose channel this process was started with, until it is opened.
static INHERITED: Mutex<Option<Function>> = Mutex::new(None);

/// A PCI function this process drives.
pub struct Function {
    channel: Fd,
    config: FunctionConfig,
}

/// The functions that the `pci` scheme lists.
///
/// # Errors
/// Those of [`directory::names`]: the scheme has no daemon, or its list is malformed.
pub fn list() -> Result<Vec<Address>> {
    let names = directory::names("/scheme/pci")?;
    Ok(names
        .iter()
        .filter_map(|name| Address::parse(name))
        .collect())
}

/// Access to configuration space without taking a function, for programs that look around.
pub struct RawAccess {
    file: Fd,
}

impl RawAccess {
    /// Opens configuration space; root only.
    ///
    /// # Errors
    /// `EACCES` for callers other than root; others of opening the scheme's file.
    pub fn open() -> Result<Self> {
        let file = Fd::open("/scheme/pci/access", O_CLOEXEC | O_RDWR, 0)?;
        Ok(Self { file })
    }

    /// Vendor and device of a function.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn identity(&self, address: Address) -> Result<(u16, u16)> {
        let word = self.read(address, 0)?;
        Ok((word as u16, (word >> 16) as u16))
    }

    /// Reads 32 bits of a function's configuration space, at a multiple of 4.
    ///
    /// # Errors
    /// `EOVERFLOW` when the offset is beyond the configuration space; those of the scheme's file.
    pub fn read(&self, address: Address, offset: u16) -> Result<u32> {
        const READ: u64 = 1;
        let place = u64::from(address.segment) << 28
            | u64::from(address.bus) << 20
            | u64::from(address.device) << 15
            | u64::from(address.function) << 12
            | u64::from(offset);
        let mut word = [0; 4];
        self.file
            .call_rw(&mut word, CallFlags::empty(), &[READ, place])?;
        Ok(u32::from_le_bytes(word))
    }

    /// Where the memory BARs of a function are, as firmware or their driver placed them.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn memory_bars(&self, address: Address) -> Result<Vec<u64>> {
        const HEADER_TYPE: u16 = 0x0c;
        // The registers behind the first two of a bridge are something else.
        let count = match self.read(address, HEADER_TYPE)? >> 16 & 0x7f {
            0 => 6,
            1 => 2,
            _ => 0,
        };
        let mut places = Vec::new();
        let mut index = 0;
        while index < count {
            let low = self.read(address, FIRST_BAR + 4 * index)?;
            let is_wide = low & 0b111 == 0b100;
            match self.memory_bar(address, index) {
                Ok(place) => places.push(place),
                Err(Error { errno: ENODEV }) => {}
                Err(error) => return Err(error),
            }
            index += if is_wide { 2 } else { 1 };
        }
        Ok(places)
    }

    /// Where a memory BAR is, as firmware or the driver placed it.
    ///
    /// # Errors
    /// `ENODEV` when the BAR is a port range or has no address.
    pub fn memory_bar(&self, address: Address, index: u16) -> Result<u64> {
        const PORTS: u32 = 1;
        const WIDE: u32 = 4;
        let place = FIRST_BAR + 4 * index;
        let low = self.read(address, place)?;
        let high = match low & WIDE {
            0 => 0,
            _ => self.read(address, place + 4)?,
        };
        match u64::from(high) << 32 | u64::from(low & BAR_ADDRESS) {
            physical if low & PORTS == 0 && physical != 0 => Ok(physical),
            _ => Err(Error::new(ENODEV)),
        }
    }
}

impl Function {
    /// Takes a function by its address.
    ///
    /// # Errors
    /// `ENOLCK` when another process drives it, `ENOENT` when there is none, `EACCES` for callers
    /// other than root.
    pub fn open(address: Address) -> Result<Self> {
        let inherited = INHERITED
            .lock()
            .take_if(|function| function.config.address == address);
        if let Some(function) = inherited {
            return Ok(function);
        }
        let path: String = format!("/scheme/pci/{address}/channel");
        Self::from_channel(Fd::open(&path, O_CLOEXEC | O_RDWR, 0)?)
    }

    /// Keeps the function whose channel this program's starter opened, for [`Function::open`]:
    /// that channel cannot be opened again. `value` is the value of [`CHANNEL_VARIABLE`].
    ///
    /// # Errors
    /// `EINVAL` when `value` is no number, or the channel's error.
    pub fn inherit(value: &str) -> Result<Address> {
        let number = value.trim().parse().map_err(|_| Error::new(EINVAL))?;
        let function = Self::from_channel(Fd::new(number))?;
        let address = function.config.address;
        *INHERITED.lock() = Some(function);
        Ok(address)
    }

    fn from_channel(channel: Fd) -> Result<Self> {
        let mut function = Self {
            channel,
            config: FunctionConfig::default(),
        };
        match function.request(Request::Config)? {
            Response::Config(config) => function.config = config,
            other => return Err(unexpected(&other)),
        }
        Ok(function)
    }

    /// Where and what the function is.
    pub fn config(&self) -> &FunctionConfig {
        &self.config
    }

    fn request(&mut self, request: Request) -> Result<Response> {
        let message = request.encode();
        if self.channel.write(&message)? != message.len() {
            return Err(Error::new(EIO));
        }
        let mut length = [0; 8];
        self.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_RESPONSE_BYTES as u64 {
            return Err(Error::new(EMSGSIZE));
        }
        let mut response = alloc::vec![0; length as usize];
        self.read_exact(&mut response)?;
        Response::decode(&response).map_err(|error| {
            log::error!("pci: response to {request:?} is not valid: {error:?}");
            Error::new(EIO)
        })
    }

    fn read_exact(&mut self, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match self.channel.read(buffer)? {
                0 => return Err(Error::new(EIO)),
                count => buffer = buffer.get_mut(count..).ok_or(Error::new(EIO))?,
            }
        }
        Ok(())
    }

    /// Turns on memory and port decoding and bus mastering. Without bus mastering a device cannot
    /// raise message-signalled interrupts: they vanish silently.
    ///
    /// # Errors
    /// `EIO` when the channel ends or the answer is malformed or that to another request,
    /// `EMSGSIZE` when it is longer than [`MAX_RESPONSE_BYTES`]; those of the channel.
    pub fn enable(&mut self) -> Result<()> {
        match self.request(Request::EnableDevice)? {
            Response::EnabledDevice => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Turns on memory decoding, and bus mastering off, in one step: a function that something may
    /// have been left running on is no bus master for a moment.
    ///
    /// # Errors
    /// `ENODEV` when the function is not there, `EIO` when the register does not take the value.
    pub fn enable_memory(&mut self) -> Result<()> {
        let found = self.read_config(COMMAND)? & 0xffff;
        if found == COMMAND_NOBODY {
            return Err(Error::new(ENODEV));
        }
        let wanted = command_with_master(found, false) | COMMAND_MEMORY;
        self.write_config(COMMAND, wanted)?;
        match self.read_config(COMMAND)? & 0xffff {
            found if found == wanted => Ok(()),
            _ => Err(Error::new(EIO)),
        }
    }

    /// The features that the function has.
    ///
    /// # Errors
    /// Those of [`enable`](Self::enable).
    pub fn features(&mut self) -> Result<Vec<Feature>> {
        match self.request(Request::Features)? {
            Response::Features(list) => Ok(list),
            other => Err(unexpected(&other)),
        }
    }

    /// How a feature is laid out.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the function lacks it; those of [`enable`](Self::enable).
    pub fn feature_info(&mut self, feature: Feature) -> Result<FeatureInfo> {
        match self.request(Request::FeatureInfo(feature))? {
            Response::FeatureInfo(_, info) => Ok(info),
            other => Err(unexpected(&other)),
        }
    }

    /// Turns a feature on.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the function lacks it; those of [`enable`](Self::enable).
    pub fn enable_feature(&mut self, feature: Feature) -> Result<()> {
        match self.request(Request::EnableFeature(feature))? {
            Response::FeatureEnabled(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads 32 bits of configuration space.
    fn read_config(&mut self, offset: u16) -> Result<u32> {
        match self.request(Request::ReadConfig(offset))? {
            Response::ReadConfig(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// Writes 32 bits of configuration space.
    fn write_config(&mut self, offset: u16, value: u32) -> Result<()> {
        match self.request(Request::WriteConfig(offset, value))? {
            Response::WriteConfig => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Moves a 64-bit memory BAR to another physical address. The function decodes no memory
    /// during the move, so that it never answers at an address made of halves of two. Mappings of
    /// the old place reach nothing from then on; they are not undone.
    ///
    /// # Errors
    /// `ENODEV` when the BAR is no 64-bit memory, `EINVAL` for an address that is not a multiple
    /// of its size, `EIO` when the register does not take the address: the function then decodes
    /// no memory any more.
    pub fn move_bar(&mut self, index: usize, to: u64) -> Result<()> {
        let bar = self.config.bars.get(index).copied();
        let Some(protocol::Bar::Memory64 { bytes, .. }) = bar else {
            return Err(Error::new(ENODEV));
        };
        if !to.is_multiple_of(bytes) {
            return Err(Error::new(EINVAL));
        }
        let low = FIRST_BAR + 4 * index as u16;
        let command = self.read_config(COMMAND)?;
        self.write_config(COMMAND, command_without_memory(command))?;
        self.write_config(low, to as u32)?;
        self.write_config(low + 4, (to >> 32) as u32)?;
        let address = to as u32 == self.read_config(low)? & BAR_ADDRESS;
        if !address || self.read_config(low + 4)? != (to >> 32) as u32 {
            return Err(Error::new(EIO));
        }
        self.write_config(COMMAND, command_without_memory(command) | COMMAND_MEMORY)?;
        if let Some(bar) = self.config.bars.get_mut(index) {
            *bar = protocol::Bar::Memory64 { address: to, bytes };
        }
        Ok(())
    }

    /// Turns memory decoding off: nothing is reached through the function's memory BARs any more.
    ///
    /// # Errors
    /// Those of [`enable`](Self::enable).
    pub fn stop_decoding(&mut self) -> Result<()> {
        let command = self.read_config(COMMAND)?;
        self.write_config(COMMAND, command_without_memory(command))
    }

    /// Allows the function to write to memory and send interrupts, or forbids it. When a call that
    /// forbids it returns, everything that the function had written has arrived: the answer to the
    /// read below does not overtake it on the bus. A function that is not there writes nothing.
    ///
    /// # Errors
    /// `ENODEV` when `is_master` is set and the function is not there, `EIO` when the register
    /// does not take the value.
    pub fn set_bus_master(&mut self, is_master: bool) -> Result<()> {
        let mut found = self.read_config(COMMAND)? & 0xffff;
        if found != COMMAND_NOBODY {
            self.write_config(COMMAND, command_with_master(found, is_master))?;
            found = self.read_config(COMMAND)? & 0xffff;
        }
        match found {
            COMMAND_NOBODY if is_master => Err(Error::new(ENODEV)),
            COMMAND_NOBODY => Ok(()),
            _ if (found & COMMAND_MASTER != 0) == is_master => Ok(()),
            _ => Err(Error::new(EIO)),
        }
    }

    /// Maps a whole BAR.
    ///
    /// # Errors
    /// `ENODEV` when the BAR is no memory or has no address, `EOVERFLOW` when it is larger than
    /// the address space.
    pub fn map_bar(&self, index: usize, cache: Cache) -> Result<Region> {
        let bar = self.config.bars.get(index).ok_or(Error::new(EINVAL))?;
        let (address, bytes) = bar.memory().ok_or(Error::new(ENODEV))?;
        if address == 0 {
            return Err(Error::new(ENODEV));
        }
        let bytes = usize::try_from(bytes).map_err(|_| Error::new(EOVERFLOW))?;
        mem::map_physical(address, bytes, cache)
    }
}

/// The value to write so that memory is not decoded and nothing else changes. Its upper half is 0,
/// because the status bits there are cleared by writing ones.
fn command_without_memory(command: u32) -> u32 {
    command & 0xffff & !COMMAND_MEMORY
}

/// The value to write so that bus mastering is on or off and nothing else changes; see
/// [`command_without_memory`].
fn command_with_master(command: u32, is_master: bool) -> u32 {
    let others = command & 0xffff & !COMMAND_MASTER;
    others | if is_master { COMMAND_MASTER } else { 0 }
}

fn unexpected(response: &Response) -> Error {
    match response {
        Response::Error(protocol::ResponseError::NonexistentFeature(_)) => Error::new(EOPNOTSUPP),
        Response::Error(protocol::ResponseError::InvalidBitPattern) => Error::new(EINVAL),
        other => {
            log::error!("pci: the response {other:?} belongs to another request");
            Error::new(EIO)
        }
    }
}
