//! The libraries for C programs of the image, together: SCIF, sockets, Scheduled
//! Transfers, and the C library under them.
#![no_std]

use {libscif as _, libsocket as _, libst as _};
