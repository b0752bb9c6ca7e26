//! Paths of the memory scheme: `<kind>[@<cache>[?<option>,...]]`.

use bitflags::bitflags;

/// Longest valid path, in bytes.
pub const MAX_PATH: usize = 64;

/// The memory that a handle gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// New zeroed memory.
    Zeroed,
    /// Memory that is not RAM, by physical address.
    Physical,
    /// Virtual to physical address translation.
    Translation,
}

/// How the CPU caches a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Write back, the default.
    WriteBack,
    /// Uncacheable.
    Uncacheable,
    /// Write combining.
    WriteCombining,
    /// Device memory; the same as uncacheable on x86.
    Device,
}

bitflags! {
    /// Options after the question mark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options: u16 {
        /// One physically contiguous run, allocated at once.
        const PHYS_CONTIGUOUS = 1;
    }
}

/// A parsed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPath {
    /// The memory that it gives access to.
    pub kind: Kind,
    /// How it is cached.
    pub cache: Cache,
    /// Options.
    pub options: Options,
}

impl MemoryPath {
    /// Parses `path`; `None` when it is not valid.
    pub fn parse(path: &str) -> Option<Self> {
        if path.len() > MAX_PATH {
            return None;
        }
        let path = path.trim_start_matches('/');
        let (kind, suffix) = path.split_once('@').unwrap_or((path, ""));
        let (cache, options) = suffix.split_once('?').unwrap_or((suffix, ""));
        Some(Self {
            kind: match kind {
                "" | "zeroed" => Kind::Zeroed,
                "physical" => Kind::Physical,
                "translation" => Kind::Translation,
                _ => return None,
            },
            cache: match cache {
                "" | "wb" => Cache::WriteBack,
                "wc" => Cache::WriteCombining,
                "uc" => Cache::Uncacheable,
                "dev" => Cache::Device,
                _ => return None,
            },
            options: parse_options(options)?,
        })
    }

    /// Whether any user may open it: plain zeroed write-back memory.
    pub fn is_unprivileged(self) -> bool {
        self.kind == Kind::Zeroed && self.cache == Cache::WriteBack && self.options.is_empty()
    }

    /// The path as a handle number: kind, cache and options in one byte or two each.
    pub fn to_number(self) -> usize {
        let kind = match self.kind {
            Kind::Zeroed => 0,
            Kind::Physical => 1,
            Kind::Translation => 2,
        };
        let cache = match self.cache {
            Cache::WriteBack => 0,
            Cache::Uncacheable => 1,
            Cache::WriteCombining => 2,
            Cache::Device => 3,
        };
        kind | cache << 8 | usize::from(self.options.bits()) << 16
    }

    /// The path of a handle number; `None` for a number that is no handle's.
    pub fn from_number(number: usize) -> Option<Self> {
        let kind = match number & 0xFF {
            0 => Kind::Zeroed,
            1 => Kind::Physical,
            2 => Kind::Translation,
            _ => return None,
        };
        let cache = match number >> 8 & 0xFF {
            0 => Cache::WriteBack,
            1 => Cache::Uncacheable,
            2 => Cache::WriteCombining,
            3 => Cache::Device,
            _ => return None,
        };
        let options = Options::from_bits(u16::try_from(number >> 16).ok()?)?;
        Some(Self {
            kind,
            cache,
            options,
        })
    }
}

fn parse_options(list: &str) -> Option<Options> {
    list.split(',')
        .try_fold(Options::empty(), |options, word| match word {
            "" => Some(options),
            "phys_contiguous" => Some(options | Options::PHYS_CONTIGUOUS),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Option<(Kind, Cache, u16)> {
        MemoryPath::parse(path).map(|p| (p.kind, p.cache, p.options.bits()))
    }

    #[test]
    fn known_paths() {
        assert_eq!(parse(""), Some((Kind::Zeroed, Cache::WriteBack, 0)));
        assert_eq!(
            parse("/zeroed@wb"),
            Some((Kind::Zeroed, Cache::WriteBack, 0))
        );
        assert_eq!(
            parse("zeroed@wb?phys_contiguous"),
            Some((Kind::Zeroed, Cache::WriteBack, 1))
        );
        assert_eq!(
            parse("physical@wc"),
            Some((Kind::Physical, Cache::WriteCombining, 0))
        );
        assert_eq!(
            parse("physical@dev"),
            Some((Kind::Physical, Cache::Device, 0))
        );
        assert_eq!(
            parse("translation"),
            Some((Kind::Translation, Cache::WriteBack, 0))
        );
    }

    #[test]
    fn unknown_paths() {
        for path in [
            "shm",
            "zeroed@xx",
            "zeroed@wb?below_4g",
            "zeroed@wb?phys_contiguous,x",
        ] {
            assert_eq!(parse(path), None, "{path}");
        }
        let long = core::str::from_utf8(&[b'/'; 65]).unwrap();
        assert_eq!(parse(long), None);
    }

    #[test]
    fn numbers_are_reversible() {
        for path in [
            "",
            "zeroed@uc?phys_contiguous",
            "physical@wc",
            "translation@dev",
        ] {
            let path = MemoryPath::parse(path).unwrap();
            assert_eq!(MemoryPath::from_number(path.to_number()), Some(path));
        }
        for number in [3, 4 << 8, 2 << 16, 1 << 32, usize::MAX] {
            assert_eq!(MemoryPath::from_number(number), None);
        }
    }

    #[test]
    fn only_plain_memory_is_for_everyone() {
        assert!(MemoryPath::parse("zeroed").unwrap().is_unprivileged());
        for path in [
            "zeroed@uc",
            "zeroed@wb?phys_contiguous",
            "physical",
            "translation",
        ] {
            assert!(
                !MemoryPath::parse(path).unwrap().is_unprivileged(),
                "{path}"
            );
        }
    }
}
