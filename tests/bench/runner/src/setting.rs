//! The circumstances of a measurement: the machine, the versions of programs, the day.

use crate::noise::Noise;
use crate::results::Setting;
use harness::base::workspace;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the circumstances. A value that cannot be read is reported as unknown.
pub fn read(linux: &str, boots: u64, quick: bool, noise: Noise) -> Setting {
    Setting {
        date: today(),
        machine: machine(),
        emulator: first_line("qemu-system-x86_64", &["--version"]),
        linux: linux.to_string(),
        commit: commit(),
        boots,
        quick,
        noise,
    }
}

fn first_line(program: &str, words: &[&str]) -> String {
    let output = Command::new(program)
        .args(words)
        .current_dir(workspace::root())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text
        .ok()
        .and_then(|text| text.lines().next().map(str::to_string));
    line.unwrap_or_else(|| "unknown".to_string())
}

/// Returns the commit, and whether the sources differ from it.
fn commit() -> String {
    first_line("git", &["describe", "--always", "--dirty"])
}

fn machine() -> String {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = file("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor".to_string(), |(_, name)| {
            name.trim().to_string()
        });
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let system = file("/proc/sys/kernel/osrelease");
    // The text behind the version names its builder, not its abilities.
    let version = system.trim().split('-').next().unwrap_or_default();
    format!("{processor}, {cores} cores, Linux {version}")
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = since.map_or(0, |since| since.as_secs() / 86_400);
    date(days)
}

/// Returns the date of the day that is `days` after 1970-01-01, in the Gregorian calendar. It
/// counts in years that begin in March, so that leap days come last.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(11_017), "2000-03-01");
        assert_eq!(date(20_088), "2024-12-31");
        assert_eq!(date(20_089), "2025-01-01");
    }
}
