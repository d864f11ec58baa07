//! What fails, and what becomes of the process and the machine then.

use std::fmt;

use thermocline_testkit::Rng;

/// The calls that are in between, as the shim numbers them.
pub(crate) const CALLS: [&str; 16] = [
    "sync",
    "sync of the region",
    "msync",
    "sync folder",
    "write",
    "allocate",
    "truncate",
    "open",
    "create",
    "rename",
    "unlink",
    "mkdir",
    "link",
    "map",
    "read",
    "touch",
];
/// Not a call: the first store into a clean page of a mapping. The power can go there.
const TOUCH: usize = 15;

/// An error of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Errno {
    Eintr = 4,
    Eio = 5,
    Enomem = 12,
    Emfile = 24,
    Enospc = 28,
    Edquot = 122,
    /// None: the call answers that it has done what it has not.
    Lie = 1000,
}

use Errno::{Edquot, Eintr, Eio, Emfile, Enomem, Enospc, Lie};

impl Errno {
    pub fn name(self) -> &'static str {
        match self {
            Eintr => "EINTR",
            Eio => "EIO",
            Enomem => "ENOMEM",
            Emfile => "EMFILE",
            Enospc => "ENOSPC",
            Edquot => "EDQUOT",
            Lie => "a lie",
        }
    }
}

/// The errors that a call can fail with. What is interrupted for ever has no end, and is not asked for.
pub(crate) fn errors(call: usize) -> &'static [Errno] {
    match CALLS[call] {
        "sync" | "sync of the region" | "msync" | "sync folder" => &[Eio, Enospc, Edquot, Eintr],
        "write" | "allocate" => &[Enospc, Eio, Edquot, Eintr],
        "truncate" => &[Eio, Enospc, Eintr],
        "open" => &[Emfile, Eio, Eintr],
        "create" => &[Emfile, Enospc, Edquot, Eio, Eintr],
        "rename" | "mkdir" | "link" => &[Enospc, Edquot, Eio],
        "unlink" => &[Eio],
        "map" => &[Enomem],
        "read" => &[Eio, Eintr],
        _ => &[],
    }
}

/// A call that fails, once or from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub call: usize,
    /// The how many-th call of its kind in the process, from 0.
    pub index: u64,
    /// `None`: nothing fails there, but the power may go.
    pub error: Option<Errno>,
    pub for_ever: bool,
    /// The process ends after so many more calls.
    pub ends_after: Option<u64>,
    /// A sync that fails takes along all dirty pages of its file.
    pub whole: bool,
}

impl Fault {
    /// As the shim reads it.
    pub fn text(&self) -> String {
        let error = self.error.map_or(0, |error| error as i32);
        let times = if self.for_ever { u64::MAX } else { 1 };
        let cut = self.ends_after.map_or(-1, |n| i64::try_from(n).unwrap());
        let whole = i32::from(self.whole);
        format!("{} {} {error} {times} {cut} {whole}", self.call, self.index)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error.map_or("nothing", Errno::name);
        let often = if self.for_ever { "for ever" } else { "once" };
        write!(
            f,
            "{error} from {} {} {often}",
            CALLS[self.call], self.index
        )?;
        if let Some(n) = self.ends_after {
            write!(f, ", the process ends {n} calls later")?;
        }
        Ok(())
    }
}

/// What happens between two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Nothing: the next one finds the page cache.
    Keep,
    /// Write-back fails, and nobody is told.
    Lose,
    /// Clean pages leave memory.
    Evict,
    /// The power goes.
    Cut,
}

/// One process.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub fault: Option<Fault>,
    pub ops: u64,
    pub closes: bool,
    pub gap: Gap,
}

/// A fault: in the first process, which makes the store, or in one that recovers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub recovers: bool,
    pub call: usize,
    /// The how many-th call of its kind, from 0.
    pub index: u64,
    pub error: Errno,
    pub for_ever: bool,
}

/// Operations of a process, usually.
pub(crate) const OPS: u64 = 45;

/// How the processes follow each other, in a disk's story.
fn gaps(rng: &mut Rng) -> Vec<Gap> {
    let between = *rng.pick(&[Gap::Keep, Gap::Keep, Gap::Lose, Gap::Evict, Gap::Cut]);
    match rng.below(5) {
        0 => vec![Gap::Cut],
        1..4 => vec![between, Gap::Cut],
        _ => vec![between, *rng.pick(&[Gap::Keep, Gap::Lose]), Gap::Cut],
    }
}

/// The stories of which each run tells some: in their seed's last digit.
pub(crate) const CACHE_IS_TRUSTED: u64 = 0;
pub(crate) const GROWTH_FAILS: u64 = 1;
pub(crate) const MADE_TWICE: u64 = 2;

/// How often each call is made where nothing fails.
#[derive(Debug)]
pub(crate) struct Calls {
    /// By a process that makes a store and writes, and by the one that recovers it.
    pub usual: [Vec<u64>; 2],
    /// By the first, where the region grows.
    pub growing: Vec<u64>,
    /// By one that makes a store and ends.
    pub making: Vec<u64>,
}

impl Calls {
    /// By the first process of a story.
    pub fn first(&self, seed: u64) -> &[u64] {
        if grows(seed) {
            &self.growing
        } else {
            &self.usual[0]
        }
    }
}

/// Stories that are rare otherwise. `None` for a seed without one, and where the shape makes no such calls.
pub(crate) fn directed(seed: u64, calls: &Calls, rng: &mut Rng) -> Option<Vec<Life>> {
    match seed % 10 {
        CACHE_IS_TRUSTED => cache_is_trusted(calls, rng),
        GROWTH_FAILS => growth_fails(calls, rng),
        MADE_TWICE => Some(made_twice(calls, rng)),
        _ => None,
    }
}

fn number(name: &str) -> usize {
    let call = CALLS.iter().position(|call| *call == name);
    call.expect("a call that there is")
}

fn failed_sync(call: usize, index: u64, rng: &mut Rng) -> Fault {
    Fault {
        call,
        index,
        error: Some(*rng.pick(&[Enospc, Edquot, Eio])),
        for_ever: false,
        ends_after: None,
        whole: true,
    }
}

/// A sync fails, the process ends, the next one finds what the disk does not have and does little, and the power goes.
fn cache_is_trusted(calls: &Calls, rng: &mut Rng) -> Option<Vec<Life>> {
    let name = *rng.pick(&["msync", "sync"]);
    let call = number(name);
    let made = Some(calls.usual[0][call]).filter(|made| *made > 0)?;
    let mut fault = failed_sync(call, rng.next_u64() % made, rng);
    fault.ends_after = Some(rng.below(6) as u64);
    Some(vec![
        Life {
            fault: Some(fault),
            ops: OPS,
            closes: false,
            gap: Gap::Keep,
        },
        Life {
            fault: None,
            ops: rng.below(3) as u64,
            closes: false,
            gap: Gap::Cut,
        },
    ])
}

/// The sync of a region that grows fails as if the disk were full, where others' writes wait to be written back.
fn growth_fails(calls: &Calls, rng: &mut Rng) -> Option<Vec<Life>> {
    let call = number("sync of the region");
    // A region is made with a sync, too, before there is anything to lose.
    let made = calls.growing[call]
        .checked_sub(1)
        .filter(|made| *made > 0)?;
    let fault = failed_sync(call, 1 + rng.next_u64() % made, rng);
    Some(vec![Life {
        fault: Some(fault),
        ops: OPS,
        closes: false,
        gap: Gap::Cut,
    }])
}

/// A process ends while it makes a store, and so does the one that finds what there is and begins anew; then the power goes.
fn made_twice(calls: &Calls, rng: &mut Rng) -> Vec<Life> {
    let ends = |call: &str, index| Fault {
        call: number(call),
        index,
        error: None,
        for_ever: false,
        ends_after: Some(0),
        whole: false,
    };
    // While it makes the region.
    let call = *rng.pick(&["allocate", "sync of the region", "write", "msync", "map"]);
    let made = calls.making[number(call)].max(1);
    let first = ends(call, rng.next_u64() % made);
    // While that is removed, and begun anew.
    let call = *rng.pick(&["unlink", "create", "sync folder", "sync", "write"]);
    let second = ends(call, rng.below(2) as u64);
    let gaps = [Gap::Keep, Gap::Cut];
    let lives = [first, second].into_iter().zip(gaps);
    lives
        .map(|(fault, gap)| Life {
            fault: Some(fault),
            ops: 1,
            closes: false,
            gap,
        })
        .collect()
}

/// Whether so much is written that the region grows.
pub(crate) fn grows(seed: u64) -> bool {
    seed % 10 == GROWTH_FAILS
}

/// Whether most writes of a store are `Buffered`, so that something waits whenever the region grows.
pub(crate) fn is_buffered(seed: u64) -> bool {
    grows(seed) || seed.is_multiple_of(3)
}

/// A story around a fault at a point. After it comes a process without faults that checks.
pub(crate) fn story(disk: bool, point: Point, calls: &[u64], rng: &mut Rng) -> Vec<Life> {
    let ends_after = match rng.below(4) {
        0 => Some(rng.below(4) as u64),
        1 => Some(rng.below(60) as u64),
        _ => None,
    };
    let fault = Fault {
        call: point.call,
        index: point.index,
        error: Some(point.error),
        for_ever: point.for_ever,
        ends_after,
        whole: rng.one_in(2),
    };
    let mut gaps = gaps(rng);
    if point.recovers && gaps.len() == 1 {
        gaps.insert(0, *rng.pick(&[Gap::Keep, Gap::Cut]));
    }
    let mut lives: Vec<Life> = gaps
        .into_iter()
        .map(|gap| Life {
            fault: None,
            // Few, so that what was recovered is still where it was; or many.
            ops: *rng.pick(&[0, 1, 2, 5, 12, 30]),
            closes: rng.one_in(2),
            gap: if disk { gap } else { Gap::Keep },
        })
        .collect();
    lives[0].ops = OPS;
    if point.recovers {
        lives[0].fault = Some(end(calls, rng));
        lives[1].fault = Some(fault);
    } else {
        lives[0].fault = Some(fault);
    }
    // The one after may end anywhere, too.
    if let Some(last) = lives.iter_mut().skip(1).find(|life| life.fault.is_none())
        && rng.one_in(3)
    {
        last.fault = Some(end(calls, rng));
    }
    lives
}

/// The process ends at some call.
fn end(calls: &[u64], rng: &mut Rng) -> Fault {
    let made: Vec<usize> = (0..=TOUCH).filter(|call| calls[*call] > 0).collect();
    let call = *rng.pick(&made);
    Fault {
        call,
        index: rng.next_u64() % calls[call],
        error: None,
        for_ever: false,
        ends_after: Some(0),
        whole: false,
    }
}
