//! The results: one entry for each measure, as a table and as `results.json`.

use crate::measures::{Against, Measure, Source, Value, Verdict, relative};
use crate::noise::Noise;
use crate::numbers::{absolute, digits};
use crate::sample::{Neighbours, Sample, Samples, median, pairs, quartiles};
use crate::table::MEASURES;
use harness::base::report::Context;
use serde::Serialize;

/// An entry of `results.json` for one measure. Times are in nanoseconds, rates in bytes per
/// second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The short name of the measure.
    pub name: &'static str,
    /// The title of the measure.
    pub title: &'static str,
    /// The unit of `ours`, `limit` and `peer`: `ns`, `bytes_per_s` or `bytes`.
    pub unit: String,
    /// The median of our value.
    pub ours: Option<f64>,
    /// The median of the machine's limit.
    pub limit: Option<f64>,
    /// The median of the system that a user would use instead.
    pub peer: Option<f64>,
    /// The median of the ratios of neighbours: of ours to the other value, or of the other to ours
    /// where the goal is "times faster".
    pub ratio: Option<f64>,
    /// The lower and the upper quartile of these ratios.
    pub ratio_spread: Option<[f64; 2]>,
    /// The number of ratios, or of values if there is nothing to compare with.
    pub pairs: usize,
    /// Whether the neighbours followed each other, or were only in the same boot.
    pub neighbours: Option<Neighbours>,
    /// The number of the goal.
    pub goal: f64,
    /// `at most` or `at least`.
    pub goal_is: &'static str,
    /// Whether the quartiles of the ratios meet the goal; `None` if there is no ratio.
    pub verdict: Option<Verdict>,
    /// The number of repetitions of our value and of the other one.
    pub repetitions: Vec<usize>,
    /// The least and the largest repetition of our value and of the other one.
    pub spread: Vec<[f64; 2]>,
    /// The reason why there is no ratio.
    pub error: Option<String>,
}

/// Where and how the results were taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The day in UTC.
    pub date: String,
    /// The processor, the number of cores and the system.
    pub machine: String,
    /// The version of QEMU, and how it was called.
    pub emulator: String,
    /// The version of the Linux kernel of the peers.
    pub linux: String,
    /// The commit of the sources.
    pub commit: String,
    /// The number of boots of each measure.
    pub boots: u64,
    /// Whether this was only a smoke run.
    pub quick: bool,
    /// How much the machine disturbed the run.
    pub noise: Noise,
}

/// Fewest ratios, or values, for a verdict by their quartiles. The quartiles of fewer are just the
/// least and the largest one, or a single one.
const LEAST_PAIRS: usize = 3;

/// The ratios of a measure, one for each pair of neighbours, and the medians of both values.
struct Ratios {
    neighbours: Neighbours,
    ratios: Vec<f64>,
    quartiles: Option<[f64; 2]>,
    ours: Option<f64>,
    other: Option<f64>,
}

/// Computes the ratios of our value to the other, each to its neighbour.
fn ratios(measure: &Measure, ours: &Value, other: &Value) -> Result<Ratios, String> {
    let (neighbours, pairs) = pairs(&ours.sample, &other.sample);
    if pairs.is_empty() {
        return Err("the two were never measured in the same boot".to_string());
    }
    let (of_ours, of_other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ratio = |(ours, other): &(f64, f64)| measure.goal.ratio(*ours, *other);
    let ratios: Vec<f64> = pairs.iter().map(ratio).collect();
    Ok(Ratios {
        neighbours,
        quartiles: quartiles(&ratios),
        ratios,
        ours: median(&of_ours),
        other: median(&of_other),
    })
}

/// Computes the ratios of many to few, each in yardsticks of its time. `Few` is only for values at
/// a size.
fn grown(measure: &Measure, few: u64, samples: &Samples) -> Result<Ratios, String> {
    let Source::At(test, many) = measure.ours else {
        return Err("only a test at a size can be compared with fewer".to_string());
    };
    let few = relative(samples, test, few)?;
    let base = median(&few).ok_or("nothing was measured")?;
    let many = relative(samples, test, many)?;
    // The values of few vary as well, so the quartiles are those of each of the many with each of
    // the few.
    let each = many
        .iter()
        .flat_map(|many| few.iter().map(move |few| (*many, *few)));
    let all: Vec<f64> = each
        .map(|(many, few)| measure.goal.ratio(many, few))
        .collect();
    Ok(Ratios {
        neighbours: Neighbours::Turns,
        quartiles: quartiles(&all),
        ratios: many
            .iter()
            .map(|many| measure.goal.ratio(*many, base))
            .collect(),
        ours: None,
        other: None,
    })
}

/// Computes the entry of a measure.
fn entry(measure: &Measure, samples: &Samples) -> Entry {
    let ours = measure.ours.value(samples);
    let (other, is_limit) = match (measure.against, measure.ours) {
        (Against::Limit(source), _) => (Some(source.value(samples)), true),
        (Against::Peer(source), _) => (Some(source.value(samples)), false),
        (Against::Few(few), Source::At(test, _)) => {
            (Some(Source::At(test, few).value(samples)), true)
        }
        (Against::Few(_) | Against::Nothing, _) => (None, false),
    };
    let found = match (&ours, &other, measure.against) {
        (Ok(_), Some(Ok(_)), Against::Few(few)) => Some(grown(measure, few, samples)),
        (Ok(ours), Some(Ok(other)), _) => Some(ratios(measure, ours, other)),
        _ => None,
    };
    let mut errors = Vec::new();
    let mut keep = |value: Result<Value, String>| value.map_err(|error| errors.push(error)).ok();
    let (ours, other) = (keep(ours), other.and_then(&mut keep));
    let found = found.and_then(|found| found.map_err(|error| errors.push(error)).ok());
    let ratio = match (&found, &ours, measure.against) {
        (Some(found), ..) => median(&found.ratios),
        (None, Some(ours), Against::Nothing) => Some(ours.median),
        _ => None,
    };
    let (spread, count) = match (&found, &ours, measure.against) {
        (Some(found), ..) => (found.quartiles, found.ratios.len()),
        (None, Some(ours), Against::Nothing) => {
            let values = &ours.sample.repetitions;
            (quartiles(values), values.len())
        }
        _ => (None, 0),
    };
    let verdict = match (ratio, spread) {
        (Some(_), Some(spread)) if count >= LEAST_PAIRS => Some(measure.goal.verdict(spread)),
        (Some(_), Some(_)) => Some(Verdict::Undecided),
        // A counted value, which does not vary.
        (Some(ratio), None) => Some(measure.goal.verdict([ratio, ratio])),
        (None, _) => None,
    };
    // The values shown beside a ratio are those from which it was computed.
    let paired = |value: fn(&Ratios) -> Option<f64>| found.as_ref().and_then(value);
    let all = |value: &Option<Value>| value.as_ref().map(|value| value.median);
    let shown = paired(|found| found.other).or(all(&other));
    let samples = || ours.iter().chain(&other).map(|value| &value.sample);
    Entry {
        name: measure.name,
        title: measure.title,
        unit: ours
            .iter()
            .chain(&other)
            .next()
            .map(|value| value.unit.clone())
            .unwrap_or_default(),
        ours: paired(|found| found.ours).or(all(&ours)),
        limit: shown.filter(|_| is_limit),
        peer: shown.filter(|_| !is_limit),
        ratio,
        ratio_spread: spread,
        pairs: count,
        neighbours: found.as_ref().map(|found| found.neighbours),
        goal: measure.goal.value(),
        goal_is: measure.goal.kind(),
        verdict,
        repetitions: samples()
            .map(|sample| sample.repetitions.len())
            .filter(|count| *count > 0)
            .collect(),
        spread: samples().filter_map(Sample::spread).collect(),
        error: (!errors.is_empty()).then(|| errors.join("; ")),
    }
}

/// Computes the entries of all measures.
pub fn entries(samples: &Samples) -> Vec<Entry> {
    MEASURES
        .iter()
        .map(|measure| entry(measure, samples))
        .collect()
}

/// A raw result in `results.json`.
#[derive(Serialize)]
struct Raw<'a> {
    test: &'a str,
    size: u64,
    routine: &'a str,
    median: Option<f64>,
    spread: Option<[f64; 2]>,
    #[serde(flatten)]
    sample: Sample,
}

#[derive(Serialize)]
struct Failed<'a> {
    what: String,
    error: &'a str,
}

#[derive(Serialize)]
struct Document<'a> {
    setting: &'a Setting,
    measures: &'a [Entry],
    errors: Vec<Failed<'a>>,
    samples: Vec<Raw<'a>>,
}

/// Returns the text of `results.json`. `failures` are the steps that failed, with the reason.
pub fn json(
    setting: &Setting,
    entries: &[Entry],
    samples: &Samples,
    failures: &[(String, String)],
) -> harness::base::report::Result<String> {
    let steps = failures.iter().map(|(what, error)| Failed {
        what: what.clone(),
        error,
    });
    let tests = samples.errors().map(|((test, size), error)| Failed {
        what: format!("{test} of {size}"),
        error,
    });
    let raw = samples.iter().map(|((test, size), routine, sample)| Raw {
        test,
        size: *size,
        routine,
        median: sample.median(),
        spread: sample.spread(),
        sample,
    });
    let document = Document {
        setting,
        measures: entries,
        errors: steps.chain(tests).collect(),
        samples: raw.collect(),
    };
    let text = serde_json::to_string_pretty(&document);
    text.context(|| "write the results as JSON".to_string())
        .map(|text| text + "\n")
}

/// Returns the rows of the table: title, ratio, quartiles of the ratios, goal, whether it is met,
/// our value, the other value.
pub fn rows(entries: &[Entry]) -> Vec<[String; 7]> {
    let row = |entry: &Entry| {
        let show = |value: Option<f64>| match value {
            Some(value) => absolute(value, &entry.unit),
            None => "–".to_string(),
        };
        let verdict = match entry.verdict {
            Some(Verdict::Met) => "met",
            Some(Verdict::Missed) => "MISSED",
            Some(Verdict::Undecided) => "undecided",
            None => "NOT MEASURED",
        };
        let ratio = entry.ratio.map_or("–".to_string(), |ratio| {
            if entry.unit == "bytes" {
                format!("{ratio:.0}")
            } else {
                digits(ratio)
            }
        });
        [
            entry.title.to_string(),
            ratio,
            entry
                .ratio_spread
                .map_or("–".to_string(), |[lower, upper]| {
                    format!("{} to {}", digits(lower), digits(upper))
                }),
            format!("{} {}", entry.goal_is, entry.goal),
            verdict.to_string(),
            show(entry.ours),
            show(entry.limit.or(entry.peer)),
        ]
    };
    entries.iter().map(row).collect()
}

/// Returns in words how many entries have each verdict.
pub fn counts(entries: &[Entry]) -> String {
    let count = |verdict: Option<Verdict>| {
        let such = entries.iter().filter(|entry| entry.verdict == verdict);
        such.count()
    };
    format!(
        "{} met, {} missed, {} undecided, {} not measured",
        count(Some(Verdict::Met)),
        count(Some(Verdict::Missed)),
        count(Some(Verdict::Undecided)),
        count(None)
    )
}

/// The heads of the columns of [`rows`].
pub const HEADS: [&str; 7] = [
    "measure",
    "ratio",
    "half of them",
    "goal",
    "",
    "ours",
    "other",
];

/// Returns the table for a terminal.
pub fn table(entries: &[Entry]) -> String {
    let mut rows = rows(entries);
    rows.insert(0, HEADS.map(str::to_string));
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            // Words are aligned to the left, numbers to the right.
            let cell = match column {
                0 | 3 | 4 => format!("{cell}{padding}  "),
                _ => format!("{padding}{cell}  "),
            };
            line.push_str(&cell);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for entry in entries {
        if let Some(error) = &entry.error {
            text.push_str(&format!("{}: {error}\n", entry.name));
        }
    }
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::sample::tests::samples;

    /// Makes a setting for tests.
    pub fn setting() -> Setting {
        Setting {
            date: "2000-01-01".to_string(),
            machine: "m".to_string(),
            emulator: "e".to_string(),
            linux: "l".to_string(),
            commit: "c".to_string(),
            boots: 3,
            quick: false,
            noise: Noise::default(),
        }
    }

    fn found<'a>(entries: &'a [Entry], name: &str) -> &'a Entry {
        entries.iter().find(|entry| entry.name == name).unwrap()
    }

    #[test]
    fn a_measure_is_compared_with_its_limit_or_its_peer() {
        let samples = samples(&[
            ("pio_rtt", 8, "ns", 330.0),
            ("bare_pingpong", 8, "ns", 300.0),
            ("msg_rtt_poll", 64, "ns", 1000.0),
            ("tcp1500_rtt", 64, "ns", 400_000.0),
            ("tcp65535_rtt", 64, "ns", 350_000.0),
            ("linux_pingpong", 8, "ns", 240.0),
        ]);
        let entries = entries(&samples);
        let pio = found(&entries, "pio_rtt_8");
        // A single pair has no quartiles.
        let undecided = Some(Verdict::Undecided);
        assert_eq!((pio.ratio, pio.verdict), (Some(1.1), undecided));
        assert_eq!((pio.limit, pio.peer), (Some(300.0), None));
        assert_eq!(pio.spread, [[330.0, 330.0], [300.0, 300.0]]);
        let check = found(&entries, "limit_pingpong");
        assert_eq!((check.ratio, check.verdict), (Some(1.25), undecided));
        let tcp = found(&entries, "msg_rtt_64_poll_vs_tcp");
        assert_eq!((tcp.ratio, tcp.verdict), (Some(350.0), undecided));
        assert_eq!((tcp.limit, tcp.peer), (None, Some(350_000.0)));
    }

    #[test]
    fn what_was_not_measured_is_an_entry_with_its_reason() {
        let entries = entries(&samples(&[("pio_rtt", 8, "ns", 330.0)]));
        assert_eq!(entries.len(), MEASURES.len());
        let pio = found(&entries, "pio_rtt_8");
        assert_eq!(
            (pio.ours, pio.ratio, pio.verdict),
            (Some(330.0), None, None)
        );
        let error = pio.error.as_deref();
        assert_eq!(error, Some("bare_pingpong of 8 was not measured"));
        assert_eq!((pio.pairs, pio.neighbours), (0, None));
        let both = found(&entries, "boot").error.clone().unwrap();
        assert_eq!(both.matches("was not measured").count(), 2);
        assert!(table(&entries).contains("NOT MEASURED"));
    }

    #[test]
    fn the_ratio_is_the_median_of_those_of_neighbours() {
        let mut samples = Samples::default();
        let line = |test: &str, repetitions: &[f64]| {
            format!(
                "{{\"test\":\"{test}\",\"size\":8,\"unit\":\"ns\",\"turns\":\"t\",\
                 \"repetitions\":{repetitions:?}}}"
            )
        };
        // The machine slows down and gets fast again; the medians alone would give the ratio 2.
        samples.take("", &line("pio_rtt", &[100.0, 220.0, 330.0, 440.0, 220.0]));
        samples.take(
            "",
            &line("bare_pingpong", &[100.0, 200.0, 300.0, 400.0, 100.0]),
        );
        samples.take("", &line("linux_pingpong", &[500.0]));
        let entries = entries(&samples);
        let pio = found(&entries, "pio_rtt_8");
        assert!((pio.ratio.unwrap() - 1.1).abs() < 1e-9);
        let [lower, upper] = pio.ratio_spread.unwrap();
        assert!((lower - 1.1).abs() < 1e-9 && (upper - 1.1).abs() < 1e-9);
        assert_eq!((pio.pairs, pio.neighbours), (5, Some(Neighbours::Turns)));
        assert_eq!((pio.ours, pio.limit), (Some(220.0), Some(200.0)));
        assert_eq!(pio.verdict, Some(Verdict::Missed));
        assert_eq!(pio.repetitions, [5, 5]);
    }

    #[test]
    fn a_median_on_the_right_side_is_not_enough() {
        let verdict = |repetitions: &str| {
            let mut samples = Samples::default();
            for (test, repetitions) in [("pio_rtt", repetitions), ("bare_pingpong", "[10,10,10]")] {
                let line = format!(
                    "{{\"test\":\"{test}\",\"size\":8,\"unit\":\"ns\",\"turns\":\"t\",\
                     \"repetitions\":{repetitions}}}"
                );
                samples.take("", &line);
            }
            let entries = entries(&samples);
            let pio = found(&entries, "pio_rtt_8");
            (pio.ratio, pio.verdict)
        };
        let ratio = Some(1.0);
        assert_eq!(verdict("[9,10,10.4]"), (ratio, Some(Verdict::Met)));
        assert_eq!(verdict("[9,10,10.6]"), (ratio, Some(Verdict::Undecided)));
        assert_eq!(verdict("[11,11,12]").1, Some(Verdict::Missed));
    }

    #[test]
    fn a_value_without_another_has_quartiles_too() {
        let mut samples = Samples::default();
        let line = |values: &str| {
            format!(
                "{{\"test\":\"idle_memory\",\"size\":1000,\"unit\":\"bytes\",\
                 \"repetitions\":{values}}}"
            )
        };
        samples.take("", &line("[20000,20000,30000]"));
        let found = |samples: &Samples| {
            let entries = entries(samples);
            let memory = found(&entries, "idle_memory").clone();
            (
                memory.ratio,
                memory.ratio_spread,
                memory.pairs,
                memory.verdict,
            )
        };
        let spread = Some([20_000.0, 30_000.0]);
        let undecided = (Some(20_000.0), spread, 3, Some(Verdict::Undecided));
        assert_eq!(found(&samples), undecided);
    }

    #[test]
    fn growth_shows_the_spread_of_the_few_and_of_the_many() {
        let mut samples = Samples::default();
        for (test, size, repetitions) in [
            ("idle_rtt", 1, "[8,10,12]"),
            ("idle_rtt_yard", 1, "[1,1,1]"),
            ("idle_rtt", 1000, "[10,10,10]"),
            ("idle_rtt_yard", 1000, "[1,1,1]"),
        ] {
            let line = format!(
                "{{\"test\":\"{test}\",\"size\":{size},\"unit\":\"ns\",\"turns\":\"t {size}\",\
                 \"repetitions\":{repetitions}}}"
            );
            samples.take("", &line);
        }
        let entries = entries(&samples);
        let idle = found(&entries, "idle_1000");
        assert_eq!((idle.ratio, idle.pairs), (Some(1.0), 3));
        assert_eq!(idle.ratio_spread, Some([10.0 / 12.0, 1.25]));
        assert_eq!(idle.verdict, Some(Verdict::Undecided));
    }

    #[test]
    fn growth_is_counted_in_yardsticks() {
        let mut samples = Samples::default();
        // With 1,000 the machine is half as fast, and a round trip costs a fifth more in
        // yardsticks.
        for (test, size, value) in [
            ("idle_rtt", 1, 1000.0),
            ("idle_rtt_yard", 1, 100.0),
            ("idle_rtt", 1000, 2400.0),
            ("idle_rtt_yard", 1000, 200.0),
        ] {
            let line = format!(
                "{{\"test\":\"{test}\",\"size\":{size},\"unit\":\"ns\",\"p50\":{value},\
                 \"turns\":\"idle_rtt {size}\"}}"
            );
            samples.take("", &line);
        }
        let entries = entries(&samples);
        let idle = found(&entries, "idle_1000");
        assert!((idle.ratio.unwrap() - 1.2).abs() < 1e-9, "{idle:?}");
        assert_eq!((idle.ours, idle.limit), (Some(2400.0), Some(1000.0)));
    }

    #[test]
    fn json_reads_back() {
        let samples = samples(&[
            ("pio_rtt", 8, "ns", 300.0),
            ("bare_pingpong", 8, "ns", 300.0),
            ("linux_pingpong", 8, "ns", 240.0),
        ]);
        let entries = entries(&samples);
        let failures = [("step".to_string(), "reason".to_string())];
        let text = json(&setting(), &entries, &samples, &failures).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["measures"][0]["name"], "pio_rtt_8");
        assert_eq!(value["measures"][0]["verdict"], "undecided");
        assert!(value["setting"]["noise"]["limits"].is_array());
        assert_eq!(value["measures"][0]["neighbours"], "boots");
        assert_eq!(value["measures"][0]["ratio"], 1.0);
        assert!(value["measures"][2]["error"].is_string());
        assert_eq!(value["errors"][0]["error"], "reason");
        assert_eq!(value["samples"][0]["test"], "bare_pingpong");
        assert_eq!(value["samples"][0]["repetitions"][0], 300.0);
        assert_eq!(value["setting"]["boots"], 3);
    }

    #[test]
    fn the_table_is_aligned() {
        let samples = samples(&[
            ("pio_rtt", 8, "ns", 330.0),
            ("bare_pingpong", 8, "ns", 300.0),
            ("linux_pingpong", 8, "ns", 240.0),
        ]);
        let text = table(&entries(&samples));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("measure "));
        assert!(lines[1].contains("1.10  1.10 to 1.10  at most 1.05"));
        assert!(lines[1].contains("undecided"));
        let column = |line: &str| line.find("at most").map(|at| line[..at].chars().count());
        let columns: Vec<_> = lines.iter().filter_map(|line| column(line)).collect();
        assert!(columns.len() > 1 && columns.iter().all(|at| *at == columns[0]));
    }
}
