//! The model knows registers by the driver's names. So that a wrong number is not taken for right
//! by both, here are the numbers of the published drivers' headers once more.

use micd::x100::{page, registers as r};

const SBOX: usize = 0x1_0000;

#[test]
fn registers_are_where_the_published_headers_say() {
    let sbox = [
        (r::smpt(0), 0x3100),
        (r::smpt(31), 0x317c),
        (r::SICR0, 0x9004),
        (r::SICE0, 0x900c),
        (r::SICC0, 0x9010),
        (r::SIAC0, 0x9014),
        (r::MXAR0, 0x9044),
        (r::MSIXPBACR, 0x9084),
        (r::sdbic(0), 0xcc90),
        (r::sdbic(3), 0xcc9c),
        (r::rdmasr(0), 0xb180),
        (r::rdmasr(7), 0xb19c),
        (r::apicicr(0), 0xa9d0),
        (r::apicicr(1), 0xa9d8),
        (r::APICICR7, 0xaa08),
        (r::APICICR7_HIGH, 0xaa0c),
        (r::RGCR, 0x4010),
        (r::THERMAL_STATUS, 0x1018),
        (r::scratch(0), 0xab20),
        (r::DOWNLOAD, 0xab28),
        (r::IMAGE_BYTES, 0xab34),
        (r::FUSES, 0xab3c),
        (r::IDENTITY, 0xab54),
        (r::PAGE_LOW, 0xab58),
        (r::PAGE_HIGH, 0xab5c),
        (r::DCR, 0xa280),
        (r::channel(0, r::DCAR), 0xa000),
        (r::channel(1, r::DHPR), 0xa044),
        (r::channel(2, r::DTPR), 0xa088),
        (r::channel(3, r::DRAR_LOW), 0xa0d4),
        (r::channel(3, r::DRAR_HIGH), 0xa0d8),
        (r::channel(0, r::DSTAT), 0xa020),
        (r::channel(0, r::DSTATWB_LOW), 0xa024),
        (r::channel(0, r::DSTATWB_HIGH), 0xa028),
        (r::channel(0, r::DCHERR), 0xa02c),
        (r::channel(0, r::DCHERRMSK), 0xa030),
    ];
    for (register, offset) in sbox {
        assert_eq!(register, SBOX + offset, "{register:#x}");
    }
    assert_eq!(r::POSTCODE, 0x242c);
}

/// The names of registers at a place of their own in the SBOX.
fn names(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().filter(|line| line.contains(" = SBOX + "));
    lines.filter_map(|line| Some(line.strip_prefix("pub const ")?.split_once(':')?.0))
}

#[test]
fn no_register_is_missing_above() {
    let code = include_str!("../../../../drivers/micd/src/x100/registers.rs");
    let here = include_str!("offsets.rs");
    assert!(names(code).any(|name| name == "SICR0"));
    for name in names(code) {
        assert!(
            here.contains(&format!("(r::{name}, 0x")),
            "{name} is missing"
        );
    }
    assert!(names("pub const GONE: usize = SBOX + 0x10;\n").eq(["GONE"]));
}

#[test]
fn the_device_page_is_laid_out_as_the_document_says() {
    let places = [
        (page::AT_MAGIC, 0),
        (page::AT_NODE, 5),
        (page::AT_CARD_DOORBELL, 6),
        (page::AT_HOST_DOORBELL, 7),
        (page::AT_HOST_QUEUE_PAIR, 8),
        (page::AT_CARD_QUEUE_PAIR, 16),
        (page::AT_HEARTBEAT, 4088),
    ];
    for (place, offset) in places {
        assert_eq!(place, offset);
    }
    assert!(page::is_magic(0xc0ff_ee00));
}

#[test]
fn bits_are_those_of_the_document() {
    assert_eq!(
        (r::CAUSES, r::cause_doorbell(3), r::cause_dma(7)),
        (0xff0f, 8, 1 << 15)
    );
    assert_eq!((r::SDBIC_REQUEST, r::SDBIC_STATUS), (1 << 31, 1 << 30));
    assert_eq!(
        (r::ICR_SEND, r::BOOT_VECTOR, r::RGCR_RESET),
        (1 << 13, 0xe5, 1)
    );
    assert_eq!((r::dcr_owner(3), r::dcr_enable(3)), (1 << 6, 1 << 7));
    assert_eq!((r::DCAR_MASK_HOST, r::DSTAT_COUNT), (1 << 25, 0x1_ffff));
    assert_eq!((r::DSTAT_QUIESCED >> 28, r::DSTATWB_ERROR), (2, 1 << 31));
    assert_eq!(
        (r::SMPT_WINDOW, r::SMPT_SHIFT, r::SMPT_ENTRIES),
        (0x80_0000_0000, 34, 32)
    );
    assert_eq!((r::HOST_COPY_BYTES, r::DMA_ALIGN), (512 * 1024, 64));
    assert_eq!(r::DEVICES, 0x2250..=0x225e);
    assert_eq!(
        (r::VENDOR, r::APERTURE_BAR, r::REGISTERS_BAR),
        (0x8086, 0, 4)
    );
}
