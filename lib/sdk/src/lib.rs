//! The libraries for C programs of the image, together: SCIF, sockets, Scheduled
//! Transfers, RDMA verbs, management datagrams, and the C library under them.
#![no_std]

use {libibumad as _, libibverbs as _, libscif as _, libsocket as _, libst as _};
