//! The macro that declares the structures of an interface.
//!
//! The number in front of each field is its offset, the numbers behind a name are bytes and
//! alignment; a difference does not compile. Structures are read from bytes and written to them by
//! `zerocopy`; modules that declare some import its traits and `syscall_derive::Layout`.

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident, $size:literal, $align:literal {
        $($offset:literal $field:ident: $kind:ty,)*
    })*) => {
        $($(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            Default,
            PartialEq,
            Eq,
            FromBytes,
            IntoBytes,
            Immutable,
            KnownLayout,
            Layout,
        )]
        #[layout(size = $size, align = $align)]
        #[repr(C)]
        pub struct $name {
            $(
                #[doc = concat!("`", stringify!($field), "`, at byte ", $offset, ".")]
                #[layout(offset = $offset)]
                pub $field: $kind,
            )*
        })*
    };
}
