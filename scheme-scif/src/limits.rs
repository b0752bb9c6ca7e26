//! The file `limits`: a line `name value` for each limit; root changes one by writing such lines.

use alloc::string::String;

use syscall::error::{EINVAL, Error, Result};

use crate::scif::{Fabric, RequestId, Scif};

/// Pages one user may have registered at one time; and as many again in memory objects.
const PINNED_PAGES_PER_USER: &str = "pinned_pages_per_user";

impl<F: Fabric, R: RequestId> Scif<F, R> {
    pub(crate) fn limits(&self) -> String {
        let pages = self.engine.pinned_limit(None);
        alloc::format!("{PINNED_PAGES_PER_USER} {pages}\n")
    }

    /// Changes limits, all of those that are written or none.
    ///
    /// # Errors
    /// `EINVAL` when a line is not the name of a limit and a number.
    pub(crate) fn write_limits(&mut self, bytes: &[u8]) -> Result<usize> {
        let invalid = Error::new(EINVAL);
        let text = core::str::from_utf8(bytes).map_err(|_| invalid)?;
        let mut pages = None;
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (None, ..) => {}
                (Some(PINNED_PAGES_PER_USER), Some(number), None) => {
                    pages = Some(number.parse::<u64>().map_err(|_| invalid)?);
                }
                _ => return Err(invalid),
            }
        }
        if let Some(pages) = pages {
            self.engine.set_pinned_limit(None, pages);
        }
        Ok(bytes.len())
    }
}
