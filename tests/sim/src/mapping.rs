//! Mappings of the peer's windows, and pages of them that a driver got with get_pages: memory that
//! a program reads and writes without its engine for as long as it has it.

use scif_abi::Error;
use scif_abi::flags::Protection;
use scif_core::{EndpointId, Memory, Place, RemoteWindowId};

use crate::actor::Context;
use crate::model::{Model, Segment};
use crate::rma::{Expectation, PAGE, judge, noise};
use crate::spaces::Cover;

/// The name by which a range is returned.
#[derive(Clone, Copy, Debug)]
enum Name {
    Mapped(RemoteWindowId),
    Got(u64),
}

/// Pages of a peer that a program holds.
#[derive(Clone, Debug)]
pub struct Held {
    name: Name,
    /// The place of each page, and its segment in the model.
    pages: Vec<(Place, Segment)>,
    /// The access rights.
    protection: u32,
    /// The program's node and the peer's.
    pub nodes: [usize; 2],
    /// Whether a link broke, so that there is no memory behind the pages any more.
    pub is_lost: bool,
}

/// All mappings of a program.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    held: Vec<Held>,
}

impl Held {
    /// Unmaps a mapping whose program ended.
    pub fn unmap(self, engine: &mut scif_core::Engine) {
        if let Name::Mapped(window) = self.name {
            engine.unmap(window, self.pages.len() as u64);
        }
    }
}

/// Returns the number of bytes at the front of a range that are contiguous and in one window, as
/// the engine should see it.
fn contiguous(context: &Context<'_>, segments: &[Segment]) -> u64 {
    let Some(first) = segments.first() else {
        return 0;
    };
    let address = |at: usize| context.model.address(first.pin, at);
    let start = first.bytes.start;
    let pages = first.bytes.clone().step_by(PAGE as usize);
    let follows = |at: &usize| address(*at) == address(start).map(|a| a + (at - start) as u64);
    pages.take_while(follows).count() as u64 * PAGE
}

impl Mappings {
    /// Returns all mappings.
    pub(crate) fn held(&self) -> &[Held] {
        &self.held
    }

    /// Maps some range of the peer by mmap or get_pages. `ends` are the program's end and the
    /// peer's.
    pub(crate) fn map(
        &mut self,
        context: &mut Context<'_>,
        endpoint: EndpointId,
        ends: [u64; 2],
    ) -> Result<(), String> {
        let peer = ends[1];
        let windows = &context.model.ends[&peer].windows;
        let Some(window) = windows.get(context.rng.below(windows.len() as u64) as usize) else {
            return Ok(());
        };
        let (pages, base) = (window.pages, window.offset);
        let page = context.rng.below(pages);
        let offset = base + (page * PAGE) as i64;
        let mut length = (1 + context.rng.below(pages - page)) * PAGE;
        if context.rng.one_in(12) {
            length += PAGE;
        }
        if context.rng.one_in(2) {
            let cover = context.model.cover(peer, false, offset, length, 0);
            return self.get_pages(context, endpoint, peer, offset, length, cover);
        }
        let protection = match context.rng.below(3) {
            0 => Protection::READ,
            1 => Protection::WRITE,
            _ => Protection::all(),
        };
        let cover = context.model.cover(peer, false, offset, length, 0);
        let run = context.engine.map_run(endpoint, offset, length);
        let expected = Expectation::from(&cover);
        let Some(run) = judge(context, endpoint, "map_run", run, &expected)? else {
            return Ok(());
        };
        let is_sure = cover.is_good;
        let segments = cover.segments.unwrap_or_default();
        let longest = contiguous(context, &segments);
        if longest == 0 && !is_sure {
            // Only this node's engine still has this window.
            return Ok(());
        }
        if run != longest {
            return Err(format!("a run of {run} bytes is {longest} bytes long"));
        }
        let protection = protection.bits();
        let cover = context.model.cover(peer, false, offset, run, protection);
        let result = context.engine.map(endpoint, offset, run, protection);
        let expected = Expectation::from(&cover);
        let Some(mapped) = judge(context, endpoint, "map", result, &expected)? else {
            return Ok(());
        };
        if mapped.pages * PAGE != run {
            return Err(format!(
                "{} pages mapped instead of {run} bytes",
                mapped.pages
            ));
        }
        let name = Name::Mapped(mapped.window);
        let runs = [(mapped.place, mapped.pages)];
        self.hold(context, name, &runs, peer, &cover, protection)
    }

    fn get_pages(
        &mut self,
        context: &mut Context<'_>,
        endpoint: EndpointId,
        peer: u64,
        offset: i64,
        length: u64,
        mut cover: Cover,
    ) -> Result<(), String> {
        if cover.segments.as_ref().is_some_and(|s| s.len() > 1) {
            cover.errors.push(Error::NoSuchAddress);
            cover.is_bad = true;
        }
        if cover.segments.is_none() && !cover.is_bad {
            return Ok(());
        }
        let result = context.engine.get_pages(endpoint, offset, length);
        let expected = Expectation::from(&cover);
        let Some(got) = judge(context, endpoint, "get_pages", result, &expected)? else {
            return Ok(());
        };
        let name = Name::Got(got.cookie);
        self.hold(context, name, &got.runs, peer, &cover, got.protection)
    }

    /// Records pages, which must be those in the model.
    fn hold(
        &mut self,
        context: &mut Context<'_>,
        name: Name,
        runs: &[(Place, u64)],
        peer: u64,
        cover: &Cover,
        protection: u32,
    ) -> Result<(), String> {
        let nodes = [context.node, context.model.ends[&peer].node];
        let places = runs
            .iter()
            .flat_map(|(place, pages)| (0..*pages).map(|page| place.offset(page * PAGE)));
        let segments = cover.segments.iter().flatten().flat_map(|segment| {
            let page = |start: usize| Segment {
                pin: segment.pin,
                bytes: start..start + PAGE as usize,
            };
            segment.bytes.clone().step_by(PAGE as usize).map(page)
        });
        let pages: Vec<_> = places.zip(segments).collect();
        let count: u64 = runs.iter().map(|(_, pages)| pages).sum();
        if pages.len() as u64 != count {
            return Err(format!(
                "{count} pages were given, {} are there",
                pages.len()
            ));
        }
        for (place, segment) in &pages {
            let address = context.model.address(segment.pin, segment.bytes.start);
            let bus = address.map(|a| context.memory.export(nodes[0] as u16, a));
            let is_right = match *place {
                Place::Own(own) => nodes[0] == nodes[1] && Some(own) == address,
                Place::Peer(node, there) => usize::from(node) == nodes[1] && Some(there) == bus,
            };
            if !is_right {
                return Err(format!("{place:?} is not the page at {address:x?}"));
            }
        }
        context.model.counts.mappings += 1;
        self.held.push(Held {
            name,
            pages,
            protection,
            nodes,
            is_lost: false,
        });
        Ok(())
    }

    /// Reads from a page or writes to it, whatever happened to the window and the connection.
    pub(crate) fn access(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let pick = context.rng.below(self.held.len() as u64) as usize;
        let Some(held) = self.held.get(pick) else {
            return Ok(());
        };
        if held.is_lost {
            return Ok(());
        }
        held.access(context)
    }

    /// Unmaps a part of a mapping.
    pub(crate) fn unmap_some(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let pick = context.rng.below(self.held.len() as u64) as usize;
        let Some(held) = self.held.get_mut(pick) else {
            return Ok(());
        };
        match held.name {
            Name::Mapped(window) => {
                let count = 1 + context.rng.below(held.pages.len() as u64);
                context.engine.unmap(window, count);
                held.pages.truncate(held.pages.len() - count as usize);
                if held.pages.is_empty() {
                    self.held.swap_remove(pick);
                }
            }
            // These end by put_pages or with the endpoint, in `leave`.
            Name::Got(_) => {}
        }
        Ok(())
    }

    /// Returns one range by put_pages.
    pub(crate) fn put_some(
        &mut self,
        context: &mut Context<'_>,
        endpoint: EndpointId,
    ) -> Result<(), String> {
        let found = self
            .held
            .iter()
            .position(|h| matches!(h.name, Name::Got(_)));
        let cookie = match found.map(|at| self.held.swap_remove(at).name) {
            Some(Name::Got(cookie)) => cookie,
            _ => return Ok(()),
        };
        let expected = Expectation {
            errors: Vec::new(),
            is_bad: false,
        };
        let result = context.engine.put_pages(endpoint, cookie);
        judge(context, endpoint, "put_pages", result, &expected)?;
        let again = context.engine.put_pages(endpoint, cookie);
        let expected = Expectation {
            errors: vec![Error::InvalidArgument],
            is_bad: true,
        };
        judge(context, endpoint, "a second put_pages", again, &expected)?;
        Ok(())
    }

    /// Handles the close of the endpoint: pages from get_pages are gone, mappings stay until they
    /// are unmapped.
    pub(crate) fn leave(&mut self, context: &mut Context<'_>) {
        let mapped = |held: &Held| matches!(held.name, Name::Mapped(_));
        context.orphans.extend(self.held.drain(..).filter(mapped));
    }

    /// Marks the mappings across the link between two nodes, or across any link of `node`, as
    /// lost.
    pub(crate) fn lose(&mut self, node: usize, other: Option<usize>) {
        self.held.iter_mut().for_each(|held| held.lose(node, other));
    }
}

impl Held {
    /// Checks that the mapped pages are still there.
    ///
    /// # Errors When a page is gone.
    pub fn check(&self, model: &Model) -> Result<(), String> {
        let mut pages = self.pages.iter().map(|(_, page)| page.pin);
        match pages.find(|pin| !self.is_lost && model.address(*pin, 0).is_none()) {
            Some(pin) => Err(format!("a mapped page of {pin:?} was released")),
            None => Ok(()),
        }
    }

    /// Marks the pages as lost if they are across the link between two nodes, or across any link
    /// of `node`.
    pub fn lose(&mut self, node: usize, other: Option<usize>) {
        let is_remote = self.nodes[0] != self.nodes[1];
        let concerned =
            self.nodes.contains(&node) && other.is_none_or(|other| self.nodes.contains(&other));
        self.is_lost |= is_remote && concerned;
    }

    /// Reads from a page or writes to it.
    ///
    /// # Errors When the page was released, or has the wrong content.
    pub fn access(&self, context: &mut Context<'_>) -> Result<(), String> {
        let pick = context.rng.below(self.pages.len() as u64) as usize;
        let Some((place, page)) = self.pages.get(pick) else {
            return Ok(());
        };
        if context.model.address(page.pin, 0).is_none() {
            return Err(format!("a mapped page of {:?} was released", page.pin));
        }
        let at = context.rng.below(PAGE);
        let length = (1 + context.rng.size(100)).min(PAGE - at);
        let start = page.bytes.start + at as usize;
        let part = Segment {
            pin: page.pin,
            bytes: start..start + length as usize,
        };
        let parts = std::slice::from_ref(&part);
        let place = place.offset(at);
        let writes = self.protection & Protection::WRITE.bits() != 0 && context.rng.one_in(2);
        if writes && context.model.is_quiet(&[], parts) {
            let data = noise(context.rng, length as usize);
            match place {
                Place::Own(address) => context.memory.write(address, &data),
                Place::Peer(node, address) => context
                    .memory
                    .peer_write(node, address, &data)
                    .map_err(|_| "a mapped page is no memory")?,
            }
            context.model.stored(&part, &data);
            // The model has learned of the store by another way, so it must arrive.
            context.model.is_quiet(parts, &[]);
        } else if context.model.is_quiet(parts, &[]) {
            let mut data = vec![0; length as usize];
            match place {
                Place::Own(address) => context.memory.read(address, &mut data),
                Place::Peer(node, address) => context
                    .memory
                    .peer_read(node, address, &mut data)
                    .map_err(|_| "a mapped page is no memory")?,
            }
            if data != context.model.content(parts) {
                return Err(format!("a mapped page of {:?} holds other bytes", page.pin));
            }
        }
        Ok(())
    }
}
