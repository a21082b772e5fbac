//! Flame graphs: every stack of a profile as a tower of its functions, each as wide as its share of the samples. Of two
//! profiles the second is drawn, and coloured by what changed.

use std::collections::BTreeMap;
use std::fmt::Write;

use linerate_analysis::profile::{Frames, layer, layer_of};
use linerate_model::profile::{HostProfile, Layer};

use super::{WIDTH, escape, text};
use crate::clean::clean;
use crate::profile::function;

/// Height of a frame, and of it what is drawn.
const ROW: f64 = 17.0;
const FRAME: f64 = 16.0;
/// Free at both sides.
const EDGE: f64 = 12.0;
/// Under the title: the legend.
const HEAD: f64 = 54.0;
/// Narrower frames are not drawn, nor what stands on them.
const LEAST: f64 = 0.6;
/// Width of a letter, and of a frame that has room for some.
const LETTER: f64 = 6.2;
const LEAST_TEXT: f64 = 28.0;
/// Width of a letter of the legend.
const LEGEND_LETTER: f64 = 6.6;
/// Frames of a stack that are drawn. The sampler takes 100 at most; a file may hold any number, and each is a call
/// within a call when it is drawn.
const MOST_FRAMES: usize = 256;
/// A change of so many standard errors is coloured.
const SEEN: f64 = 1.96;

/// What frames are called by their colour, which is a class of the style sheet.
const LEGEND: [(&str, &str); 7] = [
    ("b0", "program"),
    ("n", "system calls, kernel"),
    ("b1", "copying, checksums"),
    ("b2", "UDP, TCP, IP, offload"),
    ("b3", "queueing, drivers"),
    ("b4", "softirq"),
    ("b5", "buffers, scheduler, locks"),
];

fn colour(layer: Layer) -> &'static str {
    match layer {
        Layer::User | Layer::Spin => "b0",
        Layer::Copy | Layer::Checksum => "b1",
        Layer::Protocol | Layer::Offload | Layer::Firewall => "b2",
        Layer::Qdisc | Layer::Driver => "b3",
        Layer::Softirq => "b4",
        Layer::Buffers | Layer::Scheduler | Layer::Lock => "b5",
        Layer::Syscall | Layer::Kernel | Layer::Sampler | Layer::Other | Layer::Idle => "n",
    }
}

/// A function with what it called; samples of the first profile and of the second.
#[derive(Debug, Default)]
struct Node {
    samples: [u64; 2],
    calls: BTreeMap<String, Node>,
}

/// A flame graph.
#[derive(Debug)]
pub struct Flame {
    /// What it shows.
    pub title: String,
    /// The same for who does not see it.
    pub alt: String,
    root: Node,
    /// Whether there is a first profile to compare with.
    compared: bool,
}

impl Flame {
    /// Of one profile, or of the second of two; idle time is left out.
    pub fn new(
        title: String,
        alt: String,
        first: Option<&HostProfile>,
        host: &HostProfile,
    ) -> Self {
        let mut root = Node::default();
        // Of one profile the second place counts.
        for (side, host) in [(0, first), (1, Some(host))] {
            for stack in host.iter().flat_map(|host| &host.stacks) {
                let frames = Frames::of(&stack.frames);
                if layer(frames) != Layer::Idle {
                    root.add(side, frames, stack.samples);
                }
            }
        }
        Self { title, alt, root, compared: first.is_some() }
    }

    /// Draws from `top` down with its title, gives back where it ends.
    pub fn draw(&self, out: &mut String, top: f64) -> f64 {
        text(out, "title", EDGE, top + 21.0, &self.title);
        self.legend(out, top + 42.0);
        let scale = (WIDTH - 2.0 * EDGE) / self.root.samples[1].max(1) as f64;
        let rows = self.root.rows(scale);
        let bottom = top + HEAD + rows as f64 * ROW;
        let mut at = Place { out, scale, bottom, all: self.root.samples, compared: self.compared };
        at.frame("all", &self.root, 0, EDGE);
        bottom + 6.0
    }

    fn legend(&self, out: &mut String, y: f64) {
        let entries: &[(&str, &str)] = if self.compared {
            &[
                ("mean", "grew more than chance"),
                ("b0", "shrank more than chance"),
                ("n", "neither"),
            ]
        } else {
            &LEGEND
        };
        let mut x = EDGE;
        for (class, words) in entries {
            let _ = writeln!(
                out,
                "<g class=\"frame\"><rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/></g>",
                y - 9.0
            );
            text(out, "soft", x + 14.0, y, words);
            x += 26.0 + words.chars().count() as f64 * LEGEND_LETTER;
        }
    }
}

impl Node {
    fn add(&mut self, side: usize, frames: Frames<'_>, samples: u64) {
        let mut node = self;
        node.count(side, samples);
        for name in frames.all().take(MOST_FRAMES) {
            node = node.calls.entry(name.to_owned()).or_default();
            node.count(side, samples);
        }
    }

    fn count(&mut self, side: usize, samples: u64) {
        if let Some(count) = self.samples.get_mut(side) {
            *count = count.saturating_add(samples);
        }
    }

    fn width(&self, scale: f64) -> f64 {
        self.samples[1] as f64 * scale
    }

    /// Rows that are drawn of it.
    fn rows(&self, scale: f64) -> usize {
        let calls = self.calls.values().filter(|call| call.width(scale) >= LEAST);
        1 + calls.map(|call| call.rows(scale)).max().unwrap_or(0)
    }
}

/// Where frames are drawn.
struct Place<'a> {
    out: &'a mut String,
    scale: f64,
    bottom: f64,
    all: [u64; 2],
    compared: bool,
}

impl Place<'_> {
    fn frame(&mut self, name: &str, node: &Node, row: usize, x: f64) {
        let width = node.width(self.scale);
        let y = self.bottom - (row + 1) as f64 * ROW;
        let shown = function(name);
        let (class, strength) = self.look(name, node, row);
        let label = self.label(&shown, node);
        let letters = ((width - 6.0) / LETTER) as usize;
        let _ = write!(
            self.out,
            "<g class=\"frame\"><title>{}</title><rect class=\"{class}\"{strength} x=\"{x:.2}\" y=\"{y:.1}\" \
             width=\"{:.2}\" height=\"{FRAME}\"/>",
            escape(&label),
            (width - 0.4).max(0.3)
        );
        if width >= LEAST_TEXT {
            text(
                self.out,
                "",
                format!("{:.1}", x + 3.0),
                y + 12.0,
                &crate::rows::cut(&shown, letters),
            );
        }
        self.out.push_str("</g>\n");
        let mut x = x;
        for (name, call) in &node.calls {
            if call.width(self.scale) >= LEAST {
                self.frame(name, call, row + 1, x);
            }
            x += call.width(self.scale);
        }
    }

    /// Name and shares, shown where the pointer rests.
    fn label(&self, name: &str, node: &Node) -> String {
        let [before, share] = self.shares(node).map(|share| share * 100.0);
        let name = clean(name);
        if self.compared {
            return format!("{name}: {share:.2} %, was {before:.2} % ({:+.2})", share - before);
        }
        format!("{name}: {share:.2} %, {} samples", node.samples[1])
    }

    fn shares(&self, node: &Node) -> [f64; 2] {
        let share = |side: usize| node.samples[side] as f64 / self.all[side].max(1) as f64;
        [share(0), share(1)]
    }

    /// Class of the colour, and how strong it is where that says something.
    fn look(&self, name: &str, node: &Node, row: usize) -> (&'static str, String) {
        if !self.compared {
            let kernel = Frames::is_kernel(name);
            let layer = if kernel { layer_of(name) } else { Some(Layer::User) };
            // The whole, and tasks, are no code.
            return (if row < 2 { "n" } else { layer.map_or("n", colour) }, String::new());
        }
        let [before, after] = self.shares(node);
        let both = |samples: &[u64; 2]| samples.iter().map(|n| *n as f64).sum::<f64>();
        let pooled = both(&node.samples) / both(&self.all).max(1.0);
        let each = |n: u64| pooled * (1.0 - pooled) / n.max(1) as f64;
        let se = (each(self.all[0]) + each(self.all[1])).sqrt();
        let change = after - before;
        if change.abs() <= SEEN * se {
            return ("n", String::new());
        }
        // A change of a twentieth of all is as strong as it gets.
        let strength = (change.abs() * 20.0).clamp(0.15, 0.8);
        (if change > 0.0 { "mean" } else { "b0" }, format!(" fill-opacity=\"{strength:.2}\""))
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::profile::Stack;

    use super::*;
    use crate::profile::tests::document;

    fn drawn(first: bool) -> String {
        let document = document();
        let hosts: Vec<_> = document.profiles.iter().map(|p| &p.hosts[0]).collect();
        let flame = Flame::new("A <b>".into(), "alt".into(), first.then(|| hosts[0]), hosts[1]);
        let mut out = String::new();
        let end = flame.draw(&mut out, 10.0);
        assert!(end > 10.0 + HEAD);
        out
    }

    #[test]
    fn frames_are_as_wide_as_their_share() {
        let svg = drawn(false);
        // 2 900 of 4 900 samples.
        assert!(svg.contains("<title>_copy_from_iter: 59.18 %, 2900 samples</title>"), "{svg}");
        assert!(svg.contains("A &lt;b&gt;"));
        assert!(!svg.contains("idle"));
        let whole = format!("width=\"{:.2}\"", WIDTH - 2.0 * EDGE - 0.4);
        assert!(svg.contains(&whole), "{svg}");
    }

    #[test]
    fn a_stack_of_any_depth_is_drawn_as_far_as_there_is_room() {
        let mut host = document().profiles[0].hosts[0].clone();
        let frames = format!("f{}", ";f".repeat(999_999));
        host.stacks = vec![Stack { frames, samples: 10 }];
        let flame = Flame::new("deep".into(), "alt".into(), None, &host);
        let mut out = String::new();
        let end = flame.draw(&mut out, 0.0);
        assert_eq!(out.matches("<title>f: 100.00 %, 10 samples</title>").count(), MOST_FRAMES);
        assert!(end < 300.0 * ROW, "{end}");
    }

    #[test]
    fn a_file_may_name_any_number_of_samples() {
        let mut host = document().profiles[0].hosts[0].clone();
        let stack = Stack { frames: "f;g".into(), samples: u64::MAX };
        host.stacks = vec![stack.clone(), stack];
        let flame = Flame::new("many".into(), "alt".into(), Some(&host), &host);
        let mut out = String::new();
        flame.draw(&mut out, 0.0);
        assert!(out.contains("<title>g: 100.00 %, was 100.00 %"), "{out}");
    }

    #[test]
    fn of_two_profiles_what_changed_more_than_chance_is_coloured() {
        let svg = drawn(true);
        let copy = svg.lines().find(|line| line.contains("<title>_copy_from_iter")).unwrap();
        assert!(copy.contains("was 48.72 %") && copy.contains("class=\"mean\""), "{copy}");
        let all = svg.lines().find(|line| line.contains("<title>all")).unwrap();
        assert!(all.contains("class=\"n\""), "{all}");
    }
}
