//! Derive macros that turn one annotated type into everything an ABI needs, so that numbers,
//! encoders, decoders and layout checks cannot drift apart.
//!
//! * [`Layout`](macro@Layout) on a `#[repr(C)]` structure: compile-time checks of its size, its
//!   alignment and the offset of every field, and the same as a table.
//! * [`Operation`](macro@Operation) on an enum: one variant per operation or message, with its
//!   number, its small arguments (words) and at most one structure (payload); gives the number
//!   constants, the encoder for the calling side and the bounds-checked decoder for the serving
//!   side.
//!
//! The generated code names `::scif_abi::codec` and nothing else.
//! Byte casting itself is `zerocopy`'s job: a payload type must implement its `FromBytes` and
//! `IntoBytes`.

mod layout;
mod operation;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Checks the layout of a structure at compile time.
///
/// `#[layout(size = N, align = N)]` on the type gives its size and alignment in bytes;
/// `#[layout(offset = N)]` on *every* field its offset. A difference, or a field without an offset,
/// is a compile error. The result implements `scif_abi::codec::Layout`.
///
/// ```ignore
/// #[derive(Layout)]
/// #[layout(size = 8, align = 4)]
/// #[repr(C)]
/// struct Record {
///     #[layout(offset = 0)]
///     kind: u32,
///     #[layout(offset = 4)]
///     length: u32,
/// }
/// ```
#[proc_macro_derive(Layout, attributes(layout))]
pub fn derive_layout(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    layout::expand(&input)
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

/// Numbers, encoder and decoder of a set of operations.
///
/// On the enum: `#[operation(number = u32, words = 4)]`, the type of an operation number and how
/// many 64-bit words travel beside it. On each variant `#[op(7)]`, its number; further numbers in
/// the parentheses are accepted as well but never sent. Fields are named and each is either
/// `#[word(n)]`, a small value in word `n` (its type implements `scif_abi::codec::Word`), or
/// `#[payload]`, a structure (at most one per variant).
///
/// The result implements `scif_abi::codec::Operation` and has an associated constant per variant,
/// its name in upper case, for example `Call::GET_NODE_IDS` for the variant `GetNodeIds`.
///
/// Decoding never panics and never reads beyond what it was given: an unknown number, a missing or
/// oversized word and a payload of the wrong length each give a `DecodeError` that says so. Words
/// that no field claims are ignored, as peers of the base protocol leave garbage there.
#[proc_macro_derive(Operation, attributes(operation, op, word, payload))]
pub fn derive_operation(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    operation::expand(&input)
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
