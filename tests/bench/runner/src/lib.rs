//! `bench`: measures Skiff's paths, the limits of the machine and what a user would use instead,
//! in one run on the same machine, and shows the ratios.
//!
//! The run is a list of steps. Each is a boot of guests or a program on this machine, repeated so
//! that every comparison sees the same hour. A step that fails is reported, and the measures that
//! need it become entries with an error; the command then fails, and the page of the documentation
//! stays as it was. A step that records nothing has failed, too. A missed goal is no failure.

mod cpio;
mod linux;
mod measures;
pub mod native;
mod nodes;
mod noise;
mod numbers;
mod page;
mod plots;
mod results;
mod sample;
mod setting;
mod step;
mod svg;
mod table;

use harness::base::config::{self, Node};
use harness::base::packages;
use harness::base::report::{Context, Failure, Result};
use harness::base::settings::{Purpose, Settings};
use harness::base::workspace::{self, Place};
use harness::node::image::{Builder, Contents, Image};
use linux::{Kind, Linux};
use noise::{Noise, Taken, Times};
use results::{Entry, Setting};
use sample::{Line, Samples};
use std::time::Instant;
use step::Step;

/// The page of the documentation, and the directory of its plots.
const PAGE: &str = "performance.md";
const PLOTS: &str = "performance";
/// Number of boots of every step unless REPS= says otherwise.
const BOOTS: u64 = 3;

/// Measures that a smoke run leaves out, because so many objects take too long to make.
const FULL_ONLY: [&str; 4] = [
    "idle_4000",
    "windows_100000",
    "windows_rma_100000",
    "window_memory",
];

/// The reason why a step cannot boot our nodes. An image is built for each step that does.
const NO_IMAGE: &str = "no image was built";

/// Everything that the steps use.
struct Bench<'a> {
    settings: &'a Settings,
    quick: bool,
    node: Node,
    /// The image that users get, if a step boots it.
    product: Option<Box<dyn Image>>,
    /// The image with test programs, if a step boots it.
    image: Option<Box<dyn Image>>,
    /// The Linux guests that measure TCP, if a step boots them.
    linux: Option<Linux>,
    /// The Linux guests that measure RDMA verbs, if a step boots them.
    rdma: Option<Linux>,
    samples: Samples,
    /// The processor time that other programs and machines took in each step.
    taken: Vec<Taken>,
    /// The steps that failed, with the reason.
    failures: Vec<(String, String)>,
}

/// Runs the command.
pub fn command(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    let start = Instant::now();
    let boots = settings.repetitions()?.unwrap_or(BOOTS);
    let quick = settings.quick()?;
    let boots = if quick { 1 } else { boots };
    let steps = step::steps(boots, settings.only(), quick);
    if steps.is_empty() {
        let only = settings.only().unwrap_or_default();
        let names = step::names().join(", ");
        return Err(format!("ONLY={only}: in the name of no step; they are {names}").into());
    }
    // These fail before an hour of measuring, not after it.
    workspace::make(Place::Bench)?;
    let contents = step::contents(&steps, quick);
    packages::ensure(&[packages::NODES, &builder.packages(&contents)?].concat())?;
    let any = |wanted: fn(Step) -> bool| steps.iter().any(|(step, _)| wanted(*step));
    let mut bench = Bench {
        settings,
        quick,
        node: config::node()?,
        product: match any(|step| step == Step::SkiffBoot) {
            true => Some(builder.build(&Contents::product(Purpose::Release))?),
            false => None,
        },
        image: match any(|step| step.on_nodes(false).is_some()) {
            true => Some(builder.build(&contents)?),
            false => None,
        },
        linux: match any(Step::boots_linux) {
            true => Some(Linux::prepare(Kind::Tcp)?),
            false => None,
        },
        rdma: match any(|step| step == Step::LinuxRdma) {
            true => Some(Linux::prepare(Kind::Rdma)?),
            false => None,
        },
        samples: Samples::default(),
        taken: Vec::new(),
        failures: Vec::new(),
    };
    for (index, (step, boot)) in steps.iter().enumerate() {
        eprintln!(
            "==> [{}/{}] {}{}",
            index + 1,
            steps.len(),
            step.title(),
            match *boot {
                step::ONCE => String::new(),
                boot => format!(" (boot {boot} of {boots})"),
            }
        );
        bench.samples.begin(*boot);
        let before = Times::now();
        bench.step(*step);
        let taken = Times::taken(before, Times::now(), step.name());
        bench.taken.extend(taken);
    }
    let version = bench.linux.as_ref().map(|linux| linux.version.as_str());
    let noise = Noise::of(std::mem::take(&mut bench.taken), &bench.samples);
    let setting = setting::read(version.unwrap_or("none"), boots, quick, noise);
    bench.conclude(&setting, settings.only().is_some(), start)
}

impl Bench<'_> {
    fn step(&mut self, step: Step) {
        let before = self.samples.count();
        let result = self.try_step(step);
        if let Err(failure) = checked(result, before, self.samples.count()) {
            eprintln!("    FAILED: {}", failure.message);
            self.failures.push((step.title(), failure.message));
        }
    }

    fn try_step(&mut self, step: Step) -> Result<()> {
        let pin = self.settings.pin()?;
        // Whatever a step boots was prepared for it.
        let linux = self.linux.as_ref().ok_or("no Linux guest was prepared");
        let (samples, failures) = (&mut self.samples, &mut self.failures);
        let mut line = |text: &str| take(samples, failures, step, text);
        match step {
            Step::LinuxBoot => {
                let time = linux?.boot(&self.node, pin)?;
                self.samples.add_value("boot_linux", "ns", time);
            }
            Step::SkiffBoot => {
                let product = self.product.as_ref().ok_or(NO_IMAGE)?;
                let booted = nodes::boot(self.settings, &**product)?;
                let samples = &mut self.samples;
                samples.add_value("boot_skiff", "ns", booted.nanoseconds);
                samples.add_value("image_skiff", "bytes", booted.image_bytes);
            }
            Step::LinuxPair | Step::LinuxSizes => {
                linux?.pair(&self.node, pin, step.linux_effort(self.quick), &mut line)?;
            }
            Step::LinuxRdma => {
                let rdma = self
                    .rdma
                    .as_ref()
                    .ok_or("no Linux guest with RDMA was prepared")?;
                rdma.pair(&self.node, pin, step.linux_effort(self.quick), &mut line)?;
            }
            Step::Native => native::run(self.quick, &mut line)?,
            _ => {
                let nodes = step.on_nodes(self.quick).ok_or("a step without a run")?;
                let image = self.image.as_ref().ok_or(NO_IMAGE)?;
                nodes.run(self.settings, &**image, &mut line)?;
            }
        }
        Ok(())
    }

    /// Writes and shows the results.
    fn conclude(&self, setting: &Setting, partial: bool, start: Instant) -> Result<()> {
        let entries = results::entries(&self.samples);
        let directory = workspace::make(Place::Bench)?;
        let json = results::json(setting, &entries, &self.samples, &self.failures)?;
        let path = directory.join("results.json");
        std::fs::write(&path, json).context(|| format!("write {}", path.display()))?;
        // After a part of a run, only the measures of that part are shown.
        let left_out = |entry: &Entry| self.quick && FULL_ONLY.contains(&entry.name);
        let about = |entry: &&Entry| !left_out(entry) && (!partial || entry.ours.is_some());
        let shown: Vec<_> = entries.iter().filter(about).cloned().collect();
        let missing = shown.iter().filter(|e| e.error.is_some()).count();
        let is_whole = self.failures.is_empty() && missing == 0;
        self.picture(setting, &entries, partial || self.quick || !is_whole)?;
        println!("\n{}", results::table(&shown));
        println!("{}", workspace::display(&path));
        println!("{}", setting.noise.text());
        println!("the whole run took {} s", start.elapsed().as_secs());
        println!("goals: {}", results::counts(&shown));
        if is_whole || (partial && self.failures.is_empty()) {
            return Ok(());
        }
        Err(Failure::from(format!(
            "{} steps failed and {missing} measures could not be taken: see above",
            self.failures.len()
        )))
    }
}

impl Bench<'_> {
    /// Writes the plots and the page: into the documentation after a full run without failures,
    /// otherwise elsewhere.
    fn picture(&self, setting: &Setting, entries: &[Entry], aside: bool) -> Result<()> {
        let directory = match aside {
            true => workspace::make(Place::Bench)?,
            false => workspace::root().join("docs"),
        };
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).context(|| format!("write {}", path.display()))
        };
        let plots_directory = directory.join(PLOTS);
        std::fs::create_dir_all(&plots_directory)
            .context(|| format!("create {}", plots_directory.display()))?;
        let mut written = Vec::new();
        for named in plots::plots(&self.samples) {
            if let Some(text) = named.plot.render() {
                let name = format!("{PLOTS}/{}.svg", named.file);
                write(&name, &text)?;
                written.push((name, named.plot.title));
            }
        }
        let generated = page::generated(setting, entries, &written);
        let path = workspace::root().join("docs").join(PAGE);
        let text = std::fs::read_to_string(&path).context(|| format!("read docs/{PAGE}"))?;
        write(PAGE, &page::replaced(&text, &generated)?)?;
        println!("{}", workspace::display(&directory.join(PAGE)));
        Ok(())
    }
}

/// The result of a step with the numbers of results before and after it: one that has recorded
/// nothing has failed.
fn checked(result: Result<()>, before: usize, after: usize) -> Result<()> {
    match result {
        Ok(()) if after == before => Err("no result was recorded".into()),
        result => result,
    }
}

/// Handles one line of a measuring program.
fn take(samples: &mut Samples, failures: &mut Vec<(String, String)>, step: Step, text: &str) {
    match samples.take(step.prefix(), text) {
        Line::Progress(what) | Line::Result(Some(what)) => eprintln!("    {what}"),
        Line::Failure(why) => {
            eprintln!("    FAILED: {why}");
            failures.push((step.title(), why));
        }
        Line::Result(None) | Line::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_results_has_failed() {
        let mut samples = Samples::default();
        let before = samples.count();
        let failure = checked(Ok(()), before, samples.count()).unwrap_err();
        assert_eq!(failure.message, "no result was recorded");
        samples.add_value("boot_skiff", "ns", 1.0);
        samples.add_value("boot_skiff", "ns", 1.0);
        assert_eq!(samples.count(), 2);
        assert!(checked(Ok(()), before, samples.count()).is_ok());
        let failure = checked(Err("why".into()), 0, 0).unwrap_err();
        assert_eq!(failure.message, "why");
    }

    #[test]
    fn what_a_smoke_run_leaves_out_is_measured_otherwise() {
        let measures = table::MEASURES.iter();
        let left_out = measures.filter(|measure| FULL_ONLY.contains(&measure.name));
        assert_eq!(left_out.count(), FULL_ONLY.len());
    }
}
