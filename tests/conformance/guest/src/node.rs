//! Reads a node's files: counts, waiting requests, limits.

use alloc::format;
use alloc::string::String;

use conformance::call::{Counts, Errno};
use libredox::Fd;
use libredox::flag::O_WRONLY;

fn read(name: &str) -> Result<String, Errno> {
    let path = format!("/scheme/scif/{name}");
    runtime::fs::read_to_string(&path).map_err(|error| Errno(error.errno))
}

/// The number after a name at the beginning of a line.
fn value(text: &str, name: &str) -> Option<i64> {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The counts of the node.
pub fn counts() -> Result<Counts, Errno> {
    let stats = read("stats")?;
    let missing = Errno(syscall::error::EIO);
    let value = |name| value(&stats, name).ok_or(missing);
    Ok(Counts {
        endpoints: value("endpoints")?,
        connections: value("connections")?,
        // Without the line that names the columns.
        ports: read("ports")?.lines().count() as i64 - 1,
        windows: value("windows")? + value("remote_windows")?,
        mappings: value("mapped_pages")?,
        pinned_pages: value("pinned_pages")?,
        pages: value("pages")? - value("ring_pages")?,
    })
}

/// The number of requests that wait in the daemon.
pub fn waiting() -> i64 {
    read("stats")
        .ok()
        .and_then(|stats| value(&stats, "waiting"))
        .unwrap_or(0)
}

const LIMIT: &str = "pinned_pages_per_user";

/// The limit on pinned pages.
pub fn limit() -> Result<i64, Errno> {
    value(&read("limits")?, LIMIT).ok_or(Errno(syscall::error::EIO))
}

/// Sets the limit on pinned pages.
pub fn set_limit(pages: u64) -> Result<i64, Errno> {
    let failed = |error: libredox::error::Error| Errno(error.errno());
    let file = Fd::open("/scheme/scif/limits", O_WRONLY, 0).map_err(failed)?;
    file.write(format!("{LIMIT} {pages}\n").as_bytes())
        .map_err(failed)?;
    Ok(0)
}
