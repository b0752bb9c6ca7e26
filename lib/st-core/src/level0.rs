//! Level 0: the effect of an operation that a program gives as a header.
//!
//! Ports and key may be 0; then they are filled in. Data of [`Operation::Data`] goes to ⟨buffer,
//! offset⟩ of the peer's announced memory, in buffers of 4096 bytes. [`Operation::Get`] moves data
//! the other way; with a function flag it is a locked operation on a double word. All other
//! operations have no meaning here but arrive as they are, except those on connections, which only
//! the library may use.

use crate::header::{Flags, Header, Operation};
use crate::record::{BUFFER_BITS, Parameters};

/// A locked operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Adds 1.
    Increment,
    /// Subtracts 1.
    Decrement,
    /// Stores 0.
    Clear,
}

/// The data that moves with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No data moves.
    Nothing,
    /// The local bytes go to this offset in the peer's memory.
    Put(u64),
    /// Bytes from this offset in the peer's memory go to the local memory.
    Get(u64),
    /// The double word at this offset is changed, and its former value goes to the local memory.
    Fetch(u64, Function),
}

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The header, with ports and key filled in.
    pub header: Header,
    /// The data that moves.
    pub action: Action,
    /// Whether the peer gets a descriptor.
    pub is_delivered: bool,
}

/// Why an operation does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No operation, a wrong port or key, a length where no data moves, or a locked operation on
    /// something other than 8 aligned bytes: `EINVAL`.
    Invalid,
    /// It opens or ends connections: `EPERM`.
    NotAllowed,
}

/// The effect of an operation with `length` bytes of local memory. `has_payload`: it has an
/// optional payload.
///
/// # Errors
/// All of [`Refused`].
pub fn plan(
    header: &Header,
    own: &Parameters,
    peer: &Parameters,
    has_payload: bool,
    length: u64,
) -> Result<Plan, Refused> {
    let operation = header.operation().ok_or(Refused::Invalid)?;
    let mut header = *header;
    let ports = [
        (&mut header.destination_port, peer.port),
        (&mut header.source_port, own.port),
    ];
    for (place, port) in ports {
        match *place {
            0 => *place = port,
            given if given == port => {}
            _ => return Err(Refused::Invalid),
        }
    }
    match header.destination_key {
        0 => header.destination_key = peer.key,
        key if key == peer.key => {}
        _ => return Err(Refused::Invalid),
    }
    let ahead = (u64::from(header.buffer) << BUFFER_BITS) + u64::from(header.offset);
    let function = header.flags() & Flags::FUNCTION;
    let action = match operation {
        Operation::RequestConnection
        | Operation::ConnectionAnswer
        | Operation::RequestDisconnect
        | Operation::DisconnectAnswer
        | Operation::DisconnectComplete => return Err(Refused::NotAllowed),
        Operation::Data if length > 0 => Action::Put(ahead),
        Operation::Get if !function.is_empty() => {
            let is_word = length == size_of::<u64>() as u64;
            if !is_word || !ahead.is_multiple_of(length) {
                return Err(Refused::Invalid);
            }
            let function = match function {
                Flags::FETCH_INCREMENT => Function::Increment,
                Flags::FETCH_DECREMENT => Function::Decrement,
                Flags::FETCH_CLEAR => Function::Clear,
                _ => return Err(Refused::Invalid),
            };
            Action::Fetch(ahead, function)
        }
        Operation::Get if length > 0 => Action::Get(ahead),
        _ if length > 0 => return Err(Refused::Invalid),
        _ => Action::Nothing,
    };
    let flags = header.flags();
    let is_delivered = !flags.contains(Flags::SILENT)
        && (has_payload || length == 0 || flags.contains(Flags::INTERRUPT));
    Ok(Plan {
        header,
        action,
        is_delivered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn end(port: u16, key: u32) -> Parameters {
        Parameters {
            port,
            key,
            bypass: true,
            channels: 4,
            slots: 64,
            window: 0,
        }
    }

    const OWN: Parameters = end(1088, 7);
    const PEER: Parameters = end(2050, 9);

    fn of(header: Header, has_payload: bool, length: u64) -> Result<Plan, Refused> {
        plan(&header, &OWN, &PEER, has_payload, length)
    }

    #[test]
    fn ports_and_key_are_filled_in_or_must_be_right() {
        let header = Header::new(Operation::Nop, Flags::empty());
        let found = of(header, false, 0).unwrap().header;
        assert_eq!((found.destination_port, found.source_port), (2050, 1088));
        assert_eq!(found.destination_key, 9);
        assert_eq!(of(found, false, 0).unwrap().header, found);
        let wrong = [
            Header {
                destination_port: 1,
                ..header
            },
            Header {
                source_port: 2050,
                ..header
            },
            Header {
                destination_key: 7,
                ..header
            },
        ];
        for header in wrong {
            assert_eq!(of(header, false, 0), Err(Refused::Invalid));
        }
    }

    #[test]
    fn only_data_and_get_move_something() {
        for operation in Operation::ALL {
            let header = Header {
                buffer: 3,
                offset: 8,
                ..Header::new(operation, Flags::empty())
            };
            let ahead = 3 * 4096 + 8;
            let actions = [0, 16].map(|length| of(header, false, length).map(|plan| plan.action));
            let expected = match operation {
                Operation::Data => [Ok(Action::Nothing), Ok(Action::Put(ahead))],
                Operation::Get => [Ok(Action::Nothing), Ok(Action::Get(ahead))],
                operation if (operation as u8) < 6 => [Err(Refused::NotAllowed); 2],
                _ => [Ok(Action::Nothing), Err(Refused::Invalid)],
            };
            assert_eq!(actions, expected, "{operation:?}");
        }
        assert_eq!(of(Header::default(), false, 0), Err(Refused::Invalid));
    }

    #[test]
    fn locked_operations_are_on_double_words() {
        let fetch = |flags, offset, length| {
            let header = Header {
                offset,
                ..Header::new(Operation::Get, flags)
            };
            of(header, false, length).map(|plan| plan.action)
        };
        let increment = Action::Fetch(16, Function::Increment);
        assert_eq!(fetch(Flags::FETCH_INCREMENT, 16, 8), Ok(increment));
        let clear = Action::Fetch(0, Function::Clear);
        assert_eq!(fetch(Flags::FETCH_CLEAR, 0, 8), Ok(clear));
        for (flags, offset, length) in [
            (Flags::FETCH_DECREMENT, 12, 8),
            (Flags::FETCH_DECREMENT, 16, 0),
            (Flags::FETCH_DECREMENT, 16, 16),
            (Flags::FUNCTION, 16, 8),
        ] {
            assert_eq!(fetch(flags, offset, length), Err(Refused::Invalid));
        }
    }

    #[test]
    fn the_peer_gets_a_descriptor_with_payload_without_data_or_when_asked() {
        let delivered = |flags, has_payload, length| {
            let header = Header::new(Operation::Data, flags);
            of(header, has_payload, length).unwrap().is_delivered
        };
        assert!(!delivered(Flags::empty(), false, 8));
        assert!(delivered(Flags::empty(), true, 8));
        assert!(delivered(Flags::empty(), false, 0));
        assert!(delivered(Flags::INTERRUPT, false, 8));
        assert!(!delivered(Flags::SILENT, true, 0));
        assert!(!delivered(Flags::SILENT | Flags::INTERRUPT, false, 8));
    }
}
