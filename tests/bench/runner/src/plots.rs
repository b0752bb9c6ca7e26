//! The plots of a run, from its results.

use crate::measures::relative;
use crate::numbers::absolute;
use crate::sample::{Samples, median, quartiles};
use crate::svg::{Axis, Plot, Scale, Series};

/// A plot, with its file name.
pub struct Named {
    /// The name of the file without `.svg`.
    pub file: &'static str,
    /// The plot.
    pub plot: Plot,
}

/// Formats a size in bytes for a tick.
fn bytes(value: f64) -> String {
    match value as u64 {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

fn count(value: f64) -> String {
    format!("{value:.0}")
}

/// Formats a small number for a tick, without rounding errors.
fn plain(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn time(value: f64) -> String {
    absolute(value, "ns").replace(".00", "").replace(".0", "")
}

const SIZE: Axis = Axis {
    label: "bytes of a transfer or message",
    scale: Scale::Log(4.0),
    format: bytes,
};

/// Returns the medians of a test's repetitions over its sizes, with their quartiles. `unit` is the
/// number of the test's units in one unit of the plot.
fn over_sizes(samples: &Samples, name: &str, test: &str, unit: f64, dashed: bool) -> Series {
    let mut line = series(name, Points::new(), dashed);
    for (size, sample) in samples.series(test) {
        let size = size.max(1) as f64;
        line.points
            .extend(sample.median().map(|median| (size, median / unit)));
        let quartiles = quartiles(&sample.repetitions);
        line.quartiles
            .extend(quartiles.map(|pair| (size, pair.map(|value| value / unit))));
    }
    line
}

type Points = Vec<(f64, f64)>;

fn series(name: &str, points: Points, dashed: bool) -> Series {
    Series {
        name: name.to_string(),
        points,
        quartiles: Vec::new(),
        dashed,
    }
}

/// Returns all plots. A plot without results has no points.
pub fn plots(samples: &Samples) -> Vec<Named> {
    let named = |file, plot| Named { file, plot };
    let mut plots = vec![
        named("bandwidth", bandwidth(samples)),
        named("percentiles", percentiles(samples)),
        named("messages", messages(samples)),
    ];
    plots.extend(GROWTH.map(|what| named(what.file, growth(samples, &what))));
    plots
}

/// Returns the fastest of several tests at each size, in the form of [`over_sizes`].
fn fastest(samples: &Samples, name: &str, tests: &[&str], unit: f64) -> Series {
    let mut line = series(name, Points::new(), true);
    for test in tests {
        let one = over_sizes(samples, name, test, unit, true);
        for (point, spread) in one.points.into_iter().zip(one.quartiles) {
            match line.points.iter().position(|(size, _)| *size == point.0) {
                Some(at) if line.points[at].1 < point.1 => {
                    (line.points[at], line.quartiles[at]) = (point, spread);
                }
                Some(_) => {}
                None => {
                    line.points.push(point);
                    line.quartiles.push(spread);
                }
            }
        }
    }
    line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    line.quartiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    line
}

/// The raw copies in our nodes and in Linux guests.
const RAW_COPIES: [&str; 4] = ["bare_write", "bare_read", "linux_write", "linux_read"];

fn bandwidth(samples: &Samples) -> Plot {
    let limit = fastest(samples, "limit: fastest raw copy", &RAW_COPIES, 1e9);
    let lines = [
        ("RMA, write", "rma_write", false),
        ("RMA, read", "rma_read", false),
        ("messages, user level", "stream", false),
        ("messages, read and write", "file_stream", false),
        ("raw ivshmem, Linux guests", "linux_write", true),
        ("TCP, MTU 65535", "tcp65535_stream", true),
        ("TCP, MTU 1500", "tcp1500_stream", true),
    ];
    let lines = lines.map(|(name, test, dashed)| over_sizes(samples, name, test, 1e9, dashed));
    let lines = [vec![limit], lines.into()].concat();
    Plot {
        title: "Bandwidth against transfer size: median and quartiles",
        x: SIZE,
        y: Axis {
            label: "GB/s",
            scale: Scale::Linear,
            format: plain,
        },
        series: lines,
    }
}

fn percentiles(samples: &Samples) -> Plot {
    let lines = [
        ("limit: raw ping-pong, 8 B", "bare_pingpong", 8, true),
        ("mapped windows, 8 B", "pio_rtt", 8, false),
        ("message, polling, 64 B", "msg_rtt_poll", 64, false),
        ("message, sleeping, 64 B", "msg_rtt_block", 64, false),
        (
            "read and write, sleeping, 64 B",
            "msg_rtt_block_file",
            64,
            false,
        ),
        ("limit: two bare doorbells", "bare_doorbell", 8, true),
        ("TCP, MTU 65535, 64 B", "tcp65535_rtt", 64, true),
        ("TCP, MTU 1500, 64 B", "tcp1500_rtt", 64, true),
    ];
    let lines = lines.map(|(name, test, size, dashed)| {
        let mut line = series(name, Points::new(), dashed);
        let sample = samples.get(test, size).unwrap_or_default();
        let percentiles = [&sample.repetitions, &sample.p90, &sample.p99];
        for (place, values) in percentiles.into_iter().enumerate() {
            let place = place as f64;
            line.points
                .extend(median(values).map(|median| (place, median)));
            let quartiles = quartiles(values);
            line.quartiles.extend(quartiles.map(|pair| (place, pair)));
        }
        line
    });
    Plot {
        title: "Round trips: percentiles, median and quartiles of the repetitions of each",
        x: Axis {
            label: "share of the round trips that were at least so fast",
            scale: Scale::Names(&["50 %", "90 %", "99 %"]),
            format: plain,
        },
        y: Axis {
            label: "round trip",
            scale: Scale::Log(10.0),
            format: time,
        },
        series: lines.into(),
    }
}

fn messages(samples: &Samples) -> Plot {
    let lines = [
        ("user level, polling", "msg_rtt_poll", false),
        ("user level, sleeping", "msg_rtt_block", false),
        ("read and write, polling", "msg_rtt_poll_file", false),
        ("read and write, sleeping", "msg_rtt_block_file", false),
    ];
    let lines = lines.map(|(name, test, dashed)| over_sizes(samples, name, test, 1.0, dashed));
    Plot {
        title: "Round trips against message size: median and quartiles",
        x: SIZE,
        y: Axis {
            label: "round trip",
            scale: Scale::Log(10.0),
            format: time,
        },
        series: lines.into(),
    }
}

/// A plot of a cost that depends on how many objects of some kind there are.
struct Growth {
    file: &'static str,
    title: &'static str,
    /// The quantity that grows.
    of: &'static str,
    scale: Scale,
    /// The names of the curves, each with its test.
    curves: &'static [(&'static str, &'static str)],
}

/// One plot for each quantity that grows, because an axis cannot be shared between them.
const GROWTH: [Growth; 4] = [
    Growth {
        file: "growth-connections",
        title: "Cost against idle connections, as a ratio to the fewest: median and quartiles",
        of: "number of idle connections",
        scale: Scale::Log(10.0),
        curves: &[("round trip", "idle_rtt")],
    },
    Growth {
        file: "growth-windows",
        title: "Cost against windows, as a ratio to the fewest: median and quartiles",
        of: "number of windows",
        scale: Scale::Log(10.0),
        curves: &[
            ("round trip", "windows_rtt"),
            ("RMA of 4 KiB", "windows_rma"),
        ],
    },
    Growth {
        file: "growth-pages",
        title: "Cost against mapped pages, as a ratio to the fewest: median and quartiles",
        of: "number of mapped pages",
        scale: Scale::Log(10.0),
        curves: &[("round trip", "pages_rtt"), ("RMA of 4 KiB", "pages_rma")],
    },
    Growth {
        file: "growth-nodes",
        title: "Cost against nodes, as a ratio to the fewest: median and quartiles",
        of: "number of nodes",
        scale: Scale::Linear,
        curves: &[("round trip", "nodes_rtt")],
    },
];

/// Returns the curves of a plot. Each value is in yardsticks of its time, as a ratio to the first
/// point of its curve; a flat curve is the aim.
fn growth(samples: &Samples, what: &Growth) -> Plot {
    let curve = |(name, test): &(&str, &str)| {
        let sizes = samples.series(test).into_iter().map(|(size, _)| size);
        let mut line = series(name, Points::new(), false);
        for size in sizes {
            let yardsticks = relative(samples, test, size).unwrap_or_default();
            let place = size.max(1) as f64;
            line.points
                .extend(median(&yardsticks).map(|median| (place, median)));
            let quartiles = quartiles(&yardsticks);
            line.quartiles.extend(quartiles.map(|pair| (place, pair)));
        }
        let first = line.points.first().map_or(1.0, |(_, first)| *first);
        for (_, value) in &mut line.points {
            *value /= first;
        }
        for (_, pair) in &mut line.quartiles {
            *pair = pair.map(|value| value / first);
        }
        line
    };
    Plot {
        title: what.title,
        x: Axis {
            label: what.of,
            scale: what.scale,
            format: count,
        },
        y: Axis {
            label: "times the first",
            scale: Scale::Linear,
            format: plain,
        },
        series: what.curves.iter().map(curve).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::samples;

    #[test]
    fn every_plot_shows_what_was_measured() {
        let samples = samples(&[
            ("rma_read", 64, "bytes_per_s", 1e9),
            ("rma_read", 1 << 20, "bytes_per_s", 5e9),
            ("msg_rtt_poll", 64, "ns", 700.0),
            ("idle_rtt", 1, "ns", 700.0),
            ("idle_rtt_yard", 1, "ns", 100.0),
            ("idle_rtt", 1000, "ns", 1540.0),
            ("idle_rtt_yard", 1000, "ns", 200.0),
            ("nodes_rtt", 2, "ns", 300.0),
            ("nodes_rtt_yard", 2, "ns", 100.0),
        ]);
        let plots = plots(&samples);
        let find = |file: &str| &plots.iter().find(|named| named.file == file).unwrap().plot;
        let points = |file: &str, name: &str| {
            let series = &find(file).series;
            series
                .iter()
                .find(|line| line.name == name)
                .unwrap()
                .points
                .clone()
        };
        assert_eq!(
            points("bandwidth", "RMA, read"),
            [(64.0, 1.0), (1_048_576.0, 5.0)]
        );
        assert!(points("bandwidth", "RMA, write").is_empty());
        assert_eq!(
            points("growth-connections", "round trip"),
            [(1.0, 1.0), (1000.0, 1.1)]
        );
        assert_eq!(
            points("percentiles", "message, polling, 64 B"),
            [(0.0, 700.0)]
        );
        // Every point shows its spread.
        for named in plots.iter() {
            for line in &named.plot.series {
                let spread = line.quartiles.iter().map(|(place, _)| *place);
                let places = line.points.iter().map(|(place, _)| *place);
                assert!(spread.eq(places), "{}: {}", named.file, line.name);
            }
        }
        // Tests that were not measured have no plot.
        let shown = plots.iter().filter(|named| named.plot.render().is_some());
        let shown: Vec<_> = shown.map(|named| named.file).collect();
        let measured = ["bandwidth", "percentiles", "messages", "growth-connections"];
        assert_eq!(shown, [&measured[..], &["growth-nodes"]].concat());
    }

    #[test]
    fn the_limit_is_the_fastest_copy_of_each_size() {
        let samples = samples(&[
            ("bare_write", 64, "bytes_per_s", 1e9),
            ("linux_write", 64, "bytes_per_s", 3e9),
            ("bare_read", 4096, "bytes_per_s", 6e9),
            ("linux_read", 4096, "bytes_per_s", 5e9),
        ]);
        let plot = bandwidth(&samples);
        assert_eq!(plot.series[0].points, [(64.0, 3.0), (4096.0, 6.0)]);
        assert_eq!(plot.series[0].quartiles[0], (64.0, [3.0, 3.0]));
    }

    #[test]
    fn ticks_for_people() {
        assert_eq!(bytes(64.0), "64 B");
        assert_eq!(bytes(16384.0), "16 KiB");
        assert_eq!(bytes(67_108_864.0), "64 MiB");
        assert_eq!(plain(3.0 * 0.2), "0.6");
        assert_eq!(time(100.0), "100 ns");
        assert_eq!(time(1000.0), "1 µs");
        assert_eq!(time(10_000.0), "10 µs");
    }
}
