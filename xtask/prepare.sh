#!/bin/sh
# Makes sure that cargo can build xtask, which installs everything else: a cargo that is new enough
# and a linker. On Debian the missing packages are installed, if this is root; said before. Called
# by the Makefile with its targets; quick when nothing is missing.

need_minor=88

cargo_is_new_enough() {
    version=$(cargo --version 2> /dev/null) || return 1
    minor=$(echo "$version" | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge "$need_minor" ]
}

# Adds a package unless its program, or its file, is there.
want() {
    [ -e "$2" ] || command -v "$2" > /dev/null || packages="$packages $1"
}

packages=
if ! cargo_is_new_enough; then
    echo "    missing: cargo 1.$need_minor or newer (found: ${version:-none}); it builds all of this" >&2
    packages="cargo-web rustc-web rust-web-src"
fi
if ! command -v cc > /dev/null; then
    echo "    missing: gcc; it links programs for this machine" >&2
    packages="$packages gcc libc6-dev"
fi
if [ -n "$packages" ]; then
    # What xtask would ask for next, so that nobody is asked twice (tests/harness/src/base/packages.rs).
    want lld ld.lld
    want binutils ar
    want qemu-system-x86 qemu-system-x86_64
    case " $* " in
    *" test "* | *" setup "*)
        want g++ g++
        want clang clang
        want ovmf /usr/share/ovmf/OVMF.fd
        want grub-common grub-mkrescue
        want grub-pc-bin /usr/lib/grub/i386-pc/multiboot2.mod
        want grub-efi-amd64-bin /usr/lib/grub/x86_64-efi/multiboot2.mod
        want xorriso xorriso
        want mtools mformat
        # The cargo of rustup, which is beside rustup, has these as components.
        cargo=$(command -v cargo)
        if [ ! -x "${cargo%/*}/rustup" ]; then
            want rustfmt-web cargo-fmt
            want rust-web-clippy cargo-clippy
        fi
        ;;
    esac
    install="apt-get install --yes --no-install-recommends $packages"
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
        echo "error: packages are missing and only root may install them; run this, then try again:" >&2
        echo >&2
        echo "    sudo apt-get update && sudo $install" >&2
        exit 1
    fi
    echo "==> installing $packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get --quiet --quiet update && $install > /dev/null || exit 1
    if ! cargo_is_new_enough; then
        echo "error: $(command -v cargo) is ${version:-missing}; need 1.$need_minor or newer in PATH" >&2
        exit 1
    fi
fi
if [ ! -e target/debug/xtask ]; then
    echo "==> building the tool behind make, once: takes up to a minute" >&2
fi
