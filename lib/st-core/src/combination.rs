//! The six combinations of arguments that push and pull (level 1) have.
//!
//! | header | local and remote | push | pull |
//! | --- | --- | --- | --- |
//! | given | none | sends a header | receives a header |
//! | none | given | puts data | gets data |
//! | given | given | puts data, then sends a header | receives a header, then gets data |

/// The effect of a push or a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// A header only.
    Header,
    /// Data only.
    Data,
    /// Both: data before the header in a push, after it in a pull.
    Both,
}

/// Why a push or a pull does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// No argument at all.
    Nothing,
    /// A local address without a remote one, or the other way round.
    OneAddress,
    /// A negative length.
    Length,
    /// A length without addresses.
    LengthWithoutData,
}

impl Combination {
    /// The combination of a call: whether it has a header, a local and a remote address, and its
    /// length.
    ///
    /// # Errors
    /// All of [`Invalid`]; each is `EINVAL` for a C program.
    pub const fn of(
        header: bool,
        local: bool,
        remote: bool,
        length: i64,
    ) -> Result<Combination, Invalid> {
        match (header, local, remote) {
            _ if length < 0 => Err(Invalid::Length),
            (_, true, false) | (_, false, true) => Err(Invalid::OneAddress),
            (false, false, false) => Err(Invalid::Nothing),
            (true, false, false) if length != 0 => Err(Invalid::LengthWithoutData),
            (true, false, false) => Ok(Combination::Header),
            (false, true, true) => Ok(Combination::Data),
            (true, true, true) => Ok(Combination::Both),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The illegal combinations, and the legal ones.
    #[test]
    fn every_combination() {
        let cases = [
            ((false, false, false, 0), Err(Invalid::Nothing)),
            ((false, false, false, 8), Err(Invalid::Nothing)),
            ((true, true, false, 8), Err(Invalid::OneAddress)),
            ((true, false, true, 8), Err(Invalid::OneAddress)),
            ((false, true, false, 8), Err(Invalid::OneAddress)),
            ((false, false, true, 8), Err(Invalid::OneAddress)),
            ((true, true, true, -1), Err(Invalid::Length)),
            ((true, false, false, 5), Err(Invalid::LengthWithoutData)),
            ((true, false, false, 0), Ok(Combination::Header)),
            ((false, true, true, 8), Ok(Combination::Data)),
            ((true, true, true, 8), Ok(Combination::Both)),
            ((true, true, true, 0), Ok(Combination::Both)),
        ];
        for ((header, local, remote, length), expected) in cases {
            assert_eq!(Combination::of(header, local, remote, length), expected);
        }
    }
}
