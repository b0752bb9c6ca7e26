//! Writes plots as SVG: lines with points over two axes, and a legend. The same points give the
//! same bytes. Text and axes take the colour for light or dark pages.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 270.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
/// The colours of the series, readable on white and on black, also for most colour-blind people.
const COLOURS: [&str; 8] = [
    "#888888", "#0b84c6", "#d55e00", "#009e73", "#b8860b", "#cc5fa3", "#7a5fd0", "#5aa9d6",
];
/// The style. The picture has its own background, because the page around it may be dark where the
/// system is light, and the other way round.
const STYLE: &str = "<style>.page{fill:#fff}text{fill:#222}.axis{stroke:#222}.grid{stroke:#8884}\
                     @media(prefers-color-scheme:dark){.page{fill:#181818}text{fill:#ddd}\
                     .axis{stroke:#ddd}}</style>";
/// The distance between the legend's lines.
const LEGEND_STEP: f64 = 20.0;

/// How an axis places values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// By logarithm; ticks are powers of this number.
    Log(f64),
    /// Whole numbers from 0 that stand for names.
    Names(&'static [&'static str]),
}

/// An axis.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// The title.
    pub label: &'static str,
    /// How values are placed.
    pub scale: Scale,
    /// Formats the label of a tick.
    pub format: fn(f64) -> String,
}

/// A line of a plot.
#[derive(Debug, Clone)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points from left to right; positive on a logarithmic axis.
    pub points: Vec<(f64, f64)>,
    /// For points whose values vary: the place, and the lower and the upper quartile.
    pub quartiles: Vec<(f64, [f64; 2])>,
    /// Whether the line is dashed, as for values that ours are compared with.
    pub dashed: bool,
}

/// A plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// The title.
    pub title: &'static str,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// The lines of the plot.
    pub series: Vec<Series>,
}

/// Maps the values of an axis to 0 to 1, and has its ticks.
struct Range {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Range {
    fn new(scale: Scale, values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().reduce(f64::min)?;
        let largest = values.iter().copied().reduce(f64::max)?;
        Some(match scale {
            Scale::Linear => {
                let step = step(largest);
                let count = (largest / step).ceil().max(1.0);
                let ticks = (0..=count as u32).map(|n| f64::from(n) * step).collect();
                Self::between(scale, 0.0, count * step, ticks)
            }
            Scale::Log(base) => {
                let low = (least.log(base) + 1e-9).floor();
                let high = (largest.log(base) - 1e-9).ceil().max(low + 1.0);
                let powers = low as i32..=high as i32;
                let ticks = powers.map(|power| base.powi(power)).collect();
                Self::between(scale, base.powf(low), base.powf(high), ticks)
            }
            Scale::Names(names) => {
                let last = names.len().saturating_sub(1) as f64;
                let ticks = (0..names.len()).map(|index| index as f64).collect();
                Self::between(scale, -0.2, last + 0.2, ticks)
            }
        })
    }

    fn between(scale: Scale, low: f64, high: f64, ticks: Vec<f64>) -> Self {
        Self {
            scale,
            low,
            high,
            ticks,
        }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log(_) => (value / self.low).ln() / (self.high / self.low).ln(),
            Scale::Linear | Scale::Names(_) => (value - self.low) / (self.high - self.low),
        }
    }
}

/// Returns a round distance of ticks, which divides the axis up to a value into four to eight
/// steps.
fn step(largest: f64) -> f64 {
    let power = 10_f64.powf((largest.max(f64::MIN_POSITIVE) / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let fits = steps.into_iter().find(|step| largest / step <= 8.0);
    fits.unwrap_or(10.0 * power)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

impl Plot {
    /// Returns the picture; `None` if there are no points.
    pub fn render(&self) -> Option<String> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x: Vec<f64> = points().map(|(x, _)| *x).collect();
        let quartiles = self.series.iter().flat_map(|series| &series.quartiles);
        let mut y: Vec<f64> = quartiles.flat_map(|(_, quartiles)| *quartiles).collect();
        y.extend(points().map(|(_, y)| *y));
        let (x, y) = (Range::new(self.x.scale, &x)?, Range::new(self.y.scale, &y)?);
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.draw(&mut out, &x, &y);
        Some(out)
    }

    fn draw(&self, out: &mut String, x: &Range, y: &Range) -> std::fmt::Result {
        let title = escaped(self.title);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <title>{title}</title>\n{STYLE}\n\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"16\">{title}</text>"
        )?;
        let right = WIDTH - RIGHT;
        let bottom = HEIGHT - BOTTOM;
        let across = |value: f64| LEFT + x.place(value) * (right - LEFT);
        let up = |value: f64| bottom - y.place(value) * (bottom - TOP);
        for tick in &x.ticks {
            let (at, text) = (across(*tick), self.x.name(*tick));
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 18.0
            )?;
        }
        for tick in &y.ticks {
            let (at, text) = (up(*tick), self.y.name(*tick));
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            )?;
        }
        writeln!(
            out,
            "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            escaped(self.x.label),
            (TOP + bottom) / 2.0,
            escaped(self.y.label)
        )?;
        let drawn = self.series.iter().filter(|line| !line.points.is_empty());
        for (index, series) in drawn.enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let legend = TOP + 10.0 + index as f64 * LEGEND_STEP;
            series.draw(out, colour, legend, &across, &up)?;
        }
        out.push_str("</svg>\n");
        Ok(())
    }
}

impl Axis {
    fn name(&self, tick: f64) -> String {
        match self.scale {
            Scale::Names(names) => names.get(tick as usize).copied().unwrap_or("").to_string(),
            Scale::Linear | Scale::Log(_) => escaped(&(self.format)(tick)),
        }
    }
}

impl Series {
    fn draw(
        &self,
        out: &mut String,
        colour: &str,
        legend: f64,
        across: &dyn Fn(f64) -> f64,
        up: &dyn Fn(f64) -> f64,
    ) -> std::fmt::Result {
        let dashes = if self.dashed {
            " stroke-dasharray=\"6 4\""
        } else {
            ""
        };
        let style = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
        let places: Vec<String> = self
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y)))
            .collect();
        writeln!(out, "<polyline {style} points=\"{}\"/>", places.join(" "))?;
        for (x, [lower, upper]) in &self.quartiles {
            let (x, lower, upper) = (across(*x), up(*lower), up(*upper));
            writeln!(
                out,
                "<path stroke=\"{colour}\" stroke-opacity=\".5\" stroke-width=\"4\" \
                 d=\"M{x:.1} {lower:.1}V{upper:.1}\"/>"
            )?;
        }
        for (x, y) in &self.points {
            let (x, y) = (across(*x), up(*y));
            write!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
            )?;
        }
        let start = WIDTH - RIGHT + 20.0;
        writeln!(
            out,
            "\n<path {style} d=\"M{start} {legend}h24\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            start + 30.0,
            legend + 4.0,
            escaped(&self.name)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis {
            label: "a & b",
            scale,
            format: |value| format!("{value}"),
        }
    }

    fn plot(x: Scale, y: Scale, points: &[(f64, f64)]) -> Plot {
        Plot {
            title: "x < y",
            x: axis(x),
            y: axis(y),
            series: vec![Series {
                name: "line".to_string(),
                points: points.to_vec(),
                quartiles: points.iter().map(|(x, y)| (*x, [*y, y + 1.0])).collect(),
                dashed: true,
            }],
        }
    }

    #[test]
    fn no_points_no_picture() {
        assert!(plot(Scale::Linear, Scale::Linear, &[]).render().is_none());
    }

    #[test]
    fn points_go_to_the_corners() {
        let text = plot(Scale::Log(10.0), Scale::Linear, &[(1.0, 0.0), (100.0, 3.0)]).render();
        let text = text.unwrap();
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        // The highest value is a quartile.
        let quarter = TOP + (bottom - TOP) / 4.0;
        let corners = format!("points=\"{LEFT:.1},{bottom:.1} {right:.1},{quarter:.1}\"");
        assert!(text.contains(&corners), "{text}");
        let bar = format!("d=\"M{right:.1} {quarter:.1}V{TOP:.1}\"");
        assert!(text.contains(&bar), "{text}");
        assert!(text.contains("<title>x &lt; y</title>") && text.contains("<rect class"));
        assert!(text.contains("x &lt; y") && text.contains("a &amp; b"));
        assert!(text.contains("stroke-dasharray") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<circle").count(), 2);
    }

    #[test]
    fn ticks() {
        let ticks = |scale, values: &[f64]| Range::new(scale, values).unwrap().ticks;
        assert_eq!(
            ticks(Scale::Linear, &[3.0, 4.6]),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        );
        assert_eq!(
            ticks(Scale::Log(10.0), &[2.0, 1000.0]),
            [1.0, 10.0, 100.0, 1000.0]
        );
        assert_eq!(ticks(Scale::Log(4.0), &[64.0, 4096.0])[..2], [64.0, 256.0]);
        assert_eq!(ticks(Scale::Log(10.0), &[10.0]), [10.0, 100.0]);
        assert_eq!(ticks(Scale::Names(&["a", "b"]), &[0.0]), [0.0, 1.0]);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(step(8.0), 1.0);
        assert_eq!(step(9.0), 2.0);
        assert_eq!(step(0.5), 0.1);
        assert_eq!(step(30.0), 5.0);
    }
}
