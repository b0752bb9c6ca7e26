//! Handles of file tables: list, copy, choose, and change another table.

use alloc::{
    string::ToString,
    sync::{Arc, Weak},
    vec::Vec,
};

use ::syscall::{
    data::GlobalSchemes,
    error::{EBADF, EINVAL, ELOOP, ENOMEM, EOPNOTSUPP, EOWNERDEAD, Error, Result},
    flag::FileTableVerb,
};

use super::{Kind, TableRef, handle_of_fd, number_of_fd, open, set_kind};
use crate::{
    mm::UserBuf,
    object::Description,
    proc::{self, FileTable},
    sched::{Context, ContextRef},
    scheme::{OpenResult, kernel_id},
};

/// Most descriptors that one Close may name.
const MAX_CLOSE: usize = 65_536;

impl TableRef {
    fn get(&self) -> Option<Arc<FileTable>> {
        match self {
            Self::Owned(table) => Some(table.clone()),
            Self::Borrowed(table) => table.upgrade(),
        }
    }
}

fn alive(table: &TableRef) -> Result<Arc<FileTable>> {
    table.get().ok_or(Error::new(EOWNERDEAD))
}

/// The numbers in use: words, or decimal lines.
fn listing(table: &FileTable, binary: bool) -> Result<Arc<Vec<u8>>> {
    let numbers = table.numbers()?;
    let mut bytes = Vec::new();
    let mut add = |part: &[u8]| {
        let reserved = bytes.try_reserve(part.len());
        reserved.map(|()| bytes.extend_from_slice(part))
    };
    let added = numbers.iter().try_for_each(|&number| match binary {
        true => add(&(number as u64).to_le_bytes()),
        false => add((number.to_string() + "\n").as_bytes()),
    });
    added.map_err(|_| Error::new(ENOMEM))?;
    Ok(Arc::new(bytes))
}

/// The handle of a context's table, with a listing as of now.
pub fn of_context(context: &Context, binary: bool) -> Result<Kind> {
    let table = proc::files_of(context);
    let listing = listing(&table, binary)?;
    Ok(Kind::FileTable {
        table: TableRef::Borrowed(Arc::downgrade(&table)),
        binary,
        listing,
    })
}

/// `copy` makes a table with the same descriptors; `refresh` makes a new listing.
pub fn open_part(
    context: ContextRef,
    table: &TableRef,
    binary: bool,
    listing: Arc<Vec<u8>>,
    name: &str,
) -> Result<OpenResult> {
    let kind = match (name, table) {
        ("copy", TableRef::Borrowed(_)) => {
            let table = TableRef::Owned(Arc::new(alive(table)?.copy()?));
            Kind::FileTable {
                table,
                binary,
                listing,
            }
        }
        ("refresh", TableRef::Borrowed(weak)) => {
            let listing = self::listing(&*alive(table)?, binary)?;
            Kind::FileTable {
                table: TableRef::Borrowed(weak.clone()),
                binary,
                listing,
            }
        }
        _ => return Err(Error::new(EINVAL)),
    };
    open(context, kind)
}

/// Writes to `current-filetable`: the table behind a descriptor takes effect once the handle is
/// closed. A copied table then belongs to its context; the handle that it came from only refers to
/// it.
pub fn choose(number: usize, buf: UserBuf) -> Result<usize> {
    let fd = buf.word(0)?;
    let source = number_of_fd(fd)?;
    let Kind::FileTable {
        table,
        binary,
        listing,
    } = handle_of_fd(fd)?.kind
    else {
        return Err(Error::new(EBADF));
    };
    // A copy that holds the descriptor of this very handle would keep the handle, and the handle
    // the copy, for ever.
    let chosen = alive(&table)?;
    let own = |file: &Description| {
        file.scheme() == kernel_id(GlobalSchemes::Proc) && file.number() == number
    };
    let is_copy = matches!(table, TableRef::Owned(_));
    if is_copy && chosen.entries()?.iter().any(|(_, file)| own(file)) {
        return Err(Error::new(ELOOP));
    }
    // The table of a context is not kept: it may hold the descriptor of this very handle, and then
    // neither would ever be dropped.
    let left = TableRef::Borrowed(Arc::downgrade(&chosen));
    set_kind(number, Kind::AwaitingFileTable(table))?;
    set_kind(
        source,
        Kind::FileTable {
            table: left,
            binary,
            listing,
        },
    )?;
    Ok(size_of::<usize>())
}

/// Gives a context the chosen table. If the table's last context has ended meanwhile, the table no
/// longer exists and the context keeps its own: closing a handle cannot report an error.
pub fn enter(context: &Context, table: &TableRef) {
    if let Some(table) = table.get() {
        proc::set_files(context, table);
    }
}

/// Puts a sent descriptor at the number in the metadata and closes the one before. As on Redox, it
/// goes into the table that the context has now, whatever table the handle shows.
pub fn insert(context: &Context, files: Vec<Arc<Description>>, metadata: &[u64]) -> Result<usize> {
    let &[target, ..] = metadata else {
        return Err(Error::new(EINVAL));
    };
    let file = files.into_iter().next().ok_or(Error::new(EINVAL))?;
    proc::files_of(context).replace(target as usize, file)?;
    Ok(0)
}

/// Calls on the handle of a context's file table.
pub fn call(
    context: &Context,
    table: &Weak<FileTable>,
    payload: UserBuf,
    metadata: &[u64],
) -> Result<usize> {
    let verb = metadata.first().and_then(|&verb| u8::try_from(verb).ok());
    let verb = verb
        .and_then(FileTableVerb::try_from_raw)
        .ok_or(Error::new(EINVAL))?;
    let table = || table.upgrade().ok_or(Error::new(EBADF));
    match verb {
        FileTableVerb::Close => {
            let fds = payload.words(MAX_CLOSE)?;
            let table = table()?;
            let files = table.take_all(&fds)?;
            files.into_iter().for_each(|file| table.close(file));
            Ok(fds.len())
        }
        FileTableVerb::Dup2 => {
            let (old, new) = (payload.word(0)?, payload.word(1)?);
            if old != new {
                let files = proc::files_of(context);
                let file = files.get(old)?;
                files.replace(new, file)?;
            }
            Ok(0)
        }
        FileTableVerb::Resize => {
            let &[_, which, size] = metadata else {
                return Err(Error::new(EINVAL));
            };
            table()?.resize(which as usize, size as usize)?;
            Ok(size as usize)
        }
        _ => Err(Error::new(EOPNOTSUPP)),
    }
}
