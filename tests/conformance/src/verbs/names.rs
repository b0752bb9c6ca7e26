//! Names as C writes them.

use alloc::format;
use alloc::string::String;
use core::fmt::Debug;

/// Spells a name as C does: `RemAccessErr` becomes `REM_ACCESS_ERR`.
pub fn in_c(name: &dyn Debug) -> String {
    let mut written = String::new();
    for letter in format!("{name:?}").chars() {
        if letter.is_uppercase() && !written.is_empty() {
            written.push('_');
        }
        written.extend(letter.to_uppercase());
    }
    written
}
