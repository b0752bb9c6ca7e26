//! Pinned pages, for trusted drivers. They pin memory of the calling driver, so their tests are
//! programs of the image, which the rows name.

use crate::table::{Row, Section};

/// The program that tries the calls, and the function in it.
const PIN_TESTS: &[(&str, &str)] = &[("tests/guest/src/bin/scif-pin.rs", "pinned_pages")];
const USER_TESTS: &[(&str, &str)] = &[("tests/guest/src/bin/scif-pin.rs", "user")];

/// `scif_pin_pages`, `scif_unpin_pages`, `scif_register_pinned_pages`.
pub const PINNED: Section = Section {
    title: "scif_pin_pages, scif_unpin_pages, scif_register_pinned_pages",
    word: "pinned",
    about: "Kernel-mode calls: for drivers that run as root. Pinned pages count against no limit.",
    rows: &[
        Row::elsewhere(
            ["pin flags other than KERNEL", "EINVAL", "EINVAL"],
            "EINVAL",
            PIN_TESTS,
        ),
        Row::elsewhere(
            ["pin with an unknown protection bit", "EINVAL", "EINVAL"],
            "EINVAL",
            PIN_TESTS,
        ),
        Row::elsewhere(
            ["pin of an odd address or of nothing", "EINVAL", "EINVAL"],
            "EINVAL",
            PIN_TESTS,
        ),
        Row::elsewhere(
            [
                "pin of pages that are not there",
                "only EINVAL and ENOMEM are listed",
                "EFAULT",
            ],
            "EFAULT",
            PIN_TESTS,
        )
        .because(
            "neither a flag nor the offset is invalid, and there is space enough; scif_register \
             says EFAULT for such addresses",
        ),
        Row::elsewhere(
            [
                "a caller who is not root",
                "kernel mode only",
                "kernel mode only",
            ],
            "EPERM",
            USER_TESTS,
        )
        .because(
            "who refuses it is the kernel, which says EPERM to whoever wants pages to stay; \
             scif_get_pages is refused by the driver: EACCES, as for everything else of root's",
        ),
        Row::elsewhere(
            [
                "register on an endpoint that is not connected",
                "ENOTCONN",
                "ENOTCONN",
            ],
            "ENOTCONN",
            PIN_TESTS,
        ),
        Row::elsewhere(
            ["register with flags other than FIXED", "EINVAL", "EINVAL"],
            "EINVAL",
            PIN_TESTS,
        ),
        Row::elsewhere(
            [
                "register FIXED at a negative or odd offset",
                "EINVAL",
                "EINVAL",
            ],
            "EINVAL",
            PIN_TESTS,
        ),
        Row::elsewhere(
            [
                "register FIXED over a window",
                "EADDRINUSE",
                "EADDRINUSE / waits 10 s",
            ],
            "EADDRINUSE",
            PIN_TESTS,
        ),
        Row::elsewhere(
            ["the same pages in two endpoints", "allowed", "allowed"],
            "both windows show the same pages",
            PIN_TESTS,
        ),
        Row::elsewhere(
            [
                "unpin while windows have the pages",
                "they stay",
                "they stay",
            ],
            "the pages stay until the last window is gone",
            PIN_TESTS,
        ),
        Row::elsewhere(
            ["register after unpin", "EINVAL", "fatal / EINVAL"],
            "does not compile: unpinning takes the handle away",
            &[("lib/scif/src/kernel/pin.rs", "unpin")],
        ),
    ],
};
