//! The `acpi` scheme: read-only files with the firmware's tables.
//!
//! ```text
//! /scheme/acpi/                    directory: tables
//! /scheme/acpi/tables/             directory of tables
//! /scheme/acpi/tables/<name>       contents, named as table.rs says
//! ```

use alloc::vec::Vec;

use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use scheme::{Handles, SchemeDaemon, list_directory, read_at, tree};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{EACCES, EBADF, EISDIR, ENOENT, ENOTDIR, EPERM, Error, Result};
use syscall::flag::{EventFlags, O_ACCMODE, O_RDONLY};

use crate::table::Table;

/// The scheme's state.
pub struct AcpiScheme {
    tables: Vec<Table>,
    handles: Handles<Handle>,
}

#[derive(Clone, Copy)]
struct Handle {
    kind: Kind,
    /// Opened for its status only.
    stat_only: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Root,
    Tables,
    /// Index of the table.
    Table(usize),
}

impl AcpiScheme {
    /// The scheme over these tables.
    pub fn new(tables: Vec<Table>) -> Self {
        Self {
            tables,
            handles: Handles::default(),
        }
    }

    fn handle(&self, id: usize) -> Result<Handle> {
        self.handles.get(id).copied()
    }

    fn resolve(&self, path: &str) -> Result<Kind> {
        match path.split_once('/').unwrap_or((path, "")) {
            ("", _) => Ok(Kind::Root),
            ("tables", "") => Ok(Kind::Tables),
            ("tables", name) => {
                let index = self.tables.iter().position(|table| table.name == name);
                index.map(Kind::Table).ok_or(Error::new(ENOENT))
            }
            _ => Err(Error::new(ENOENT)),
        }
    }
}

impl SchemeSync for AcpiScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.handles.add(Handle {
            kind: Kind::Root,
            stat_only: false,
        }))
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        if !matches!(self.handle(dir)?.kind, Kind::Root) {
            return Err(Error::new(EACCES));
        }
        let kind = self.resolve(path.trim_matches('/'))?;
        let is_file = matches!(kind, Kind::Table(_));
        let stat_only = tree::check_open(!is_file, flags)?;
        if !stat_only && is_file && flags & O_ACCMODE & !O_RDONLY != 0 {
            return Err(Error::new(EACCES));
        }
        Ok(self.handles.open_positioned(Handle { kind, stat_only }))
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match self.handle(id)? {
            Handle {
                stat_only: true, ..
            } => Err(Error::new(EBADF)),
            Handle {
                kind: Kind::Table(index),
                ..
            } => Ok(read_at(&self.tables[index].bytes, buf, offset)),
            Handle { .. } => Err(Error::new(EISDIR)),
        }
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        match self.handle(id)?.kind {
            Kind::Table(index) => Ok(self.tables[index].bytes.len() as u64),
            Kind::Root | Kind::Tables => Err(Error::new(EISDIR)),
        }
    }

    /// Tables are always ready, so they have no events.
    fn fevent(&mut self, id: usize, _flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        self.handle(id)?;
        Err(Error::new(EPERM))
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        match self.handle(id)?.kind {
            Kind::Table(index) => tree::stat_file(stat, self.tables[index].bytes.len()),
            Kind::Root | Kind::Tables => tree::stat_directory(stat),
        }
        Ok(())
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        match self.handle(id)? {
            Handle {
                stat_only: true, ..
            } => Err(Error::new(EBADF)),
            Handle {
                kind: Kind::Root, ..
            } => list_directory(buf, opaque, [("tables", DirentKind::Directory)]),
            Handle {
                kind: Kind::Tables, ..
            } => {
                let files = self
                    .tables
                    .iter()
                    .map(|table| (&*table.name, DirentKind::Regular));
                list_directory(buf, opaque, files)
            }
            Handle {
                kind: Kind::Table(_),
                ..
            } => Err(Error::new(ENOTDIR)),
        }
    }

    fn on_close(&mut self, id: usize) {
        self.handles.remove(id);
    }
}

impl SchemeDaemon for AcpiScheme {}
