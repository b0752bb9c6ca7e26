//! The description of the device from the file `devinfo`, as `ibv_devinfo` prints it.

use alloc::string::String;

/// Names of the lines that are printed without `-v`; those of rdma-core's program.
const SHORT: &[&str] = &[
    "hca_id",
    "transport",
    "fw_ver",
    "node_guid",
    "sys_image_guid",
    "vendor_id",
    "vendor_part_id",
    "hw_ver",
    "board_id",
    "phys_port_cnt",
    "port",
    "state",
    "max_mtu",
    "active_mtu",
    "sm_lid",
    "port_lid",
    "port_lmc",
    "link_layer",
];

/// The lines that are printed without `-v`.
pub fn short(text: &str) -> String {
    let is_short = |line: &&str| {
        let name = line.trim_start().split(':').next().unwrap_or_default();
        SHORT.contains(&name)
    };
    let lines = text.lines().filter(is_short);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A table of devices as `ibv_devices` prints it, from their names and GUIDs.
pub fn list<'a>(devices: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("    device          \t   node GUID\n");
    text += "    ------          \t----------------\n";
    for (name, guid) in devices {
        let digits: String = guid.chars().filter(|of| *of != ':').collect();
        text += &alloc::format!("    {name:<16}\t{digits}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{list, short};

    #[test]
    fn only_some_lines_are_printed_without_asking_for_all() {
        let all = "hca_id:\tscif0\n\tmax_qp:\t4096\n\t\tport:\t1\n\t\t\tGID[  0]:\tfe80:0\n";
        assert_eq!(short(all), "hca_id:\tscif0\n\t\tport:\t1\n");
    }

    #[test]
    fn devices_are_listed_as_by_the_program_of_that_name() {
        let text = list([("scif0", "0253:4b49:0000:0001")].into_iter());
        let last = text.lines().last();
        assert_eq!(last, Some("    scif0           \t02534b4900000001"));
        assert_eq!(list(core::iter::empty()).lines().count(), 2);
    }
}
