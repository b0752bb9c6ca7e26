//! The libraries for C programs of the image, together: SCIF, sockets, Scheduled
//! Transfers, RDMA verbs, and the C library under them.
#![no_std]

use {libibverbs as _, libscif as _, libsocket as _, libst as _};
