//! A piece of a table while it is written: what lies in one zone, which may be made wider for a large entry.
//!
//! Values go to persistent memory as they come. Of keys a piece keeps in DRAM what its groups say, since what keys share is known only
//! when the piece ends. That is at most what a zone can hold. A piece that has [`PM_PIECE_DRAM`] of it makes its zone no wider.

use std::ops::Range;

use thermocline_base::numbers::len32;
use thermocline_base::varint::put_varint;
use thermocline_base::{CfId, Kind, SeqNo};
use thermocline_halloc::Zone;
use thermocline_pm::Region;
use thermocline_policy::tuning::{PM_PIECE_DRAM, PM_TABLE_GATHERED};

use crate::format::coding::shared;
use crate::format::group::{EntryHead, Stored};
use crate::format::header::{Header, Totals};
use crate::format::runs::RunHead;
use crate::format::{
    ARRAY_ALIGN, BLOCK_LEN, GROUP_HEAD, GROUP_LEN_FULL, HEADER_LEN, INLINE_MAX, SHARED_MAX,
    block_groups,
};
use crate::identity::TableIdentity;
use crate::output::Output;
use crate::plan::{Groups, PAD_MAX, PLACE_MAX, RUN_MAX, RunPlan, plan};
use crate::value::Value;

/// An entry that is to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEntry<'a> {
    pub cf: CfId,
    pub user_key: &'a [u8],
    pub seqno: SeqNo,
    pub kind: Kind,
    pub value: Value<'a>,
    /// Bytes of its user key that the entry before in the table has, too; `None` if that is of another family, or not there.
    pub kept: Option<usize>,
    /// Whether the entry before is of the same key.
    pub same_key: bool,
}

impl NewEntry<'_> {
    fn inline_len(&self) -> usize {
        match self.value {
            Value::Inline(bytes) if bytes.len() <= INLINE_MAX => bytes.len(),
            Value::Inline(_) => 0,
            Value::Blob(_) => thermocline_base::blob_ref::BLOB_REF_LEN,
        }
    }

    fn apart_len(&self) -> usize {
        match self.value {
            Value::Inline(bytes) if bytes.len() > INLINE_MAX => bytes.len(),
            _ => 0,
        }
    }
}

/// A group that is complete but for what the plan says.
#[derive(Debug)]
struct Group {
    cf: CfId,
    seqno: SeqNo,
    /// In `keys`.
    first_key: Range<usize>,
    /// Bytes of the separator, if a run began here; with the seqno of the first entry if that is its
    /// key, since the entry before has the same.
    separator: usize,
    continued: bool,
    /// In `bodies`: what stands before the rest of the first key, and what stands behind it.
    head: Range<usize>,
    tail: Range<usize>,
    values: u32,
}

/// The group that takes entries.
#[derive(Debug, Default)]
struct Open {
    heads: Vec<EntryHead>,
    /// Rests of keys, with values that lie with them, one entry behind the other.
    bytes: Vec<u8>,
    /// Bytes that it takes at most, the first key apart.
    len_max: usize,
    /// What was added to the piece's layers for it.
    layers: usize,
    values: u32,
    cf: CfId,
    first_key: Vec<u8>,
    separator: usize,
    continued: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Piece {
    identity: TableIdentity,
    zone: Zone,
    seed: u64,
    capacity: usize,
    group_size: usize,
    out: Output,
    groups: Vec<Group>,
    keys: Vec<u8>,
    bodies: Vec<u8>,
    open: Open,
    entries: u64,
    /// What groups, arrays and runs take at most, without what keys share.
    layers_max: usize,
    /// Of the families before the last one: what is taken off their first keys.
    shared_before: usize,
    /// The groups of the last family, the open one included; what their first keys share, and the first of those.
    last_family: (usize, usize, Vec<u8>),
}

/// What an entry changes in what a piece takes at most.
pub(crate) struct Growth {
    /// Bytes of layers at most.
    layers: usize,
    /// Of those, what a run takes that it begins.
    run: usize,
    opens: bool,
    begins_family: bool,
    /// What the first keys of its family share then.
    shared: usize,
}

impl Piece {
    /// Bytes that a piece needs of its zone so that it takes this entry as its first.
    pub fn bytes_for(entry: &NewEntry<'_>) -> u64 {
        let key = 2 * entry.user_key.len() + SHARED_MAX;
        let value = entry.inline_len() + entry.apart_len();
        (key + value + SLACK + RUN_MAX + GROUP_MAX + ENTRY_MAX) as u64
    }

    /// Bytes that a piece needs of its zone beside range tombstones of so many bytes.
    pub fn bytes_for_tombstones(len: usize) -> u64 {
        (len + SLACK) as u64
    }

    pub fn new(region: Region, identity: TableIdentity, zone: Zone, group_size: usize) -> Piece {
        let seed = identity.seed(zone.generation);
        Piece {
            capacity: thermocline_base::size::index(zone.end.0 - zone.data.0),
            out: Output::new(region, zone.data, seed),
            identity,
            zone,
            seed,
            group_size,
            groups: Vec::new(),
            keys: Vec::new(),
            bodies: Vec::new(),
            open: Open::default(),
            entries: 0,
            layers_max: 0,
            shared_before: 0,
            last_family: (0, 0, Vec::new()),
        }
    }

    /// Most bytes that it takes, if it is finished now.
    pub fn len_max(&self) -> usize {
        let (groups, shared, _) = &self.last_family;
        let off = self.shared_before + groups * shared;
        self.out.len() + SLACK - HEADER_LEN + self.layers_max - off
    }

    /// Bytes of DRAM that it takes.
    pub fn memory(&self) -> usize {
        let groups = self.groups.capacity() * size_of::<Group>();
        let open = self.open.bytes.capacity() + self.open.heads.capacity() * size_of::<EntryHead>();
        self.keys.capacity() + self.bodies.capacity() + groups + open + PM_TABLE_GATHERED
    }

    #[inline]
    fn growth(&self, entry: &NewEntry<'_>) -> Growth {
        let open = &self.open;
        let begins_family = open.heads.is_empty() && self.groups.is_empty() || open.cf != entry.cf;
        let opens =
            begins_family || open.heads.len() == self.group_size || open.len_max >= GROUP_LEN_FULL;
        let key = entry.user_key;
        let rest = match opens {
            true => key.len(),
            false => key.len() - entry.kept.unwrap_or(0),
        };
        let mut layers = ENTRY_MAX + rest + entry.inline_len();
        if opens {
            layers += GROUP_MAX;
        }
        // Of a run: its separator, and what it shares, which is taken off in the first group.
        let run = match begins_family {
            true => RUN_MAX + 2 * key.len().min(SHARED_MAX) + key.len(),
            false => 0,
        };
        layers += run;
        let shared = match (begins_family, opens) {
            (true, _) => key.len().min(SHARED_MAX),
            (false, true) => shared(&self.last_family.2, key).min(SHARED_MAX),
            (false, false) => self.last_family.1,
        };
        Growth {
            layers,
            run,
            opens,
            begins_family,
            shared,
        }
    }

    /// What an entry takes, if the piece has room for it.
    pub fn room_for(&self, entry: &NewEntry<'_>) -> Option<Growth> {
        let growth = self.growth(entry);
        (self.len_with(entry, &growth) <= self.capacity).then_some(growth)
    }

    /// What is left of the zone, and what an entry that does not fit needs from there on; `None` if the zone is too long to
    /// grow, or what the piece keeps in DRAM is too much for that.
    pub fn lacks(&self, entry: &NewEntry<'_>) -> Option<(u64, u64)> {
        let left = self.capacity.saturating_sub(self.len_max());
        let needed = left + self.len_with(entry, &self.growth(entry)) - self.capacity;
        let grows = self.memory() < PM_PIECE_DRAM && self.capacity < (u32::MAX / 2) as usize;
        grows.then_some((left as u64, needed as u64))
    }

    /// Its zone was made wider.
    pub fn widen(&mut self, zone: Zone) {
        self.zone = zone;
        self.capacity = thermocline_base::size::index(zone.end.0 - zone.data.0);
    }

    /// Most bytes that it takes with an entry.
    fn len_with(&self, entry: &NewEntry<'_>, growth: &Growth) -> usize {
        let (groups, shared, _) = self.last_family;
        let (before, groups) = match growth.begins_family {
            true => (self.shared_before + groups * shared, 1),
            false => (self.shared_before, groups + usize::from(growth.opens)),
        };
        let layers = self.layers_max + growth.layers - before - groups * growth.shared;
        self.out.len() + entry.apart_len() + SLACK - HEADER_LEN + layers
    }

    /// Whether range tombstones of so many bytes fit behind what it has.
    pub fn has_room_for_tombstones(&self, len: usize) -> bool {
        self.len_max() + len <= self.capacity
    }

    /// Adds an entry, for which there is room.
    pub fn add(&mut self, entry: &NewEntry<'_>, growth: &Growth) {
        if growth.opens {
            self.close_group();
            let (groups, shared, first) = &mut self.last_family;
            if growth.begins_family {
                self.shared_before += *groups * *shared;
                *groups = 0;
                first.clear();
                first.extend_from_slice(entry.user_key);
            }
            *groups += 1;
            *shared = growth.shared;
            let open = &mut self.open;
            open.cf = entry.cf;
            open.values = self.out.at();
            open.first_key.clear();
            open.first_key.extend_from_slice(entry.user_key);
            // What tells it from the entry before: one byte more than they share, or, in a family's first entry, nothing.
            open.separator = match entry.kept {
                Some(kept) => entry.user_key.len().min(kept + 1),
                None => 0,
            };
            open.continued = entry.same_key;
        }
        self.layers_max += growth.layers;
        self.open.layers += growth.layers - growth.run;
        self.push(entry, growth.opens);
        self.entries += 1;
    }

    fn push(&mut self, entry: &NewEntry<'_>, first: bool) {
        let value = match entry.value {
            Value::Blob(to) => Stored::Blob(to),
            Value::Inline(_) if entry.kind == Kind::Delete => Stored::None,
            Value::Inline(bytes) if bytes.len() <= INLINE_MAX => Stored::Inline(bytes.len()),
            Value::Inline(bytes) => {
                let crc = self.out.crc_of(bytes);
                self.out.append(bytes);
                let len = len32(bytes.len());
                Stored::Apart { len, crc }
            }
        };
        let open = &mut self.open;
        let key = entry.user_key;
        let kept = if first { 0 } else { entry.kept.unwrap_or(0) };
        let head = EntryHead {
            kind: entry.kind,
            seqno: entry.seqno,
            lead: if first { key.len() } else { kept },
            rest: key.len() - kept,
            value,
        };
        open.len_max += head.len_max() + head.rest + entry.inline_len();
        if !first {
            open.bytes.extend_from_slice(&key[kept..]);
        }
        match (entry.value, &head.value) {
            (Value::Inline(bytes), Stored::Inline(_)) => open.bytes.extend_from_slice(bytes),
            _ => head.encode_reference(&mut open.bytes),
        }
        open.heads.push(head);
    }

    /// Encodes the open group.
    fn close_group(&mut self) {
        let Piece {
            open, keys, bodies, ..
        } = self;
        let Some(smallest) = open.heads.iter().map(|head| head.seqno).min() else {
            return;
        };
        let begin = bodies.len();
        bodies.push(u8::try_from(open.heads.len()).expect("16 entries at most"));
        put_varint(bodies, smallest.0);
        let (mut at, mut tail) = (0, 0);
        for (n, head) in open.heads.iter().enumerate() {
            head.encode(smallest, n == 0, bodies);
            if n == 0 {
                tail = bodies.len();
            }
            let rest = if n == 0 { 0 } else { head.rest };
            let value = match head.value {
                Stored::Inline(len) => len,
                Stored::Blob(_) => thermocline_base::blob_ref::BLOB_REF_LEN,
                Stored::None | Stored::Apart { .. } => 0,
            };
            bodies.extend_from_slice(&open.bytes[at..at + rest + value]);
            at += rest + value;
        }
        let first = keys.len();
        keys.extend_from_slice(&open.first_key);
        // Now it is known what it takes.
        let known = GROUP_HEAD + bodies.len() - begin + open.first_key.len() + PLACE_MAX + PAD_MAX;
        self.layers_max = self.layers_max - open.layers + known;
        open.layers = 0;
        self.groups.push(Group {
            cf: open.cf,
            seqno: open.heads[0].seqno,
            first_key: first..keys.len(),
            separator: open.separator,
            continued: open.continued,
            head: begin..tail,
            tail: tail..bodies.len(),
            values: open.values,
        });
        open.heads.clear();
        open.bytes.clear();
        open.len_max = 0;
    }

    /// Stores everything; nothing of it is durable before the next fence. Of the last piece, also the range
    /// tombstones. Returns how many bytes the piece has.
    pub fn finish(mut self, tombstones: &[u8], table: Option<Totals>) -> usize {
        self.close_group();
        let groups_at = self.out.at();
        let runs = plan(&self);
        let mut places = Vec::with_capacity(self.groups.len());
        let mut bytes = Vec::new();
        for run in &runs {
            for n in run.groups.clone() {
                places.push(self.out.at());
                self.encode_group(n, run, &mut bytes);
                self.out.append_checked(&bytes);
            }
        }
        let before = thermocline_base::size::index(self.zone.data.0 % BLOCK_LEN as u64);
        self.out.pad(BLOCK_LEN, before);
        let arrays_at = self.out.at();
        let arrays: Vec<u32> = runs
            .iter()
            .map(|run| self.write_array(run, &places))
            .collect();
        let runs_at = self.out.at();
        let mut layer = Vec::new();
        for (run, array) in runs.iter().zip(arrays) {
            self.encode_run(run, array, &mut layer);
        }
        let runs_crc = self.out.crc_of(&layer);
        self.out.append(&layer);
        let tombstones_at = self.out.at();
        let tombstones_crc = match tombstones {
            [] => 0,
            bytes => self.out.crc_of(bytes),
        };
        self.out.append(tombstones);
        let header = Header {
            ordinal: self.zone.ordinal,
            group_size: u8::try_from(self.group_size).expect("8 or 16"),
            entries: self.entries,
            groups_at,
            arrays_at,
            runs_at,
            tombstones_at,
            end: self.out.at(),
            groups: len32(self.groups.len()),
            runs_crc,
            tombstones_crc,
            table,
        };
        let len = self.out.len().next_multiple_of(ARRAY_ALIGN);
        assert!(len <= self.capacity, "a piece keeps within its zone");
        let owner = self.identity.owner(self.zone.generation);
        let header = header.encode(&owner, self.seed, self.out.base().0);
        self.out.finish(&header);
        len
    }

    /// A group, without its checksum.
    fn encode_group(&self, n: usize, run: &RunPlan, bytes: &mut Vec<u8>) {
        let group = &self.groups[n];
        let key = &self.keys[group.first_key.clone()];
        let rest = &key[key.len().min(run.shared + run.prefix_len)..];
        let (head, tail) = (
            &self.bodies[group.head.clone()],
            &self.bodies[group.tail.clone()],
        );
        // The head begins with the count.
        let len = GROUP_HEAD - 1 + head.len() + rest.len() + tail.len();
        bytes.clear();
        bytes.extend_from_slice(&len32(len).to_le_bytes());
        bytes.extend_from_slice(&group.values.to_le_bytes());
        for part in [head, rest, tail] {
            bytes.extend_from_slice(part);
        }
    }

    fn write_array(&mut self, run: &RunPlan, places: &[u32]) -> u32 {
        self.out.pad(ARRAY_ALIGN, 0);
        let at = self.out.at();
        let groups: Vec<usize> = run.groups.clone().collect();
        for block in groups.chunks(block_groups(run.prefix_len)) {
            let mut bytes = Vec::with_capacity(BLOCK_LEN - 4);
            for &n in block {
                let key = &self.keys[self.groups[n].first_key.clone()];
                let prefix = &key[run.shared..key.len().min(run.shared + run.prefix_len)];
                let end = bytes.len() + run.prefix_len;
                bytes.extend_from_slice(prefix);
                bytes.resize(end, 0);
                bytes.extend_from_slice(&places[n].to_le_bytes());
            }
            if block.len() == block_groups(run.prefix_len) {
                bytes.resize(BLOCK_LEN - 4, 0);
            }
            self.out.append_checked(&bytes);
        }
        at
    }

    fn encode_run(&self, run: &RunPlan, array: u32, layer: &mut Vec<u8>) {
        let first = &self.groups[run.groups.start];
        let key = &self.keys[first.first_key.clone()];
        let separator_seqno = match first.continued {
            true => first.seqno,
            false => SeqNo::MAX,
        };
        let head = RunHead {
            cf: first.cf,
            prefix_len: run.prefix_len,
            groups: len32(run.groups.len()),
            array,
            separator_seqno,
            shared: &key[..run.shared],
            separator: &key[..first.separator],
        };
        head.encode(layer);
    }
}

impl Groups for Piece {
    fn count(&self) -> usize {
        self.groups.len()
    }

    fn first_key(&self, n: usize) -> &[u8] {
        &self.keys[self.groups[n].first_key.clone()]
    }

    fn separator_len(&self, n: usize) -> usize {
        self.groups[n].separator
    }

    fn begins_family(&self, n: usize) -> bool {
        n > 0 && self.groups[n].cf != self.groups[n - 1].cf
    }
}

/// Most bytes of an entry, keys and value apart: tag, four varints, a checksum.
const ENTRY_MAX: usize = 1 + 3 + 3 + 10 + 4 + 4;

/// Most bytes of a group beside its entries, its place in the array included.
const GROUP_MAX: usize = GROUP_HEAD + 10 + PLACE_MAX + PAD_MAX;

/// Header, zeros before the arrays and behind everything.
const SLACK: usize = HEADER_LEN + BLOCK_LEN + 64;
