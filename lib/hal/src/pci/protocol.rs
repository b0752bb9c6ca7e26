//! The messages between a PCI driver and the `pci` scheme, both directions.
//!
//! The format is bincode 1.x as Redox's pcid speaks it: little endian, enum variants as 32-bit
//! numbers, lengths of lists as 64 bits, options as one byte. The driver writes a request without
//! its length, and reads a response behind its 64-bit length. Pure code: bytes in, values out,
//! never a panic.
//!
//! Since December 2025 the configuration of a function has one more field, the expansion ROM. It
//! is written with the field, as pcid does now, and read with and without: see
//! `FunctionConfig::decode`.

use alloc::vec::Vec;

pub use super::codec::DecodeError;
use super::codec::{Decoder, Encoder};

/// Longest request a client may write, in bytes (the longest valid one has 36).
pub const MAX_REQUEST_BYTES: usize = 64;
/// Longest response a client accepts, in bytes.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// An optional ability of a function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Feature {
    /// Message-signalled interrupts.
    Msi,
    /// Message-signalled interrupts with a table.
    MsiX,
}

/// A change of a feature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SetFeature {
    /// MSI: changes each part that is given.
    Msi {
        /// Log2 of the vectors to use, 0 to 5.
        multi_message_enable: Option<u8>,
        /// Message address and data.
        message: Option<(u64, u32)>,
        /// Mask bits per vector.
        mask_bits: Option<u32>,
    },
    /// MSI-X.
    MsiX {
        /// Masks all vectors of the function.
        function_mask: Option<bool>,
    },
}

/// A message from the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Turn on decoding and bus mastering, turn off message-signalled interrupts.
    EnableDevice,
    /// Where and what the function is.
    Config,
    /// Which features it has.
    Features,
    /// The contents of its vendor capabilities.
    VendorCapabilities,
    /// Turn a feature on.
    EnableFeature(Feature),
    /// How a feature is laid out.
    FeatureInfo(Feature),
    /// Change a feature.
    SetFeature(SetFeature),
    /// Read 32 bits of configuration space.
    ReadConfig(u16),
    /// Write 32 bits of configuration space.
    WriteConfig(u16, u32),
}

/// A base address register.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Bar {
    /// Absent, or the upper half of the one before.
    #[default]
    None,
    /// Memory below 4 GiB.
    Memory32 {
        /// Physical address.
        address: u32,
        /// Bytes.
        bytes: u32,
    },
    /// Memory anywhere.
    Memory64 {
        /// Physical address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Ports.
    Port(u16),
}

impl Bar {
    /// Physical address and length, if it is memory.
    pub fn memory(&self) -> Option<(u64, u64)> {
        match *self {
            Bar::Memory32 { address, bytes } => Some((address.into(), bytes.into())),
            Bar::Memory64 { address, bytes } => Some((address, bytes)),
            Bar::None | Bar::Port(_) => None,
        }
    }
}

/// Where a function is.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Address {
    /// Segment group.
    pub segment: u16,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl Address {
    /// Reads the form the `pci` scheme names its directories by, as in `0000--00--1f.2`.
    pub fn parse(name: &str) -> Option<Self> {
        let (segment, rest) = name.split_once("--")?;
        let (bus, rest) = rest.split_once("--")?;
        let (device, function) = rest.split_once('.')?;
        let hex = |text: &str, digits: usize| {
            let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if valid {
                u16::from_str_radix(text, 16).ok()
            } else {
                None
            }
        };
        let address = Self {
            segment: hex(segment, 4)?,
            bus: hex(bus, 2)? as u8,
            device: hex(device, 2)? as u8,
            function: hex(function, 1)? as u8,
        };
        (address.device < 32 && address.function < 8).then_some(address)
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            segment,
            bus,
            device,
            function,
        } = self;
        write!(f, "{segment:04x}--{bus:02x}--{device:02x}.{function:x}")
    }
}

/// The expansion ROM of a function: what firmware runs from it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rom {
    /// Physical address.
    pub address: u32,
    /// Bytes.
    pub bytes: u32,
    /// Whether the function decodes the address.
    pub enabled: bool,
}

/// The interrupt line of a function without message-signalled interrupts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InterruptLine {
    /// Line number.
    pub irq: u8,
    /// Device-tree route: parent, specifier, number of words used. Absent on PCs.
    pub route: Option<(u32, [u32; 3], u64)>,
}

/// The description of a function.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Base class.
    pub class: u8,
    /// Sub-class.
    pub subclass: u8,
    /// Programming interface.
    pub interface: u8,
    /// Revision.
    pub revision: u8,
}

/// Where and what a function is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FunctionConfig {
    /// Where.
    pub address: Address,
    /// Its base address registers.
    pub bars: [Bar; 6],
    /// Its expansion ROM. `None`, too, where pcid does not report ROMs.
    pub rom: Option<Rom>,
    /// Its interrupt line.
    pub interrupt_line: Option<InterruptLine>,
    /// The function's identity.
    pub identity: Identity,
}

/// How a feature is laid out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FeatureInfo {
    /// MSI.
    Msi {
        /// Log2 of the vectors it offers.
        log2_vectors: u8,
        /// Whether it takes 64-bit message addresses.
        is_64bit: bool,
        /// Whether vectors can be masked one by one.
        per_vector_mask: bool,
    },
    /// MSI-X.
    MsiX {
        /// Index of the BAR with the table.
        table_bar: u8,
        /// Where in that BAR.
        table_offset: u32,
        /// Vectors in the table.
        table_size: u16,
        /// Index of the BAR with the pending bits.
        pba_bar: u8,
        /// Where in that BAR.
        pba_offset: u32,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponseError {
    /// The function has no such feature.
    NonexistentFeature(Feature),
    /// A value that the register cannot take.
    InvalidBitPattern,
}

/// A message to the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Response {
    /// The device is enabled.
    EnabledDevice,
    /// Where and what the function is.
    Config(FunctionConfig),
    /// Its features.
    Features(Vec<Feature>),
    /// The contents of its vendor capabilities.
    VendorCapabilities(Vec<Vec<u8>>),
    /// The feature is on.
    FeatureEnabled(Feature),
    /// Whether a feature is on.
    FeatureStatus(Feature, bool),
    /// The request failed.
    Error(ResponseError),
    /// How a feature is laid out.
    FeatureInfo(Feature, FeatureInfo),
    /// The feature was changed.
    SetFeature(Feature),
    /// 32 bits of configuration space.
    ReadConfig(u32),
    /// The write is done.
    WriteConfig,
}

impl Decoder<'_> {
    fn feature(&mut self) -> Result<Feature, DecodeError> {
        match self.u32()? {
            0 => Ok(Feature::Msi),
            1 => Ok(Feature::MsiX),
            _ => Err(DecodeError::Invalid),
        }
    }
}

impl Encoder {
    fn feature(&mut self, feature: Feature) -> &mut Self {
        self.u32(match feature {
            Feature::Msi => 0,
            Feature::MsiX => 1,
        })
    }
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`DecodeError`]: the bytes are no request, or not exactly one.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder(message);
        let request = match from.u32()? {
            0 => Request::EnableDevice,
            1 => Request::Config,
            2 => Request::Features,
            3 => Request::VendorCapabilities,
            4 => Request::EnableFeature(from.feature()?),
            5 => Request::FeatureInfo(from.feature()?),
            6 => Request::SetFeature(match from.feature()? {
                Feature::Msi => SetFeature::Msi {
                    multi_message_enable: from.option(Decoder::u8)?,
                    message: from.option(|from| Ok((from.u64()?, from.u32()?)))?,
                    mask_bits: from.option(Decoder::u32)?,
                },
                Feature::MsiX => SetFeature::MsiX {
                    function_mask: from.option(Decoder::bool)?,
                },
            }),
            7 => Request::ReadConfig(from.u16()?),
            8 => Request::WriteConfig(from.u16()?, from.u32()?),
            _ => return Err(DecodeError::Invalid),
        };
        from.end(request)
    }

    /// Writes a request.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        match *self {
            Request::EnableDevice => to.u32(0),
            Request::Config => to.u32(1),
            Request::Features => to.u32(2),
            Request::VendorCapabilities => to.u32(3),
            Request::EnableFeature(feature) => to.u32(4).feature(feature),
            Request::FeatureInfo(feature) => to.u32(5).feature(feature),
            Request::SetFeature(SetFeature::Msi {
                multi_message_enable,
                message,
                mask_bits,
            }) => to
                .u32(6)
                .feature(Feature::Msi)
                .option(multi_message_enable, |to, log2| _ = to.u8(log2))
                .option(message, |to, (address, data)| _ = to.u64(address).u32(data))
                .option(mask_bits, |to, bits| _ = to.u32(bits)),
            Request::SetFeature(SetFeature::MsiX { function_mask }) => to
                .u32(6)
                .feature(Feature::MsiX)
                .option(function_mask, |to, mask| _ = to.bool(mask)),
            Request::ReadConfig(offset) => to.u32(7).u16(offset),
            Request::WriteConfig(offset, value) => to.u32(8).u16(offset).u32(value),
        };
        to.0
    }
}

impl FunctionConfig {
    /// Reads the rest of a message, with the field `rom` or without it. A message does not say
    /// which form it has, but what follows the BARs has 9, 11 or 35 bytes without the field and
    /// 10, 12, 19, 21, 36 or 45 with it, so that no message has both forms.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let rest = from.0;
        let read = |with_rom| {
            let mut from = Decoder(rest);
            let config = Self::decode_form(&mut from, with_rom)?;
            from.end(config)
        };
        let config = read(true).or_else(|refused| read(false).map_err(|_| refused))?;
        from.0 = &[];
        Ok(config)
    }

    fn decode_form(from: &mut Decoder<'_>, with_rom: bool) -> Result<Self, DecodeError> {
        let address = Address {
            segment: from.u16()?,
            bus: from.u8()?,
            device: from.u8()?,
            function: from.u8()?,
        };
        let mut bars = [Bar::None; 6];
        for bar in &mut bars {
            *bar = match from.u32()? {
                0 => Bar::None,
                1 => Bar::Memory32 {
                    address: from.u32()?,
                    bytes: from.u32()?,
                },
                2 => Bar::Memory64 {
                    address: from.u64()?,
                    bytes: from.u64()?,
                },
                3 => Bar::Port(from.u16()?),
                _ => return Err(DecodeError::Invalid),
            };
        }
        let rom = if with_rom {
            from.option(|from| {
                Ok(Rom {
                    address: from.u32()?,
                    bytes: from.u32()?,
                    enabled: from.bool()?,
                })
            })?
        } else {
            None
        };
        let interrupt_line = from.option(|from| {
            let irq = from.u8()?;
            let route = from.option(|from| {
                Ok((
                    from.u32()?,
                    [from.u32()?, from.u32()?, from.u32()?],
                    from.u64()?,
                ))
            })?;
            Ok(InterruptLine { irq, route })
        })?;
        let identity = Identity {
            vendor: from.u16()?,
            device: from.u16()?,
            class: from.u8()?,
            subclass: from.u8()?,
            interface: from.u8()?,
            revision: from.u8()?,
        };
        Ok(Self {
            address,
            bars,
            rom,
            interrupt_line,
            identity,
        })
    }

    fn encode(&self, to: &mut Encoder) {
        let Address {
            segment,
            bus,
            device,
            function,
        } = self.address;
        to.u16(segment).u8(bus).u8(device).u8(function);
        for bar in self.bars {
            match bar {
                Bar::None => to.u32(0),
                Bar::Memory32 { address, bytes } => to.u32(1).u32(address).u32(bytes),
                Bar::Memory64 { address, bytes } => to.u32(2).u64(address).u64(bytes),
                Bar::Port(port) => to.u32(3).u16(port),
            };
        }
        to.option(self.rom, |to, rom| {
            to.u32(rom.address).u32(rom.bytes).bool(rom.enabled);
        });
        to.option(self.interrupt_line, |to, line| {
            to.u8(line.irq)
                .option(line.route, |to, (parent, words, used)| {
                    to.u32(parent)
                        .u32(words[0])
                        .u32(words[1])
                        .u32(words[2])
                        .u64(used);
                });
        });
        let id = self.identity;
        to.u16(id.vendor).u16(id.device);
        to.u8(id.class)
            .u8(id.subclass)
            .u8(id.interface)
            .u8(id.revision);
    }
}

impl FeatureInfo {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match from.feature()? {
            Feature::Msi => FeatureInfo::Msi {
                log2_vectors: from.u8()?,
                is_64bit: from.bool()?,
                per_vector_mask: from.bool()?,
            },
            Feature::MsiX => FeatureInfo::MsiX {
                table_bar: from.u8()?,
                table_offset: from.u32()?,
                table_size: from.u16()?,
                pba_bar: from.u8()?,
                pba_offset: from.u32()?,
            },
        })
    }

    fn encode(&self, to: &mut Encoder) {
        match *self {
            FeatureInfo::Msi {
                log2_vectors,
                is_64bit,
                per_vector_mask,
            } => to
                .feature(Feature::Msi)
                .u8(log2_vectors)
                .bool(is_64bit)
                .bool(per_vector_mask),
            FeatureInfo::MsiX {
                table_bar,
                table_offset,
                table_size,
                pba_bar,
                pba_offset,
            } => {
                to.feature(Feature::MsiX)
                    .u8(table_bar)
                    .u32(table_offset)
                    .u16(table_size);
                to.u8(pba_bar).u32(pba_offset)
            }
        };
    }
}

impl Response {
    /// Reads a response, without the length before it.
    ///
    /// # Errors
    /// [`DecodeError`]: the bytes are no response, or not exactly one.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder(message);
        let response = match from.u32()? {
            0 => Response::EnabledDevice,
            1 => Response::Config(FunctionConfig::decode(&mut from)?),
            2 => {
                let length = from.length(4)?;
                let list = (0..length).map(|_| from.feature());
                Response::Features(list.collect::<Result<_, _>>()?)
            }
            3 => {
                let length = from.length(8)?;
                let list = (0..length).map(|_| {
                    let bytes = from.length(1)?;
                    (0..bytes).map(|_| from.u8()).collect::<Result<_, _>>()
                });
                Response::VendorCapabilities(list.collect::<Result<_, _>>()?)
            }
            4 => Response::FeatureEnabled(from.feature()?),
            5 => Response::FeatureStatus(from.feature()?, from.u32()? == 0),
            6 => Response::Error(match from.u32()? {
                0 => ResponseError::NonexistentFeature(from.feature()?),
                1 => ResponseError::InvalidBitPattern,
                _ => return Err(DecodeError::Invalid),
            }),
            7 => Response::FeatureInfo(from.feature()?, FeatureInfo::decode(&mut from)?),
            8 => Response::SetFeature(from.feature()?),
            9 => Response::ReadConfig(from.u32()?),
            10 => Response::WriteConfig,
            _ => return Err(DecodeError::Invalid),
        };
        from.end(response)
    }

    /// Writes a response with the length before it.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.u64(0);
        match self {
            Response::EnabledDevice => _ = to.u32(0),
            Response::Config(config) => config.encode(to.u32(1)),
            Response::Features(list) => {
                to.u32(2).u64(list.len() as u64);
                list.iter().for_each(|&feature| _ = to.feature(feature));
            }
            Response::VendorCapabilities(list) => {
                to.u32(3).u64(list.len() as u64);
                for data in list {
                    to.u64(data.len() as u64).0.extend(data);
                }
            }
            Response::FeatureEnabled(feature) => _ = to.u32(4).feature(*feature),
            // Enabled is variant 0, disabled variant 1.
            Response::FeatureStatus(feature, enabled) => {
                _ = to.u32(5).feature(*feature).u32((!enabled).into())
            }
            Response::Error(ResponseError::NonexistentFeature(feature)) => {
                _ = to.u32(6).u32(0).feature(*feature)
            }
            Response::Error(ResponseError::InvalidBitPattern) => _ = to.u32(6).u32(1),
            Response::FeatureInfo(feature, info) => info.encode(to.u32(7).feature(*feature)),
            Response::SetFeature(feature) => _ = to.u32(8).feature(*feature),
            Response::ReadConfig(value) => _ = to.u32(9).u32(*value),
            Response::WriteConfig => _ = to.u32(10),
        }
        let length = to.0.len() as u64 - 8;
        to.0[..8].copy_from_slice(&length.to_le_bytes());
        to.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn requests() -> Vec<Request> {
        let all = SetFeature::Msi {
            multi_message_enable: Some(3),
            message: Some((0xfee0_1000, 77)),
            mask_bits: Some(5),
        };
        let none = SetFeature::Msi {
            multi_message_enable: None,
            message: None,
            mask_bits: None,
        };
        vec![
            Request::EnableDevice,
            Request::Config,
            Request::Features,
            Request::VendorCapabilities,
            Request::EnableFeature(Feature::Msi),
            Request::FeatureInfo(Feature::MsiX),
            Request::SetFeature(all),
            Request::SetFeature(none),
            Request::SetFeature(SetFeature::MsiX {
                function_mask: Some(true),
            }),
            Request::SetFeature(SetFeature::MsiX {
                function_mask: None,
            }),
            Request::ReadConfig(0x3c),
            Request::WriteConfig(4, 0xdead_beef),
        ]
    }

    fn config() -> FunctionConfig {
        let mut bars = [Bar::None; 6];
        bars[0] = Bar::Memory32 {
            address: 0xfebf_1000,
            bytes: 256,
        };
        bars[1] = Bar::Port(0xc000);
        bars[2] = Bar::Memory64 {
            address: 0x8_0000_0000,
            bytes: 1 << 31,
        };
        FunctionConfig {
            address: Address {
                segment: 0,
                bus: 2,
                device: 31,
                function: 7,
            },
            bars,
            rom: Some(Rom {
                address: 0xfeb0_0000,
                bytes: 0x1_0000,
                enabled: false,
            }),
            interrupt_line: Some(InterruptLine {
                irq: 11,
                route: Some((1, [2, 3, 4], 3)),
            }),
            identity: Identity {
                vendor: 0x1af4,
                device: 0x1110,
                class: 5,
                subclass: 0,
                interface: 0,
                revision: 1,
            },
        }
    }

    fn responses() -> Vec<Response> {
        let msix = FeatureInfo::MsiX {
            table_bar: 1,
            table_offset: 0,
            table_size: 2,
            pba_bar: 1,
            pba_offset: 0x800,
        };
        let msi = FeatureInfo::Msi {
            log2_vectors: 2,
            is_64bit: true,
            per_vector_mask: false,
        };
        vec![
            Response::EnabledDevice,
            Response::Config(config()),
            Response::Config(FunctionConfig {
                interrupt_line: None,
                ..config()
            }),
            Response::Config(FunctionConfig {
                rom: None,
                ..config()
            }),
            Response::Features(vec![Feature::Msi, Feature::MsiX]),
            Response::VendorCapabilities(vec![vec![1, 2, 3], vec![], vec![9]]),
            Response::FeatureEnabled(Feature::MsiX),
            Response::FeatureStatus(Feature::Msi, true),
            Response::FeatureStatus(Feature::Msi, false),
            Response::Error(ResponseError::NonexistentFeature(Feature::Msi)),
            Response::Error(ResponseError::InvalidBitPattern),
            Response::FeatureInfo(Feature::MsiX, msix),
            Response::FeatureInfo(Feature::Msi, msi),
            Response::SetFeature(Feature::MsiX),
            Response::ReadConfig(0x1234_5678),
            Response::WriteConfig,
        ]
    }

    #[test]
    fn decode_after_encode_is_identity() {
        for request in requests() {
            let bytes = request.encode();
            assert!(bytes.len() <= MAX_REQUEST_BYTES);
            assert_eq!(Request::decode(&bytes), Ok(request));
        }
        for response in responses() {
            let bytes = response.encode();
            assert_eq!(bytes[..8], (bytes.len() as u64 - 8).to_le_bytes());
            assert_eq!(Response::decode(&bytes[8..]), Ok(response));
        }
    }

    #[test]
    fn bytes_are_those_of_bincode() {
        assert_eq!(
            Request::WriteConfig(4, 7).encode(),
            [8, 0, 0, 0, 4, 0, 7, 0, 0, 0]
        );
        let mask = Request::SetFeature(SetFeature::MsiX {
            function_mask: Some(false),
        });
        assert_eq!(mask.encode(), [6, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
        let list = Response::Features(vec![Feature::MsiX]).encode();
        let expected = [
            16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
        ];
        assert_eq!(list, expected);
    }

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
        let pair = |pair: &[u8]| digit(pair[0]) << 4 | digit(pair[1]);
        hex.as_bytes().chunks(2).map(pair).collect()
    }

    /// The answer of Redox's pcid for QEMU's card with memory shared between machines: before the
    /// ROM, the ROM, and after it.
    const CARD: [&str; 2] = [
        "010000000000000800010000000000bdfe00010000010000000010bdfe0010000002000000000000\
         00c00000000000100000000000000000000000000000000000",
        "010b00f41a101105000001",
    ];

    fn card(rom: Option<Rom>) -> FunctionConfig {
        let mut bars = [Bar::None; 6];
        bars[0] = Bar::Memory32 {
            address: 0xfebd_0000,
            bytes: 256,
        };
        bars[1] = Bar::Memory32 {
            address: 0xfebd_1000,
            bytes: 4096,
        };
        bars[2] = Bar::Memory64 {
            address: 0xc0_0000_0000,
            bytes: 1 << 20,
        };
        FunctionConfig {
            address: Address {
                device: 8,
                ..Address::default()
            },
            bars,
            rom,
            interrupt_line: Some(InterruptLine {
                irq: 11,
                route: None,
            }),
            identity: Identity {
                vendor: 0x1af4,
                device: 0x1110,
                class: 5,
                subclass: 0,
                interface: 0,
                revision: 1,
            },
        }
    }

    #[test]
    fn a_function_is_understood_with_and_without_its_rom() {
        let rom = Rom {
            address: 0xfe00_0000,
            bytes: 65536,
            enabled: false,
        };
        let forms = [
            ("", None),
            ("00", None),
            ("01000000fe0000010000", Some(rom)),
        ];
        for (field, rom) in forms {
            let message = bytes_of(&[CARD[0], field, CARD[1]].concat());
            let response = Response::Config(card(rom));
            assert_eq!(Response::decode(&message), Ok(response.clone()), "{field}");
            if !field.is_empty() {
                assert_eq!(response.encode()[8..], message, "today's form is written");
            }
        }
    }

    #[test]
    fn no_message_has_both_forms() {
        let route = InterruptLine {
            irq: 1,
            route: Some((0, [0; 3], 0)),
        };
        let lines = [
            None,
            Some(InterruptLine {
                route: None,
                ..route
            }),
            Some(route),
        ];
        let rom = Rom {
            address: 0,
            bytes: 0,
            enabled: true,
        };
        let length = |rom, interrupt_line| {
            let config = FunctionConfig {
                rom,
                interrupt_line,
                ..FunctionConfig::default()
            };
            Response::Config(config).encode().len()
        };
        let with: Vec<_> = [None, Some(rom)]
            .into_iter()
            .flat_map(|rom| lines.map(|line| length(rom, line)))
            .collect();
        for line in lines {
            assert!(!with.contains(&(length(None, line) - 1)), "{line:?}");
        }
    }

    #[test]
    fn every_truncation_and_extension_is_refused() {
        for request in requests() {
            let mut bytes = request.encode();
            for length in 0..bytes.len() {
                assert!(Request::decode(&bytes[..length]).is_err());
            }
            bytes.push(0);
            assert_eq!(Request::decode(&bytes), Err(DecodeError::Long));
        }
        for response in responses() {
            let bytes = response.encode();
            for length in 8..bytes.len() {
                match Response::decode(&bytes[8..length]) {
                    Err(_) => {}
                    // A shortened configuration can be one without the ROM; the length that
                    // precedes a message says that it is not.
                    Ok(Response::Config(FunctionConfig { rom: None, .. })) => {}
                    Ok(other) => panic!("{length} bytes are {other:?}"),
                }
            }
        }
    }

    #[test]
    fn noise_never_panics_and_never_allocates_what_is_not_there() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = [0_u8; 96];
        for round in 0..200_000 {
            for byte in &mut noise {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            // Small tags, so that the later fields are reached.
            noise[0] %= 12;
            noise[1..4].fill(0);
            if round % 2 == 0 {
                noise[4] %= 3;
                noise[5..8].fill(0);
            }
            let length = round % noise.len();
            let _ = Request::decode(&noise[..length]);
            let _ = Response::decode(&noise[..length]);
        }
        let huge = [&[3, 0, 0, 0][..], &u64::MAX.to_le_bytes()].concat();
        assert_eq!(Response::decode(&huge), Err(DecodeError::Short));
    }

    #[test]
    fn names_of_functions() {
        let address = Address {
            segment: 0,
            bus: 0,
            device: 31,
            function: 2,
        };
        assert_eq!(address.to_string(), "0000--00--1f.2");
        assert_eq!(Address::parse("0000--00--1f.2"), Some(address));
        for bad in [
            "",
            "0000--00--20.0",
            "0000--00--1f.8",
            "0--0--1f.2",
            "0000--00--1f.2x",
            "+000--00--1f.2",
            "0000--00--1f",
            "0000-00-1f.2",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }
}
