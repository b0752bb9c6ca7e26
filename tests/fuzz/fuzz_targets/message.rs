//! Bytes from outside read as messages, requests and ioctls of the wire and of clients: what is
//! accepted means the same when it is written and read again, and no other bytes are.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use scif_abi::PortId;
use scif_abi::call::{AcceptRecord, Call, MemoryCall};
use scif_abi::codec::Operation;
use scif_abi::ioctl::Ioctl;
use scif_abi::link::{Header, Record};
use scif_abi::message::{Extensions, Message, NodeMessage};
use zerocopy::{FromBytes, IntoBytes};

/// An operation from a number, mostly one that exists, and a payload, mostly of its length.
fn operation<T, const WORDS: usize>(input: &mut Unstructured<'_>, number: T::Number) -> Result<()>
where
    T: Operation<WORDS> + PartialEq + core::fmt::Debug,
    T::Number: Copy,
{
    let expected = T::payload_len(number);
    assert_eq!(expected.is_some(), T::name(number).is_some());
    let mut length = expected.unwrap_or(0);
    if input.ratio(1, 16)? {
        length = input.int_in_range(0..=100)?;
    }
    let mut words = [0; WORDS];
    for word in &mut words {
        *word = number_of(input)?;
    }
    let mut payload = vec![0; length];
    input.fill_buffer(&mut payload)?;
    let Ok(decoded) = T::decode(number, words, &payload) else {
        return Ok(());
    };
    // Bytes with an operation that has no structure are its data, and none of the decoder's.
    if decoded.payload().is_empty() {
        assert_eq!(expected, Some(0), "{decoded:?}");
    } else {
        assert_eq!(decoded.payload(), payload, "{decoded:?}");
    }
    // An ioctl has two numbers.
    assert_eq!(T::name(decoded.number()), T::name(number));
    let again = T::decode(decoded.number(), decoded.words(), decoded.payload());
    assert_eq!(again.as_ref(), Ok(&decoded));
    // The words that were claimed are the same, the others are zero.
    for (now, before) in decoded.words().into_iter().zip(words) {
        assert!(now == before || now == 0, "{decoded:?}");
    }
    Ok(())
}

/// Numbers at the borders of what words hold, and any.
fn number_of(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u8::arbitrary(input)? & 7 {
        0 => 0,
        1 => u8::arbitrary(input)?.into(),
        2 => u16::arbitrary(input)?.into(),
        3 => u64::from(u32::arbitrary(input)?),
        4 => i64::from(i32::arbitrary(input)?).cast_unsigned(),
        _ => u64::arbitrary(input)?,
    })
}

fn ioctl(input: &mut Unstructured<'_>) -> Result<()> {
    // Direction, size, 's' and a number, as _IOWR makes them; or anything.
    let request = match bool::arbitrary(input)? {
        true => {
            let size = u32::from(u8::arbitrary(input)?);
            0xc000_7300 | size << 16 | u32::from(u8::arbitrary(input)?)
        }
        false => u32::arbitrary(input)?,
    };
    let mut read_ahead = Unstructured::new(input.peek_bytes(input.len()).unwrap_or_default());
    operation::<Ioctl, 1>(&mut read_ahead, request)?;
    let Some(length) = Ioctl::payload_len(request) else {
        return Ok(());
    };
    let payload = input.bytes(length)?.to_vec();
    let word = u64::arbitrary(input)?;
    let Ok(mut ioctl) = Ioctl::decode(request, [word], &payload) else {
        return Ok(());
    };
    let plan = ioctl.plan();
    let own = PortId::new(u16::arbitrary(input)?, u16::arbitrary(input)?);
    let mut accepted = AcceptRecord::default();
    input.fill_buffer(accepted.as_mut_bytes())?;
    ioctl.complete(u64::arbitrary(input)?, own, accepted);
    assert_eq!(ioctl.payload().len(), length);
    // The results of a call never change its arguments.
    if ioctl.payload() == payload {
        assert_eq!(ioctl.plan(), plan);
    }
    Ok(())
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    while !input.is_empty() {
        match u8::arbitrary(input)? % 6 {
            0 => {
                let number = u32::from(u8::arbitrary(input)? & 63);
                operation::<NodeMessage, 4>(input, number)?;
            }
            1 => {
                let mut bytes = [0; 44];
                input.fill_buffer(&mut bytes)?;
                let message = Message::read_from_bytes(&bytes).expect("44 bytes are a message");
                assert_eq!(message.as_bytes(), bytes);
                if let Ok(body) = message.body() {
                    let again = Message::new(message.source, message.destination, body);
                    assert_eq!(again.body(), Ok(body));
                    assert_eq!(again.as_bytes()[..12], bytes[..12]);
                }
            }
            2 => {
                let number = u64::from(u8::arbitrary(input)? & 127);
                operation::<Call, 2>(input, number)?;
            }
            3 => {
                let number = u64::from(u8::arbitrary(input)? & 127);
                operation::<MemoryCall, 2>(input, number)?;
            }
            4 => ioctl(input)?,
            _ => link(input)?,
        }
    }
    Ok(())
}

/// The words two nodes find each other by.
fn link(input: &mut Unstructured<'_>) -> Result<()> {
    let offered = Extensions::from_word(u32::arbitrary(input)?);
    assert_eq!(Extensions::from_word(offered.to_word()), offered);
    let mut bytes = [0; size_of::<Header>()];
    input.fill_buffer(&mut bytes)?;
    let header = Header::read_from_bytes(&bytes).expect("as many bytes as a header has");
    let own = u16::arbitrary(input)?;
    if let Some((side, peer)) = header.side_of(own) {
        assert!(side < 2);
        assert_ne!(own, peer, "a node linked with itself");
    }
    let nodes = [own, u16::arbitrary(input)?];
    if nodes[0] != nodes[1] {
        let made = Header::new(nodes);
        assert_eq!(made.side_of(nodes[0]), Some((0, nodes[1])));
        assert_eq!(made.side_of(nodes[1]), Some((1, nodes[0])));
    }
    let mut bytes = [0; size_of::<Record>()];
    input.fill_buffer(&mut bytes)?;
    let record = Record::read_from_bytes(&bytes).expect("as many bytes as a record has");
    let generation = u32::arbitrary(input)?;
    if record.is_bound_to(generation) {
        assert!(record.may_bind(generation));
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // Input that ends early is an input like any other.
    let _ = run(&mut Unstructured::new(bytes));
});
