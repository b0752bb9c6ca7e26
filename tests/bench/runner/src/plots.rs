//! The plots of a run, from its results.

use crate::measures::relative;
use crate::numbers::absolute;
use crate::sample::{Samples, median, quartiles};
use crate::svg::{Axis, Plot, Scale, Series};

/// A plot's file name, without its end, and what it shows.
pub struct Named {
    /// Name of the file, without `.svg`.
    pub file: &'static str,
    /// The plot.
    pub plot: Plot,
}

/// A size in bytes for a tick.
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

/// A small number for a tick, without the dust of its arithmetic.
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

/// The medians of a test's repetitions over its sizes, with their quartiles; `unit` is how many of
/// the test's own unit make one of the plot.
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

/// All plots; one without results has no points.
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

fn bandwidth(samples: &Samples) -> Plot {
    let lines = [
        ("raw copy to the peer", "bare_write", true),
        ("RMA, write", "rma_write", false),
        ("RMA, read", "rma_read", false),
        ("messages, user level", "stream", false),
        ("messages, read and write", "file_stream", false),
        ("raw ivshmem, Linux guests", "linux_write", true),
        ("TCP, MTU 65535", "tcp65535_stream", true),
        ("TCP, MTU 1500", "tcp1500_stream", true),
    ];
    let lines = lines.map(|(name, test, dashed)| over_sizes(samples, name, test, 1e9, dashed));
    Plot {
        title: "Bandwidth against transfer size: median and quartiles",
        x: SIZE,
        y: Axis {
            label: "GB/s",
            scale: Scale::Linear,
            format: plain,
        },
        series: lines.into(),
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
        let values = samples
            .get(test, size)
            .map(|sample| [sample.median(), median(&sample.p90), median(&sample.p99)]);
        let points = values.into_iter().flatten().enumerate();
        let points = points.filter_map(|(index, value)| Some((index as f64, value?)));
        series(name, points.collect(), dashed)
    });
    Plot {
        title: "Round trips: percentiles",
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

/// A plot of what a cost is when there is more and more of something.
struct Growth {
    file: &'static str,
    title: &'static str,
    /// The quantity that grows.
    of: &'static str,
    scale: Scale,
    /// Names of the curves, each with its test.
    curves: &'static [(&'static str, &'static str)],
}

/// One plot for each thing that grows: a place on the axis of one means nothing for the others.
const GROWTH: [Growth; 4] = [
    Growth {
        file: "growth-connections",
        title: "Cost against idle connections, as a ratio to the fewest",
        of: "number of idle connections",
        scale: Scale::Log(10.0),
        curves: &[("round trip", "idle_rtt")],
    },
    Growth {
        file: "growth-windows",
        title: "Cost against windows, as a ratio to the fewest",
        of: "number of windows",
        scale: Scale::Log(10.0),
        curves: &[
            ("round trip", "windows_rtt"),
            ("RMA of 4 KiB", "windows_rma"),
        ],
    },
    Growth {
        file: "growth-pages",
        title: "Cost against mapped pages, as a ratio to the fewest",
        of: "number of mapped pages",
        scale: Scale::Log(10.0),
        curves: &[("round trip", "pages_rtt"), ("RMA of 4 KiB", "pages_rma")],
    },
    Growth {
        file: "growth-nodes",
        title: "Cost against nodes, as a ratio to the fewest",
        of: "number of nodes",
        scale: Scale::Linear,
        curves: &[("round trip", "nodes_rtt")],
    },
];

/// Each curve, in yardsticks of its time, as a ratio to its own first point: flat is what it should
/// be.
fn growth(samples: &Samples, what: &Growth) -> Plot {
    let curve = |(name, test): &(&str, &str)| {
        let sizes = samples.series(test).into_iter().map(|(size, _)| size);
        let points: Points = sizes
            .filter_map(|size| {
                let yardsticks = median(&relative(samples, test, size).ok()?)?;
                Some((size.max(1) as f64, yardsticks))
            })
            .collect();
        let first = points.first().map_or(1.0, |(_, first)| *first);
        let relative = points.into_iter().map(|(x, y)| (x, y / first));
        series(name, relative.collect(), false)
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
        // A quantity that was not measured has no plot.
        let shown = plots.iter().filter(|named| named.plot.render().is_some());
        let shown: Vec<_> = shown.map(|named| named.file).collect();
        let measured = ["bandwidth", "percentiles", "messages", "growth-connections"];
        assert_eq!(shown, [&measured[..], &["growth-nodes"]].concat());
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
