//! The text of `madctl`: the fabric as a table and as a drawing, counters, and summaries of answer
//! times.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use mad_core::attributes::{get, node_info, port_info};

/// Counters of a port, from the attribute PortCountersExtended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
}

impl Counters {
    /// Decodes the attribute.
    pub fn read(data: &[u8]) -> Counters {
        // The attribute counts data in words of four bytes.
        Counters {
            sent_bytes: get(data, (64, 64)).wrapping_mul(4),
            received_bytes: get(data, (128, 64)).wrapping_mul(4),
            sent: get(data, (192, 64)),
            received: get(data, (256, 64)),
        }
    }

    /// The counts since an earlier reading; `None` if one has become smaller, because the counters
    /// were reset in between.
    pub fn since(&self, earlier: &Counters) -> Option<Counters> {
        Some(Counters {
            sent_bytes: self.sent_bytes.checked_sub(earlier.sent_bytes)?,
            received_bytes: self.received_bytes.checked_sub(earlier.received_bytes)?,
            sent: self.sent.checked_sub(earlier.sent)?,
            received: self.received.checked_sub(earlier.received)?,
        })
    }

    /// The counters as a line for people.
    pub fn line(&self) -> String {
        format!(
            "sent {} packets, {} bytes; received {} packets, {} bytes",
            self.sent, self.sent_bytes, self.received, self.received_bytes,
        )
    }
}

/// The other end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its NodeDescription.
    pub name: String,
    /// Its GUID.
    pub guid: u64,
    /// The local identifier (LID) of its port.
    pub lid: u16,
    /// The counters of its port, if it answers with them.
    pub counters: Option<Counters>,
}

/// A port of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its number.
    pub port: u8,
    /// Its logical state, as the code in PortInfo.
    pub state: u8,
    /// Its width and speed, for example `4X-EDR`.
    pub rate: String,
    /// The other end of the link, if it answers.
    pub peer: Option<Peer>,
}

/// The fabric: the switch and its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// The switch's NodeDescription.
    pub name: String,
    /// The switch's LID.
    pub lid: u16,
    /// Its ports.
    pub links: Vec<SwitchPort>,
}

/// Decodes the text of a NodeDescription.
pub fn description(data: &[u8]) -> String {
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    // The text comes from another node, so control characters are removed before people see it.
    let text = String::from_utf8_lossy(text);
    text.chars().filter(|of| !of.is_control()).collect()
}

/// Reads the GUID of a node from its NodeInfo.
pub fn node_guid(data: &[u8]) -> u64 {
    get(data, node_info::NODE_GUID)
}

/// Reads the number of ports from a NodeInfo.
pub fn ports(data: &[u8]) -> u8 {
    get(data, node_info::PORTS) as u8
}

/// Reads the LID from a PortInfo.
pub fn lid(data: &[u8]) -> u16 {
    get(data, port_info::LID) as u16
}

/// Describes a port of the switch by its PortInfo.
pub fn link(port: u8, data: &[u8]) -> SwitchPort {
    let width = match get(data, port_info::WIDTH_ACTIVE) {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        _ => 0,
    };
    let speed = match (
        get(data, port_info::EXTENDED_ACTIVE),
        get(data, port_info::SPEED_ACTIVE),
    ) {
        (1, _) => "FDR",
        (2, _) => "EDR",
        (4, _) => "HDR",
        (_, 1) => "SDR",
        (_, 2) => "DDR",
        (_, 4) => "QDR",
        _ => "?",
    };
    SwitchPort {
        port,
        state: get(data, port_info::STATE) as u8,
        rate: format!("{width}X-{speed}"),
        peer: None,
    }
}

/// Describes a port of the switch for which there is no answer. Its state is not known.
pub fn silent(port: u8) -> SwitchPort {
    SwitchPort {
        port,
        ..SwitchPort::default()
    }
}

fn state(code: u8) -> &'static str {
    match code {
        1 => "DOWN",
        2 => "INIT",
        3 => "ARMED",
        4 => "ACTIVE",
        _ => "?",
    }
}

/// The fabric as a table.
pub fn table(fabric: &Fabric) -> String {
    let mut rows = Vec::from([[
        "port", "state", "rate", "lid", "guid", "sent", "received", "name",
    ]
    .map(String::from)]);
    for link in &fabric.links {
        let state = state(link.state).to_string();
        let none = || "-".to_string();
        let is_up = link.state == 4;
        let rate = if is_up { link.rate.clone() } else { none() };
        rows.push(match &link.peer {
            Some(peer) => {
                let count = |of: fn(&Counters) -> u64| {
                    peer.counters
                        .as_ref()
                        .map_or_else(none, |counters| of(counters).to_string())
                };
                [
                    link.port.to_string(),
                    state,
                    rate,
                    format!("{:#x}", peer.lid),
                    format!("{:016x}", peer.guid),
                    count(|counters| counters.sent),
                    count(|counters| counters.received),
                    peer.name.clone(),
                ]
            }
            None => [
                link.port.to_string(),
                state,
                rate,
                none(),
                none(),
                none(),
                none(),
                none(),
            ],
        });
    }
    let mut widths = [0; 8];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = format!("{}, LID {:#x}\n", fabric.name, fabric.lid);
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Escapes text for an SVG drawing.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut text, of| {
        match of {
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '&' => text.push_str("&amp;"),
            '"' => text.push_str("&quot;"),
            of => text.push(of),
        }
        text
    })
}

/// The fabric as an SVG drawing: the switch, a line for each link, and the node at its end.
pub fn drawing(fabric: &Fabric) -> String {
    let row_height = 44;
    let height = row_height * (fabric.links.len() + 1);
    let middle = height / 2;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect x=\"20\" y=\"{}\" width=\"130\" height=\"48\" rx=\"6\" fill=\"#dde6f0\" \
         stroke=\"#445566\"/>\n\
         <text x=\"32\" y=\"{}\">{}</text>\n<text x=\"32\" y=\"{}\">LID {:#x}</text>\n",
        middle - 24,
        middle - 4,
        escaped(&fabric.name),
        middle + 14,
        fabric.lid,
    );
    for (row, link) in fabric.links.iter().enumerate() {
        let y = row_height * row + row_height;
        let colour = if link.state == 4 {
            "#22aa77"
        } else {
            "#bbbbbb"
        };
        let (first, second) = match &link.peer {
            Some(peer) => (
                format!("{}, LID {:#x}", peer.name, peer.lid),
                peer.counters.map_or_else(String::new, |of| of.line()),
            ),
            None => (String::new(), String::new()),
        };
        let rate = if link.state == 4 {
            link.rate.as_str()
        } else {
            ""
        };
        let label = format!("port {}: {} {rate} {first}", link.port, state(link.state));
        text += &format!(
            "<line x1=\"150\" y1=\"{middle}\" x2=\"320\" y2=\"{y}\" stroke=\"{colour}\" \
             stroke-width=\"2\"/>\n\
             <text x=\"328\" y=\"{}\">{}</text>\n\
             <text x=\"328\" y=\"{}\" fill=\"#667788\" font-size=\"11\">{}</text>\n",
            y - 2,
            escaped(label.trim_end()),
            y + 13,
            escaped(&second),
        );
    }
    text + "</svg>\n"
}

/// A sentence with the least, mean and greatest of times, which are given in nanoseconds.
pub fn summary(asked: usize, times: &[u64]) -> String {
    let answered = times.len();
    let mut text = format!("{asked} asked, {answered} answered");
    if let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) {
        let mean = times.iter().sum::<u64>() / answered as u64;
        let [least, mean, most] = [*least, mean, *most].map(|time| time / 1000);
        text += &format!("; least, mean, greatest {least}, {mean}, {most} µs");
    }
    text
}

/// Parses a number of repetitions or of seconds, which is at least 1.
pub fn parse_count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
}

/// Parses a LID as people write it: 5, or 0x5.
pub fn parse_lid(text: &str) -> Option<u16> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|lid| (1..0xc000).contains(lid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mad_core::fabric::{Fabric as Topology, Place};
    use mad_core::sma;

    fn fabric() -> Fabric {
        let mut topology = Topology::new(0);
        topology.set_up(true);
        let mut links = Vec::new();
        for port in 1..=2 {
            let info = sma::port_info(&topology, Place::Switch, port, 1).unwrap();
            links.push(link(port, &info));
        }
        let info = sma::port_info(&topology, Place::Node(0), 1, 1).unwrap();
        links[0].peer = Some(Peer {
            name: description(&sma::node_description(Place::Node(0))),
            guid: node_guid(&sma::node_info(&topology, Place::Node(0), 1)),
            lid: lid(&info),
            counters: Some(Counters {
                sent: 7,
                received: 8,
                ..Counters::default()
            }),
        });
        Fabric {
            name: description(&sma::node_description(Place::Switch)),
            lid: 0x100,
            links,
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_link() {
        assert_eq!(
            table(&fabric()),
            "skiff switch, LID 0x100\n\
             port  state   rate    lid  guid              sent  received  name\n\
             1     ACTIVE  4X-EDR  0x1  02534b4900000000  7     8         skiff node 0\n\
             2     DOWN    -       -    -                 -     -         -\n"
        );
    }

    #[test]
    fn a_port_without_an_answer_has_a_line() {
        let mut fabric = fabric();
        fabric.links[1] = silent(2);
        let last = "\n2     ?       -       -    -                 -     -         -\n";
        assert!(table(&fabric).ends_with(last), "{}", table(&fabric));
        assert!(drawing(&fabric).contains(">port 2: ?</text>"));
    }

    #[test]
    fn the_drawing_says_the_same_and_escapes_names() {
        let mut fabric = fabric();
        fabric.links[0].peer.as_mut().unwrap().name = "<&\">".to_string();
        let drawing = drawing(&fabric);
        assert_eq!(drawing.matches("<line ").count(), 2);
        assert!(drawing.contains("port 1: ACTIVE 4X-EDR &lt;&amp;&quot;&gt;, LID 0x1</text>"));
        assert!(drawing.contains(">port 2: DOWN</text>"));
        assert!(drawing.contains("sent 7 packets, 0 bytes; received 8 packets, 0 bytes"));
    }

    #[test]
    fn names_of_nodes_are_text() {
        assert_eq!(description(b"a\x1b[2Jb\0c"), "a[2Jb");
        assert_eq!(description(&[0; 64]), "");
    }

    #[test]
    fn counters_are_bytes_and_differences() {
        let mut data = [0; 72];
        data[15] = 2;
        data[31] = 5;
        let counters = Counters::read(&data);
        assert_eq!((counters.sent_bytes, counters.sent), (8, 5));
        let later = Counters {
            sent: 9,
            ..counters
        };
        assert_eq!(later.since(&counters).unwrap().sent, 4);
        // A driver that starts again counts from 0.
        assert_eq!(counters.since(&later), None);
    }

    #[test]
    fn times_are_summed_up() {
        assert_eq!(summary(3, &[]), "3 asked, 0 answered");
        let text = summary(3, &[1000, 4000]);
        assert_eq!(
            text,
            "3 asked, 2 answered; least, mean, greatest 1, 2, 4 µs"
        );
    }

    #[test]
    fn identifiers_are_read() {
        for (text, lid) in [("5", Some(5)), ("0x100", Some(0x100)), ("0", None)] {
            assert_eq!(parse_lid(text), lid);
        }
        for text in ["", "x", "0xc000", "-1", "70000"] {
            assert_eq!(parse_lid(text), None);
        }
        assert_eq!(parse_count("3"), Some(3));
        for text in ["", "0", "-1", "x", "4294967296"] {
            assert_eq!(parse_count(text), None);
        }
    }
}
