//! The text files: the class tree, as Linux has it below `/sys/class`, and tables of the objects.

mod mad;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use verbs::report::qp_report;
use verbs_abi::{ABI_VERSION, PROVIDER_ABI_VERSION};
use verbs_core::address::{gid, lid};

use crate::context::Context;
use crate::device::{ContextId, Device};
use crate::identity::{self, DEVICE, FIRMWARE, PKEY, guid_text};
use crate::limits::Kind;
use crate::object::Object;
use crate::shared::FIRST_LIBRARY_QPN;

/// The user who reads a file. Root sees the objects of all users, others only their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The id of the user.
    pub uid: u32,
}

impl Viewer {
    fn sees(self, context: &Context) -> bool {
        self.uid == 0 || self.uid == context.owner.uid
    }
}

/// The function that writes a text file.
type Text = fn(&Device, Viewer) -> String;

/// The text files by their paths. What precedes a slash is a directory.
const FILES: &[(&str, Text)] = &[
    ("agents", mad::agents),
    ("class/infiniband/scif0/board_id", |_, _| line("SKIFF_SCIF")),
    ("class/infiniband/scif0/fw_ver", |_, _| line(FIRMWARE)),
    ("class/infiniband/scif0/hca_type", |_, _| line("SCIF")),
    ("class/infiniband/scif0/hw_rev", |_, _| line("0x0")),
    ("class/infiniband/scif0/node_desc", |device, _| {
        format!("skiff node {}\n", device.shared.node)
    }),
    ("class/infiniband/scif0/node_guid", |device, _| {
        line(&guid_text(device.shared.node))
    }),
    ("class/infiniband/scif0/node_type", |_, _| line("1: CA")),
    ("class/infiniband/scif0/ports/1/cap_mask", mad::capabilities),
    (
        "class/infiniband/scif0/ports/1/counters/port_rcv_data",
        |device, _| words(device.traffic().received_bytes),
    ),
    (
        "class/infiniband/scif0/ports/1/counters/port_rcv_packets",
        |device, _| number(device.traffic().received_packets),
    ),
    (
        "class/infiniband/scif0/ports/1/counters/port_xmit_data",
        |device, _| words(device.traffic().sent_bytes),
    ),
    (
        "class/infiniband/scif0/ports/1/counters/port_xmit_packets",
        |device, _| number(device.traffic().sent_packets),
    ),
    ("class/infiniband/scif0/ports/1/gids/0", gid_text),
    ("class/infiniband/scif0/ports/1/lid", |device, _| {
        format!("{:#x}\n", lid(device.shared.node))
    }),
    ("class/infiniband/scif0/ports/1/lid_mask_count", |_, _| {
        line("0")
    }),
    ("class/infiniband/scif0/ports/1/link_layer", |_, _| {
        line("InfiniBand")
    }),
    ("class/infiniband/scif0/ports/1/phys_state", |device, _| {
        state(device, 1)
    }),
    ("class/infiniband/scif0/ports/1/pkeys/0", |_, _| {
        format!("{PKEY:#06x}\n")
    }),
    ("class/infiniband/scif0/ports/1/rate", |_, _| {
        line("100 Gb/sec (4X EDR)")
    }),
    ("class/infiniband/scif0/ports/1/sm_lid", |_, _| {
        format!("{:#x}\n", lid(0))
    }),
    ("class/infiniband/scif0/ports/1/sm_sl", |_, _| line("0")),
    ("class/infiniband/scif0/ports/1/state", |device, _| {
        state(device, 0)
    }),
    ("class/infiniband/scif0/sys_image_guid", |_, _| {
        line(&guid_text(0))
    }),
    ("class/infiniband_mad/abi_version", mad::abi_version),
    ("class/infiniband_mad/issm0/ibdev", mad::ibdev),
    ("class/infiniband_mad/issm0/port", mad::port),
    ("class/infiniband_mad/umad0/ibdev", mad::ibdev),
    ("class/infiniband_mad/umad0/port", mad::port),
    ("class/infiniband_verbs/abi_version", |_, _| {
        format!("{ABI_VERSION}\n")
    }),
    ("class/infiniband_verbs/uverbs0/abi_version", |_, _| {
        format!("{PROVIDER_ABI_VERSION}\n")
    }),
    ("class/infiniband_verbs/uverbs0/dev", |_, _| line("231:192")),
    ("class/infiniband_verbs/uverbs0/ibdev", |_, _| line(DEVICE)),
    ("contexts", contexts),
    ("cqs", cqs),
    ("devices", devices),
    ("devinfo", devinfo),
    ("fabric", mad::fabric),
    ("limits", |device, _| device.shared.accounts.text()),
    ("mrs", mrs),
    ("qps", qps),
    ("srqs", srqs),
    ("stats", stats),
];

fn line(text: &str) -> String {
    format!("{text}\n")
}

fn number(value: u64) -> String {
    format!("{value}\n")
}

/// A number of bytes in words of four bytes, as the port counters of Linux count them.
fn words(bytes: u64) -> String {
    number(bytes / 4)
}

fn gid_text(device: &Device, _: Viewer) -> String {
    let groups: Vec<String> = gid(lid(device.shared.node))
        .chunks(2)
        .map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    line(&groups.join(":"))
}

fn state(device: &Device, which: usize) -> String {
    let (number, name) = device.shared.port.names()[which];
    format!("{number}: {name}\n")
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A directory.
    Directory,
    /// The text file with this index.
    Text(usize),
}

/// Finds the file or directory with this path, which has no slashes at its ends.
pub fn find(path: &str) -> Option<Found> {
    if let Ok(index) = FILES.binary_search_by_key(&path, |(name, _)| name) {
        return Some(Found::Text(index));
    }
    let below = |name: &str| {
        name.strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let is_directory = path.is_empty() || FILES.iter().any(|(name, _)| below(name));
    is_directory.then_some(Found::Directory)
}

/// The path of the text file with this index.
pub fn path(index: usize) -> &'static str {
    FILES.get(index).map_or("", |(path, _)| path)
}

/// The text of the file with this index at this moment.
pub fn text(index: usize, device: &Device, viewer: Viewer) -> String {
    FILES
        .get(index)
        .map_or_else(String::new, |(_, text)| text(device, viewer))
}

/// The names in a directory, and whether each is a directory itself.
pub fn list(path: &str) -> Vec<(&'static str, bool)> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for (name, _) in FILES {
        let rest = match path {
            "" => Some(*name),
            path => name
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(rest) = rest else {
            continue;
        };
        let entry = match rest.split_once('/') {
            Some((first, _)) => (first, true),
            None => (rest, false),
        };
        if names.last() != Some(&entry) {
            names.push(entry);
        }
    }
    names
}

// ---- Tables ----

fn devices(device: &Device, _: Viewer) -> String {
    let shared = &device.shared;
    let [(_, state), _] = shared.port.names();
    format!(
        "device node port state lid guid contexts\n{DEVICE} {} 1 {state} {:#x} {} {}\n",
        shared.node,
        lid(shared.node),
        guid_text(shared.node),
        device.contexts().count(),
    )
}

/// The device and its port, in the format of `ibv_devinfo -v`.
fn devinfo(device: &Device, _: Viewer) -> String {
    let node = device.shared.node;
    let hca = identity::device(node);
    let port = identity::port(node, device.shared.port);
    let [(state, name), _] = device.shared.port.names();
    let mut text = format!("hca_id:\t{DEVICE}\n");
    let mut add = |depth: usize, name: &str, value: String| {
        let name = format!("{name}:");
        text += &format!("{}{name:<32}{value}\n", "\t".repeat(depth));
    };
    add(1, "transport", "InfiniBand (0)".into());
    add(1, "fw_ver", FIRMWARE.into());
    add(1, "node_guid", guid_text(node));
    add(1, "sys_image_guid", guid_text(0));
    for (name, value) in [
        ("vendor_id", hca.vendor_id),
        ("vendor_part_id", hca.vendor_part_id),
        ("hw_ver", hca.hw_ver),
        ("phys_port_cnt", hca.phys_port_cnt.into()),
        ("max_qp", hca.max_qp),
        ("max_qp_wr", hca.max_qp_wr),
        ("max_sge", hca.max_sge),
        ("max_sge_rd", hca.max_sge_rd),
        ("max_cq", hca.max_cq),
        ("max_cqe", hca.max_cqe),
        ("max_mr", hca.max_mr),
        ("max_mw", hca.max_mw),
        ("max_pd", hca.max_pd),
        ("max_qp_rd_atom", hca.max_qp_rd_atom),
        ("max_ah", hca.max_ah),
        ("max_srq", hca.max_srq),
        ("max_srq_wr", hca.max_srq_wr),
        ("max_srq_sge", hca.max_srq_sge),
        ("max_mcast_grp", hca.max_mcast_grp),
        ("max_mcast_qp_attach", hca.max_mcast_qp_attach),
    ] {
        add(1, name, format!("{value}"));
    }
    add(1, "max_mr_size", format!("{:#x}", hca.max_mr_size));
    add(1, "page_size_cap", format!("{:#x}", hca.page_size_cap));
    add(
        1,
        "device_cap_flags",
        format!("{:#010x}", hca.device_cap_flags),
    );
    add(1, "atomic_cap", "ATOMIC_HCA (1)".into());
    add(2, "port", "1".into());
    add(3, "state", format!("PORT_{name} ({state})"));
    for (name, mtu) in [("max_mtu", port.max_mtu), ("active_mtu", port.active_mtu)] {
        // MTUs are codes: 1 is 256 bytes.
        add(3, name, format!("{} ({mtu})", 128_u32 << mtu));
    }
    add(3, "sm_lid", format!("{}", port.sm_lid));
    add(3, "port_lid", format!("{}", port.lid));
    add(3, "port_lmc", format!("{:#04x}", port.lmc));
    add(3, "link_layer", "InfiniBand".into());
    add(3, "max_msg_sz", format!("{:#x}", port.max_msg_sz));
    add(3, "gid_tbl_len", format!("{}", port.gid_tbl_len));
    add(3, "pkey_tbl_len", format!("{}", port.pkey_tbl_len));
    add(
        3,
        "GID[  0]",
        gid_text(device, Viewer { uid: 0 }).trim_end().into(),
    );
    text
}

/// A table with the lines that `add` writes for each context that the viewer can see.
fn table(
    first: &str,
    device: &Device,
    viewer: Viewer,
    mut add: impl FnMut(&mut String, ContextId, &Context),
) -> String {
    let mut text = line(first);
    for (id, context) in device
        .contexts()
        .filter(|(_, context)| viewer.sees(context))
    {
        add(&mut text, id, context);
    }
    text
}

fn contexts(device: &Device, viewer: Viewer) -> String {
    let first = "context pid uid objects channels events locked_pages";
    table(first, device, viewer, |text, id, context| {
        let pages = context.objects.iter().map(|(_, object)| match object {
            Object::Mr(mr) => mr.pages,
            _ => 0,
        });
        *text += &format!(
            "{} {} {} {} {} {} {}\n",
            id.0,
            context.owner.pid,
            context.owner.uid,
            context.objects.len(),
            context.channels.len(),
            context.waiting_events(),
            pages.sum::<u64>(),
        );
    })
}

fn mrs(device: &Device, viewer: Viewer) -> String {
    let first = "context handle key start length iova access pd pages pid";
    table(first, device, viewer, |text, id, context| {
        for (handle, object) in context.objects.iter() {
            if let Object::Mr(mr) = object {
                let region = &mr.region;
                *text += &format!(
                    "{} {handle} {:#x} {:#x} {} {:#x} {:#x} {} {} {}\n",
                    id.0,
                    mr.shown,
                    region.start,
                    region.length,
                    region.iova,
                    region.access.bits(),
                    mr.pd,
                    mr.pages,
                    context.owner.pid,
                );
            }
        }
    })
}

/// A handle, or `-` for none.
fn or_none(handle: Option<u32>) -> String {
    handle.map_or_else(|| "-".to_string(), |handle| handle.to_string())
}

fn cqs(device: &Device, viewer: Viewer) -> String {
    let first = "context handle cqe waiting completions channel pid";
    table(first, device, viewer, |text, id, context| {
        for (handle, object) in context.objects.iter() {
            if let Object::Cq(cq) = object {
                let own = context.engine.core.cq_traffic(cq.id).unwrap_or_default();
                *text += &format!(
                    "{} {handle} {} {} {} {} {}\n",
                    id.0,
                    cq.cqe,
                    own.0 as u64 + u64::from(cq.report.waiting),
                    own.1.saturating_add(cq.report.completions),
                    or_none(cq.channel),
                    context.owner.pid,
                );
            }
        }
    })
}

fn srqs(device: &Device, viewer: Viewer) -> String {
    let first = "context handle max_wr max_sge limit queued pd pid";
    table(first, device, viewer, |text, id, context| {
        for (handle, object) in context.objects.iter() {
            if let Object::Srq(srq) = object
                && let Ok(queue) = context.engine.core.srq(srq.id)
            {
                let (max_wr, max_sge, limit) = queue.query();
                *text += &format!(
                    "{} {handle} {max_wr} {max_sge} {} {} {} {}\n",
                    id.0,
                    u64::from(limit) + u64::from(srq.report.limit),
                    queue.len() as u64 + u64::from(srq.report.queued),
                    srq.pd,
                    context.owner.pid,
                );
            }
        }
    })
}

fn qps(device: &Device, viewer: Viewer) -> String {
    let first = "context handle qpn type state pd send_cq recv_cq srq dest_lid dest_qpn \
                 queued_sends queued_receives sends sent_bytes receives received_bytes errors pid";
    table(first, device, viewer, |text, id, context| {
        for (handle, object) in context.objects.iter() {
            if let Object::Qp(qp) = object
                && let Ok(view) = context.engine.core.query_qp(qp.number)
            {
                let report = match qp.number < FIRST_LIBRARY_QPN {
                    true => qp_report(0, &view),
                    false => qp.report,
                };
                *text += &format!(
                    "{} {handle} {} {} {} {} {} {} {} {:#x} {} {} {} {} {} {} {} {} {}\n",
                    id.0,
                    qp.number,
                    format!("{:?}", view.init.kind).to_uppercase(),
                    format!("{:?}", view.state).to_uppercase(),
                    qp.pd,
                    or_none(qp.send_cq),
                    or_none(qp.recv_cq),
                    or_none(qp.srq),
                    view.attributes.dlid,
                    view.attributes.dest_qpn,
                    report.queued_sends,
                    report.queued_receives,
                    report.sends,
                    report.sent_bytes,
                    report.receives,
                    report.received_bytes,
                    report.errors,
                    context.owner.pid,
                );
            }
        }
    })
}

/// The names of the counters in `stats`, one for each type of object.
const TYPES: [&str; 8] = ["pds", "mrs", "cqs", "qps", "srqs", "ahs", "xrcds", "mws"];

fn type_of(object: &Object) -> usize {
    match object {
        Object::Pd(..) => 0,
        Object::Mr(_) => 1,
        Object::Cq(_) => 2,
        Object::Qp(_) => 3,
        Object::Srq(_) => 4,
        Object::Ah(_) => 5,
        Object::Xrcd(_) => 6,
        Object::Mw(_) => 7,
    }
}

fn stats(device: &Device, _: Viewer) -> String {
    let mut counts = [0_u64; TYPES.len()];
    let (mut channels, mut events) = (0, 0);
    for (_, context) in device.contexts() {
        channels += context.channels.len() as u64;
        events += context.waiting_events() as u64;
        for (_, object) in context.objects.iter() {
            counts[type_of(object)] += 1;
        }
    }
    let shared = &device.shared;
    let totals = &shared.totals;
    let now = [
        ("contexts", device.contexts().count() as u64),
        ("channels", channels),
        ("waiting_events", events),
        ("memberships", shared.accounts.total(Kind::Memberships)),
        ("files", shared.accounts.total(Kind::Files)),
        ("objects", shared.accounts.total(Kind::Objects)),
        ("locked_pages", shared.accounts.total(Kind::LockedPages)),
        ("slots", shared.accounts.total(Kind::Slots)),
        ("ports", shared.accounts.total(Kind::Ports)),
    ];
    let since = [
        ("commands", totals.commands),
        ("refused", totals.refused),
        ("async_events", totals.async_events),
        ("completion_events", totals.completion_events),
        ("posted", totals.posted),
        ("polled", totals.polled),
        ("sends", totals.sends),
        ("sent_bytes", totals.sent_bytes),
        ("receives", totals.receives),
        ("received_bytes", totals.received_bytes),
        ("errors", totals.errors),
    ];
    let types = TYPES.iter().copied().zip(counts);
    let lines = types.chain(now).chain(since);
    let lines = lines.map(|(counter, value)| format!("{counter} {value}\n"));
    "counter value\n".to_string() + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::{FILES, Found, Viewer, find, list, path, text};
    use crate::context::Owner;
    use crate::device::Device;
    use crate::identity::PortState;

    fn say(device: &Device, path: &str) -> String {
        match find(path) {
            Some(Found::Text(index)) => text(index, device, Viewer { uid: 0 }),
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn paths_are_sorted_and_found() {
        assert!(FILES.is_sorted_by_key(|(path, _)| path));
        for (index, (name, _)) in FILES.iter().enumerate() {
            assert_eq!(find(name), Some(Found::Text(index)));
            assert_eq!(path(index), *name);
        }
        for directory in ["", "class", "class/infiniband/scif0/ports/1/gids"] {
            assert_eq!(find(directory), Some(Found::Directory), "{directory}");
        }
        for none in [
            "c",
            "class/",
            "class/infiniband/scif",
            "stats/x",
            "class/infiniband/scif01",
        ] {
            assert_eq!(find(none), None, "{none}");
        }
    }

    #[test]
    fn directories_name_what_is_in_them() {
        let names: Vec<&str> = list("").into_iter().map(|(name, _)| name).collect();
        let root = [
            "agents", "class", "contexts", "cqs", "devices", "devinfo", "fabric", "limits", "mrs",
            "qps", "srqs", "stats",
        ];
        assert_eq!(names, root);
        assert_eq!(
            list("class"),
            [
                ("infiniband", true),
                ("infiniband_mad", true),
                ("infiniband_verbs", true)
            ]
        );
        assert_eq!(list("class/infiniband"), [("scif0", true)]);
        assert_eq!(list("class/infiniband/scif0/ports/1/pkeys"), [("0", false)]);
    }

    /// The class tree of node 2, whose port is active and has moved nothing.
    const CLASS_TREE: &[(&str, &str)] = &[
        ("infiniband/scif0/board_id", "SKIFF_SCIF"),
        ("infiniband/scif0/fw_ver", "0.1.0"),
        ("infiniband/scif0/hca_type", "SCIF"),
        ("infiniband/scif0/hw_rev", "0x0"),
        ("infiniband/scif0/node_desc", "skiff node 2"),
        ("infiniband/scif0/node_guid", "0253:4b49:0000:0002"),
        ("infiniband/scif0/node_type", "1: CA"),
        ("infiniband/scif0/ports/1/cap_mask", "0x0201480c"),
        ("infiniband/scif0/ports/1/counters/port_rcv_data", "0"),
        ("infiniband/scif0/ports/1/counters/port_rcv_packets", "0"),
        ("infiniband/scif0/ports/1/counters/port_xmit_data", "0"),
        ("infiniband/scif0/ports/1/counters/port_xmit_packets", "0"),
        (
            "infiniband/scif0/ports/1/gids/0",
            "fe80:0000:0000:0000:0253:4b49:0000:0002",
        ),
        ("infiniband/scif0/ports/1/lid", "0x3"),
        ("infiniband/scif0/ports/1/lid_mask_count", "0"),
        ("infiniband/scif0/ports/1/link_layer", "InfiniBand"),
        ("infiniband/scif0/ports/1/phys_state", "5: LinkUp"),
        ("infiniband/scif0/ports/1/pkeys/0", "0xffff"),
        ("infiniband/scif0/ports/1/rate", "100 Gb/sec (4X EDR)"),
        ("infiniband/scif0/ports/1/sm_lid", "0x1"),
        ("infiniband/scif0/ports/1/sm_sl", "0"),
        ("infiniband/scif0/ports/1/state", "4: ACTIVE"),
        ("infiniband/scif0/sys_image_guid", "0253:4b49:0000:0000"),
        ("infiniband_mad/abi_version", "5"),
        ("infiniband_mad/issm0/ibdev", "scif0"),
        ("infiniband_mad/issm0/port", "1"),
        ("infiniband_mad/umad0/ibdev", "scif0"),
        ("infiniband_mad/umad0/port", "1"),
        ("infiniband_verbs/abi_version", "6"),
        ("infiniband_verbs/uverbs0/abi_version", "1"),
        ("infiniband_verbs/uverbs0/dev", "231:192"),
        ("infiniband_verbs/uverbs0/ibdev", "scif0"),
    ];

    #[test]
    fn the_class_tree_says_what_programs_look_for() {
        let mut device = Device::new(2);
        device.set_port(PortState::Active);
        let below = FILES
            .iter()
            .filter_map(|(path, _)| path.strip_prefix("class/"));
        let found = below.map(|path| (path, say(&device, &format!("class/{path}"))));
        let expected = CLASS_TREE
            .iter()
            .map(|(path, text)| (*path, format!("{text}\n")));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        device.set_port(PortState::Down);
        for (file, content) in [("state", "1: DOWN\n"), ("phys_state", "2: Polling\n")] {
            let path = format!("class/infiniband/scif0/ports/1/{file}");
            assert_eq!(say(&device, &path), content, "{path}");
        }
    }

    /// Checks the last section of `docs/mad-behaviour.md`; `SKIFF_REWRITE` writes it anew.
    #[test]
    fn the_section_about_files_is_written() {
        const BEGIN: &str = "\n## Files below /sys/class\n";
        let mut section = format!(
            "{BEGIN}\nOf node 2 when its port is active and has moved nothing, by \
             `cargo test -p ibd --lib files`. All end with a line feed.\n\n\
             | what | result |\n| --- | --- |\n"
        );
        for (path, text) in CLASS_TREE {
            section += &format!("| `{path}` | `{text}` |\n");
        }
        let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = own.ancestors().nth(2).expect("the project");
        let path = project.join("docs/mad-behaviour.md");
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        let (rules, now) = page.split_at(page.find(BEGIN).unwrap_or(page.len()));
        if std::env::var_os("SKIFF_REWRITE").is_some() {
            std::fs::write(&path, format!("{rules}{section}")).expect("the page can be written");
            return;
        }
        assert!(
            now == section,
            "docs/mad-behaviour.md has another class tree: run `cargo xtask behaviour`"
        );
    }

    #[test]
    fn the_device_is_described_for_people() {
        let mut device = Device::new(1);
        device.set_port(PortState::Active);
        let text = say(&device, "devinfo");
        let words: Vec<&str> = text.split_whitespace().collect();
        for expected in [
            ["hca_id:", "scif0", "transport:"],
            ["state:", "PORT_ACTIVE", "(4)"],
            ["active_mtu:", "4096", "(5)"],
            ["port_lid:", "2", "port_lmc:"],
        ] {
            assert!(
                words.windows(3).any(|words| words == expected),
                "{expected:?}: {text}"
            );
        }
    }

    #[test]
    fn users_see_their_own() {
        let mut device = Device::new(0);
        for uid in [1000, 1001] {
            device.open(Owner { pid: 7, uid }).unwrap();
        }
        let Some(Found::Text(index)) = find("contexts") else {
            panic!("no such file");
        };
        let lines = |uid| text(index, &device, Viewer { uid }).lines().count() - 1;
        assert_eq!(
            [lines(0), lines(1000), lines(1001), lines(1002)],
            [2, 1, 1, 0]
        );
    }
}
