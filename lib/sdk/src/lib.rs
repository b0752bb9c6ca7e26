//! The libraries for C programs of the image, together: SCIF, sockets and the C library under them.
#![no_std]

use {libscif as _, libsocket as _};
