//! A page for each program: what `--help`, `man` and the shell's `help` print.

use alloc::format;
use alloc::string::String;

/// The manual of a program.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    /// Its purpose, in one line.
    pub purpose: &'static str,
    /// Its options, a line each; may be empty.
    pub details: &'static str,
}

/// For a program that does not begin with [`main!`](crate::main).
#[cfg(target_os = "redox")]
pub(crate) const UNKNOWN: Page = page_of("?", "", "", "");

const fn page_of(
    name: &'static str,
    arguments: &'static str,
    purpose: &'static str,
    details: &'static str,
) -> Page {
    Page {
        name,
        arguments,
        purpose,
        details,
    }
}

/// The text about services that start with the system.
const FIRST: &str = "the system starts with it\n";
/// The text about all other services.
const SERVICE: &str = "start scripts start it (/scheme/initfs/lib/init.d)\n";

/// All pages, by name.
pub const PAGES: &[Page] = &[
    page_of("acpid", "", "a service: reads ACPI tables", SERVICE),
    page_of(
        "as",
        "uid program [argument…]",
        "run a program as another user and group (root)",
        "",
    ),
    page_of("cat", "[file…]", "write files to standard output", ""),
    page_of("clear", "", "clear the screen", ""),
    page_of(
        "cmp",
        "[-s] file file",
        "compare byte by byte: 0 the same, 1 different, 2 trouble",
        "-s  print nothing\n",
    ),
    page_of(
        "consoled",
        "",
        "a service: edits the console's lines",
        SERVICE,
    ),
    page_of(
        "cp",
        "[-r] source… target",
        "copy files; the target may be a directory",
        "-r  directories and what is in them\n",
    ),
    page_of(
        "cut",
        "-b|-c|-f list [-d character] [-s] [file…]",
        "print parts of lines",
        "-b list  bytes\n-c list  characters\n-f list  fields, separated by tabs or -d\n\
         -d c     the character between fields\n-s       leave lines without it out\n\
         list: 1 2-4 5- -3, separated by commas\n",
    ),
    page_of("date", "", "print the time of day (UTC)", ""),
    page_of(
        "dd",
        "[if=file] [of=file] [bs=size] [count=blocks] [skip=blocks] [pause=seconds]",
        "copy in blocks of a chosen size",
        "iflag=fullblock  fill each block\nstatus=none      print no counts\n",
    ),
    page_of("dmesg", "", "print the log", ""),
    page_of(
        "echo",
        "[-n] [-e] [word…]",
        "write the words",
        "-n  no line end\n-e  \\n, \\t and so on mean something\n",
    ),
    page_of(
        "env",
        "[-i] [name=value…] [program argument…]",
        "print the environment, or run a program with another",
        "-i  no variables but these\n",
    ),
    page_of("false", "", "fail", ""),
    page_of(
        "find",
        "[path…] [expression]",
        "list files below directories",
        "-name pattern  whose name matches\n-type f|d      files, or directories\n\
         -maxdepth n    at most n levels below the path\n\
         -size +n|-n    more or less than n bytes\n\
         -print         print (done in any case)\n! before a test turns it round\n",
    ),
    page_of("free", "", "memory of the machine, in KiB", ""),
    page_of(
        "grep",
        "[-EFchilnoqvwx] pattern|-e pattern… [file…]",
        "print lines that match; 0 when there are some, 1 when not",
        "basic regular expressions as in POSIX; the first alternative wins, not the longest\n\
         -E  extended ones           -F  a fixed text\n\
         -c  count only              -l  names of files only\n\
         -i  in any case             -n  with line numbers\n\
         -o  the matches only        -q  nothing\n\
         -v  lines that do not match -w  whole words\n\
         -x  whole lines             -h  no names of files\n",
    ),
    page_of(
        "head",
        "[-n lines | -c bytes] [file…]",
        "the beginning of files",
        "",
    ),
    page_of("hexdump", "[file…]", "bytes as numbers and characters", ""),
    page_of(
        "hostname",
        "",
        "print the name of this machine: host, card1…",
        "the first line of /etc/hostname, if the administrator has put another name there\n",
    ),
    page_of(
        "ib-perf",
        "-s | [options] [node]",
        "measure RDMA verbs between this node and another one",
        "-s           serve: on the other node, first\n\
         --test name  one test: send_lat, write_bw…\n\
         --size n     of so many bytes\n-n count     so many times\n\
         ib-perf --help lists all tests and options\n",
    ),
    page_of(
        "ibctl",
        "…",
        "the RDMA device, and what programs do with it; ibctl --help",
        "",
    ),
    page_of(
        "ibd",
        "",
        "a service: the device of RDMA verbs, serves infiniband:",
        SERVICE,
    ),
    page_of("ibv_devices", "", "list the RDMA devices of this node", ""),
    page_of(
        "ibv_devinfo",
        "[-v] [-l] [-d device]",
        "what the RDMA device and its port are",
        "-v  all that is known\n-l  names only\n-d  of this device\n",
    ),
    page_of(
        "id",
        "[-u | -g]",
        "print user and group",
        "-u  the user only\n-g  the group only\n",
    ),
    page_of("init", "", "process 1: starts the services", FIRST),
    page_of(
        "kill",
        "[-signal] pid…",
        "send a signal (TERM if none is named)",
        "-pid  to the group of this number, -1 to all processes of users\n",
    ),
    page_of(
        "less",
        "[file]",
        "show a text page by page",
        "space, page down  the next page     b, page up  the one before\n\
         d, u              half a page       j, k        a row\n\
         g, G              beginning, end    /text       search\n\
         n, N              the next, the one before\n\
         q                 quit\n\
         what does not go to the console is copied\n",
    ),
    page_of("logd", "", "a service: keeps the log; see dmesg", SERVICE),
    page_of(
        "ls",
        "[-l] [-a] [-1] [path…]",
        "list directories",
        "-l  with attributes\n-a  also names that begin with a dot\n",
    ),
    page_of(
        "madctl",
        "…",
        "the InfiniBand fabric: links, counters, pings; madctl --help",
        "",
    ),
    page_of(
        "man",
        "[name]",
        "print the page of a program, or list all",
        "",
    ),
    page_of(
        "micd",
        "",
        "a service: drives the links to other nodes, serves scif:",
        SERVICE,
    ),
    page_of(
        "mkdir",
        "[-p] directory…",
        "make directories",
        "-p  also those above; existing ones are no error\n",
    ),
    page_of(
        "mv",
        "[-f] source… target",
        "rename files and directories; the target may be a directory",
        "to another file system: copied, then removed\n",
    ),
    page_of(
        "nsmgr",
        "",
        "a service: which schemes programs can name",
        FIRST,
    ),
    page_of("pcid", "", "a service: finds PCI functions", SERVICE),
    page_of("poweroff", "", "switch the machine off (root)", ""),
    page_of("printf", "format [argument…]", "write formatted text", ""),
    page_of("procmgr", "", "a service: keeps processes", FIRST),
    page_of("ps", "", "list the processes", ""),
    page_of("ps2d", "", "a service: the keyboard of a PC", SERVICE),
    page_of("pwd", "", "print the current directory", ""),
    page_of(
        "ramfs",
        "[limit]",
        "a service: files in memory, with /tmp",
        SERVICE,
    ),
    page_of("reboot", "", "start the machine again (root)", ""),
    page_of(
        "rm",
        "[-f] [-r] path…",
        "remove files",
        "-f  nothing there is no error\n-r  directories and what is in them\n",
    ),
    page_of("rmdir", "directory…", "remove empty directories", ""),
    page_of(
        "rsh",
        "[-n] [-l root] node command…",
        "run a command line on another node, by its shell",
        "-n       no standard input\n-l root  the user there, the only one who may\n",
    ),
    page_of(
        "scif-perf",
        "-s | [options] [node]",
        "measure SCIF between this node and another one",
        "-s           serve: on the other node, first\n\
         --test name  one test: msg_rtt, rma_read…\n\
         --size n     size in bytes\n-n count     number of times\n\
         scif-perf --help lists all tests and options\n",
    ),
    page_of(
        "scifblk",
        "serve size | attach",
        "disks of other nodes' memory",
        "serve size  offer memory of this node (64M)\n\
         attach      make the disks of all nodes files of /scheme/disk.scif\n",
    ),
    page_of(
        "scifctl",
        "…",
        "nodes, connections, memory and limits of SCIF; scifctl --help",
        "",
    ),
    page_of(
        "scifrun",
        "node program [argument…]",
        "run a program on another node; scifrun --help",
        "",
    ),
    page_of(
        "scifrund",
        "",
        "a service: runs what scifrun asks for",
        SERVICE,
    ),
    page_of(
        "sed",
        "[-E] [-n] [-e script] script [file…]",
        "edit a stream",
        "-E  extended regular expressions\n-n  print only what p prints\n\
         -e  one of several scripts\n\
         addresses: 5  $  /re/  a,b  a!    commands: s/re/text/[gpiN]  d  p  q  =  y/abc/xyz/\n\
         a text  i text  c text\n",
    ),
    page_of(
        "seq",
        "[first [step]] last",
        "write numbers, one a line",
        "",
    ),
    page_of(
        "sh",
        "[-efiux] [-c commands | script] [argument…]",
        "the shell; `help` lists its commands",
        "",
    ),
    page_of("sha256sum", "[file…]", "print the SHA-256 of files", ""),
    page_of("sleep", "seconds", "wait; fractions are allowed", ""),
    page_of(
        "sort",
        "[-fnru] [-t character] [-k from[,to]]… [file…]",
        "sort lines",
        "-f  in any case   -n  by number   -r  the other way   -u  equal lines once\n\
         -t c     the character between fields (blanks)\n\
         -k 2     from field 2 on; -k 2,2 field 2 only; n, r and f behind it\n",
    ),
    page_of("tail", "[-n lines] [file…]", "the end of files", ""),
    page_of(
        "tee",
        "[-a] [file…]",
        "copy standard input to standard output and to files",
        "-a  append\n",
    ),
    page_of(
        "test",
        "expression",
        "0 when it is true, 1 when false, 2 when it is malformed",
        "",
    ),
    page_of(
        "top",
        "[seconds]",
        "the processes, again and again (^C ends it)",
        "",
    ),
    page_of("touch", "file…", "make files that do not exist", ""),
    page_of(
        "tr",
        "[-c] [-d] [-s] set [set]",
        "replace or remove characters of standard input",
        "-c  the characters that are not in the first set\n-d  remove them\n\
         -s  one in place of several equal ones\n\
         sets: abc a-z \\n \\t \\\\ \\101 [:alpha:] [:upper:] [:space:] …\n",
    ),
    page_of("true", "", "succeed", ""),
    page_of(
        "uname",
        "[-amnrsv]",
        "print the system's name",
        "-s  system  -n  node  -r  release  -v  version  -m  machine  -a  all\n",
    ),
    page_of("uptime", "", "seconds since the machine started", ""),
    page_of(
        "watch",
        "[-n seconds] program [argument…]",
        "run a program again and again (^C ends it)",
        "",
    ),
    page_of(
        "wc",
        "[-l] [-w] [-c] [file…]",
        "count lines, words and bytes",
        "",
    ),
    page_of("whoami", "", "print the user: root or a number", ""),
    page_of(
        "yes",
        "[word…]",
        "write the words for ever, or until nobody reads",
        "",
    ),
    page_of(
        "zerod",
        "null|zero|rand",
        "a service: an endless file",
        SERVICE,
    ),
];

/// The page of the program that a crate is, by `CARGO_BIN_NAME`. It is found while the program is
/// compiled, so that the program contains its own page and not all of them.
pub const fn page_of_program(name: &str) -> Page {
    let mut index = 0;
    while index < PAGES.len() {
        if is_same(PAGES[index].name, name) {
            return PAGES[index];
        }
        index += 1;
    }
    panic!("the program has no page in the manual");
}

/// `left == right`, which cannot be asked while a program is compiled.
const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut index = 0;
    while index < left.len() && index < right.len() && left[index] == right[index] {
        index += 1;
    }
    index == left.len() && index == right.len()
}

/// The page of a program, by its name or path.
pub fn page(program: &str) -> Option<&'static Page> {
    let name = program.rsplit('/').next().unwrap_or(program);
    PAGES.iter().find(|page| page.name == name)
}

impl Page {
    /// How to call the program.
    pub fn usage(&self) -> String {
        let space = if self.arguments.is_empty() { "" } else { " " };
        format!("{}{space}{}", self.name, self.arguments)
    }

    /// The whole page.
    pub fn text(&self) -> String {
        let mut text = format!("usage: {}\n\n{}\n", self.usage(), self.purpose);
        if !self.details.is_empty() {
            text.push('\n');
        }
        for line in self.details.lines() {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }

    /// Name and version.
    pub fn version(&self) -> String {
        format!("{} (Skiff) {}\n", self.name, env!("CARGO_PKG_VERSION"))
    }

    /// The program's line in a list.
    pub fn line(&self) -> String {
        format!("  {:12} {}\n", self.name, self.purpose)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_program_has_a_page() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin");
        let mut programs: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.trim_end_matches(".rs").into())
            .collect();
        let elsewhere = [
            "ib-perf",
            "ibctl",
            "ibv_devices",
            "ibv_devinfo",
            "madctl",
            "rsh",
            "scif-perf",
            "scifblk",
            "scifctl",
            "scifrun",
            "sh",
        ];
        let services = [
            "acpid", "consoled", "ibd", "init", "logd", "micd", "nsmgr", "pcid", "procmgr", "ps2d",
            "ramfs", "scifrund", "zerod",
        ];
        programs.extend(services.map(String::from));
        programs.extend(elsewhere.map(String::from));
        programs.sort();
        let pages: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
        assert_eq!(pages, programs);
    }

    #[test]
    fn pages_are_found_and_printed() {
        let text = page("/scheme/initfs/bin/rm").unwrap().text();
        let expected = "usage: rm [-f] [-r] path…\n\nremove files\n\n  -f  nothing there";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(
            page("pwd").unwrap().text(),
            "usage: pwd\n\nprint the current directory\n"
        );
        assert!(page("pwd").unwrap().version().starts_with("pwd (Skiff) "));
        assert!(page("none").is_none());
        for page in PAGES {
            assert_eq!(page_of_program(page.name).name, page.name);
        }
    }

    #[test]
    fn lines_fit_a_screen() {
        for page in PAGES {
            assert!(page.line().chars().count() <= 80, "{}", page.name);
        }
    }
}
