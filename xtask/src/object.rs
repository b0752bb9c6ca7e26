//! The symbol table of a relocatable object (ELF, 64 bits): finds the names that the object
//! defines for others, makes those weak, and renames Rust's own names.

use crate::elf::{u16_at, u32_at, u64_at};
use harness::base::report::Result;

/// Bytes in a section's header and in a symbol.
const SECTION: usize = 64;
const SYMBOL: usize = 24;
/// The type of the section that is a symbol table.
const SYMBOL_TABLE: u32 = 2;
/// The section number of symbols that are defined elsewhere.
const UNDEFINED: u16 = 0;
/// Bindings of symbols, in the upper half of their info byte.
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;

/// The prefix of Rust's function names (mangling v0), and the prefix that replaces it.
const RUST: &[u8] = b"_R";
const APART: &[u8] = b"_S";

/// A symbol that other objects can see.
struct Symbol {
    /// Offset of its info byte in the file.
    info: usize,
    /// Offset of its name in the file.
    at: usize,
    /// Whether this object defines it.
    is_ours: bool,
    name: String,
}

/// The names that an object defines for others.
pub fn defined(object: &[u8]) -> Result<Vec<String>> {
    let symbols = symbols(object)?.into_iter().filter(|symbol| symbol.is_ours);
    Ok(symbols.map(|symbol| symbol.name).collect())
}

/// Makes the names that an object defines weak. References stay strong, because no linker searches
/// an archive for a weak one.
pub fn weaken(object: &mut [u8]) -> Result<()> {
    for symbol in symbols(object)?.iter().filter(|symbol| symbol.is_ours) {
        object[symbol.info] = WEAK << 4 | object[symbol.info] & 0xf;
    }
    Ok(())
}

/// Gives all names that Rust has made another prefix, references to other objects included. A Rust
/// program that is linked with such objects thus keeps its own allocator and panics.
pub fn set_apart(object: &mut [u8]) -> Result<()> {
    for symbol in symbols(object)? {
        // Names may share bytes, so this one may have been changed already.
        if object[symbol.at..].starts_with(RUST) {
            object[symbol.at..][..APART.len()].copy_from_slice(APART);
        }
    }
    Ok(())
}

fn symbols(object: &[u8]) -> Result<Vec<Symbol>> {
    // Magic, 64 bits, little endian.
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return Err("not an object of the image's target".into());
    }
    let sections = usize_at(object, 0x28)?;
    let count = usize::from(u16_at(object, 0x3c)?);
    let mut found = Vec::new();
    for index in 0..count {
        let header = sections.saturating_add(index * SECTION);
        let field = |at: usize| header.saturating_add(at);
        if u32_at(object, field(4))? != SYMBOL_TABLE {
            continue;
        }
        let names = u32_at(object, field(40))? as usize;
        let names = usize_at(object, sections.saturating_add(names * SECTION + 24))?;
        let (start, size) = (usize_at(object, field(24))?, usize_at(object, field(32))?);
        for symbol in (start..start.saturating_add(size)).step_by(SYMBOL) {
            let is_ours = u16_at(object, symbol.saturating_add(6))? != UNDEFINED;
            let info = symbol.saturating_add(4);
            let binding = object.get(info).map(|info| info >> 4);
            if matches!(binding, Some(GLOBAL | WEAK)) {
                let at = names.saturating_add(u32_at(object, symbol)? as usize);
                let Some(name) = object.get(at..) else {
                    return Err("an object with a name beyond its end".into());
                };
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let name = String::from_utf8_lossy(name).into_owned();
                found.push(Symbol {
                    info,
                    at,
                    is_ours,
                    name,
                });
            }
        }
    }
    Ok(found)
}

fn usize_at(object: &[u8], offset: usize) -> Result<usize> {
    let value = usize::try_from(u64_at(object, offset)?);
    Ok(value.map_err(|_| "an object with an offset beyond memory".to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object with a table of these symbols: offset of the name, info byte, section.
    fn object(symbols: &[(u32, u8, u16)], names: &[u8]) -> Vec<u8> {
        let mut file = vec![0; SECTION];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let table = file.len();
        for (name, info, section) in symbols {
            file.extend(name.to_le_bytes());
            file.extend([*info, 0]);
            file.extend(section.to_le_bytes());
            file.extend([0; 16]);
        }
        let strings = file.len();
        file.extend(names);
        let sections = file.len();
        let headers = [
            (SYMBOL_TABLE, table, strings - table, 1),
            (3, strings, names.len(), 0),
        ];
        for (kind, offset, size, link) in headers {
            let mut header = [0; SECTION];
            header[4..8].copy_from_slice(&u32::to_le_bytes(kind));
            header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            header[40..44].copy_from_slice(&u32::to_le_bytes(link));
            file.extend(header);
        }
        file[0x28..0x30].copy_from_slice(&(sections as u64).to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&2_u16.to_le_bytes());
        file
    }

    #[test]
    fn only_what_an_object_defines_for_others_becomes_weak() {
        let function = 2;
        let mut file = object(
            &[
                (1, GLOBAL << 4 | function, 5),
                (6, GLOBAL << 4, UNDEFINED),
                (11, function, 5),
            ],
            b"\0ours\0away\0mine\0",
        );
        assert_eq!(defined(&file).unwrap(), ["ours"]);
        let before = file.clone();
        weaken(&mut file).unwrap();
        let changed: Vec<_> = (0..file.len())
            .filter(|at| file[*at] != before[*at])
            .collect();
        assert_eq!(changed, [SECTION + 4]);
        assert_eq!(file[SECTION + 4], WEAK << 4 | function);
        assert_eq!(defined(&file).unwrap(), ["ours"]);
    }

    #[test]
    fn rusts_names_are_set_apart_whoever_defines_them() {
        let mut file = object(
            &[
                (1, GLOBAL << 4, 5),
                (6, GLOBAL << 4, UNDEFINED),
                (6, WEAK << 4, UNDEFINED),
                (10, GLOBAL << 4, 5),
            ],
            b"\0_Rab\0_Rc\0main\0",
        );
        set_apart(&mut file).unwrap();
        let names: Vec<_> = symbols(&file)
            .unwrap()
            .into_iter()
            .map(|symbol| symbol.name)
            .collect();
        assert_eq!(names, ["_Sab", "_Sc", "_Sc", "main"]);
    }

    #[test]
    fn damage_is_an_error_not_a_panic() {
        let file = object(&[(1, GLOBAL << 4, 5)], b"\0ours\0");
        for length in 0..file.len() {
            let _ = defined(&file[..length]);
            let _ = set_apart(&mut file[..length].to_vec());
        }
        assert!(defined(b"!<arch>\n").is_err());
    }
}
