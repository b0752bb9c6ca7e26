//! Answers the requests of a function's driver.

use alloc::vec::Vec;

use hal::pci::config::{self, ConfigSpace};
use hal::pci::protocol::{Feature, FeatureInfo, Request, Response, ResponseError, SetFeature};
use pci_types::capability::{MultipleMessageSupport, PciCapabilityAddress};

use crate::function::Function;

/// Bytes of a vendor capability before its data: id, next pointer, length.
const VENDOR_HEADER_BYTES: usize = 3;

/// Carries out a driver's request and returns the response.
pub fn respond(space: &ConfigSpace, function: &mut Function, request: Request) -> Response {
    match request {
        Request::EnableDevice => {
            function.enable(space);
            Response::EnabledDevice
        }
        Request::Config => {
            function.refresh(space);
            Response::Config(function.config)
        }
        Request::Features => {
            let msi = function.msi.map(|_| Feature::Msi);
            let msix = function.msix.map(|_| Feature::MsiX);
            Response::Features(msi.into_iter().chain(msix).collect())
        }
        Request::VendorCapabilities => {
            let places = function.vendor_capabilities.iter();
            Response::VendorCapabilities(places.map(|place| vendor_data(space, place)).collect())
        }
        Request::EnableFeature(feature) => enable_feature(space, function, feature),
        Request::FeatureInfo(feature) => feature_info(function, feature),
        Request::SetFeature(change) => set_feature(space, function, change),
        Request::ReadConfig(offset) if is_register(space, offset) => {
            Response::ReadConfig(config::read(space, function.address, offset))
        }
        Request::WriteConfig(offset, value) if is_register(space, offset) => {
            config::write(space, function.address, offset, value);
            Response::WriteConfig
        }
        Request::ReadConfig(_) | Request::WriteConfig(..) => {
            Response::Error(ResponseError::InvalidBitPattern)
        }
    }
}

fn is_register(space: &ConfigSpace, offset: u16) -> bool {
    offset.is_multiple_of(4) && offset < space.function_bytes()
}

fn missing(feature: Feature) -> Response {
    Response::Error(ResponseError::NonexistentFeature(feature))
}

fn vendor_data(space: &ConfigSpace, place: &PciCapabilityAddress) -> Vec<u8> {
    let header = config::read(space, place.address, place.offset);
    let length = (header >> 16 & 0xff) as usize;
    let words = (place.offset..=0xfc).step_by(4).take(length.div_ceil(4));
    let bytes = words.flat_map(|offset| config::read(space, place.address, offset).to_le_bytes());
    bytes.take(length).skip(VENDOR_HEADER_BYTES).collect()
}

fn enable_feature(space: &ConfigSpace, function: &mut Function, feature: Feature) -> Response {
    match feature {
        Feature::Msi => {
            let Some(msi) = &function.msi else {
                return missing(feature);
            };
            // Several vectors need a message number each; the driver sets them up afterwards.
            msi.set_multiple_message_enable(MultipleMessageSupport::Int1, space);
            msi.set_enabled(true, space);
        }
        Feature::MsiX => {
            let Some(msix) = &mut function.msix else {
                return missing(feature);
            };
            msix.set_enabled(true, space);
            // The table masks single vectors, and it belongs to the driver.
            msix.set_function_mask(false, space);
        }
    }
    Response::FeatureEnabled(feature)
}

fn feature_info(function: &Function, feature: Feature) -> Response {
    let info = match feature {
        Feature::Msi => function.msi.map(|msi| FeatureInfo::Msi {
            log2_vectors: msi.multiple_message_capable() as u8,
            is_64bit: msi.is_64bit(),
            per_vector_mask: msi.has_per_vector_masking(),
        }),
        Feature::MsiX => function.msix.map(|msix| FeatureInfo::MsiX {
            table_bar: msix.table_bar(),
            table_offset: msix.table_offset(),
            table_size: msix.table_size(),
            pba_bar: msix.pba_bar(),
            pba_offset: msix.pba_offset(),
        }),
    };
    info.map_or(missing(feature), |info| {
        Response::FeatureInfo(feature, info)
    })
}

fn set_feature(space: &ConfigSpace, function: &mut Function, change: SetFeature) -> Response {
    let invalid = Response::Error(ResponseError::InvalidBitPattern);
    match change {
        SetFeature::Msi {
            multi_message_enable,
            message,
            mask_bits,
        } => {
            let Some(msi) = &function.msi else {
                return missing(Feature::Msi);
            };
            let capable = msi.multiple_message_capable();
            let count = match multi_message_enable.map(MultipleMessageSupport::try_from) {
                None => None,
                Some(Ok(count)) if count <= capable => Some(count),
                Some(_) => return invalid,
            };
            if let Some((address, data)) = message {
                let too_wide = !msi.is_64bit() && address > u32::MAX.into();
                if !address.is_multiple_of(4) || too_wide || data > u16::MAX.into() {
                    return invalid;
                }
            }
            if mask_bits.is_some() && !msi.has_per_vector_masking() {
                return invalid;
            }
            if let Some(count) = count {
                msi.set_multiple_message_enable(count, space);
            }
            if let Some((address, data)) = message {
                msi.set_message_info(address, data, space);
            }
            if let Some(bits) = mask_bits {
                msi.set_message_mask(bits, space);
            }
            Response::SetFeature(Feature::Msi)
        }
        SetFeature::MsiX { function_mask } => {
            let Some(msix) = &mut function.msix else {
                return missing(Feature::MsiX);
            };
            if let Some(mask) = function_mask {
                msix.set_function_mask(mask, space);
            }
            Response::SetFeature(Feature::MsiX)
        }
    }
}
