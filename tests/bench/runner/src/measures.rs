//! The measures with their goals: what is compared with what.

use crate::sample::{Sample, Samples, pairs};

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// The median of a test at a size.
    At(&'static str, u64),
    /// The least repetition of a test at a size: what it takes when nothing disturbs it.
    Least(&'static str, u64),
    /// The best of several: the shortest time, the highest rate.
    Best(&'static [(&'static str, u64)]),
    /// The worst of several: the longest time, the lowest rate.
    Worst(&'static [(&'static str, u64)]),
    /// The least size at which a test reaches half of its best rate, the largest of several tests.
    HalfPeak(&'static [&'static str]),
}

/// What our value is held against.
#[derive(Debug, Clone, Copy)]
pub enum Against {
    /// What the machine can do at most.
    Limit(Source),
    /// What a user would take instead.
    Peer(Source),
    /// The same with few of what grows: this size of the same test. Between the two lie seconds,
    /// so both are first divided by their yardsticks (see [`relative`]).
    Few(u64),
    /// Nothing: the goal is a value.
    Nothing,
}

/// How the ratio is made, and what it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Ours divided by the other must not exceed this.
    AtMost(f64),
    /// Ours divided by the other must reach this.
    AtLeast(f64),
    /// The other divided by ours must reach this: so many times faster (for times).
    TimesFaster(f64),
}

impl Goal {
    /// The number.
    pub fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) | Self::TimesFaster(value) => value,
        }
    }

    /// Which way it is meant.
    pub fn kind(self) -> &'static str {
        match self {
            Self::AtMost(_) => "at most",
            Self::AtLeast(_) | Self::TimesFaster(_) => "at least",
        }
    }

    /// The ratio of two positive values.
    pub fn ratio(self, ours: f64, other: f64) -> f64 {
        match self {
            Self::AtMost(_) | Self::AtLeast(_) => ours / other,
            Self::TimesFaster(_) => other / ours,
        }
    }

    /// Whether a ratio is good enough.
    pub fn met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) | Self::TimesFaster(least) => ratio >= least,
        }
    }
}

/// A measure of the table.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// Short name, in `results.json`.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Our value.
    pub ours: Source,
    /// What it is held against.
    pub against: Against,
    /// The goal.
    pub goal: Goal,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Two nodes that pass a word without SCIF.
const PING_PONG: Source = Source::At("bare_pingpong", 8);
/// Both packet sizes: the faster one counts.
const TCP_RTT: Source = Source::Best(&[("tcp1500_rtt", 64), ("tcp65535_rtt", 64)]);
/// The slower direction of ours against the faster message size of TCP.
const RMA_1M: Source = Source::Worst(&[("rma_read", MIB), ("rma_write", MIB)]);

const fn measure(
    name: &'static str,
    title: &'static str,
    ours: Source,
    against: Against,
    goal: Goal,
) -> Measure {
    Measure {
        name,
        title,
        ours,
        against,
        goal,
    }
}

/// All of them, in the order of the table.
pub const MEASURES: &[Measure] = &[
    measure(
        "pio_rtt_8",
        "8-byte round trip through mapped windows / raw ping-pong",
        Source::At("pio_rtt", 8),
        Against::Limit(PING_PONG),
        Goal::AtMost(1.05),
    ),
    // The limit of round trips can run in turn with ours only between our nodes. Linux guests,
    // which pass a word the same way at another time, show whether it is one.
    measure(
        "limit_pingpong",
        "check of that limit: its best / the best between Linux guests",
        Source::Least("bare_pingpong", 8),
        Against::Peer(Source::Least("linux_pingpong", 8)),
        Goal::AtMost(1.15),
    ),
    measure(
        "rma_1m_read",
        "RMA read, 1 MiB / best raw copy, same direction",
        Source::At("rma_read", MIB),
        Against::Limit(Source::At("bare_read", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "rma_1m_write",
        "RMA write, 1 MiB / best raw copy, same direction",
        Source::At("rma_write", MIB),
        Against::Limit(Source::At("bare_write", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "rma_16m_read",
        "RMA read, 16 MiB / best raw copy, same direction",
        Source::At("rma_read", 16 * MIB),
        Against::Limit(Source::At("bare_read", 16 * MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "rma_16m_write",
        "RMA write, 16 MiB / best raw copy, same direction",
        Source::At("rma_write", 16 * MIB),
        Against::Limit(Source::At("bare_write", 16 * MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "rma_64m_read",
        "RMA read, 64 MiB / best raw copy, same direction",
        Source::At("rma_read", 64 * MIB),
        Against::Limit(Source::At("bare_read", 64 * MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "rma_64m_write",
        "RMA write, 64 MiB / best raw copy, same direction",
        Source::At("rma_write", 64 * MIB),
        Against::Limit(Source::At("bare_write", 64 * MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "own_rma_1m_read",
        "RMA read, 1 MiB, pages of the programs' own / memory of SCIF's",
        Source::At("own_rma_read", MIB),
        Against::Limit(Source::At("rma_read", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "own_rma_1m_write",
        "RMA write, 1 MiB, pages of the programs' own / memory of SCIF's",
        Source::At("own_rma_write", MIB),
        Against::Limit(Source::At("rma_write", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "register_64",
        "registering 64 pages where they are / copying them to SCIF's memory for it",
        Source::At("own_register", 256 * KIB),
        Against::Peer(Source::At("copy_register", 256 * KIB)),
        Goal::AtMost(1.5),
    ),
    measure(
        "register_512",
        "registering 512 pages where they are / copying them to SCIF's memory for it",
        Source::At("own_register", 2 * MIB),
        Against::Peer(Source::At("copy_register", 2 * MIB)),
        Goal::AtMost(1.5),
    ),
    measure(
        "unregister_512",
        "unregistering them / unregistering and giving back the copy",
        Source::At("own_unregister", 2 * MIB),
        Against::Peer(Source::At("copy_unregister", 2 * MIB)),
        Goal::AtMost(1.5),
    ),
    measure(
        "half_peak_bytes",
        "transfer size that reaches half of peak bandwidth, bytes",
        Source::HalfPeak(&["rma_read", "rma_write"]),
        Against::Nothing,
        Goal::AtMost(16384.0),
    ),
    measure(
        "msg_rtt_64_poll",
        "64-byte message round trip, polling / raw ping-pong",
        Source::At("msg_rtt_poll", 64),
        Against::Limit(PING_PONG),
        Goal::AtMost(2.5),
    ),
    measure(
        "msg_rtt_64_poll_vs_tcp",
        "the same, times faster than TCP",
        Source::At("msg_rtt_poll", 64),
        Against::Peer(TCP_RTT),
        Goal::TimesFaster(300.0),
    ),
    measure(
        "msg_rtt_64_block",
        "64-byte round trip, both sleeping, times faster than TCP",
        Source::At("msg_rtt_block", 64),
        Against::Peer(TCP_RTT),
        Goal::TimesFaster(2.0),
    ),
    measure(
        "doorbell_rtt",
        "the same / two bare doorbells",
        Source::At("msg_rtt_block", 64),
        Against::Limit(Source::At("bare_doorbell", 8)),
        Goal::AtMost(1.5),
    ),
    measure(
        "echo_beside_own",
        "64-byte echo beside a thread that computes on the own node / without it",
        Source::At("echo_own", 64),
        Against::Limit(Source::At("echo_idle", 64)),
        Goal::AtMost(2.0),
    ),
    measure(
        "echo_beside_peer",
        "64-byte echo beside a thread that computes on the peer's node / without it",
        Source::At("echo_peer", 64),
        Against::Limit(Source::At("echo_idle", 64)),
        Goal::AtMost(2.0),
    ),
    measure(
        "echo_block_beside_own",
        "64-byte echo, sleeping, beside a thread that computes on the own node / without it",
        Source::At("echo_own_block", 64),
        Against::Limit(Source::At("echo_idle_block", 64)),
        Goal::AtMost(2.0),
    ),
    measure(
        "echo_block_beside_peer",
        "64-byte echo, sleeping, beside a thread that computes on the peer's node / without it",
        Source::At("echo_peer_block", 64),
        Against::Limit(Source::At("echo_idle_block", 64)),
        Goal::AtMost(2.0),
    ),
    measure(
        "register_beside_own",
        "registering 256 KiB beside a thread that computes on the own node / without it",
        Source::At("register_own", 256 * KIB),
        Against::Limit(Source::At("register_idle", 256 * KIB)),
        Goal::AtMost(2.0),
    ),
    measure(
        "register_beside_peer",
        "registering 256 KiB beside a thread that computes on the peer's node / without it",
        Source::At("register_peer", 256 * KIB),
        Against::Limit(Source::At("register_idle", 256 * KIB)),
        Goal::AtMost(2.0),
    ),
    measure(
        "rma_vs_tcp_1500",
        "RMA of 1 MiB / TCP stream, MTU 1500",
        RMA_1M,
        Against::Peer(Source::Best(&[
            ("tcp1500_stream", MIB),
            ("tcp1500_stream", 4 * MIB),
        ])),
        Goal::AtLeast(20.0),
    ),
    measure(
        "rma_vs_tcp_65535",
        "RMA of 1 MiB / TCP stream, MTU 65535",
        RMA_1M,
        Against::Peer(Source::Best(&[
            ("tcp65535_stream", MIB),
            ("tcp65535_stream", 4 * MIB),
        ])),
        Goal::AtLeast(14.0),
    ),
    measure(
        "stream_4k",
        "stream of 4 KiB messages / best raw copy of 4 KiB",
        Source::At("stream", 4 * KIB),
        Against::Limit(Source::Best(&[
            ("bare_read", 4 * KIB),
            ("bare_write", 4 * KIB),
        ])),
        Goal::AtLeast(0.5),
    ),
    measure(
        "file_stream_64k",
        "stream by read/write of 64 KiB / TCP, MTU 65535",
        Source::At("file_stream", 64 * KIB),
        Against::Peer(Source::At("tcp65535_stream", 64 * KIB)),
        Goal::AtLeast(2.0),
    ),
    measure(
        "idle_1000",
        "round trip with 1,000 idle connections / with 1",
        Source::At("idle_rtt", 1000),
        Against::Few(1),
        Goal::AtMost(1.1),
    ),
    measure(
        "st_rtt",
        "8 bytes by push and pull there and back / raw ping-pong",
        Source::At("st_rtt", 8),
        Against::Limit(PING_PONG),
        Goal::AtMost(3.0),
    ),
    measure(
        "st_put_rtt",
        "the same, each header after a put of 8 bytes / raw ping-pong",
        Source::At("st_put_rtt", 8),
        Against::Limit(PING_PONG),
        Goal::AtMost(4.0),
    ),
    measure(
        "st_rtt_block",
        "push and pull there and back, both sleeping / two bare doorbells",
        Source::At("st_rtt_block", 8),
        Against::Limit(Source::At("bare_doorbell", 8)),
        Goal::AtMost(1.5),
    ),
    measure(
        "st_rate",
        "headers of 32 bytes one way / messages of 32 bytes by scif_send",
        Source::At("st_stream", 32),
        Against::Limit(Source::At("stream", 32)),
        Goal::AtLeast(2.0),
    ),
    measure(
        "st_put_1m",
        "put of 1 MiB / best raw copy, same direction",
        Source::At("st_put", MIB),
        Against::Limit(Source::At("bare_write", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "st_get_1m",
        "get of 1 MiB / best raw copy, same direction",
        Source::At("st_get", MIB),
        Against::Limit(Source::At("bare_read", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "st_idle_1000",
        "push and pull with 1,000 idle connections / with 1",
        Source::At("st_idle_rtt", 1000),
        Against::Few(1),
        Goal::AtMost(1.1),
    ),
    measure(
        "loop_rma_1m",
        "loopback: RMA of 1 MiB / one local copy",
        Source::Worst(&[("loop_rma_read", MIB), ("loop_rma_write", MIB)]),
        Against::Limit(Source::At("loop_local_copy", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "loop_rtt_64",
        "loopback: 64-byte round trip / plain shared-memory ring",
        Source::At("loop_msg_rtt_poll", 64),
        Against::Limit(Source::At("loop_ring_rtt", 64)),
        Goal::AtMost(1.5),
    ),
    measure(
        "boot",
        "boot to shell / Linux guest to its first process",
        Source::At("boot_skiff", 0),
        Against::Peer(Source::At("boot_linux", 0)),
        Goal::AtMost(0.5),
    ),
    measure(
        "native_msg_rtt",
        "native: message round trip / raw ping-pong",
        Source::At("native_msg_rtt", 64),
        Against::Limit(Source::At("native_pingpong", 8)),
        Goal::AtMost(1.5),
    ),
    measure(
        "native_client",
        "native: message round trip by the client library / by the ring protocol alone",
        Source::At("native_msg_rtt", 64),
        Against::Limit(Source::At("native_ring_rtt", 64)),
        Goal::AtMost(1.2),
    ),
    measure(
        "native_rma_64k",
        "native: RMA of 64 KiB / memcpy",
        Source::Worst(&[("native_rma", 64 * KIB), ("native_rma_read", 64 * KIB)]),
        Against::Limit(Source::At("native_memcpy", 64 * KIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "native_rma_1m",
        "native: RMA of 1 MiB / memcpy",
        Source::Worst(&[("native_rma", MIB), ("native_rma_read", MIB)]),
        Against::Limit(Source::At("native_memcpy", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "native_rma_64m",
        "native: RMA of 64 MiB / memcpy",
        Source::Worst(&[("native_rma", 64 * MIB), ("native_rma_read", 64 * MIB)]),
        Against::Limit(Source::At("native_memcpy", 64 * MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "native_vs_unix",
        "native: message round trip, times faster than a UNIX socket",
        Source::At("native_msg_rtt", 64),
        Against::Peer(Source::At("native_unix_rtt", 64)),
        Goal::TimesFaster(100.0),
    ),
    measure(
        "native_vs_pipe",
        "native: message round trip, times faster than a pipe",
        Source::At("native_msg_rtt", 64),
        Against::Peer(Source::At("native_pipe_rtt", 64)),
        Goal::TimesFaster(100.0),
    ),
    measure(
        "native_stream_4k",
        "native: stream of 4 KiB messages / best of UNIX socket and pipe",
        Source::At("native_stream", 4 * KIB),
        Against::Peer(Source::Best(&[
            ("native_unix_stream", 4 * KIB),
            ("native_pipe_stream", 4 * KIB),
        ])),
        Goal::AtLeast(1.0),
    ),
    measure(
        "native_st_rtt",
        "native: 8 bytes by push and pull there and back / raw ping-pong",
        Source::At("native_st_rtt", 8),
        Against::Limit(Source::At("native_pingpong", 8)),
        Goal::AtMost(1.2),
    ),
    measure(
        "native_st_put_rtt",
        "native: the same, each header after a put of 8 bytes / raw ping-pong",
        Source::At("native_st_put_rtt", 8),
        Against::Limit(Source::At("native_pingpong", 8)),
        Goal::AtMost(1.6),
    ),
    measure(
        "native_st_rate",
        "native: headers of 32 bytes one way / messages of 32 bytes by scif_send",
        Source::At("native_st_stream", 32),
        Against::Limit(Source::At("native_stream", 32)),
        Goal::AtLeast(2.0),
    ),
    measure(
        "native_st_put_1m",
        "native: put of 1 MiB / memcpy",
        Source::At("native_st_put", MIB),
        Against::Limit(Source::At("native_memcpy", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "native_st_get_1m",
        "native: get of 1 MiB / memcpy",
        Source::At("native_st_get", MIB),
        Against::Limit(Source::At("native_memcpy", MIB)),
        Goal::AtLeast(0.95),
    ),
    measure(
        "native_base_stream",
        "native: stream by the drivers to a 4 KiB ring of a base peer / between nodes of ours",
        Source::At("native_base_stream", 4095),
        Against::Limit(Source::At("native_engine_stream", 4095)),
        Goal::AtLeast(0.1),
    ),
];

/// A value with where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The median.
    pub median: f64,
    /// What it counts.
    pub unit: String,
    /// All repetitions; none when the value is no median of them.
    pub sample: Sample,
}

impl Source {
    /// The value, or why there is none.
    pub fn value(&self, samples: &Samples) -> Result<Value, String> {
        match self {
            Self::At(test, size) => at(samples, test, *size),
            Self::Least(test, size) => {
                let value = at(samples, test, *size)?;
                let least = value.sample.least();
                let median = least.median().ok_or("nothing was measured")?;
                Ok(Value {
                    median,
                    sample: least,
                    ..value
                })
            }
            Self::Best(places) => extreme(samples, places, true),
            Self::Worst(places) => extreme(samples, places, false),
            Self::HalfPeak(tests) => half_peak(samples, tests),
        }
    }
}

fn at(samples: &Samples, test: &str, size: u64) -> Result<Value, String> {
    let found = samples.get(test, size).and_then(|sample| {
        Some(Value {
            median: sample.median()?,
            unit: sample.unit.clone(),
            sample,
        })
    });
    found.ok_or_else(|| samples.why_not(test, size))
}

/// The best or the worst of several. All must have been measured: a missing one could be it.
fn extreme(samples: &Samples, places: &[(&str, u64)], best: bool) -> Result<Value, String> {
    let mut chosen: Option<Value> = None;
    for (test, size) in places {
        let value = at(samples, test, *size)?;
        let higher_is_better = value.unit != "ns";
        let better = |old: &Value| (value.median > old.median) == (higher_is_better == best);
        if chosen.as_ref().is_none_or(better) {
            chosen = Some(value);
        }
    }
    chosen.ok_or_else(|| "nothing to choose from".to_string())
}

fn half_peak(samples: &Samples, tests: &[&str]) -> Result<Value, String> {
    let mut largest: Option<u64> = None;
    for test in tests {
        let series: Vec<_> = samples
            .series(test)
            .into_iter()
            .filter_map(|(size, sample)| Some((size, sample.median()?)))
            .collect();
        let peak = series.iter().map(|(_, rate)| *rate).reduce(f64::max);
        let peak = peak.ok_or_else(|| format!("{test} was not measured"))?;
        let first = series.iter().find(|(_, rate)| *rate >= peak / 2.0);
        largest = largest.max(first.map(|(size, _)| *size));
    }
    let size = largest.ok_or_else(|| "nothing was measured".to_string())?;
    Ok(Value {
        median: size as f64,
        unit: "bytes".to_string(),
        sample: Sample::default(),
    })
}

/// How many times its yardstick each repetition of a test of what grows took. The yardstick (the
/// test `…_yard`) runs in turn with it and cannot depend on what grows: it takes the machine's
/// changing speed out.
pub fn relative(samples: &Samples, test: &str, size: u64) -> Result<Vec<f64>, String> {
    let of = |test: &str| {
        let sample = samples.get(test, size);
        sample.ok_or_else(|| samples.why_not(test, size))
    };
    let (_, pairs) = pairs(&of(test)?, &of(&format!("{test}_yard"))?);
    match pairs.is_empty() {
        true => Err(format!(
            "{test} of {size} was not measured with its yardstick"
        )),
        false => Ok(pairs.iter().map(|(value, yard)| value / yard).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::samples;

    #[test]
    fn names_are_unique_and_goals_positive() {
        let mut names: Vec<_> = MEASURES.iter().map(|measure| measure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MEASURES.len());
        assert!(MEASURES.iter().all(|measure| measure.goal.value() > 0.0));
    }

    #[test]
    fn goals() {
        assert!(Goal::AtMost(1.05).met(1.05) && !Goal::AtMost(1.05).met(1.06));
        assert!(Goal::AtLeast(0.95).met(0.95) && !Goal::AtLeast(0.95).met(0.94));
        assert_eq!(Goal::AtLeast(20.0).ratio(40.0, 2.0), 20.0);
        assert_eq!(Goal::TimesFaster(300.0).ratio(2.0, 800.0), 400.0);
        assert!(Goal::TimesFaster(300.0).met(400.0) && !Goal::TimesFaster(300.0).met(200.0));
    }

    #[test]
    fn the_best_time_is_short_and_the_best_rate_high() {
        let samples = samples(&[
            ("a", 1, "ns", 10.0),
            ("b", 1, "ns", 20.0),
            ("c", 1, "bytes_per_s", 10.0),
            ("d", 1, "bytes_per_s", 20.0),
        ]);
        let value = |source: Source| source.value(&samples).unwrap().median;
        assert_eq!(value(Source::Best(&[("a", 1), ("b", 1)])), 10.0);
        assert_eq!(value(Source::Worst(&[("a", 1), ("b", 1)])), 20.0);
        assert_eq!(value(Source::Best(&[("c", 1), ("d", 1)])), 20.0);
        assert_eq!(value(Source::Worst(&[("d", 1), ("c", 1)])), 10.0);
    }

    #[test]
    fn the_least_repetition_stands_alone() {
        let mut samples = samples(&[("a", 1, "ns", 30.0)]);
        samples.begin(7);
        let line = r#"{"test":"a","size":1,"unit":"ns","repetitions":[20,10,40]}"#;
        samples.take("", line);
        let value = Source::Least("a", 1).value(&samples).unwrap();
        assert_eq!((value.median, value.sample.repetitions), (10.0, vec![10.0]));
    }

    #[test]
    fn a_missing_one_of_several_is_an_error() {
        let samples = samples(&[("a", 1, "ns", 10.0)]);
        let error = Source::Best(&[("a", 1), ("b", 1)]).value(&samples);
        assert_eq!(error.unwrap_err(), "b of 1 was not measured");
    }

    #[test]
    fn half_of_the_peak() {
        let rates = [(64, 1.0), (4096, 4.0), (16384, 6.0), (1 << 20, 10.0)];
        let mut lines: Vec<_> = rates
            .iter()
            .map(|(size, rate)| ("read", *size, "bytes_per_s", *rate))
            .collect();
        lines.push(("write", 64, "bytes_per_s", 9.0));
        let samples = samples(&lines);
        let value = |tests| Source::HalfPeak(tests).value(&samples);
        assert_eq!(value(&["read", "write"]).unwrap().median, 16384.0);
        assert_eq!(value(&["write"]).unwrap().median, 64.0);
        assert!(value(&["none"]).is_err());
    }
}
