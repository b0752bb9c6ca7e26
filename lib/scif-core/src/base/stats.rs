//! Counters of an engine, for the `stats` file and for tests.

/// Counters of an engine since it was made, and the resources that it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that senders have sent.
    pub bytes_sent: u64,
    /// Bytes that receivers have received.
    pub bytes_received: u64,
    /// Connections that were established, active side.
    pub connected: u64,
    /// Connections that were established, passive side.
    pub accepted: u64,
    /// Requests of peers that were refused.
    pub refused: u64,
    /// Requests that were dropped because their connectors may have given up.
    pub void_requests: u64,
    /// Messages put into node rings.
    pub messages_sent: u64,
    /// Messages taken out of node rings and of the loopback queue.
    pub messages_received: u64,
    /// Doorbells that the driver was asked to ring.
    pub doorbells_rung: u64,
    /// Doorbells that were not needed: the peer had not found its ring empty since the last one.
    pub doorbells_saved: u64,
    /// Doorbells received. Those that come together count once; polls without a doorbell do not
    /// count.
    pub doorbells_received: u64,
    /// Links that came up.
    pub links_up: u64,
    /// Links that were given up because of the peer.
    pub links_failed: u64,
    /// Messages with an unknown opcode or a value out of range; ignored.
    pub unknown_messages: u64,
    /// Messages with an id that this node did not give to that node, or that is no longer valid;
    /// ignored. A few are normal when both sides close at the same time.
    pub stale_ids: u64,
    /// Messages that do not fit the state of the link or the connection; ignored.
    pub unexpected_messages: u64,
    /// Connections reset because of an impossible ring index or address.
    pub rings_reset: u64,
    /// Queue pairs of peers that could not be used.
    pub bad_queue_pairs: u64,
    /// Bytes of RMA moved by the CPU.
    pub rma_bytes_cpu: u64,
    /// Bytes of RMA moved by a DMA engine.
    pub rma_bytes_dma: u64,
    /// Pieces of RMA that were copied.
    pub copies: u64,
    /// Values stored for fence_signal.
    pub signals: u64,
    /// Pieces that could not be copied.
    pub failed_copies: u64,
    /// Windows that ended although clients still counted a copy as under way.
    pub stuck_copies: u64,
    /// Windows of peers that were refused: no memory, a limit, or an invalid description.
    pub refused_windows: u64,
    /// Structures granted by peers that could not be used.
    pub bad_windows: u64,
    /// Responses that peers did not send in time.
    pub missing_answers: u64,
    /// Now: endpoints.
    pub endpoints: usize,
    /// Now: connections, those included that only wait for the peer's final acknowledgement.
    pub connections: usize,
    /// Now: connections without an endpoint, which wait for the peer's final acknowledgement.
    pub connections_closing: usize,
    /// Now: pages of shared memory in use for connections, links and windows that are being
    /// registered.
    pub pages: usize,
    /// Now: those of `pages` that are rings of connections. The length of a ring depends on how
    /// many others there were when it was made.
    pub ring_pages: usize,
    /// Now: own windows, including those that end with their last use.
    pub windows: usize,
    /// Now: windows of peers.
    pub remote_windows: usize,
    /// Now: pages of own windows that count for their users' limits.
    pub pinned_pages: u64,
    /// Now: pages of peers' windows that are mapped or referred to by get_pages.
    pub mapped_pages: u64,
    /// Now: copies and signals that are queued or under way.
    pub jobs: usize,
}

/// The traffic between this node and another one, or within this node, since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of streams that were sent to that node.
    pub sent: u64,
    /// Bytes of streams that were received from that node.
    pub received: u64,
    /// Bytes that were copied into that node's memory for calls of programs here.
    pub written: u64,
    /// Bytes that were copied out of that node's memory for calls of programs here.
    pub read: u64,
}

impl Stats {
    /// Name and value of each counter, in a fixed order.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, u64)> {
        // Named one by one, so that the compiler tells of one that is not shown.
        let Self {
            bytes_sent,
            bytes_received,
            connected,
            accepted,
            refused,
            void_requests,
            messages_sent,
            messages_received,
            doorbells_rung,
            doorbells_saved,
            doorbells_received,
            links_up,
            links_failed,
            unknown_messages,
            stale_ids,
            unexpected_messages,
            rings_reset,
            bad_queue_pairs,
            rma_bytes_cpu,
            rma_bytes_dma,
            copies,
            signals,
            failed_copies,
            stuck_copies,
            refused_windows,
            bad_windows,
            missing_answers,
            endpoints,
            connections,
            connections_closing,
            pages,
            ring_pages,
            windows,
            remote_windows,
            pinned_pages,
            mapped_pages,
            jobs,
        } = *self;
        [
            ("bytes_sent", bytes_sent),
            ("bytes_received", bytes_received),
            ("connected", connected),
            ("accepted", accepted),
            ("refused", refused),
            ("void_requests", void_requests),
            ("messages_sent", messages_sent),
            ("messages_received", messages_received),
            ("doorbells_rung", doorbells_rung),
            ("doorbells_saved", doorbells_saved),
            ("doorbells_received", doorbells_received),
            ("links_up", links_up),
            ("links_failed", links_failed),
            ("unknown_messages", unknown_messages),
            ("stale_ids", stale_ids),
            ("unexpected_messages", unexpected_messages),
            ("rings_reset", rings_reset),
            ("bad_queue_pairs", bad_queue_pairs),
            ("rma_bytes_cpu", rma_bytes_cpu),
            ("rma_bytes_dma", rma_bytes_dma),
            ("copies", copies),
            ("signals", signals),
            ("failed_copies", failed_copies),
            ("stuck_copies", stuck_copies),
            ("refused_windows", refused_windows),
            ("bad_windows", bad_windows),
            ("missing_answers", missing_answers),
            ("endpoints", endpoints as u64),
            ("connections", connections as u64),
            ("connections_closing", connections_closing as u64),
            ("pages", pages as u64),
            ("ring_pages", ring_pages as u64),
            ("windows", windows as u64),
            ("remote_windows", remote_windows as u64),
            ("pinned_pages", pinned_pages),
            ("mapped_pages", mapped_pages),
            ("jobs", jobs as u64),
        ]
        .into_iter()
    }
}
