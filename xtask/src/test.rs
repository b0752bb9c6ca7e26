//! placeholder
use crate::report::Result;
use crate::settings::Settings;
/// The command.
pub fn command(_settings: &Settings) -> Result<()> {
    Ok(())
}
