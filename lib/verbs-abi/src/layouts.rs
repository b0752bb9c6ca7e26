//! The macro that declares the structures of an interface.
//!
//! The number in front of each field is its offset, the numbers after a name are bytes and
//! alignment; a mismatch does not compile. `zerocopy` reads structures from bytes and writes them;
//! modules that declare some import its traits and `syscall_derive::Layout`.

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
